"""Integers of 64 bits are exact in attributes that become numbers of integer arrays."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces import Var
from braces.errors import BracesError, DTypeError
from braces.extend.building import apply
from braces.extend.operators import OPS
from tests.ops.cases import MODES, Case, definitions
from tests.ops.reference import is_float

pytestmark = pytest.mark.unoptimized

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
BEYOND = 2**53 + 1
"""The first integer that is no float64."""


def integers(dtype: str) -> list[int]:
    """Both ends of a dtype, those beside them, and what no float holds."""
    limits = np.iinfo(dtype)
    found = {limits.min, limits.min + 1, limits.max - 1, limits.max, BEYOND, -BEYOND}
    return sorted(int(one) for one in found if limits.min <= one <= limits.max)


NUMBERS = [(dtype, number) for dtype in DTYPES for number in integers(dtype)]

BUILT: dict[str, Callable[[Var, int], Var]] = {
    "full": lambda x, n: br.full([2], n, dtype=x.dtype),
    "full.value": lambda x, n: apply("full", {}, {"shape": (2,), "value": n, "dtype": x.dtype})[
        "out"
    ][0],
    "full_like": lambda x, n: br.full_like(x, n),
    "pad": lambda x, n: br.pad(x, [(1, 0)], value=n),
    "clip from": lambda x, n: br.clip(x, min=n),
    "clip to": lambda x, n: br.clip(x, max=n),
    "where": lambda x, n: br.where(x > 1, x, n),
    "parameter": lambda x, n: br.parameter("p", [2], dtype=x.dtype, init=n, trainable=False),
    "constant init": lambda x, n: br.parameter(
        "q", [2], dtype=x.dtype, init=br.init.constant(n), trainable=False
    ),
}


def wanted(x: Any, n: int) -> dict[str, Any]:
    filled = np.full(2, n, x.dtype)
    return {
        **dict.fromkeys(BUILT, filled),
        "pad": np.concatenate([filled[:1], x]),
        "clip from": np.maximum(x, filled),
        "clip to": np.minimum(x, filled),
        "where": np.where(x > 1, x, filled),
    }


@pytest.mark.parametrize(("dtype", "number"), NUMBERS)
def test_integers_are_exact_in_both_modes_and_in_files(dtype: str, number: int) -> None:
    fed = np.array([1, 2], dtype)
    with br.Program() as program:
        x = br.data("x", [2], dtype=dtype)
        fetch = {name: build(x, number).name for name, build in BUILT.items()}
    again = [br.parse(str(program)), br.Program.from_bytes(program.to_bytes())]
    for mode, one in zip((*MODES, "interpret"), (program, *again), strict=True):
        executor, scope = br.Executor(mode=mode), br.Scope()
        executor.init(program, scope)
        got = executor.run(one, scope, feed={"x": fed}, fetch=fetch)
        for name, want in wanted(fed, number).items():
            np.testing.assert_array_equal(got[name], want, err_msg=f"{name}, {mode}")
            assert got[name].dtype == want.dtype


FROM_JAX: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda x, n: jnp.where(x > 1, x, n),
    "pad": lambda x, n: jnp.pad(x, 1, constant_values=n),
    "full_like": lambda x, n: jnp.full_like(x, n),
    "full": lambda x, n: jnp.full((2,), n, x.dtype) + 0 * x,
    "clip": lambda x, n: jnp.clip(x, n, None),
    "add": lambda x, n: x + n,
}


@pytest.mark.parametrize("number", [BEYOND, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("name", FROM_JAX)
def test_integers_of_functions_of_jax_are_exact(name: str, number: int) -> None:
    fed, exact = np.array([1, 2]), np.int64(number)

    def closed(x: Any) -> Any:
        return FROM_JAX[name](x, exact)

    with jax.enable_x64(True), np.errstate(over="ignore"):
        program, values = br.from_jax(closed, fed)
        want = np.asarray(closed(jnp.asarray(fed)))
    scope = br.Scope()
    scope.update(values)
    feed = {program.feeds[0]: fed}
    (got,) = br.Executor(mode="interpret").run(program, scope, feed, list(program.fetches))
    np.testing.assert_array_equal(got, want)


def real_attributes() -> Iterator[tuple[str, str]]:
    """Attributes that are floats, of operators that work on integers."""
    for definition in definitions():
        names = [a.name for a in definition.attrs if a.kind.removesuffix(" | None") == "float"]
        if names and any(
            _takes_integers(Case(definition.type, e)) for e in definition.examples
        ):
            yield from ((definition.type, name) for name in names)


def _takes_integers(case: Case) -> bool:
    """Return whether an example has integers for its floats, and gives integers."""
    dtype = np.dtype("int64")
    attrs = case.attrs | ({"dtype": dtype} if "dtype" in case.attrs else {})
    try:
        with br.Program():
            inputs = {
                slot: tuple(
                    br.data(f"{slot}_{i}", t.shape, dtype if is_float(t.dtype) else t.dtype)
                    for i, t in enumerate(types)
                )
                for slot, types in case.types.items()
            }
            made = apply(case.op, inputs, attrs)
    except BracesError:
        return False
    return any(var.dtype.kind in "iu" for vars_ in made.values() for var in vars_)


def test_no_operator_on_integers_has_an_attribute_that_rounds_them() -> None:
    # These compute in floats whatever they give; linspace does so in NumPy, too.
    assert set(real_attributes()) == {
        ("linspace", "start"),
        ("linspace", "stop"),
        ("resize", "cubic_coefficient"),
        ("resize_back", "cubic_coefficient"),
    }


@pytest.mark.parametrize("number", [2**63, -(2**64), 2**64])
def test_an_integer_out_of_range_is_refused(number: int) -> None:
    with br.Program():
        x = br.data("x", ["n"], dtype="int64")
        for build in (br.full_like, lambda x, n: br.pad(x, 1, value=n), br.clip):
            with pytest.raises(DTypeError):
                build(x, number)


BELOW, ABOVE = -(2**63) - 1, 2**64 + 1
"""Integers without an integer dtype; a float rounds the first one to one that int64 has."""
TOO_LARGE = (BELOW, -(2**64), 2**64, ABOVE, 10**400)


def attributes_of(*kinds: str) -> list[tuple[str, str]]:
    """Operators and those of their attributes that are of these kinds."""
    return [
        (definition.type, attr.name)
        for definition in definitions()
        if definition.examples
        for attr in definition.attrs
        if attr.kind.removesuffix(" | None") in kinds
    ]


def build(type: str, example: str, dtype: str, **numbers: int) -> list[Var]:
    """An example of an operator, with numbers, and with another dtype for all floats."""
    case = Case(type, example)
    attrs = case.attrs | numbers
    if "dtype" in {attr.name for attr in case.definition.attrs}:
        attrs["dtype"] = np.dtype(dtype)
    inputs = {
        slot: tuple(
            br.data(f"{slot}_{i}", t.shape, dtype if is_float(t.dtype) else t.dtype)
            for i, t in enumerate(types)
        )
        for slot, types in case.types.items()
    }
    made = apply(type, inputs, attrs)
    return [var for vars_ in made.values() for var in vars_]


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize(("type", "name"), attributes_of("Number"))
def test_no_number_of_an_integer_array_is_beyond_64_bits(
    type: str, name: str, number: int
) -> None:
    refused: list[str] = []
    for dtype, example in itertools.product(("int64", "uint64"), OPS.get(type).examples):
        with br.Program() as program:
            try:
                made = build(type, example, dtype, **{name: number})
            except BracesError as error:
                refused.append(str(error))
            else:
                assert not any(var.dtype.kind in "iu" for var in made)
                continue
            assert not program.definition.main.ops
    assert refused
    assert all("test_exact_integers.py:" in one for one in refused)


@pytest.mark.parametrize(
    ("type", "name"),
    attributes_of("int", "Axis", "Axes", "tuple[int, ...]", "tuple[Axis, ...]"),
)
def test_no_integer_attribute_is_beyond_64_bits(type: str, name: str) -> None:
    for number in (BELOW, 2**63, ABOVE, 10**400):
        with br.Program(), pytest.raises(BracesError, match="expected an integer from"):
            build(type, OPS.get(type).examples[0], "float32", **{name: number})


@pytest.mark.parametrize(("type", "name"), attributes_of("float", "Number"))
def test_a_number_beyond_all_floats_is_refused(type: str, name: str) -> None:
    with br.Program(), pytest.raises(BracesError, match="expected a number from"):
        build(type, OPS.get(type).examples[0], "float32", **{name: -(10**400)})


LITERALS: dict[str, Callable[[Var, Any], Any]] = {
    "beside": lambda x, n: x + n,
    "before": lambda x, n: n * x,
    "where": lambda x, n: br.where(x > 1, x, n),
    "constant": lambda x, n: br.constant(n, x.dtype),
    "constant alone": lambda x, n: br.constant(n),
    "parameter": lambda x, n: br.parameter("p", [2], dtype=x.dtype, init=n),
    "slice": lambda x, n: x[n if isinstance(n, int) else n[0] :],
    "full": lambda x, n: br.full([2], n if isinstance(n, int) else n[0], x.dtype),
}


@pytest.mark.parametrize("number", TOO_LARGE)
@pytest.mark.parametrize("literal", LITERALS)
def test_a_literal_beyond_64_bits_is_refused_in_the_range_of_the_dtype(
    literal: str, number: int
) -> None:
    for dtype in ("int64", "uint64"):
        for value in (number, [number, 1]):
            with br.Program(), pytest.raises(BracesError) as caught:
                LITERALS[literal](br.data("x", [2], dtype), value)
            shown = str(caught.value)
            assert str(number)[:40] in shown
            assert re.search(
                r"(range is|out of range for \w+, from|expected an integer from) -?\d+ to \d+",
                shown,
            )
            assert "test_exact_integers.py:" in shown


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([2**63 + 1, 1], "uint64"),
        ([-(2**63), 2**63 - 1], "int64"),
        ([True, 2**62 + 1], "int64"),
    ],
)
def test_integers_in_a_list_are_exact_where_numpy_makes_them_floats(
    mode: str, value: list[int], dtype: str
) -> None:
    with br.Program() as program:
        x = br.data("x", [2], dtype)
        sums = [br.constant(value, dtype), x + value, br.full([2], value[0], dtype)]
    first, second, third = br.Executor(mode=mode).run(
        program, br.Scope(), {"x": np.zeros(2, dtype)}, fetch=sums
    )
    assert first.tolist() == second.tolist() == value
    assert third.tolist() == [value[0]] * 2


def test_no_list_of_integers_becomes_floats_silently() -> None:
    for value in ([2**63, -1], [np.uint64(2**63), -1], [[0, 2**63], [-1, 0]]):
        for build_it in (br.constant, lambda v: br.data("x", [2], "int64") + v):
            with br.Program(), pytest.raises(DTypeError, match="not representable as int64"):
                build_it(value)


def test_floats_take_integers_of_any_size_that_they_reach() -> None:
    with br.Program() as program:
        x = br.data("x", [2], "float64")
        made = [
            x + 10**30,
            [10**30, 1] - x,
            br.constant([10**30, 0.5]),
            br.full_like(x, -(10**30)),
        ]
    got = br.Executor(mode="interpret").run(program, br.Scope(), {"x": np.zeros(2)}, fetch=made)
    want = ([1e30, 1e30], [1e30, 1], [np.float32(1e30), 0.5], [-1e30, -1e30])
    for found, wished in zip(got, want, strict=True):
        np.testing.assert_array_equal(found, wished)


def test_integers_that_floats_hold_print_as_ever() -> None:
    with br.Program() as program:
        br.full_like(br.data("x", ["n"], dtype="int64"), 3)
    assert "value=3.0" in str(program)
