"""Literals: their dtype beside a variable, and errors for values that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.dtypes import COMPUTED, short_name
from braces.ops.common.rules import promote

SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "Python": lambda value: value,
    "NumPy scalar": lambda value: np.asarray(value)[()],
    "0-d array": np.asarray,
    "list": lambda value: [value, value],
}
FLOATS, COMPLEX = ("f16", "bf16", "f32", "f64"), ("c64", "c128")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def beside(number: Any) -> dict[str, str]:
    """The rule as a table: from the dtype of a variable to that of the sum with a number."""
    if isinstance(number, bool):
        return {name: name for name in COMPUTED}
    if isinstance(number, int):
        return {name: name for name in COMPUTED} | {"bool": "i64"}
    if isinstance(number, float):
        return {name: name if name in FLOATS + COMPLEX else "f32" for name in COMPUTED}
    return dict.fromkeys(COMPUTED, "c64") | {"f64": "c128", "c128": "c128"}


@pytest.mark.parametrize("number", [True, 3, 0.1, 1 + 2j])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_number_takes_the_dtype_of_the_variable_however_it_is_written(
    spelling: str, number: Any
) -> None:
    found: dict[str, str] = {}
    for name in COMPUTED:
        with br.Program():
            x = br.data("x", [2], name)
            found[name] = short_name((x + SPELLINGS[spelling](number)).dtype)
            assert (SPELLINGS[spelling](number) + x).dtype == COMPUTED[found[name]]
    assert found == beside(number)


@pytest.mark.parametrize("array", [np.ones(2, kind) for kind in ("f8", "f4", "u1", "?")])
def test_an_array_with_axes_keeps_its_dtype_and_promotes(array: Any) -> None:
    for dtype in COMPUTED.values():
        with br.Program():
            assert (br.data("x", [2], dtype) + array).dtype == promote(dtype, array.dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (0.1, "f32"),
        (3, "i64"),
        (True, "bool"),
        (1j, "c64"),
        ([0.1, 2], "f32"),
        ([True, 2], "i64"),
        (np.float64(0.1), "f64"),
        (np.array(0.1), "f64"),
        (np.int8(3), "i8"),
        (ml_dtypes.bfloat16(3), "bf16"),
        (np.array([1.0], ">f4"), "f32"),
        (float("inf"), "f32"),
    ],
)
def test_alone_what_has_a_dtype_keeps_it(value: Any, dtype: str) -> None:
    with br.Program():
        assert short_name(br.constant(value).dtype) == dtype


def test_a_number_is_rounded_alike_however_it_is_written(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [1])
        sums = [x + spelled(0.1) for spelled in SPELLINGS.values()]
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": [0.0]}, fetch=sums)
    assert {one.ravel()[0] for one in got} == {np.float32(0.1)}


def given(dtype: str) -> Any:
    return br.data("x", [2], dtype)


@pytest.mark.parametrize(
    "build",
    [
        lambda: br.constant(1e300),
        lambda: br.constant([1e300]),
        lambda: br.constant(np.float64(1e300), "f32"),
        lambda: br.constant(np.array([1e300]), "f32"),
        lambda: br.constant(70000, "f16"),
        lambda: br.constant(1e39, "bf16"),
        lambda: br.constant(10**400, "f64"),
        lambda: br.constant(2**63),
        lambda: br.constant(300, "i8"),
        lambda: br.constant(-1, "u8"),
        lambda: br.constant(float("nan"), "i32"),
        lambda: br.constant(float("inf"), "i64"),
        lambda: br.constant(2.0**63, "i64"),
        lambda: br.constant(0.5, "i32"),
        lambda: br.constant([0.5, 1.0], "i32"),
        lambda: br.constant(2, "bool"),
        lambda: br.asarray(1j, "f32"),
        lambda: br.full([2], 1e300),
        lambda: br.full([2], 300, "i8"),
        lambda: br.full_like(given("f32"), 1e300),
        lambda: br.full_like(given("i8"), 300),
        lambda: br.pad(given("i8"), ((1, 1),), value=0.5),
        lambda: br.arange(0, 129, dtype="i8"),
        lambda: br.linspace(0.0, 1e300, 3),
        lambda: br.parameter("w", [2], init=1e300),
        lambda: br.parameter("w", [2], init=[0.5, 1.0], dtype="i32"),
        lambda: br.parameter("w", [2], init=br.init.constant([1e300, 0.0])),
        lambda: given("f32") * 1e300,
        lambda: np.float64(1e300) * given("f32"),
        lambda: given("i8") + 300,
        lambda: given("u8") + np.int64(-1),
        lambda: [1, -1] * given("u8"),
        lambda: given("f16") + 70000,
        lambda: given("bf16") + 2**300,
    ],
)
def test_a_number_that_does_not_fit_is_refused_at_the_line_that_wrote_it(
    build: Callable[[], Any],
) -> None:
    with (
        br.Program() as prog,
        pytest.raises(br.DTypeError, match="not representable as") as caught,
    ):
        build()
    assert "test_scalars.py:" in str(caught.value)
    assert not prog.definition.main.ops


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2.0, "i32"), (True, "i8"), (1, "bool"), (2**70, "f32"), (127, "i8"), (1e300, "f64")],
)
def test_a_number_that_fits_is_taken(mode: str, value: Any, dtype: str) -> None:
    with br.Program() as prog:
        made = br.constant(value, dtype)
    got = br.Executor(mode=mode).run(prog, br.Scope(), fetch=made)
    assert got == value
    assert got.dtype == COMPUTED[dtype]
