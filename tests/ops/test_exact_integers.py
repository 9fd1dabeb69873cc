"""Integers of 64 bits are exact in attributes that become numbers of integer arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import MODES, Case, definitions
from references import is_float

import braces as br
from braces.builder.append import apply
from braces.builder.var import Var
from braces.errors import BracesError, DTypeError

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
    """Whether an example has integers for its floats, and gives integers."""
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


def test_integers_that_floats_hold_print_as_ever() -> None:
    with br.Program() as program:
        br.full_like(br.data("x", ["n"], dtype="int64"), 3)
    assert "value=3.0" in str(program)
