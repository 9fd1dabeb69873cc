"""Forward mode with tangents that are computed from the primals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.extend.programs import print_program

POINT = np.array([0.3, -0.6, 0.9])
Pair = tuple[Any, Any]

pytestmark = pytest.mark.unoptimized


def in_both_modes(prog: br.Program, fetch: Any) -> list[Any]:
    """The values, which both modes must give."""
    runs = [
        br.Executor(mode=mode).run(prog, br.Scope(), {"x": POINT}, fetch)
        for mode in ("compile", "interpret")
    ]
    for compiled, interpreted in zip(*runs, strict=True):
        np.testing.assert_allclose(compiled, interpreted, rtol=1e-9)
    return runs[0]


# ---- constructs, each with what JAX calls it ---------------------------------------------


def trips(x: Any) -> Pair:
    loop = br.create_while()
    with loop.block() as body:
        value, count = body.add_memory(init=x), body.add_memory(init=br.zeros([], "float64"))
        body.set_condition(br.sum(br.square(value)) > 0.9)
        value.update(br.sin(value) * 0.9)
        count.update(count + br.sum(value.pre(1)))
    return loop.final(value), loop.final(count)


def their_trips(x: Any) -> Pair:
    count = 0.0
    while jnp.sum(jnp.square(x)) > 0.9:
        count += jnp.sum(x)
        x = jnp.sin(x) * 0.9
    return x, count


def steps(x: Any) -> Pair:
    loop = br.create_rnn()
    with loop.stepnet() as net:
        h = net.add_memory(init=br.zeros([], "float64"))
        piece = net.add_input(x)
        h.update(br.tanh(h + piece * 2.0))
        net.add_output(br.sin(h.pre(1) * piece))
    return loop(), loop.final(h)


def their_steps(x: Any) -> Pair:
    h, rows = jnp.zeros([]), []
    for piece in x:
        rows.append(jnp.sin(h * piece))
        h = jnp.tanh(h + piece * 2.0)
    return jnp.stack(rows), h


def branch(x: Any) -> Pair:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        t.add_output(br.exp(x), br.sum(x * x))
    with choice.false_block() as f:
        f.add_output(x, br.sum(x))
    return choice()


def their_branch(x: Any) -> Pair:
    return jnp.exp(x), jnp.sum(x * x)


def rows(x: Any) -> Pair:
    choice = br.create_if_else(x > 0.0)
    with choice.true_block() as t:
        row = t.add_input(x)
        t.add_output(br.exp(row), row * row)
    with choice.false_block() as f:
        row = f.add_input(x)
        f.add_output(br.sin(row), row * 3.0)
    return choice()


def their_rows(x: Any) -> Pair:
    return jnp.where(x > 0, jnp.exp(x), jnp.sin(x)), jnp.where(x > 0, x * x, x * 3.0)


def deep(x: Any) -> Pair:
    with br.block("outer"):
        h = br.exp(x)
        with br.block("inner"):
            y, s = br.sin(h * x), br.sum(h)
    return y, s


def again(x: Any) -> Pair:
    with br.block("box", recompute=True):
        h = br.exp(x)
        y, s = br.sin(h * x), br.sum(h)
    return y, s


def their_box(x: Any) -> Pair:
    h = jnp.exp(x)
    return jnp.sin(h * x), jnp.sum(h)


def looped(x: Any) -> Pair:
    with br.block("around"):
        y, s = trips(x)
        found = y * s, s + br.sum(x)
    return found


def their_looped(x: Any) -> Pair:
    y, s = their_trips(x)
    return y * s, s + jnp.sum(x)


CASES: dict[str, tuple[Callable[[Any], Pair], Callable[[Any], Pair]]] = {
    "a loop with a condition": (trips, their_trips),
    "a loop over rows": (steps, their_steps),
    "a branch": (branch, their_branch),
    "a row-wise branch": (rows, their_rows),
    "blocks in blocks": (deep, their_box),
    "a block that runs again": (again, their_box),
    "a loop in a block": (looped, their_looped),
}


def along(function: Callable[[Any], Pair]) -> Callable[[Any], Pair]:
    """JAX's derivative of the first result along a way that the second is part of."""

    def derived(x: Any) -> Pair:
        y, s = function(x)
        return jax.jvp(lambda x: function(x)[0], (x,), (jnp.cos(x) * s + y,))[1], s

    return derived


@pytest.mark.parametrize(("ours", "theirs"), CASES.values(), ids=CASES)
def test_a_tangent_may_be_computed_from_what_it_is_pushed_through(
    ours: Callable[[Any], Pair], theirs: Callable[[Any], Pair]
) -> None:
    with br.Program() as prog:
        x = br.data("x", [3], "float64")
        y, s = ours(x)
        (first,) = br.jvp(y, x, br.cos(x) * s + y)
        (second,) = br.jvp(first, x, br.cos(x) * s + first)
        (pulled,) = br.gradients(br.sum(first), x)
        (slope,) = br.gradients(br.sum(y), x)
        (bent,) = br.jvp(slope, x, br.cos(x) * s)
    found = in_both_modes(prog, [first, second, pulled, bent])
    with jax.enable_x64(True):
        point = jnp.asarray(POINT)
        once = along(theirs)
        twice = along(once)
        grad = jax.grad(lambda x: jnp.sum(theirs(x)[0]))
        want = (
            once(point)[0],
            twice(point)[0],
            jax.grad(lambda x: jnp.sum(once(x)[0]))(point),
            jax.jvp(grad, (point,), (jnp.cos(point) * theirs(point)[1],))[1],
        )
    for got, value in zip(found, want, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_tangent_may_be_computed_within_the_block_it_is_pushed_through(
    recompute: bool,
) -> None:
    with br.Program() as prog:
        x = br.data("x", [3], "float64")
        with br.block("outer", recompute=recompute), br.block("inner", recompute=recompute):
            way = br.exp(x)
            y = br.sin(x * way)
            (inside,) = br.jvp(y, x, way)
        (outside,) = br.jvp(y, x, way)
        (second,) = br.jvp(inside, x, way)
    found = in_both_modes(prog, [inside, outside, second])
    with jax.enable_x64(True):
        y_of = lambda x: jnp.sin(x * jnp.exp(x))  # noqa: E731 - as the program has it
        first = lambda x: jax.jvp(y_of, (x,), (jnp.exp(x),))[1]  # noqa: E731
        want = first(POINT), jax.jvp(first, (POINT,), (np.exp(POINT),))[1]
    np.testing.assert_allclose(found[0], want[0], rtol=1e-9)
    np.testing.assert_allclose(found[1], want[0], rtol=1e-9)
    np.testing.assert_allclose(found[2], want[1], rtol=1e-9)


@pytest.mark.parametrize(("ours", "theirs"), CASES.values(), ids=CASES)
def test_what_moves_outside_of_an_open_block_moves_what_is_read_in_it(
    ours: Callable[[Any], Pair], theirs: Callable[[Any], Pair]
) -> None:
    with br.Program() as prog:
        x = br.data("x", [3], "float64")
        y, s = ours(x)
        with br.block("outer"):
            z = y * s
            with br.block("inner"):
                w = br.sin(z) + y
                (inside,) = br.jvp(w, x, br.cos(z))
        (outside,) = br.jvp(w, x, br.cos(z))
    found = in_both_modes(prog, [inside, outside])

    def target(x: Any) -> Any:
        y, s = theirs(x)
        return jnp.sin(y * s) + y

    with jax.enable_x64(True):
        point = jnp.asarray(POINT)
        y, s = theirs(point)
        want = jax.jvp(target, (point,), (jnp.cos(y * s),))[1]
    np.testing.assert_allclose(found[0], want, rtol=1e-8)
    np.testing.assert_allclose(found[1], want, rtol=1e-8)


def test_a_block_of_tangents_reads_what_the_block_keeps() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("box"):
            h = br.matmul(x, br.ones([3, 3]))
            y = br.sum(br.tanh(h) * h)
        br.jvp(y, x, br.ones_like(x) * y)
    assert print_program(prog.definition).count("= matmul(") == 1
    with br.Program() as prog:
        x = br.data("x", [3])
        with br.block("box", recompute=True):
            h = br.matmul(x, br.ones([3, 3]))
            y = br.sum(br.tanh(h) * h)
        br.jvp(y, x, br.ones_like(x) * y)
    assert print_program(prog.definition).count("= matmul(") == 2


@pytest.mark.parametrize("boxed", [False, True])
def test_what_moves_by_itself_moves_with_what_it_is_computed_from_too(boxed: bool) -> None:
    with br.Program() as prog:
        x = br.data("x", [3], "float64")
        if boxed:
            with br.block("box"):
                h = br.sin(x)
                y = h * h
        else:
            h = br.sin(x)
            y = h * h
        one = br.ones_like(x)
        (moved,) = br.jvp(y, [x, h], [one, one * 2.0])
        pulled = br.gradients(y, [x, h])
    found, by_x, by_h = in_both_modes(prog, [moved, *pulled])
    np.testing.assert_allclose(found, by_x + 2.0 * by_h, rtol=1e-12)


def test_draws_are_the_same_where_a_construct_runs_again_for_its_tangent() -> None:
    with br.Program() as prog:
        x = br.data("x", [3], "float64")
        choice = br.create_if_else(br.sum(x) > 0.0)
        with choice.true_block() as t:
            t.add_output(x * br.random.normal([3], dtype="float64"))
        choice.pass_through(x)
        y = choice()
        (pushed,) = br.jvp(y, x, y)
    for mode in ("compile", "interpret"):
        scope = br.Scope()
        executor = br.Executor(mode=mode)
        executor.init(prog, scope)
        value, moved = executor.run(prog, scope, {"x": POINT}, [y, pushed])
        np.testing.assert_allclose(moved, value / POINT * value, rtol=1e-12)


def test_a_variable_of_a_closed_construct_does_not_move() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        loop = br.create_rnn()
        with loop.stepnet() as net:
            h = net.add_input(x) * 2.0
            net.add_output(h)
        before = prog.definition
        with pytest.raises(br.BracesError, match="closed"):
            br.jvp(loop(), h, [1.0])
        assert prog.definition == before
