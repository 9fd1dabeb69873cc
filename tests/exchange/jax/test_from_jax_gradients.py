"""Functions of JAX with gradients of their own: values and two orders of them are JAX's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from braces.extend.programs import all_ops

pytestmark = [pytest.mark.unoptimized, pytest.mark.filterwarnings("error")]

X = np.array([[0.9, 2.2, -1.4], [-0.3, 0.6, 1.7]], "f4")


# ---- functions that people write -------------------------------------------------------------


@jax.custom_vjp
def straight(x: Any) -> Any:
    """Straight through."""
    return jnp.round(x)


straight.defvjp(lambda x: (straight(x), None), lambda _, g: (g,))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def clip_gradient(x: Any, bound: float) -> Any:
    return x


clip_gradient.defvjp(
    lambda x, bound: (x, ()), lambda bound, _, g: (jnp.clip(g, -bound, bound),)
)


@jax.custom_vjp
def sized(x: Any, w: Any, n: Any) -> Any:
    """Several arguments in a tree, one of them whole numbers, and what only a rule computes."""
    return {"sum": (x * w["w"]).sum(-1), "count": n + 1}, jnp.tanh(x @ w["v"])


def sized_forward(x: Any, w: Any, n: Any) -> Any:
    out = sized(x, w, n)
    return out, (x, w, out[1], jax.jit(jnp.exp)(x))


def sized_backward(kept: Any, grads: Any) -> Any:
    x, w, h, grown = kept
    by_sum, by_h = grads[0]["sum"], grads[1] * (1.0 - h * h)
    by_x = 3.0 * by_sum[:, None] * w["w"] + by_h @ w["v"].T + 0.0 * grown
    return by_x, {"w": (by_sum[:, None] * x).sum(0), "v": x.T @ by_h}, None


sized.defvjp(sized_forward, sized_backward)


@jax.custom_jvp
def log1pexp(x: Any) -> Any:
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1.0 - 1.0 / (1.0 + jnp.exp(x))) * t


@jax.custom_jvp
def grown(x: Any) -> Any:
    return jnp.exp(x)


@grown.defjvp
def grown_jvp(primals: Any, tangents: Any) -> Any:
    """A rule that reads its own result."""
    y = grown(primals[0])
    return y, 2.0 * y * tangents[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def applied(f: Callable[[Any], Any], x: Any) -> Any:
    return f(x)


@applied.defjvp
def applied_jvp(f: Any, primals: Any, tangents: Any) -> Any:
    return jax.jvp(f, primals, (3.0 * tangents[0],))


@jax.custom_jvp
def waved(x: Any) -> Any:
    return jnp.sin(x)


@jax.custom_jvp
def cowaved(x: Any) -> Any:
    return jnp.cos(x)


waved.defjvps(lambda t, y, x: cowaved(x) * t)
cowaved.defjvps(lambda t, y, x: -waved(x) * t)


@jax.custom_gradient
def tripled(x: Any) -> Any:
    return jnp.tanh(x), lambda g: (3.0 * g * (1.0 - jnp.tanh(x) ** 2),)


WEIGHTS = np.arange(60.0, dtype="f4").reshape(3, 20) / 60


@jax.custom_vjp
def weighted(x: Any) -> Any:
    """What closes over weights, which are no arguments."""
    return x @ WEIGHTS


weighted.defvjp(lambda x: (weighted(x), None), lambda _, g: (g @ WEIGHTS.T * 2.0,))


def around_a_rule(x: Any) -> Any:
    """A rule that closes over values which have no gradient."""
    mask, scale = x > 0.5, lax.stop_gradient(x.sum())
    inner = jax.custom_vjp(lambda z: jnp.where(mask, jnp.sin(z), 0.0) * scale)
    inner.defvjp(
        lambda z: (inner(z), z), lambda z, g: (jnp.where(mask, g * jnp.cos(z), g) * scale,)
    )
    return inner(x * x)


def in_a_scan(x: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        return clip_gradient(straight(h * 1.5) + row, 2.0), grown(row)

    end, rows = lax.scan(step, jnp.ones(3), x)
    return (end**2).sum() + rows.sum()


def in_a_branch(x: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda x: straight(3.0 * x), grown, x)


def safe(x: Any) -> Any:
    """The root whose slope at 0 is 0, by `where` twice."""
    y = jnp.maximum(x, 0.0)
    return jnp.where(y > 0, jnp.sqrt(jnp.where(y > 0, y, 1.0)), 0.0)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "straight": lambda x: straight(x) ** 3,
    "clipped": lambda x: clip_gradient(x, 1.0) ** 2,
    "sized": lambda x: sized(x, {"w": jnp.ones(3), "v": 0.5 * jnp.ones((3, 2))}, 3)[0]["sum"],
    "tree": lambda x: sized(x, {"w": x[0], "v": x.T}, 3)[1] ** 2,
    "log1pexp": lambda x: log1pexp(x) * x,
    "grown": grown,
    "applied": lambda x: applied(lambda x: jnp.sin(x) * x, x),
    "waved": waved,
    "around": around_a_rule,
    "weighted": weighted,
    "tripled": lambda x: tripled(x) * x,
    "scan": in_a_scan,
    "branch": in_a_branch,
    "mapped": lambda x: jax.vmap(lambda r: log1pexp(r) @ straight(r * 2))(x),
    "jitted": jax.jit(lambda x: jax.checkpoint(log1pexp)(x) * 2.0),
    "relu": lambda x: jax.nn.relu(x) * jax.nn.relu6(x) + jax.nn.leaky_relu(x),
    "silu": lambda x: jax.nn.silu(x) + jax.nn.gelu(x) + jax.nn.softplus(x),
    "sums": lambda x: jax.nn.logsumexp(x, -1) + jax.nn.softmax(x).max(-1),
    "pairs": lambda x: jnp.logaddexp(x, x[::-1]) + jax.scipy.special.xlogy(x * x, x * x),
    "library": lambda x: jnp.frexp(x)[0] + jax.scipy.special.log_ndtr(-20.0 * x * x),
    "at ties": lambda x: jnp.logaddexp(x, x) + jnp.sinc(x - x) + jax.scipy.special.entr(x * x),
    "safe": safe,
}
ONCE = {"clipped", "scan", "tripled"}
"""What JAX asks a rule for just once, and then differentiates what `fwd` computes instead."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_gradients_and_second_order_are_those_of_jax(name: str) -> None:
    function = FUNCTIONS[name]

    def total(x: Any) -> Any:
        return jnp.sum(function(x))

    def slope(x: Any) -> Any:
        return jnp.sum(jnp.sin(jax.grad(total)(x)))

    prog, values = br.from_jax(total, X)
    scope = br.Scope()
    scope.update(values)
    with prog:
        x = prog.var("x")
        (first,) = br.gradients(prog.var("out"), x)
        (second,) = br.gradients(br.sum(br.sin(first)), x)
    wanted = [total(X), jax.grad(total)(X), jax.grad(slope)(X)]
    fetch = ["out", first, second]
    if name in ONCE or second is None:
        del wanted[2], fetch[2]
    for mode in ("compile", "interpret"):
        got = br.Executor(mode=mode).run(prog, scope, {"x": X}, fetch)
        for one, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, want, rtol=2e-5, atol=2e-5)


def test_what_the_library_computes_as_it_is_differentiated_stays_as_it_is() -> None:
    prog, _ = br.from_jax(lambda x: jax.nn.relu(x) + jax.nn.softmax(jax.nn.silu(x)), X)
    types = [op.type for _, op in all_ops(prog.definition.main)]
    assert "custom_gradient" not in types
    assert "relu" in types


def test_what_a_rule_and_its_function_share_is_computed_once_and_kept() -> None:
    @jax.custom_vjp
    def squashed(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)

    def forward(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return y, (x, w, y, jnp.exp(y))

    def backward(kept: Any, g: Any) -> Any:
        x, w, y, grown = kept
        d = g * grown * (1.0 - y * y)
        return d @ w.T, x.T @ d

    squashed.defvjp(forward, backward)
    prog, _ = br.from_jax(squashed, X, X.T)
    (block,) = prog.block(0).ops[:1]
    assert block.name == "squashed"
    inside = [op.type for op in block.attrs["body"].ops]
    assert [inside.count(type_) for type_ in ("einsum", "tanh", "exp")] == [1, 1, 1]
    (own,) = (op for op in block.attrs["body"].ops if op.type == "custom_gradient")
    assert "exp" not in [op.type for op in own.attrs["backward"].ops]


def refuses_gradient(function: Any, said: str) -> None:
    """The function is imported with its values; its gradient is refused."""
    prog, _ = br.from_jax(function, X)
    (made,) = br.Executor().run(prog, br.Scope(), {"x": X}, ["out"])
    np.testing.assert_allclose(made, function(X), rtol=1e-6)
    with prog, pytest.raises(br.GradientError, match=said):
        br.gradients(br.sum(prog.var("out")), prog.var("x"))


def test_a_rule_that_cannot_be_read_is_said_with_its_function() -> None:
    def around(x: Any) -> Any:
        s = x.sum()
        inner = jax.custom_vjp(lambda z: z * s)
        inner.defvjp(lambda z: (z * s, None), lambda _, g: (g,))
        return inner(x)

    refuses_gradient(around, "`.*` has a custom derivative and captures")

    @jax.custom_vjp
    def wrong(x: Any) -> Any:
        return x * 2.0

    wrong.defvjp(lambda x: (x * 2.0, x), lambda x, g: (g, g))
    refuses_gradient(lambda x: wrong(x), "gradient of `wrong` cannot be traced")


def test_solutions_found_step_by_step_have_the_gradient_of_the_equations() -> None:
    def searched(a: Any, b: Any) -> Any:
        return jax.scipy.sparse.linalg.cg(lambda v: a @ v, b, maxiter=20)[0]

    def told(a: Any, b: Any) -> Any:
        rows = a + 3.0 * jnp.eye(3)
        return lax.custom_linear_solve(
            lambda v: rows @ v,
            b,
            lambda _, b: jnp.linalg.inv(rows) @ b,
            lambda _, b: jnp.linalg.inv(rows).T @ b,
        )

    def root(a: Any, b: Any) -> Any:
        """The cube root of `b`, of which the solution found step by step is held fast."""

        def solve(f: Any, guess: Any) -> Any:
            slopes = jax.vmap(jax.grad(lambda x, b: x**3 - b), (0, 0))
            step = lambda _, x: x - f(x) / slopes(x, b)  # noqa: E731
            return lax.stop_gradient(lax.fori_loop(0, 30, step, guess))

        return lax.custom_root(
            lambda x: x**3 - b - 0.1 * a[0], jnp.ones(3), solve, lambda g, y: y / g(jnp.ones(3))
        )

    b = np.array([1.0, -2.0, 0.5], "f4")
    for function, a in (
        (root, np.diag([1.0, 2.0, 4.0]).astype("f4")),
        (searched, np.diag([1.0, 2.0, 4.0]).astype("f4")),
        (told, np.sin(np.arange(9.0, dtype="f4")).reshape(3, 3)),
    ):

        def slope(a: Any, b: Any, function: Any = function) -> Any:
            return jnp.sum(jnp.sin(jax.grad(lambda a: jnp.sum(function(a, b)))(a)))

        prog, _ = br.from_jax(function, a, b)
        with prog:
            given = [prog.var("a"), prog.var("b")]
            first = br.gradients(br.sum(prog.var("out")), given)
            second = br.gradients(br.sum(br.sin(first[0])), given)
        wanted = [
            function(a, b),
            *jax.grad(lambda a, b, f=function: jnp.sum(f(a, b)), (0, 1))(a, b),
            *jax.grad(slope, (0, 1))(a, b),
        ]
        fetch = ["out", *first, *second]
        got = br.Executor(mode="interpret").run(prog, br.Scope(), {"a": a, "b": b}, fetch)
        for one, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, want, rtol=2e-4, atol=2e-5)


# ---- pools -----------------------------------------------------------------------------------


def test_ties_in_windows_that_overlap_and_reach_into_padding_go_where_jax_lets_them(
    mode: str,
) -> None:
    draws = np.random.default_rng(0)
    x = draws.integers(-1, 2, (1, 2, 6, 7)).astype("f4")
    x[0, 0, :4, :4] = -np.inf  # JAX's padding is as small, and comes first
    x[0, 1, 3:, 4:] = np.inf
    weights = draws.integers(1, 9, (2, 1, 2, 3, 4)).astype("f4")

    def pools(x: Any) -> Any:
        how = (1, 1, 3, 3), (1, 1, 2, 2), "SAME"
        return jnp.stack([
            lax.reduce_window(x, -np.float32(np.inf), lax.max, *how),
            lax.reduce_window(x, np.float32(np.inf), lax.min, *how),
        ])  # fmt: skip

    def asked(x: Any) -> Any:
        return jax.vjp(pools, x)[1](weights)[0]

    exe, wanted = br.Executor(mode=mode), [pools(x), asked(x)]
    prog, _ = br.from_jax(pools, x)
    with prog:
        out = prog.var("out")
        (grad,) = br.gradients([out], [prog.var("x")], [br.constant(weights)])
    read, values = br.from_jax(asked, x)
    scope = br.Scope()
    scope.update(values)
    found = exe.run(prog, scope, feed={"x": x}, fetch=[out, grad])
    found += exe.run(read, scope, feed={"x": x}, fetch=list(read.fetches))
    for got, want in zip(found, [*wanted, wanted[1]], strict=True):
        np.testing.assert_array_equal(got, np.asarray(want))


@pytest.mark.parametrize("dtype", ["u1", "i1"])
def test_the_smallest_integers_of_windows_are_jax_s(dtype: str) -> None:
    bounds = np.iinfo(dtype)
    x = np.array([[bounds.min, 5, bounds.max, 0, bounds.min, bounds.max]], dtype)

    def smallest(x: Any) -> Any:
        return lax.reduce_window(x, x.dtype.type(bounds.max), lax.min, (1, 2), (1, 1), "SAME")

    prog, _ = br.from_jax(smallest, x)
    got = br.Executor(mode="interpret").run(prog, br.Scope(), feed={"x": x}, fetch="out")
    np.testing.assert_array_equal(got, np.asarray(smallest(x)))


def test_rules_that_close_over_values_of_a_batch_have_values_and_no_gradient(mode: str) -> None:
    def with_rule(function: Any, *args: Any) -> Any:
        ruled = jax.custom_jvp(function)
        ruled.defjvp(lambda primals, tangents: (ruled(*primals), sum(tangents)))
        return ruled(*args)

    def scaled(x: Any) -> Any:
        def outer(y: Any) -> Any:
            def inner(w: Any) -> Any:
                total = with_rule(lambda z: y, x) + with_rule(lambda z: w + z, y)
                return with_rule(lambda z: with_rule(jnp.sin, x) * y, 1.0) + total

            return jax.jit(inner)(x)

        return with_rule(outer, x)

    x = np.arange(3, dtype="f")
    prog, _ = br.from_jax(jax.vmap(scaled), x)
    (out,) = br.Executor(mode).run(prog, br.Scope(), {"x": x}, list(prog.fetches))
    np.testing.assert_allclose(out, jax.vmap(scaled)(x))
    with prog, pytest.raises(br.errors.GradientError, match="custom derivative"):
        br.gradients(br.sum(prog.var(prog.fetches[0])), prog.var("x"))
