"""Primitives of other libraries become the operators of their implementation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import ad, mlir

import braces as br
from braces.extend.programs import all_ops

pytestmark = pytest.mark.unoptimized

X = np.array([0.75, -1.5, 2.0], "f")
Function = Callable[..., Any]


def define(name: str, compute: Function, several: bool = False) -> Any:
    """A primitive as libraries define it: implemented and lowered by one function."""
    made = jax.extend.core.Primitive(name)
    made.multiple_results = several
    made.def_impl(compute)

    def infer(*avals: Any, **params: Any) -> Any:
        structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        shapes = jax.eval_shape(lambda *given: compute(*given, **params), *structs)
        to_aval = lambda s: jax.core.ShapedArray(s.shape, s.dtype)  # noqa: E731
        return [to_aval(s) for s in shapes] if several else to_aval(shapes)

    made.def_abstract_eval(infer)
    mlir.register_lowering(made, mlir.lower_fun(compute, multiple_results=several))
    return made


same_p = define("same", lambda x, *, message: x)
any_p = define("any_of_all", jnp.any)
parts_p = define("parts", lambda x, *, sharp: [jnp.sin(x) * sharp, x > 0.0], several=True)
bent_p = define("bent", lambda x: jnp.maximum(x, 0.0) * 2.0)
wave_p = define("wave", jnp.sin)
tripled_p = define("tripled", lambda x: x * 3.0)
ad.deflinear2(tripled_p, lambda g, _: [tripled_p.bind(g)])
ad.defjvp(wave_p, lambda t, x: t * wave_p.bind(x + 1.0))
ad.defjvp(bent_p, lambda t, x: t * jnp.cos(x) * x)  # another derivative than the values have


def _parts_jvp(primals: Any, tangents: Any, *, sharp: float) -> Any:
    (x,), (t,) = primals, tangents
    made = parts_p.bind(x, sharp=sharp)
    return made, [
        tripled_p.bind(t * x),
        ad.Zero(jax.core.ShapedArray(x.shape, jax.dtypes.float0)),
    ]


ad.primitive_jvps[parts_p] = _parts_jvp


def of_parts(x: Any) -> Any:
    wave, positive = parts_p.bind(x, sharp=2.0)
    return jnp.where(positive, wave, x * wave)


def in_a_loop(x: Any) -> Any:
    """The condition and the body of a loop bind primitives."""
    return jax.lax.fori_loop(0, 3, lambda _, h: tripled_p.bind(jnp.sin(h)) * 0.25 + x, x)


def while_any(x: Any) -> Any:
    return jax.lax.while_loop(lambda h: any_p.bind(h < 9.0), lambda h: h + jnp.abs(h) + 1.0, x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tripled_p.bind(x) ** 2,
        lambda x: bent_p.bind(x) * x,
        of_parts,
        in_a_loop,
        lambda x: bent_p.bind(bent_p.bind(x) + 1.0),
    ],
    ids=["linear", "own derivative", "several results", "loop", "chain"],
)
def test_values_and_two_orders_of_derivatives_are_those_of_jax(
    function: Function, mode: str
) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(function(x) * jnp.arange(1.0, 4.0, dtype="f"))

    prog, values = br.from_jax(loss, X)
    scope = br.Scope()
    scope.update(values)
    with prog:
        (first,) = br.gradients(prog.var("out"), prog.var("x"))
        (second,) = br.gradients(br.sum(br.sin(first)), prog.var("x"))
    got = br.Executor(mode=mode).run(prog, scope, {"x": X}, ["out", first, second])
    slope = jax.grad(loss)
    wanted = [loss(X), slope(X), jax.grad(lambda x: jnp.sum(jnp.sin(slope(x))))(X)]
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)


def test_a_primitive_without_a_derivative_has_its_values(mode: str) -> None:
    prog, _ = br.from_jax(lambda x: same_p.bind(while_any(x), message="no batches"), X)
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, ["out"])
    np.testing.assert_allclose(got, while_any(X))
    assert "any" in [op.type for _, op in all_ops(prog.definition.main)]


def lowered_only() -> Any:
    """A primitive without an implementation, lowered by a function."""
    made = jax.extend.core.Primitive("lowered_only")
    made.def_abstract_eval(lambda x: x)
    mlir.register_lowering(made, mlir.lower_fun(lambda x: jnp.sin(x), multiple_results=False))
    return made


lowered_p = lowered_only()
nested_p = define(
    "nested", lambda x, *, depth: nested_p.bind(x * 2.0, depth=depth - 1) if depth else x
)
chosen_p = define("chosen", lambda index, x: (jnp.sin, jnp.cos)[index.item()](x))
chosen_p.def_abstract_eval(lambda index, x: x)


def test_the_function_of_a_lowering_and_known_arguments_are_used(mode: str) -> None:
    index = np.asarray(1)

    def function(x: Any) -> Any:
        return lowered_p.bind(x), nested_p.bind(x, depth=3), chosen_p.bind(index, x)

    prog, _ = br.from_jax(function, X)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, list(prog.fetches))
    for mine, theirs in zip(got, (np.sin(X), 8.0 * X, np.cos(X)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_the_third_derivative_of_a_primitive_of_a_library_is_refused() -> None:
    prog, _ = br.from_jax(lambda x: jnp.sum(wave_p.bind(x) ** 2), X)
    with prog:
        grad = prog.var("out")
        for _ in range(2):
            (grad,) = br.gradients(br.sum(br.sin(grad)), prog.var("x"))
        with pytest.raises(
            br.GradientError,
            match="derivative of `wave` of a JAX library is known up to order 2",
        ):
            br.gradients(br.sum(br.sin(grad)), prog.var("x"))


def raise_if(x: Any, bad: Any, *messages: str, index: Any = 0) -> Any:
    """A check of values as libraries write it: a branch whose callback raises."""

    def fail(at: Any) -> Any:
        raise RuntimeError(messages[int(at)])

    def raises(x: Any) -> Any:
        return jax.pure_callback(fail, jax.ShapeDtypeStruct(x.shape, x.dtype), index)

    return jax.lax.cond(bad, raises, lambda x: x, x)


def test_a_branch_that_raises_is_a_check_of_the_value(mode: str) -> None:
    def function(x: Any) -> Any:
        at = jnp.where(x[1] < -5.0, 1, 0)
        return jnp.sum(raise_if(x * 2.0, jnp.any(x > 9.0), "too large", "both", index=at) ** 2)

    prog, _ = br.from_jax(function, X)
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("x"))
    run = br.Executor(mode=mode).run
    value, slope = run(prog, br.Scope(), {"x": X}, ["out", grad])
    np.testing.assert_allclose(value, np.sum(4.0 * X**2), rtol=1e-6)
    np.testing.assert_allclose(slope, 8.0 * X, rtol=1e-6)
    for x, message in (([10.0, 0.0, 0.0], "too large"), ([10.0, -6.0, 0.0], "both")):
        with pytest.raises(br.RunError, match=message):
            run(prog, br.Scope(), {"x": np.asarray(x, "f")}, ["out"])


def test_a_branch_with_another_callback_is_refused() -> None:
    def function(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.lax.cond(x[0] > 0, lambda x: jax.pure_callback(np.sin, shape, x), jnp.cos, x)

    with pytest.raises(br.ProgramError, match="`pure_callback`: Python callback"):
        br.from_jax(function, X)


def test_a_primitive_that_cannot_be_read_is_refused_with_its_line() -> None:
    asking = define("asking", lambda x: x * float(x[0]))
    asking.def_abstract_eval(lambda x: x)
    bare = jax.extend.core.Primitive("bare")
    bare.def_abstract_eval(lambda x: x)
    for primitive in (asking, bare):
        with pytest.raises(
            br.ProgramError, match=f"JAX primitive `{primitive.name}`: no equivalent operator"
        ) as error:
            br.from_jax(lambda x, primitive=primitive: primitive.bind(x), X)
        assert "test_jax_primitives.py" in str(error.value)
