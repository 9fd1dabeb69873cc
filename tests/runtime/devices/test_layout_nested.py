"""Loops and branches in a row-wise branch: each device runs them for its own rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.sharded_models import ROWS, STEPS, collectives
from tests.support.sharded_rows import Branch, add_gradients, alike, by_mask, masked

pytestmark = pytest.mark.unoptimized


def dense(x: br.Var, name: str = "in") -> br.Var:
    """A layer of the case's own."""
    return br.tanh(br.fc(x, 8, name=name))


def which() -> br.Var:
    """A number that is the same for all rows."""
    return br.get_variable("which")


def repeated(rows: br.Var, step: Callable[[br.Var], br.Var]) -> br.Var:
    """Rows after as many trips as are fed."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        s = body.add_memory(init=rows)
        body.set_condition(i < which())
        s.update(step(s))
        i.update(i + 1)
    return loop.final(s)


def of_some(rows: br.Var, change: Callable[[br.Var], br.Var]) -> br.Var:
    """Rows, of which some are changed by a branch."""
    choice = br.create_if_else(rows[:, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(change(t.add_input(rows)))
    choice.pass_through(rows)
    return choice()


def looped(t: Any, h: br.Var) -> br.Var:
    """A loop of which the data says how often it runs."""
    return repeated(t.add_input(h), dense)


def stepped(t: Any, h: br.Var, lengths: bool = False) -> br.Var:
    """Steps along an axis of each row, which may end row by row."""
    rows = t.add_input(h)
    ends = br.cast(br.abs(rows[:, 0]) * 4.0, "int32") if lengths else None
    rnn = br.create_rnn(lengths=ends)
    with rnn.stepnet() as net:
        xt = net.add_input(
            rows[:, None, :] * br.constant([[1.0], [0.5], [-1.0]], "float64"), axis=1
        )
        s = net.add_memory(init=rows)
        s.update(dense(s, "again") + xt)
        net.add_output(br.sin(s.pre(1)))
    return rnn.final(s) + br.sum(rnn(), axis=0)


def ended(t: Any, h: br.Var) -> br.Var:
    """Steps that end row by row."""
    return stepped(t, h, lengths=True)


def switched(t: Any, h: br.Var) -> br.Var:
    """A branch of all rows."""
    rows, choice = t.add_input(h), br.create_switch(which())
    with choice.case(0) as case:
        case.add_output(dense(rows))
    with choice.case(1) as case:
        case.add_output(dense(rows, "other"))
    with choice.default() as case:
        case.add_output(rows)
    return choice()


def blocked(t: Any, h: br.Var) -> br.Var:
    """A plain block, which the gradient runs again."""
    rows = t.add_input(h)
    with br.block("layer", recompute=True):
        return dense(rows)


def halved(rows: br.Var) -> br.Var:
    """A branch of rows, by what they are."""
    choice = br.create_if_else(br.mean(rows, axis=1) > 0.1)
    with choice.true_block() as t:
        t.add_output(dense(t.add_input(rows)))
    with choice.false_block() as f:
        f.add_output(f.add_input(rows) * br.parameter("scale", [8], dtype="float64"))
    return choice()


def branched(t: Any, h: br.Var) -> br.Var:
    """A branch in a branch."""
    return halved(t.add_input(h))


def deep(t: Any, h: br.Var) -> br.Var:
    """A loop in a branch in a loop."""

    def step(rows: br.Var) -> br.Var:
        return of_some(rows, lambda some: repeated(some, halved)) + 0.1

    return repeated(t.add_input(h), step)


def drawn(t: Any, h: br.Var) -> br.Var:
    """Draws of rows in each trip."""
    return repeated(t.add_input(h), lambda rows: br.dropout(dense(rows), 0.5))


NESTED = [looped, stepped, ended, switched, blocked, branched, deep, drawn]


def in_parts(exe: br.Executor, program: br.Program) -> bool:
    """Return whether nothing was brought together but rows that are fetched."""
    return collectives(exe, program).get("all-gather", 0) <= 1


def mostly_thorough(branches: list[Branch], *cheap: Branch) -> list[Any]:
    """Branches, of which some are left to `make thorough`."""
    marks = {branch: () if branch in cheap else pytest.mark.thorough for branch in branches}
    return [pytest.param(branch, marks=mark) for branch, mark in marks.items()]


@pytest.mark.parametrize("branch", mostly_thorough(NESTED, looped, ended))
def test_each_device_runs_what_is_in_a_branch(branch: Branch, rng: np.random.Generator) -> None:
    program, wanted = by_mask(branch)
    exe = alike(program, wanted, masked(rng))
    assert in_parts(exe, program)


@pytest.mark.thorough
@pytest.mark.parametrize("branch", NESTED)
def test_gradients_of_gradients(branch: Branch, rng: np.random.Generator) -> None:
    program, wanted = by_mask(branch, orders=2)
    exe = alike(program, wanted, masked(rng)[2:])
    assert in_parts(exe, program)


@pytest.mark.thorough
@pytest.mark.parametrize("branch", NESTED)
def test_branches_are_interpreted(branch: Branch, rng: np.random.Generator) -> None:
    program, wanted = by_mask(branch)
    alike(program, wanted, masked(rng), "interpret")


# ---- steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [pytest.param(halved, marks=pytest.mark.thorough), lambda x: repeated(x, dense)]
)
def test_steps_that_end_may_loop_and_branch(
    step: Callable[[br.Var], br.Var], rng: np.random.Generator
) -> None:
    with br.Program() as program:
        x = br.data("x", ["batch", "time", 8], dtype="float64")
        br.data("which", [], dtype="int32")
        rnn = br.create_rnn(lengths=br.data("lengths", ["batch"], dtype="int32"))
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[8], batch_like=x, batch_axis=0)
            h.update(step(net.add_input(x, axis=1) + dense(h, "again")))
            net.add_output(h.pre(1))
        wanted = [br.mean(rnn(), axis=0)]
        add_gradients(program, wanted, 1)
    x, lengths = rng.normal(size=[ROWS, STEPS, 8]), np.arange(ROWS) % (STEPS + 1)
    feeds = [{"x": x, "lengths": ends, "which": 2} for ends in (lengths, lengths * 0)]
    assert in_parts(alike(program, wanted, feeds), program)


@pytest.mark.thorough
def test_steps_may_look_at_rows_that_do_not_lead(rng: np.random.Generator) -> None:
    with br.Program() as program:
        x = br.data("x", ["batch", "time", 8], dtype="float64")
        seen = br.data("seen", ["source", "batch", 8], dtype="float64")
        rnn = br.create_rnn(lengths=br.data("lengths", ["batch"], dtype="int32"))
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[8], batch_like=x, batch_axis=0)
            asked = dense(net.add_input(x, axis=1) + h)
            weights = br.softmax(br.einsum("bd,sbd->bs", asked, seen))
            h.update(dense(br.einsum("bs,sbd->bd", weights, seen), "again"))
            net.add_output(h.pre(1))
        wanted = [br.mean(rnn(), axis=0)]
        add_gradients(program, wanted, 1)
    x, seen = rng.normal(size=[ROWS, STEPS, 8]), rng.normal(size=[3, ROWS, 8])
    fed = {"x": x, "seen": seen, "lengths": np.arange(ROWS) % (STEPS + 1)}
    assert in_parts(alike(program, wanted, [fed]), program)


# ---- what must be computed for all rows together ---------------------------------------------


def decided(t: Any, h: br.Var) -> br.Var:
    """A loop that ends by what all rows are."""
    rows, loop = t.add_input(h), br.create_while()
    with loop.block() as body:
        s = body.add_memory(init=rows)
        body.set_condition(br.sum(br.abs(s)) > 5.0)
        s.update(dense(s) * 0.8)
    return loop.final(s)


def chosen_by_sum(t: Any, h: br.Var) -> br.Var:
    """A branch by a sum of all rows."""
    rows = t.add_input(h)
    return br.cond(br.sum(rows) > 0.0, lambda: dense(rows), lambda: rows * 2.0)


def with_sums(t: Any, h: br.Var) -> br.Var:
    """A loop that adds rows up and uses the sum."""
    rows, loop = t.add_input(h), br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        total = body.add_memory(init=br.zeros([8], "float64"))
        s = body.add_memory(init=rows)
        body.set_condition(i < which())
        s.update(br.tanh(s + total))
        total.update(total + br.sum(s.pre(1), axis=0))
        i.update(i + 1)
    return loop.final(s)


def after_sums(t: Any, h: br.Var) -> br.Var:
    """A branch of rows, beside a sum of those around it."""
    rows = t.add_input(h)
    total = br.sum(rows, axis=0)
    return of_some(rows, lambda some: some * total)


def among_rows(t: Any, h: br.Var) -> br.Var:
    """A branch of rows that reads all of those around it."""
    rows = t.add_input(h)
    return of_some(rows, lambda some: br.einsum("ri,sj->ri", some, rows))


def centred(t: Any, h: br.Var) -> br.Var:
    """A branch of rows in which they are told apart from their mean."""
    return of_some(t.add_input(h), lambda some: some - br.mean(some, axis=0))


MIXED = [decided, chosen_by_sum, with_sums, after_sums, among_rows, centred]


@pytest.mark.parametrize("branch", mostly_thorough(MIXED, with_sums))
def test_what_rows_have_in_common_is_common_to_all_devices(
    branch: Branch, rng: np.random.Generator
) -> None:
    program, wanted = by_mask(branch)
    exe = alike(program, wanted, masked(rng))
    assert not in_parts(exe, program)
