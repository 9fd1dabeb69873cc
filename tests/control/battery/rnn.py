"""Recurrent nets, and constructs in each other."""

from __future__ import annotations

import numpy as np

import braces as br
from tests.control.battery.cases import RNG, case, counted
from tests.control.checking import Feeds, integer

# ---- rnn -------------------------------------------------------------------------------------


def _series(steps: int, rows: int = 2) -> Feeds:
    return {"x": RNG.normal(size=(steps, rows, 3)), "w": RNG.normal(size=(3, 3)) * 0.6}


@case(_series(3), _series(1), _series(0), _series(3, 0), x=["t", "b", 3])
def rnn_of_any_length(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(x)
        h = net.add_memory(shape=[3], batch_like=x, batch_axis=1, value=0.2)
        h.update(br.tanh(h @ w + row))
        net.add_output(h.pre(1) * row)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h) * w[0])


@case(_series(4), x=["t", "b", 3])
def rnn_reversed_with_a_past(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(reverse=True)
    with rnn.stepnet() as net:
        row = net.add_input(x)
        h = net.add_memory(init=(x[0], x[1] * 2.0))
        h.update(br.tanh(h.pre(3) @ w + row * h.pre(2)))
        net.add_output(h.pre(1), axis=1)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h))


@case(_series(3), x=["t", "b", 3])
def rnn_without_memory(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        net.add_output(br.tanh(net.add_input(x) @ w))
    return br.sum(rnn() ** 2)


@case()
def rnn_without_input(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(steps=4)
    with rnn.stepnet() as net:
        h = net.add_memory(init=x)
        h.update(br.tanh(h * w))
        net.add_output(br.sum(h.pre(1)))
    return br.sum(rnn() ** 2)


@case(_series(3), x=["t", "b", 3])
def rnn_in_rnn_capturing_from_every_block(x: br.Var, w: br.Var) -> br.Var:
    scale = br.tanh(w[0])
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(x)
        h = net.add_memory(init=x[0])
        inner = br.create_rnn(reverse=True)
        with inner.stepnet() as deep:
            cell, k = deep.add_input(row), deep.add_memory(init=br.sum(h, axis=0))
            k.update(br.tanh(k * cell + scale))
            deep.add_output(k.pre(1) * row[0] + br.mean(h))
        h.update(br.sin(h @ w + inner.final(k)) + br.mean(inner(), axis=0))
        net.add_output(h.pre(1))
    return br.sum(rnn() * scale)


@case(_series(3), x=["t", "b", 3])
def while_in_rnn_with_a_count_from_each_step(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row, h = net.add_input(x), net.add_memory(init=x[0])
        loop = br.create_while()
        with loop.block() as body:
            k = body.add_memory(init=h * 0.5)
            body.set_condition(br.sum(k * k) < 2.0 + br.sum(row * row))
            k.update(k * 1.5 + row * 0.1 + w[0] * 0.2)
        h.update(br.tanh(loop.final(k) @ w))
        net.add_output(h.pre(2) * w[1])
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h))


# ---- depth -----------------------------------------------------------------------------------


@case(
    {"x": RNG.normal(size=(4, 3)), "w": RNG.normal(size=3)},
    {"x": RNG.normal(size=(1, 3)), "w": RNG.normal(size=3)},
    {"x": np.zeros((0, 3)), "w": RNG.normal(size=3)},
    x=["t", 3],
)
def four_deep(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row, h = net.add_input(x), net.add_memory(init=w)
        choice = br.create_if_else(br.sum(row) > 0.0)
        with choice.true_block() as t:
            t.add_output(_deep_loop(row, h, w))
        with choice.false_block() as f:
            f.add_output(h * h * 0.3 + row)
        h.update(choice())
        net.add_output(h.pre(1) * row)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h))


def _deep_loop(row: br.Var, h: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, k = body.add_memory(init=integer(0)), body.add_memory(init=h)
        body.set_condition((i < 3) & (br.sum(k * k) < 9.0))
        choice = br.create_if_else(i % 2 == 0)
        with choice.true_block() as t:
            t.add_output(br.tanh(k * w + row))
        with choice.false_block() as f:
            inner = br.create_while()
            with inner.block() as nested:
                z, j = nested.add_memory(init=k), nested.add_memory(init=integer(0))
                nested.set_condition(j <= i)
                z.update(z * 1.1 + w * 0.1 * row)
                j.update(j + 1)
            f.add_output(inner.final(z))
        k.update(choice())
        i.update(i + 1)
    return loop.final(k)


@case()
def stopped_gradients(x: br.Var, w: br.Var) -> br.Var:
    fixed = br.stop_gradient(br.sin(w))
    with counted(3, x) as (loop, h):
        h.update(br.tanh(h * w) + br.stop_gradient(fixed) * 0.0)
    return br.sum(loop.final(h) ** 2)
