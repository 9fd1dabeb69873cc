"""Derivatives that functions of JAX bring along: those of the program are JAX's.

Every kind of own derivative is combined with every form of function that can have one: no name,
file or wrapper makes a program lose a derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from braces.extend.programs import all_ops

pytestmark = pytest.mark.unoptimized

Function = Callable[[Any], Any]
ROW = np.array([0.75, -1.5, 2.0], "f")


def bend(x: Any) -> Any:
    """The wrapped function, with a kink at 0, as `jax.nn.relu`."""
    return jnp.maximum(x, 0.0)


# ---- forms of functions ----------------------------------------------------------------------


class Bender:
    """An object that is called, and its method."""

    def __call__(self, x: Any) -> Any:
        return bend(x)

    def method(self, x: Any) -> Any:
        return bend(x)


def written_in(file: str) -> Function:
    """A function of a module with this file name."""
    names: dict[str, Any] = {"jnp": jnp}
    source = "def relu(x):\n    return jnp.maximum(x, 0.0)\n"
    exec(compile(source, file, "exec"), names)
    return names["relu"]


BESIDE_JAX = str(Path(str(jax.__file__)).parent)
FORMS: Mapping[str, Function] = {
    "def": bend,
    "lambda": lambda x: bend(x),
    "partial": functools.partial(jnp.maximum, 0.0),
    "wraps": functools.wraps(jax.nn.relu)(lambda x: bend(x)),
    "object": Bender(),
    "method": Bender().method,
    "vmapped": jax.vmap(bend),
    "jitted": jax.jit(bend),
    "function of JAX": jax.nn.relu,
    "vmapped function of JAX": jax.vmap(jax.nn.relu),
    "jitted function of JAX": jax.jit(jax.nn.relu),
    "numpy function": jnp.abs,
    "console": written_in("<stdin>"),
    "command": written_in("<string>"),
    "ipython": written_in("<ipython-input-1-0a1b2c3d4e5f>"),
    "cell": written_in("/tmp/ipykernel_7/123.py"),
    "package beside JAX": written_in(f"{BESIDE_JAX}opt/_src/loop.py"),
    "no file": written_in(""),
}


# ---- kinds of derivatives --------------------------------------------------------------------


def by_vjp(f: Function) -> Function:
    made = jax.custom_vjp(f)
    made.defvjp(lambda x: (f(x), x), lambda x, g: (3.0 * g * x,))
    return made


def by_jvp(f: Function) -> Function:
    made = jax.custom_jvp(f)
    made.defjvp(lambda x, t: (made(x[0]), 5.0 * t[0] * x[0]))
    return made


def by_jvps(f: Function) -> Function:
    """With a rule that is no function of the user's own file."""
    made = jax.custom_jvp(f)
    made.defjvps(lambda t, y, x: 7.0 * t * x)
    return made


def by_gradient(f: Function) -> Function:
    return jax.custom_gradient(lambda x: (f(x), lambda g: (9.0 * g * x,)))


def with_constant_argument(f: Function) -> Function:
    made = jax.custom_vjp(lambda n, x: f(x), nondiff_argnums=(0,))
    made.defvjp(lambda n, x: (f(x), x), lambda n, x, g: (n * g * x,))
    return lambda x: made(11.0, x)


def of_trees(f: Function) -> Function:
    made = jax.custom_vjp(lambda tree: {"y": f(tree["a"]), "n": tree["b"][0]})
    made.defvjp(
        lambda tree: ({"y": f(tree["a"]), "n": tree["b"][0]}, tree["a"]),
        lambda x, g: ({"a": 13.0 * g["y"] * x, "b": (g["n"],)},),
    )
    return lambda x: made({"a": x, "b": (x,)})["y"]


def with_symbolic_zeros(f: Function) -> Function:
    def forward(x: Any, w: Any) -> Any:
        return f(x.value), (x.value, x.perturbed, w.perturbed)

    def backward(kept: Any, g: Any) -> Any:
        x, moves, other = kept
        factor = 15.0 if moves and not other else 1.0
        return factor * g * x, jnp.zeros_like(x)

    made = jax.custom_vjp(lambda x, w: f(x))
    made.defvjp(forward, backward, symbolic_zeros=True)
    return lambda x: made(x, jnp.ones(x.shape, x.dtype))


def around_constants(f: Function) -> Function:
    weights = np.arange(3.0, dtype="f")
    made = jax.custom_vjp(lambda x: f(x) + weights)
    made.defvjp(lambda x: (f(x) + weights, None), lambda _, g: (g * weights,))
    return made


def around_computed_constants(f: Function) -> Function:
    """Constants that are computed in several steps, each while it is traced."""

    def function(x: Any) -> Any:
        weights = jnp.cumsum(jnp.sqrt(jnp.arange(3.0, dtype="f") + 1.0)) * 2.0
        return around(x, weights, jnp.flip(weights) + 1.0)

    def around(x: Any, weights: Any, others: Any) -> Any:
        made = jax.custom_vjp(lambda x: f(x) + weights)
        made.defvjp(lambda x: (f(x) + weights, x), lambda x, g: (g * weights * others * x,))
        return made(x)

    return function


def around_traced_values(f: Function) -> Function:
    """What only the derivative reads is a value of the function around it."""

    def function(x: Any) -> Any:
        mask, scale = x > 0.5, lax.stop_gradient(jnp.exp(x) + 1.0)
        made = jax.custom_vjp(f)
        made.defvjp(lambda x: (f(x), x), lambda x, g: (jnp.where(mask, g, x) * scale,))
        return made(x)

    return function


def nested(f: Function) -> Function:
    inner = by_jvp(f)
    made = jax.custom_vjp(lambda x: inner(x) * 2.0)
    made.defvjp(
        lambda x: (inner(x) * 2.0, x), lambda x, g: (17.0 * g * jax.grad(total(inner))(x),)
    )
    return made


def total(f: Function) -> Function:
    return lambda x: jnp.sum(f(x))


KINDS: Mapping[str, Callable[[Function], Function]] = {
    "vjp": by_vjp,
    "jvp": by_jvp,
    "jvps": by_jvps,
    "gradient": by_gradient,
    "constant argument": with_constant_argument,
    "trees": of_trees,
    "symbolic zeros": with_symbolic_zeros,
    "constants": around_constants,
    "computed constants": around_computed_constants,
    "traced values": around_traced_values,
    "nested": nested,
}


CLOSING = {"computed constants", "traced values"}
"""What JAX itself cannot differentiate in a loop: a rule reads values of the body."""


# ---- places ----------------------------------------------------------------------------------


def in_a_scan(f: Function) -> Function:
    return lambda x: lax.scan(lambda h, _: (f(h) + 0.5 * x, None), x, None, length=2)[0]


def in_rows_of_a_scan(f: Function) -> Function:
    return lambda x: lax.scan(lambda h, row: (h, f(row)), 0.0, jnp.stack([x, 2.0 * x]))[1].sum(
        0
    )


def in_a_loop(f: Function) -> Function:
    return lambda x: lax.fori_loop(0, 2, lambda _, h: f(h) + 0.5 * x, x)


def in_a_branch(f: Function) -> Function:
    return lambda x: lax.cond(x.sum() > 0, f, jnp.sin, x)


def mapped(f: Function) -> Function:
    return lambda x: jax.vmap(f)(jnp.stack([x, 0.5 * x])).sum(0)


def compiled(f: Function) -> Function:
    return jax.jit(lambda x: jax.checkpoint(f)(x) * 2.0)


def after_itself(f: Function) -> Function:
    return lambda x: f(f(x) + 0.25 * x)


def after_a_compiled_function(f: Function) -> Function:
    def doubled(x: Any) -> Any:
        return 2.0 * x

    return lambda x: f(jax.jit(doubled)(x))


def around_results_of_blocks(f: Function) -> Function:
    """The rule of a function reads what other functions with a derivative of their own gave."""

    def function(x: Any) -> Any:
        scale = lax.stop_gradient(jax.jit(f)(x))
        made = jax.custom_vjp(bend)
        made.defvjp(lambda x: (bend(x), x), lambda x, g: (g * scale * x,))
        return made(f(x))

    return function


PLACES = (
    in_a_scan, in_rows_of_a_scan, in_a_loop, in_a_branch, mapped, compiled, after_itself,
    after_a_compiled_function, around_results_of_blocks,
)  # fmt: skip


# ---- programs against JAX --------------------------------------------------------------------


def hold(functions: Mapping[str, Function], mode: str = "interpret") -> None:
    """Values and gradients are JAX's: each function has a row of the argument."""
    x = np.stack([ROW * (1.0 + 0.25 * at) for at in range(len(functions))])

    def rows(x: Any) -> Any:
        return jnp.stack([f(row) for f, row in zip(functions.values(), x, strict=True)])

    prog, values = br.from_jax(rows, x)
    scope = br.Scope()
    scope.update(values)
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("x"))
    got = br.Executor(mode=mode).run(prog, scope, {"x": x}, ["out", grad])
    wanted = [rows(x), jax.grad(total(rows))(x)]
    for mine, theirs in zip(got, wanted, strict=True):
        for name, one, other in zip(functions, mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
def test_any_function_keeps_any_derivative_that_it_is_given(form: str) -> None:
    hold({name: kind(FORMS[form]) for name, kind in KINDS.items()})


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - CLOSING))
def test_derivatives_are_kept_in_loops_and_branches(kind: str, mode: str) -> None:
    made = KINDS[kind](bend)
    hold({place.__name__: place(made) for place in PLACES}, mode)


def test_a_function_is_an_operator_only_with_the_derivative_of_the_operator() -> None:
    def types(function: Function) -> list[str]:
        prog, _ = br.from_jax(function, ROW)
        return [op.type for _, op in all_ops(prog.definition.main)]

    for function in (jax.nn.relu, jax.jit(jax.nn.relu), jax.vmap(jax.nn.relu)):
        assert types(function)[0] == "relu"
    assert types(jax.nn.relu6)[0] == "relu6"
    for kind in (by_vjp, by_jvp, by_jvps, by_gradient):
        assert "custom_gradient" in types(kind(jax.nn.relu))


# ---- derivatives that are unknown ------------------------------------------------------------


def with_a_failing_rule(f: Function) -> Function:
    made = jax.custom_vjp(f)

    def fail(x: Any, g: Any) -> Any:
        raise NotImplementedError("no derivative here")

    made.defvjp(lambda x: (f(x), x), fail)
    return made


def with_a_rule_that_is_not_linear(f: Function) -> Function:
    made = jax.custom_jvp(f)
    made.defjvp(lambda x, t: (f(x[0]), jnp.abs(t[0]) * x[0]))
    return made


@pytest.mark.parametrize("kind", [with_a_failing_rule, with_a_rule_that_is_not_linear])
def test_an_unknown_derivative_is_refused_when_its_gradient_is_requested(
    kind: Callable[[Function], Function], mode: str
) -> None:
    def function(x: Any, y: Any) -> Any:
        return jnp.sum(kind(bend)(x) * y)

    prog, _ = br.from_jax(function, ROW, ROW)
    prog = br.parse(str(prog))
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("y"))
        with pytest.raises(br.GradientError, match="gradient of `bend` cannot be traced"):
            br.gradients(prog.var("out"), prog.var("x"))
    feed = {"x": ROW, "y": ROW}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, ["out", grad])
    np.testing.assert_allclose(got[0], function(ROW, ROW), rtol=1e-6)
    np.testing.assert_allclose(got[1], np.maximum(ROW, 0.0), rtol=1e-6)


def test_a_captured_value_is_refused_only_as_the_source_of_a_gradient(mode: str) -> None:
    def function(x: Any, w: Any) -> Any:
        scale = w * 2.0
        made = jax.custom_vjp(lambda x: x * scale)
        made.defvjp(lambda x: (x * scale, x), lambda x, g: (5.0 * g * x,))
        return jnp.sum(made(x))

    prog, _ = br.from_jax(function, ROW, ROW)
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("x"))
        with pytest.raises(br.GradientError, match="captures a differentiated value"):
            br.gradients(prog.var("out"), prog.var("w"))
    feed = {"x": ROW, "w": ROW}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, ["out", grad])
    np.testing.assert_allclose(got[0], np.sum(2.0 * ROW * ROW), rtol=1e-6)
    np.testing.assert_allclose(got[1], 5.0 * ROW, rtol=1e-6)


@jax.custom_vjp
def step_ahead(x: Any) -> Any:
    """A function whose derivative is the function at the next number."""
    return jnp.floor(x)


step_ahead.defvjp(lambda x: (jnp.floor(x), x), lambda x, g: (g * step_ahead(x + 1.0),))


def test_a_derivative_beyond_the_deepest_rule_is_refused_instead_of_that_of_operators(
    mode: str,
) -> None:
    prog, _ = br.from_jax(lambda x: jnp.sum(step_ahead(x)), ROW)
    slope = prog.var("out")
    with prog:
        for _ in range(4):
            (slope,) = br.gradients(br.sum(slope), prog.var("x"))
        with pytest.raises(br.GradientError, match="`step_ahead` is known up to order 4"):
            br.gradients(br.sum(slope), prog.var("x"))
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), {"x": ROW}, [slope])
    np.testing.assert_array_equal(got, np.floor(ROW + 4))
