"""Functions of JAX that cannot become operators are refused, with their lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jax import lax

import braces as br
from braces.errors import ProgramError
from braces.jaxpr.trace import trace

pytestmark = pytest.mark.unoptimized


def refused(function: Callable[..., Any], *types: str) -> str:
    with br.Program() as program:
        given = [br.data(f"a{i}", [2, 3], kind) for i, kind in enumerate(types)]
        before = str(program)
        with pytest.raises(ProgramError) as info, program:
            trace("The function", function, *given).build(*given)
    assert str(program) == before
    return str(info.value)


@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (
            lambda x: lax.bitcast_convert_type(x.astype("float4_e2m1fn"), "uint4"),
            "f4",
            "floats of less than 8 bits",
        ),
        (
            lambda x: lax.linalg.tridiagonal_solve(
                x, x, x, x[..., None], perturb_singular=True
            ),
            "f4",
            "perturb_singular=True",
        ),
        (
            lambda x: lax.rng_bit_generator(
                lax.bitcast_convert_type(x, "u4").ravel()[:4],
                (2,),
                algorithm=lax.RandomAlgorithm.RNG_THREE_FRY,
            )[1],
            "f4",
            "algorithm `RNG_THREE_FRY`",
        ),
    ],
    ids=["bits", "routines", "generators"],
)
def test_what_there_is_no_operator_for_is_refused_by_name(
    function: Any, kind: str, said: str
) -> None:
    text = refused(function, kind)
    assert said in text
    assert "test_trace_refusals.py:" in text


def test_a_function_that_asks_for_values_is_refused() -> None:
    text = refused(lambda x: x if x.sum() > 0 else -x, "f4")
    assert "The function cannot be traced" in text
    assert "test_trace_refusals.py:" in text
    assert "jnp.where" in text


def test_a_function_that_fails_is_refused() -> None:
    assert "cannot be traced: no such thing" in refused(fail, "f4")


def fail(x: Any) -> Any:
    raise LookupError("no such thing")
