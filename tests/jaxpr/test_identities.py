"""Primitives of JAX that compute nothing: calls, placements, prints, unspecified values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.lax import lax as implementation
from jax._src.lax.eval_jaxpr import eval_jaxpr_p
from jax.ad_checkpoint import checkpoint_name
from jax.dtypes import float0
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, reshard

import braces as br
from braces.extend.programs import all_ops
from tests.support.from_jax import hold

pytestmark = pytest.mark.unoptimized

X = np.array([[0.5, -1.25, 2.0], [-0.75, 0.0, 0.25]], "f")
N = np.array([[2, 0, -1], [3, 1, 4]], "i4")
DEVICE = np.array(jax.devices()[:1])
MESH = Mesh(DEVICE, ("rows",))
EXPLICIT = Mesh(DEVICE, ("rows",), axis_types=(AxisType.Explicit,))
Function = Callable[..., Any]


def called(x: Any) -> Any:
    """A call of a jaxpr with constants."""
    closed = jax.make_jaxpr(lambda x: jnp.sin(x) * jnp.arange(1.0 * x.shape[1]))(x)
    return eval_jaxpr_p.bind(x, jaxpr=closed)[0]


def placed(x: Any) -> Any:
    """Constraints of shardings and of a layout, and a name."""
    free = NamedSharding(MESH, PartitionSpec(PartitionSpec.UNCONSTRAINED))
    rows = jax.vmap(lambda row: lax.with_sharding_constraint(row, free))(x)
    rows = lax.with_sharding_constraint(rows, NamedSharding(MESH, PartitionSpec("rows")))
    rows = with_layout_constraint(rows, Layout((0, 1)))
    return checkpoint_name(rows, "rows") * 2.0


def unspecified(x: Any) -> Any:
    """Arrays without specified values, whose values nothing needs."""
    number = implementation.empty2_p.bind(
        dtype=np.dtype("f4"), memory_space=jax.memory.Space.Device
    )
    kept = jnp.where(x == x, x, lax.empty(x.shape, "f4") + number)
    return kept * jnp.sin(x)


FUNCTIONS: dict[str, Function] = {
    "called": called,
    "placed": placed,
    "tied": lambda x: implementation.tie_p.bind(jnp.cos(x), jnp.sin(x)),
    "reshard": lambda x: jax.jit(jnp.sin)(reshard(x, NamedSharding(EXPLICIT, PartitionSpec()))),
    "unspecified": unspecified,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_jax(name: str, mode: str) -> None:
    hold(lambda params: FUNCTIONS[name](params["x"]), {"x": X}, mode=mode, second=True)


def test_constraints_leave_no_operator() -> None:
    prog, _ = br.from_jax(placed, X)
    assert {op.type for _, op in all_ops(prog.definition.main)} <= {
        "constant",
        "identity",
        "multiply",
    }


# ---- prints ----------------------------------------------------------------------------------

CALLS = list[Any]()


def printing(x: Any) -> Any:
    jax.debug.print("the sum is {}", x.sum())
    jax.debug.callback(CALLS.append, x[0])
    return jnp.sin(x)


MET = (*FUNCTIONS.values(), printing)
"""Functions that have all primitives of this module."""


@pytest.mark.parametrize(
    "function",
    [
        printing,
        jax.vmap(printing),
        lambda x: lax.scan(lambda h, row: (printing(h + row), None), x[0], x)[0],
        lambda x: lax.cond(x[0, 0] > 0, printing, jnp.cos, x),
        jax.checkpoint(printing),
    ],
    ids=["plain", "batch", "loop", "branch", "checkpoint"],
)
def test_prints_are_left_out_with_a_warning(function: Function, mode: str) -> None:
    wanted = function(X), jax.grad(lambda x: function(x).sum())(X)
    jax.effects_barrier()
    CALLS.clear()
    with pytest.warns(br.BracesWarning, match=r"`debug_\w+` at .*test_identities.py") as said:
        prog, _ = br.from_jax(function, X)
    for name in ("debug_print", "debug_callback"):
        assert any(f"`{name}`" in str(warning.message) for warning in said)
    with prog:
        (grad,) = br.gradients(br.sum(prog.var("out")), prog.var("x"))
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, ["out", grad])
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert not CALLS


def test_callbacks_with_results_are_refused() -> None:
    def asking(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(br.ProgramError, match="Remove the callbacks"):
        br.from_jax(asking, X)


# ---- tangents of integers --------------------------------------------------------------------


@jax.custom_vjp
def times(x: Any, n: Any) -> Any:
    """A product whose rule returns a tangent of integers."""
    return x * n


times.defvjp(
    lambda x, n: (x * n, (x, n)), lambda kept, g: (3.0 * g * kept[1], np.zeros((2, 3), float0))
)


@jax.custom_jvp
def plus(x: Any, n: Any) -> Any:
    """A sum whose rule receives a tangent of integers."""
    return x + n


@plus.defjvp
def _plus_jvp(primals: Any, tangents: Any) -> Any:
    assert tangents[1].dtype == float0
    return plus(*primals), 5.0 * tangents[0] * primals[1]


def both(x: Any, n: Any) -> Any:
    return times(x, n) + plus(jnp.sin(x), n)


@pytest.mark.parametrize(
    "function",
    [
        both,
        lambda x, n: jax.grad(lambda x: jnp.sum(both(x, n) ** 2))(x),
        lambda x, n: lax.scan(lambda h, _: (both(h, n), None), x, None, length=2)[0],
        lambda x, n: jax.jvp(plus, (x, n), (x, np.zeros(n.shape, float0)))[1],
    ],
    ids=["rules", "gradient", "loop", "tangent"],
)
def test_rules_with_tangents_of_integers_are_kept(function: Function, mode: str) -> None:
    hold(lambda params: function(params["x"], N), {"x": X}, mode=mode)


@pytest.mark.parametrize("size", [3, 3000])
def test_tangents_of_integers_are_false(size: int, mode: str) -> None:
    def function(x: Any, n: Any) -> Any:
        grads = jax.grad(lambda x, n: (x * n).sum(), (0, 1), allow_int=True)(x, n)
        return *grads, np.zeros(size, float0)

    prog, values = br.from_jax(function, X, N)
    scope = br.Scope()
    scope.update(values)
    run = br.Executor(mode=mode).run
    got = run(prog, scope, {"x": X, "n": N}, list(prog.fetches))
    np.testing.assert_allclose(got[0], N)
    for mine, shape in zip(got[1:], (N.shape, (size,)), strict=True):
        np.testing.assert_array_equal(mine, np.zeros(shape, bool))


def test_an_argument_may_be_a_tangent_of_integers() -> None:
    tangent = np.zeros(N.shape, float0)
    prog, _ = br.from_jax(lambda n, t: jax.jvp(lambda n: n * 2, (n,), (t,))[0], N, tangent)
    (got,) = br.Executor().run(prog, br.Scope(), {"n": N, "t": N > 9}, ["out"])
    np.testing.assert_array_equal(got, N * 2)
