"""Gradients of 16-bit captured values of loops are accumulated in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br

TRIPS, WIDTH = 420, 4
NARROW: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def total(x: br.Var) -> br.Var:
    """A sum that is not of 16 bits, so that nothing but gradients is added up in those."""
    return br.sum(x if x.dtype == np.float64 else br.cast(x, "float32"))


def rnn(x: br.Var, w: br.Var, **options: Any) -> br.Var:
    """The weight multiplies each row."""
    loop = br.create_rnn(**options)
    with loop.stepnet() as net:
        net.add_output(net.add_input(x) * w)
    return loop()


def with_lengths(x: br.Var, w: br.Var) -> br.Var:
    """The rows are steps of two sequences."""
    both = br.stack([x, x], axis=1)
    lengths = br.constant(np.array([TRIPS - 100, TRIPS], "int32"))
    loop = br.create_rnn(lengths=lengths)
    with loop.stepnet() as net:
        net.add_output(net.add_input(both) * w)
    return loop()


def matmul(x: br.Var, w: br.Var) -> br.Var:
    """A product that passes take out of the loop."""
    loop = br.create_rnn()
    with loop.stepnet() as net:
        row = br.reshape(net.add_input(x), [1, WIDTH])
        net.add_output(br.matmul(row, br.reshape(w, [WIDTH, 1])))
    return loop()


def decaying(x: br.Var, w: br.Var, **options: Any) -> br.Var:
    """A While with a memory that soon forgets."""
    loop = br.create_while(max_trips=None, **options)
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        h = body.add_memory(init=w * 0.0)
        body.set_condition(i < TRIPS)
        made = h.pre(1) * 0.5 + br.take(x, i.pre(1), axis=0) * w
        body.add_output(made)
        h.update(made)
        i.update(i.pre(1) + 1)
    return loop()


def segments(x: br.Var, w: br.Var) -> br.Var:
    """The same in segments that are computed again."""
    return decaying(x, w, checkpoint_every=20)


def nested(x: br.Var, w: br.Var) -> br.Var:
    """A loop in a loop."""
    outer = br.create_rnn()
    with outer.stepnet() as net:
        net.add_output(rnn(net.add_input(br.reshape(x, [TRIPS // 12, 12, WIDTH])), w))
    return outer()


def branching(x: br.Var, w: br.Var) -> br.Var:
    """A row-wise branch in each trip."""
    loop = br.create_rnn()
    with loop.stepnet() as net:
        row = net.add_input(x)
        choice = br.create_if_else(row > 0)
        with choice.true_block() as case:
            case.add_output(case.add_input(row) * br.sum(w))
        with choice.false_block() as case:
            case.add_output(case.add_input(row) * br.sum(w) * 2.0)
        net.add_output(choice())
    return loop()


def switching(x: br.Var, w: br.Var) -> br.Var:
    """Another case in every other trip."""
    loop = br.create_rnn()
    with loop.stepnet() as net:
        row = net.add_input(x)
        net.add_output(br.cond(row[0] > 0.09375, lambda: row * w, lambda: row * 2.0 * w))
    return loop()


def sliced(x: br.Var, w: br.Var) -> br.Var:
    """The weight is read in parts, to which cotangents are added in place."""
    loop = br.create_rnn()
    with loop.stepnet() as net:
        row = net.add_input(x)
        picked = br.take(w, br.constant([0, 0, 3], dtype="int32"), axis=0)
        net.add_output(row[:3] * picked + row[1:] * w[1:])
    return loop()


def carried(x: br.Var, w: br.Var) -> br.Var:
    """The weight is a memory that stays as it is."""

    def step(state: Any, row: br.Var) -> Any:
        return state, row * state

    return br.scan(step, w, x)[1]


BUILT: dict[str, Callable[[br.Var, br.Var], br.Var]] = {
    "rnn": rnn,
    "reversed": lambda x, w: rnn(x, w, reverse=True),
    "lengths": with_lengths,
    "matmul": matmul,
    "while": decaying,
    "segments": segments,
    "nested": nested,
    "row-wise branch": branching,
    "switch": switching,
    "parts": sliced,
    "carried": carried,
}


def built(name: str, dtype: str, order: int) -> tuple[br.Program, br.Var, dict[str, Any]]:
    """A program, the gradient of this order of the weight in it, and its feeds."""
    narrow = NARROW.get(dtype, np.float64)
    x = np.random.default_rng(0).uniform(0.05, 0.15, (TRIPS, WIDTH))
    feed = {
        "x": x.astype(ml_dtypes.bfloat16).astype(narrow),
        "w": np.asarray([1.0, 0.5, 2.0, 1.0], narrow),
    }
    with br.Program() as prog:
        xs = br.data("x", [TRIPS, WIDTH], dtype=dtype)
        w = br.data("w", [WIDTH], dtype=dtype)
        out = BUILT[name](xs, w)
        (grad,) = br.gradients([total(out if order == 1 else out * out)], [w])
        if order == 2:
            (grad,) = br.gradients([total(grad)], [w])
    return prog, grad, feed


def hold(name: str, dtype: str, order: int) -> None:
    """Compare a gradient in 16 bits with the one in float64, in both modes, passes or none."""
    prog, grad, feed = built(name, "float64", order)
    right = br.Executor().run(prog, br.Scope(), feed=feed, fetch=grad)
    prog, grad, feed = built(name, dtype, order)
    assert grad.dtype == NARROW[dtype]
    for mode in ("interpret", "compile"):
        for passes in (br.passes.default, ()):
            exe = br.Executor(mode=mode, passes=passes)
            found = exe.run(prog, br.Scope(), feed=feed, fetch=grad)
            np.testing.assert_allclose(found.astype("float64"), right, rtol=2**-6)


def test_the_gradient_of_a_bfloat16_weight_does_not_stall() -> None:
    hold("rnn", "bfloat16", 1)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", BUILT)
def test_small_cotangents_do_not_vanish_in_a_large_sum(
    name: str, dtype: str, order: int
) -> None:
    hold(name, dtype, order)


@pytest.mark.parametrize("name", BUILT)
def test_sums_of_wider_floats_are_in_their_own_dtype(name: str) -> None:
    assert "f32[" not in str(built(name, "float64", 2)[0])
