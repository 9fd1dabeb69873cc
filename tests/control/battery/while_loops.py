"""Loops with a condition."""

from __future__ import annotations

import numpy as np

import braces as br
from tests.control.battery.cases import case, counted, trips, vectors
from tests.control.checking import Feeds, constant, integer

# ---- while -----------------------------------------------------------------------------------


@case()
def swap_of_two_memories(x: br.Var, w: br.Var) -> br.Var:
    with counted(3, x, w) as (loop, p, q):
        p.update(q)
        q.update(br.sin(p.pre(1) * q) + p.pre(1))
    return br.sum(loop.final(p) * 2.0 + loop.final(q))


@case()
def memory_never_read(x: br.Var, w: br.Var) -> br.Var:
    with counted(3, x, w) as (loop, h, unread):
        h.update(br.tanh(h * w))
        unread.update(h.pre(1) * 3.0)
    return br.sum(loop.final(h) ** 2)


@case()
def memory_read_only_at_the_end(x: br.Var, w: br.Var) -> br.Var:
    with counted(3, x, w) as (loop, h, last):
        h.update(br.tanh(h * w))
        last.update(h.pre(1) * h.pre(1))
    return br.sum(loop.final(last) ** 2)


@case()
def memory_that_is_also_a_capture(x: br.Var, w: br.Var) -> br.Var:
    with counted(2, x) as (outer, h):
        with counted(2, h) as (inner, k):
            k.update(br.tanh(k * h + w))
        h.update(inner.final(k) * h)
    return br.sum(outer.final(h))


@case()
def two_loops_from_the_same_initial_variable(x: br.Var, w: br.Var) -> br.Var:
    ends = []
    for factor in (0.5, 1.5):
        with counted(3, x) as (loop, h):
            h.update(br.sin(h * w) * factor)
        ends.append(loop.final(h))
    return br.sum(ends[0] * ends[1])


@case()
def initial_variable_used_before_inside_and_after(x: br.Var, w: br.Var) -> br.Var:
    before = br.tanh(x) * w
    with counted(3, x) as (loop, h):
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
        y.update(i.pre(1) * i.pre(1) * y * y * 0.2)
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
    with counted(4, x) as (loop, h):
        h.update(br.tanh(h * w + x))
        loop.body.add_output(h.pre(1), br.sum(h.pre(1)) * w)
    rows, others = loop()
    return br.sum(rows**2) + br.sum(others * w)


@case()
def past_and_tuples_of_inits(x: br.Var, w: br.Var) -> br.Var:
    with counted(4, (x, w, x * w)) as (loop, h):
        h.update(br.sin(h + h.pre(2) * 0.5) * br.tanh(h.pre(3)))
    return br.sum(loop.final(h) * w)


@case()
def update_is_the_initial_value_or_another_memory(x: br.Var, w: br.Var) -> br.Var:
    with counted(3, x, w, x) as (loop, a, b, c):
        a.update(x)
        b.update(a.pre(1))
        c.update(c * b.pre(1) + a.pre(1))
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


# ---- rows of a while in a case ---------------------------------------------------------------


def _collected(x: br.Var, w: br.Var, n: br.Var) -> tuple[br.Var, br.Var]:
    """The rows of a while of `n` trips, and where it ends."""
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < n)
        h.update(br.tanh(h * w + x))
        i.update(i + 1)
        body.add_output(h.pre(1) * h.pre(1))
    return loop(), loop.final(h)


def _collecting(index: int, n: int) -> Feeds:
    return {**vectors("x", "w"), "k": trips(index), "n": trips(n)}


@case(_collecting(0, 3), _collecting(5, 3), _collecting(0, 0), _collecting(0, 1))
def rows_of_a_while_in_a_case(x: br.Var, w: br.Var, k: br.Var, n: br.Var) -> br.Var:
    chooser = br.create_switch(k)
    with chooser.case(0) as a:
        rows, end = _collected(x, w, n)
        a.add_output(br.sum(br.sin(rows), axis=0) * end)
    with chooser.default() as c:
        c.add_output(x * w)
    return br.sum(chooser() ** 2 * w)


@case(_collecting(1, 2), _collecting(0, 3), _collecting(1, 0), _collecting(0, 0))
def rows_of_a_while_on_both_sides(x: br.Var, w: br.Var, k: br.Var, n: br.Var) -> br.Var:
    choice = br.create_if_else(k < 1)
    with choice.true_block() as t:
        rows, _ = _collected(x, w, n)
        t.add_output(br.sum(br.sin(rows), axis=0))
    with choice.false_block() as f:
        rows, end = _collected(w, x, n + 1)
        f.add_output(br.sum(rows * rows, axis=0) + end)
    return br.sum(choice() ** 2 * w)


@case(_collecting(0, 3), _collecting(1, 3), _collecting(0, 9), _collecting(0, 0))
def rows_of_two_kinds_in_a_switch_in_a_branch_in_a_block(
    x: br.Var, w: br.Var, k: br.Var, n: br.Var
) -> br.Var:
    with br.block("outer"):
        choice = br.create_if_else(n < 9)
        with choice.true_block() as t:
            chooser = br.create_switch(k)
            with chooser.case(0) as a:
                with counted(3, x) as (loop, h):
                    h.update(br.tanh(h * w + x))
                    loop.body.add_output(h.pre(1) * h.pre(1), br.sum(h.pre(1)) * w)
                rows, others = loop()
                a.add_output(br.sum(rows * others, axis=0))
            with chooser.default() as c:
                c.add_output(x * w)
            t.add_output(chooser() * x)
        choice.pass_through(w)
        made = choice()
    return br.sum(made**2 * w)
