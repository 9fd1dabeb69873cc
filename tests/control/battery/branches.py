"""Branches: scalar, indexed and row by row."""

from __future__ import annotations

import numpy as np

import braces as br
from tests.control.battery.cases import RNG, case, counted, trips, vectors
from tests.control.checking import Feeds, integer

# ---- branches --------------------------------------------------------------------------------


def _signed(factor: float) -> Feeds:
    return {"x": factor * np.array([0.3, 0.7, 0.5]), "w": np.array([1.1, -0.4, 0.8])}


@case(_signed(1.0), _signed(-1.0))
def scalar_branch(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        t.add_output(br.tanh(x * w), w)
    with choice.false_block() as f:
        f.add_output(x * x * w, x)
    a, b = choice()
    return br.sum(a * b)


@case(_signed(1.0), _signed(-1.0))
def one_branch_only(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        a, b = t.add_input(x), t.add_input(w)
        t.add_output(br.sin(a) * b, b * b)
    choice.pass_through(x, w)
    first, second = choice()
    return br.sum(first * second)


@case()
def branch_in_loop(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < 5)
        choice = br.create_if_else(i % 2 == 0)
        with choice.true_block() as t:
            t.add_output(br.tanh(h * w))
        with choice.false_block() as f:
            f.add_output(h * h * w + x)
        h.update(choice())
        i.update(i + 1)
    return br.sum(loop.final(h) ** 2)


@case(_signed(1.0), _signed(-1.0))
def loop_in_branch(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            body.set_condition(br.sum(h * h) < 30.0)
            h.update(h * 1.5 + w * w * 0.1)
        t.add_output(br.tanh(loop.final(h)))
    with choice.false_block() as f:
        with counted(2, w) as (other, k):
            k.update(br.sin(k * x))
        f.add_output(other.final(k))
    return br.sum(choice() * w)


@case({**_signed(1.0), "s": RNG.normal(size=(3, 3))}, {**_signed(-1.0), "s": np.zeros((3, 3))})
def rnn_in_while_in_branch(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        with counted(2, x) as (loop, h):
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                k = net.add_memory(init=h)
                k.update(br.tanh(k * w + net.add_input(s)))
                net.add_output(k.pre(1) * h)
            h.update(rnn.final(k) + br.mean(rnn(), axis=0))
        t.add_output(loop.final(h))
    with choice.false_block() as f:
        f.add_output(x * w)
    return br.sum(choice() ** 2)


def _switch(index: int) -> Feeds:
    return {**vectors("x", "w"), "k": trips(index)}


@case(_switch(0), _switch(7), _switch(3), _switch(-1))
def switch_by_index_with_default(x: br.Var, w: br.Var, k: br.Var) -> br.Var:
    chooser = br.create_switch(k)
    with chooser.case(3) as a:
        a.add_output(x * w)
    with chooser.case(0) as b:
        b.add_output(br.sin(x))
    with chooser.default() as c:
        c.add_output(w * w)
    return br.sum(chooser() ** 2)


@case(_switch(0), _switch(2), _switch(5))
def switch_takes_the_first_that_holds(x: br.Var, w: br.Var, k: br.Var) -> br.Var:
    chooser = br.create_switch()
    with chooser.case(k < 1) as a:
        a.add_output(x * w)
    with chooser.case(k < 3) as b:
        b.add_output(br.sin(x) * w)
    with chooser.case(k < 2) as never:
        never.add_output(x)
    with chooser.default() as c:
        c.add_output(br.exp(w))
    return br.sum(chooser() ** 2)


@case({**vectors("x", "w"), "s": RNG.normal(size=(3, 3))})
def switch_in_rnn_in_while(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < 3)
        rnn = br.create_rnn(reverse=True)
        with rnn.stepnet() as net:
            row, k = net.add_input(s), net.add_memory(init=h)
            chooser = br.create_switch(i % 3)
            with chooser.case(1) as a:
                a.add_output(br.tanh(k * row))
            with chooser.case(2) as b:
                b.add_output(k + row * w)
            with chooser.default() as c:
                c.add_output(br.sin(k) * x)
            k.update(chooser())
            net.add_output(br.sum(k.pre(1)))
        h.update(rnn.final(k) * br.mean(rnn()))
        i.update(i + 1)
    return br.sum(loop.final(h) ** 2)


@case(_signed(1.0), _signed(-1.0))
def one_parameter_in_condition_body_branch_and_after(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition((i < 6) & (br.sum(h * w) < 5.0))
        choice = br.create_if_else(br.sum(h) > w[0] * 0.1)
        with choice.true_block() as t:
            t.add_output(br.tanh(h * w) * 1.3)
        with choice.false_block() as f:
            f.add_output(h + w * w)
        h.update(choice() * w + x)
        i.update(i + 1)
    return br.sum(loop.final(h) * w) + br.sum(w**3)


@case(vectors("x", "w", "u"))
def input_that_only_some_trips_touch(x: br.Var, w: br.Var, u: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < 4)
        choice = br.create_if_else(i == 2)
        with choice.true_block() as t:
            t.add_output(br.sin(h * u))
        with choice.false_block() as f:
            f.add_output(br.tanh(h * w))
        h.update(choice())
        i.update(i + 1)
    return br.sum(loop.final(h))


def _rows(kind: str, rows: int = 5) -> Feeds:
    x = RNG.normal(size=(rows, 3))
    x[:, 0] = {"mixed": x[:, 0], "true": abs(x[:, 0]) + 0.1, "false": -abs(x[:, 0]) - 0.1}[kind]
    return {"x": x, "w": RNG.normal(size=(3, 3)) * 0.5}


@case(_rows("mixed"), _rows("true"), _rows("false"), _rows("mixed"), x=["b", 3])
def row_wise_branch(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        r = t.add_input(x)
        t.add_output(br.sqrt(br.abs(r[:, 0:1]) + 0.1) * (r @ w), br.sum(r, axis=1))
    with choice.false_block() as f:
        r = f.add_input(x)
        f.add_output(br.tanh(r @ w) - br.mean(r, axis=0) * 0.3, br.sin(r[:, 1]))
    wide, narrow = choice()
    return br.sum(wide**2) + br.sum(narrow * x[:, 2])


@case(_rows("mixed", 1), x=["b", 3])
def row_wise_branch_of_one_row(x: br.Var, w: br.Var) -> br.Var:
    return row_wise_branch(x, w)


@case(_rows("mixed"), _rows("true"), _rows("mixed", 0), x=["b", 3])
def row_wise_branch_of_one_side(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(br.tanh(t.add_input(x) @ w))
    choice.pass_through(x)
    return br.sum(choice() ** 2)


@case({**_rows("mixed"), "u": RNG.normal(size=(5, 3))}, x=["b", 3], u=["b", 3])
def input_that_only_some_rows_touch(x: br.Var, w: br.Var, u: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(br.sin(t.add_input(x)) * t.add_input(u) ** 2)
    with choice.false_block() as f:
        f.add_output(br.tanh(f.add_input(x) @ w))
    return br.sum(choice() ** 2)


@case(
    {"x": RNG.normal(size=(3, 4, 3)), "h0": RNG.normal(size=(4, 3)), "w": np.eye(3) * 0.7},
    x=["t", "b", 3],
    h0=["b", 3],
)
def row_wise_branch_in_rnn_with_while_inside(x: br.Var, h0: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row, h = net.add_input(x), net.add_memory(init=h0)
        choice = br.create_if_else(br.sum(row * h, axis=1) > 0.0)
        with choice.true_block() as t:
            t.add_output(br.tanh(t.add_input(h) @ w) * t.add_input(row))
        with choice.false_block() as f:
            mine = f.add_input(h)
            with counted(2, mine) as (loop, k):
                k.update(br.sin(k @ w) + k * 0.5)
            f.add_output(loop.final(k) + f.add_input(row))
        h.update(choice())
        net.add_output(h.pre(1) * 2.0)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h))


@case(_rows("mixed", 6), _rows("true", 6), x=["b", 3])
def row_wise_branch_in_row_wise_branch(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        r = t.add_input(x)
        inner = br.create_if_else(r[:, 1] > 0.0)
        with inner.true_block() as a:
            q = a.add_input(r)
            a.add_output(q * br.mean(q) + br.sum(q * q, axis=0))
        with inner.false_block() as b:
            b.add_output(b.add_input(r) * w[0])
        t.add_output(inner())
    with choice.false_block() as f:
        f.add_output(br.sin(f.add_input(x) @ w) * w[1])
    return br.sum(choice() ** 2)


@case(_rows("mixed", 6), _rows("false", 6), x=["b", 3])
def scalar_branch_and_switch_in_row_wise_branch(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        r = t.add_input(x)
        inner = br.create_if_else(br.sum(r) > 0.3)
        with inner.true_block() as a:
            a.add_output(r @ w)
        with inner.false_block() as b:
            b.add_output(br.sin(r))
        t.add_output(inner())
    with choice.false_block() as f:
        r = f.add_input(x)
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            k = net.add_memory(init=r)
            k.update(br.tanh(k @ w) + r * 0.3)
        f.add_output(rnn.final(k))
    return br.sum(choice() ** 2)


def _quadrant(x: br.Var) -> br.Var:
    """A number from 0 to 3 for each row."""
    return br.cast(x[:, 0] > 0.0, "int32") * 2 + br.cast(x[:, 1] > 0.0, "int32")


@case(_rows("mixed", 7), _rows("true"), _rows("mixed", 0), x=["b", 3])
def row_wise_switch(x: br.Var, w: br.Var) -> br.Var:
    switch = br.create_switch(_quadrant(x))
    with switch.case(3) as first:
        r = first.add_input(x)
        first.add_output(br.sqrt(r[:, 0:1]) * (r @ w), br.sum(r, axis=1))
    with switch.case(0) as second:
        r = second.add_input(x)
        second.add_output(br.tanh(r @ w) - br.mean(r, axis=0) * 0.3, br.sin(r[:, 1]))
    with switch.default() as others:
        r = others.add_input(x)
        others.add_output(br.einsum("bi,ci,ij->bj", r, r, w) * r, r[:, 2])
    wide, narrow = switch()
    return br.sum(wide**2) + br.sum(narrow * x[:, 2])


@case(
    {"x": RNG.normal(size=(3, 4, 3)), "h0": RNG.normal(size=(4, 3)), "w": np.eye(3) * 0.7},
    x=["t", "b", 3],
    h0=["b", 3],
)
def row_wise_switch_in_row_wise_switch_in_steps(x: br.Var, h0: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(lengths=br.cast(h0[:, 2] * 0.0, "int32") + 2)
    with rnn.stepnet() as net:
        row, h = net.add_input(x), net.add_memory(init=h0)
        switch = br.create_switch()
        with switch.case(br.sum(row * h, axis=1) > 0.0) as first:
            own = first.add_input(h)
            inner = br.create_switch(_quadrant(own) % 2)
            for number in range(2):
                with inner.case(number) as block:
                    block.add_output(br.tanh(block.add_input(own) @ w) * (number + 0.5))
            first.add_output(inner() * first.add_input(row))
        with switch.case(row[:, 1] > 0.0) as second:
            second.add_output(br.sin(second.add_input(h) @ w))
        switch.pass_through(row)
        h.update(switch())
        net.add_output(h.pre(1) * 2.0)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h))
