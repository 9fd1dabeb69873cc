"""Gradients that are written, and are the true ones: alone, and in all constructs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import braces as br
from tests.control.battery.cases import RNG, case, trips, vectors
from tests.control.checking import integer


@br.custom_gradient
def bent(x: br.Var, w: br.Var) -> tuple[br.Var, Callable[[br.Var], tuple[br.Var, br.Var]]]:
    """A square of tanh, with a gradient that reads inputs, what is between, and the output."""
    h = br.tanh(x * w)
    y = h * h

    def gradient(g: br.Var) -> tuple[br.Var, br.Var]:
        d = g * 2.0 * h * (1.0 - y)
        return d * w, d * x

    return y, gradient


@case()
def written_gradient(x: br.Var, w: br.Var) -> br.Var:
    return br.sum(bent(br.sin(x), bent(w, x)) * x)


@case()
def written_gradient_of_several(x: br.Var, w: br.Var) -> br.Var:
    own = br.create_custom_gradient()
    with own.block() as f:
        a, b = f.add_input(x), f.add_input(w)
        with br.block("inner", recompute=True):
            s = br.sin(a) * b
        f.add_output(s, br.argmax(s), br.sum(a * b))
    with own.gradient() as g:
        by_s, by_sum = g.cotangents
        g.add_output(by_s * br.cos(a) * b + by_sum * b, by_s * br.sin(a) + by_sum * a)
    waved, at, dot = own()
    return br.sum(waved * x) * dot + waved[0] * br.cast(at, "float64")


@case({**vectors("x", "w"), "n": trips(3)}, {**vectors("x", "w"), "n": trips(0)})
def written_gradient_in_a_while(x: br.Var, w: br.Var, n: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < n)
        with br.block("cell", recompute=True) as cell:
            a = bent(h, w)
        h.update(cell(a + h, w))
        i.update(i + 1)
        body.add_output(a)
    return br.sum(loop.final(h)) + br.sum(br.sum(loop(), axis=0) * w)


@case({**vectors("x", "w"), "s": RNG.normal(size=(4, 3))})
def written_gradient_in_a_loop_of_segments(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    @br.custom_gradient
    def summed(h: br.Var, rows: br.Var) -> tuple[br.Var, Callable[[br.Var], br.Var]]:
        """A sum over trips, whose gradient is a loop, too."""
        end, _ = br.scan(lambda c, row: (c + row * h, c), br.zeros_like(h), rows)

        def gradient(g: br.Var) -> tuple[br.Var, br.Var]:
            _, each = br.scan(lambda c, row: (c, row * g), g, rows)
            return br.sum(each, axis=0), br.zeros_like(rows) + g * h

        return end, gradient

    rnn = br.create_rnn(checkpoint_every=2)
    with rnn.stepnet() as net:
        h, row = net.add_memory(init=x), net.add_input(s)
        h.update(br.tanh(summed(h, s * row)) * w)
    return br.sum(rnn.final(h) * w)


@case(
    {"x": RNG.normal(size=(4, 2)), "w": RNG.normal(size=2)},
    {"x": np.zeros((0, 2)), "w": RNG.normal(size=2)},
    x=["rows", 2],
)
def written_gradient_in_a_row_wise_branch(x: br.Var, w: br.Var) -> br.Var:
    @br.custom_gradient
    def scaled(rows: br.Var, by: br.Var) -> tuple[br.Var, Callable[[br.Var], br.Var]]:
        """Rows times a vector that all share, whose cotangent is a sum over rows."""
        return rows * by, lambda g: (g * by, br.sum(g * rows, axis=0))

    choice = br.create_if_else(br.sum(x, axis=1) > 0.0)
    with choice.true_block() as t:
        t.add_output(br.tanh(scaled(t.add_input(x), w)))
    with choice.false_block() as f:
        rows = f.add_input(x)
        f.add_output(scaled(br.sin(rows), w * w))
    return br.sum(choice() * x)


@case()
def written_gradient_in_a_switch(x: br.Var, w: br.Var) -> br.Var:
    index = br.cast(br.sum(x) > 0.0, "int32")
    out = br.switch(index, [lambda: bent(x, w), lambda: bent(w, x) * x])
    (by_x,) = br.gradients(br.sum(out * w), x)
    return br.sum(by_x * out)
