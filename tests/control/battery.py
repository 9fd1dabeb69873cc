"""The battery: small programs with the control flow that frameworks get wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from checking import Build, Feeds, constant, integer

import braces as br


@dataclass
class Case:
    """A program of the battery and what to feed, run after run."""

    build: Build
    feeds: Sequence[Feeds]
    shapes: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


CASES: dict[str, Case] = {}
RNG = np.random.default_rng(7)


def vectors(*names: str, size: int = 3, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Random vectors by name."""
    return {name: RNG.uniform(-scale, scale, size) for name in names}


def trips(n: int) -> np.ndarray:
    """A number of trips to feed."""
    return np.asarray(n, np.int32)


def case(*feeds: Feeds, **shapes: Sequence[Any]) -> Callable[[Build], Build]:
    """Add a program to the battery."""

    def add(build: Build) -> Build:
        CASES[build.__name__] = Case(build, feeds or [vectors("x", "w")], shapes)
        return build

    return add


def counting(body: Any, n: Any) -> None:
    """Let a while make `n` trips."""
    i = body.add_memory(init=integer(0))
    body.set_condition(i < n)
    i.update(i + 1)


# ---- while -----------------------------------------------------------------------------------


@case()
def swap_of_two_memories(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        p, q = body.add_memory(init=x), body.add_memory(init=w)
        counting(body, 3)
        p.update(q)
        q.update(br.sin(p * q) + p)
    return br.sum(loop.final(p) * 2.0 + loop.final(q))


@case()
def memory_never_read(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        h, unread = body.add_memory(init=x), body.add_memory(init=w)
        counting(body, 3)
        h.update(br.tanh(h * w))
        unread.update(h * 3.0)
    return br.sum(loop.final(h) ** 2)


@case()
def memory_read_only_at_the_end(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        h, last = body.add_memory(init=x), body.add_memory(init=w)
        counting(body, 3)
        h.update(br.tanh(h * w))
        last.update(h * h)
    return br.sum(loop.final(last) ** 2)


@case()
def memory_that_is_also_a_capture(x: br.Var, w: br.Var) -> br.Var:
    outer = br.create_while()
    with outer.block() as body:
        h = body.add_memory(init=x)
        counting(body, 2)
        inner = br.create_while()
        with inner.block() as nested:
            k = nested.add_memory(init=h)
            counting(nested, 2)
            k.update(br.tanh(k * h + w))
        h.update(inner.final(k) * h)
    return br.sum(outer.final(h))


@case()
def two_loops_from_the_same_initial_variable(x: br.Var, w: br.Var) -> br.Var:
    ends = []
    for factor in (0.5, 1.5):
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            counting(body, 3)
            h.update(br.sin(h * w) * factor)
        ends.append(loop.final(h))
    return br.sum(ends[0] * ends[1])


@case()
def initial_variable_used_before_inside_and_after(x: br.Var, w: br.Var) -> br.Var:
    before = br.tanh(x) * w
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=x)
        counting(body, 3)
        h.update(br.sin(h * before) + x * 0.5)
    return br.sum(loop.final(h) * x + before * x)


@case({"x": np.array(1.2)}, {"x": np.array(0.9)})
def square_overwritten_each_trip(x: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=constant(1.5))
        y = body.add_memory(init=x)
        body.set_condition(i < 6.0)
        i.update(i * i)
        y.update(i * i * y * y * 0.2)
    return loop.final(y) + loop.final(i)


@case(
    {"x": np.array([0.2, 0.3, 0.4]), "w": np.array([1.3, 1.1, 1.7])},
    {"x": np.array([9.0, 8.0, 7.0]), "w": np.array([1.3, 1.1, 1.7])},
    {"x": np.array([0.02, 0.03, 0.01]), "w": np.array([1.2, 1.1, 1.15])},
)
def count_from_the_data(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=x)
        body.set_condition(br.sum(h * h) < 4.0)
        h.update(h * w + br.sin(h) * 0.1)
    return br.sum(br.tanh(loop.final(h)) * w)


@case(
    {**vectors("x", "w"), "n": trips(3)},
    {**vectors("x", "w"), "n": trips(0)},
    {**vectors("x", "w"), "n": trips(1)},
)
def condition_depends_on_a_parameter_and_may_be_false_at_once(
    x: br.Var, w: br.Var, n: br.Var
) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition((i < n) & (br.sum(w * h) < 50.0))
        h.update(br.tanh(h * w) + w)
        i.update(i + 1)
    return br.sum(loop.final(h) * w * x)


@case()
def while_in_while_with_changing_inner_count(x: br.Var, w: br.Var) -> br.Var:
    outer = br.create_while()
    with outer.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < 4)
        inner = br.create_while()
        with inner.block() as nested:
            j, k = nested.add_memory(init=integer(0)), nested.add_memory(init=h)
            nested.set_condition(j < (i * 5) % 3)
            k.update(br.tanh(k * w) + h * 0.3)
            j.update(j + 1)
        h.update(inner.final(k) * w + x)
        i.update(i + 1)
    return br.sum(outer.final(h) ** 2)


@case()
def while_in_while_in_while_all_ragged(x: br.Var, w: br.Var) -> br.Var:
    first = br.create_while()
    with first.block() as a:
        i, h = a.add_memory(init=integer(0)), a.add_memory(init=x)
        a.set_condition(i < 3)
        second = br.create_while()
        with second.block() as b:
            j, k = b.add_memory(init=integer(0)), b.add_memory(init=h)
            b.set_condition(j < i)
            third = br.create_while()
            with third.block() as c:
                n, m = c.add_memory(init=integer(0)), c.add_memory(init=k)
                c.set_condition(n <= i - j)
                m.update(br.sin(m * w) + h * 0.2)
                n.update(n + 1)
            k.update(third.final(m) + k * x)
            j.update(j + 1)
        h.update(second.final(k) * 0.7)
        i.update(i + 1)
    return br.sum(first.final(h) * w)


@case()
def integers_and_bools_beside_floats(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        count = body.add_memory(init=br.constant([0, 1, 2], dtype="int64"))
        flag = body.add_memory(init=br.constant(True))
        h = body.add_memory(init=x)
        body.set_condition(br.sum(count) < 12)
        h.update(h * br.cast(count, "float64") * w * 0.3 + br.where(flag, x, w))
        flag.update(~flag)
        count.update(count + 1)
    return br.sum(loop.final(h) ** 2)


@case()
def rows_of_a_while(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=x)
        counting(body, 4)
        h.update(br.tanh(h * w + x))
        body.add_output(h, br.sum(h) * w)
    rows, others = loop()
    return br.sum(rows**2) + br.sum(others * w)


@case()
def past_and_tuples_of_inits(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=(x, w, x * w))
        counting(body, 4)
        h.update(br.sin(h + h.pre(2) * 0.5) * br.tanh(h.pre(3)))
    return br.sum(loop.final(h) * w)


@case()
def update_is_the_initial_value_or_another_memory(x: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        a, b, c = (body.add_memory(init=v) for v in (x, w, x))
        counting(body, 3)
        a.update(x)
        b.update(a)
        c.update(c * b + a)
    return br.sum(loop.final(a) * 2.0 + loop.final(b) * loop.final(c))


@case()
def same_value_into_two_memories_and_two_outputs(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(steps=3)
    with rnn.stepnet() as net:
        a, b = net.add_memory(init=x), net.add_memory(init=w)
        value = br.sin(a * b)
        a.update(value)
        b.update(value)
        net.add_output(value, value)
    one, other = rnn()
    return br.sum(one * other) + br.sum(rnn.final(a) * rnn.final(b))


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
        other = br.create_while()
        with other.block() as body:
            k = body.add_memory(init=w)
            counting(body, 2)
            k.update(br.sin(k * x))
        f.add_output(other.final(k))
    return br.sum(choice() * w)


@case({**_signed(1.0), "s": RNG.normal(size=(3, 3))}, {**_signed(-1.0), "s": np.zeros((3, 3))})
def rnn_in_while_in_branch(x: br.Var, w: br.Var, s: br.Var) -> br.Var:
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as t:
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            counting(body, 2)
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                k = net.add_memory(init=h)
                k.update(br.tanh(k * w + net.add_input(s)))
                net.add_output(k * h)
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
            net.add_output(br.sum(k))
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


@case(_rows("mixed"), _rows("true"), x=["b", 3])
def row_wise_branch_of_one_side(x: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(br.tanh(t.add_input(x) @ w))
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
            loop = br.create_while()
            with loop.block() as body:
                k = body.add_memory(init=mine)
                counting(body, 2)
                k.update(br.sin(k @ w) + k * 0.5)
            f.add_output(loop.final(k) + f.add_input(row))
        h.update(choice())
        net.add_output(h * 2.0)
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
        net.add_output(h * row)
    return br.sum(rnn() ** 2) + br.sum(rnn.final(h) * w[0])


@case(_series(4), x=["t", "b", 3])
def rnn_reversed_with_a_past(x: br.Var, w: br.Var) -> br.Var:
    rnn = br.create_rnn(reverse=True)
    with rnn.stepnet() as net:
        row = net.add_input(x)
        h = net.add_memory(init=(x[0], x[1] * 2.0))
        h.update(br.tanh(h.pre(3) @ w + row * h.pre(2)))
        net.add_output(h, axis=1)
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
        net.add_output(br.sum(h))
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
            deep.add_output(k * row[0] + br.mean(h))
        h.update(br.sin(h @ w + inner.final(k)) + br.mean(inner(), axis=0))
        net.add_output(h)
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
        net.add_output(h * row)
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
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=x)
        counting(body, 3)
        h.update(br.tanh(h * w) + br.stop_gradient(fixed) * 0.0)
    return br.sum(loop.final(h) ** 2)
