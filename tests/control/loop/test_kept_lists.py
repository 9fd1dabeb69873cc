"""Gradients that need lists as they were in the middle of loops: any order, both modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.comparison import near
from tests.support.onnx_round_trip import check_exported

pytestmark = pytest.mark.unoptimized

START = np.array([0.3, -0.7, 0.9])


def while_(
    n: Any, carried: tuple[br.Var, ...], every: int | None, step: Callable[..., Any]
) -> tuple[br.Var, ...]:
    """A while of so many trips; `step` gets the trip and what is carried."""
    loop = br.create_while(checkpoint_every=every)
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0))
        memories = [body.add_memory(init=one) for one in carried]
        body.set_condition(i < n)
        after = step(i, *(memory.pre(1) for memory in memories))
        for memory, value in zip(memories, after, strict=True):
            memory.update(value)
        i.update(i + 1)
    return tuple(map(loop.final, memories))


def changed(x: br.Var, n: br.Var, every: int | None) -> br.Var:
    """Lists that grow, shrink, are read and written at places, one of integers with them."""

    def step(i: br.Var, xs: br.Var, rows: br.Var, seen: br.Var, h: br.Var) -> Any:
        grown = br.lists.append(xs, br.sin(xs[-1] * x[1] + xs[i // 2] * h[0]))
        grown = br.lists.set(br.lists.insert(grown, i, x[2] * h[1]), 0, grown[0] * x[0])
        shorter = br.cond(i % 2 == 0, lambda: br.lists.erase(grown, i), lambda: grown)
        seen = br.lists.append(seen, br.lists.length(shorter))
        wide = br.cast(seen[i // 2], "f64") * 0.1
        return shorter, br.lists.append(rows, h * wide), seen, br.sin(h + rows[-1] * xs[0])

    first = br.lists.append(br.lists.create([], "f64"), x[0])
    xs, rows, _, h = while_(
        n,
        (first, br.lists.unstack(x * br.ones([2, 3], "f64")), br.lists.create([], "int64"), x),
        every, step,
    )  # fmt: skip
    return br.sum(br.lists.stack(xs)) + br.sum(br.lists.stack(rows)) + br.sum(h * h)


def inside(x: br.Var, n: br.Var, every: int | None) -> br.Var:
    """In a step of an RNN, in a case of a branch; the list begins empty in each step."""
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        piece, h = net.add_input(x), net.add_memory(init=x)

        def looped() -> br.Var:
            def fill(i: br.Var, ys: br.Var, total: br.Var) -> Any:
                longer = br.lists.append(ys, total * piece)
                return longer, br.sin(total + longer[i // 2])

            ys, total = while_(n, (br.lists.create([3], "f64"), h), every, fill)
            return total + br.sum(br.lists.resize(ys, n + 1)[-1])

        h.update(br.cond(br.sum(piece) > 0.0, looped, lambda: h * piece))
    return br.sum(br.sin(rnn.final(h)))


def rows_apart(x: br.Var, n: br.Var, every: int | None) -> br.Var:
    """In a branch of rows, with a list from outside."""
    outside = br.lists.append(br.lists.create([], "f64"), br.constant(0.5, dtype="f64"))
    choice = br.create_if_else(x > 0.0)
    with choice.true_block() as above:
        row = above.add_input(x)

        def fill(i: br.Var, ys: br.Var, total: br.Var) -> Any:
            return br.lists.append(ys, total), br.sin(total * ys[i // 2]) + row * outside[0]

        ones = br.lists.append(br.lists.create(row.shape, "f64"), row)
        above.add_output(while_(n, (ones, row), every, fill)[1])
    choice.pass_through(x)
    return br.sum(choice() * x)


def run_again(x: br.Var, n: br.Var, every: int | None) -> br.Var:
    """In a block that runs again for its gradient, in a case; here `every` turns that on."""

    def step(i: br.Var, xs: br.Var, h: br.Var) -> Any:
        def told() -> br.Var:
            longer = br.lists.append(xs, h * x)
            with br.block("told", recompute=every is not None):
                found = br.sin(longer[i // 2] * longer[-1]) * br.tanh(h)
            return found

        found = br.cond(i % 2 == 0, told, lambda: h * x)
        return br.lists.append(xs, found), br.sin(h + found * xs[0])

    first = br.lists.append(br.lists.create([3], "f64"), x)
    return br.sum(while_(n, (first, x), None, step)[1])


def steps(x: br.Var, n: br.Var, every: int | None) -> br.Var:
    """A memory of an RNN: a loop of known length with another number of trips at its end."""
    del n
    rnn = br.create_rnn(checkpoint_every=every)
    with rnn.stepnet() as net:
        piece, h = net.add_input(x), net.add_memory(init=x[0])
        xs = net.add_memory(init=br.lists.append(br.lists.create([], "f64"), x[1]))
        longer = br.lists.append(xs, br.sin(h * piece + xs[0]))
        h.update(longer[-1] * longer[-2])
        xs.update(longer)
    return br.sin(rnn.final(h)) + br.sum(br.lists.stack(rnn.final(xs)))


@pytest.mark.parametrize(
    "build",
    [changed, inside, run_again, steps, pytest.param(rows_apart, marks=pytest.mark.thorough)],
)
def test_lists_in_the_middle_of_loops_are_kept_for_gradients(build: Any) -> None:
    with br.Program() as prog:
        x, n = br.data("x", [3], dtype="f64"), br.data("n", [], dtype="int64")
        found = list[list[br.Var]]()
        for every in (None, 2):
            y = build(x, n, every)
            (grad,) = br.gradients([y], [x])
            (second,) = br.gradients([br.sum(br.sin(grad))], [x])
            found.append([y, grad, second])
    exe, compiled = br.Executor(mode="interpret"), br.Executor()
    for trips in (3, 0):
        feed = {"x": START, "n": trips}
        plain, again = (exe.run(prog, br.Scope(), feed=feed, fetch=one) for one in found)
        fast = compiled.run(prog, br.Scope(), feed=feed, fetch=found[1])
        for one, *others in zip(plain, again, fast, strict=True):
            for other in others:
                near(other, one, 1e-12, f"{trips} trips")
    y, grad, _ = found[1]
    kept = exe.run(prog, br.Scope(), feed={"x": START, "n": 3}, fetch=found[1])

    def slope(which: br.Var) -> Any:
        ways = 1e-6 * np.eye(3)
        ends = [
            [exe.run(prog, br.Scope(), feed={"x": at, "n": 3}, fetch=which) for at in pair]
            for pair in ((START + way, START - way) for way in ways)
        ]
        return np.array([(up - down) / 2e-6 for up, down in ends])

    near(kept[1], slope(y), 1e-6, "first order")
    near(kept[2], slope(grad) @ np.cos(kept[1]), 1e-5, "second order")


def test_gradients_that_keep_lists_are_models_of_onnx_too(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, n = br.data("x", [3], dtype="f64"), br.data("n", [], dtype="int64")
        y = changed(x, n, 2)
        fetch = [y, *br.gradients([y], [x])]
    check_exported(prog, [{"x": START, "n": trips} for trips in (3, 0)], fetch, tmp_path)
