"""A bare memory means its old value until its update, and nothing from then on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from tests.support.running import run

Reading = Callable[[Any, Any, Any], Any]
AMBIGUOUS = r"after its update(?s:.*)h\.pre\(1\)(?s:.*)h\.next"
HERE = r"test_bare_memories\.py:\d+"


# ---- what each spelling means ----------------------------------------------------------------


def test_next_is_the_new_value_and_pre_the_old_one(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            total = net.add_memory(shape=[])
            total.update(total + net.add_input(x))
            net.add_output(total.next, total.pre(1), total.pre(2))
        fetch = [*rnn(), rnn.final(total)]
    new, old, older, last = run(mode, prog, fetch, x=[1.0, 2.0, 3.0])
    assert (new.tolist(), old.tolist()) == ([1.0, 3.0, 6.0], [0.0, 1.0, 3.0])
    assert (older.tolist(), last) == ([0.0, 0.0, 1.0], 6.0)
    empty = run(mode, prog, fetch, x=np.zeros(0, "f4"))
    assert [part.size for part in empty] == [0, 0, 0, 1]


def test_a_while_collects_the_value_before_or_after_the_trip(mode: str) -> None:
    with br.Program() as prog:
        loop = br.create_while()
        with loop.block() as body:
            a, b = (body.add_memory(init=br.constant(float(n))) for n in (0, 1))
            body.set_condition(b < 8.0)
            a.update(b)
            b.update(a.pre(1) + b)  # Fibonacci: all memories move at once
            body.add_output(a.pre(1), a.next, b.next)
        fetch = [*loop(), loop.final(a)]
    before, after, following, last = run(mode, prog, fetch)
    assert before.tolist() == [0.0, 1.0, 1.0, 2.0, 3.0]
    assert after.tolist() == [1.0, 1.0, 2.0, 3.0, 5.0]
    assert following.tolist() == [1.0, 2.0, 3.0, 5.0, 8.0]
    assert last == 5.0


def test_a_condition_after_the_updates_reads_what_memories_hold_before_the_trip(
    mode: str,
) -> None:
    counts = list[Any]()
    with br.Program() as prog:
        for late in (False, True):
            loop = br.create_while()
            with loop.block() as body:
                i = body.add_memory(init=br.constant(0))
                if not late:
                    body.set_condition(i < 3)
                i.update(i + 1)
                if late:
                    body.set_condition(i.pre(1) < 3)
            counts.append(loop.final(i))
    assert run(mode, prog, counts) == [3, 3]


def test_stop_when_can_read_the_new_value(mode: str) -> None:
    with br.Program() as prog:
        ends = list[Any]()
        for late in (False, True):
            rnn = br.create_rnn(steps=10)
            with rnn.stepnet() as net:
                h = net.add_memory(shape=[])
                h.update(h + 1.0)
                net.stop_when((h.pre(1) if late else h.next) >= 3.0)
            ends.append(rnn.final(h))
    assert run(mode, prog, ends) == [3.0, 4.0]


def test_gradients_flow_through_next(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t"], dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.constant(1.0, "float64"))
            h.update(h * net.add_input(x))
            net.add_output(h.next)
        loss = br.sum(rnn())
        (slope,) = br.gradients([loss], [x])
        (curve,) = br.gradients([br.sum(slope * slope)], [x])
    x = np.array([2.0, 3.0, 5.0])
    found, bent = run(mode, prog, [slope, curve], x=x)

    def slope_at(x: Any) -> Any:
        a, b, c = x
        return np.array([1 + b + b * c, a + a * c, a * b])

    np.testing.assert_allclose(found, slope_at(x))
    moved = [x + step for step in 1e-5 * np.eye(3)]
    back = [x - step for step in 1e-5 * np.eye(3)]
    ends = [
        (np.sum(slope_at(p) ** 2) - np.sum(slope_at(q) ** 2)) / 2e-5
        for p, q in zip(moved, back, strict=True)
    ]
    np.testing.assert_allclose(bent, ends, rtol=1e-6)


def test_a_swap_in_functions_needs_no_other_spelling(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t"])
        ends, rows = br.scan(lambda c, row: ((c[1], c[0] + row), c), (0.0, 1.0), x)
    a, b, first, second = run(mode, prog, [*ends, *rows], x=[1.0, 2.0])
    assert (a, b) == (1.0, 3.0)
    assert (first.tolist(), second.tolist()) == ([0.0, 1.0], [1.0, 1.0])


# ---- what is refused -------------------------------------------------------------------------


def in_branch(add: Callable[[Any, Any], Any]) -> Reading:
    def read(net: Any, h: Any, x: Any) -> None:
        choice = br.create_if_else(br.any(x > 0.0))
        with choice.true_block() as block:
            block.add_output(add(block, h))
        choice.pass_through(x)
        choice()

    return read


def in_rnn(add: Callable[[Any, Any], Any]) -> Reading:
    def read(net: Any, h: Any, x: Any) -> None:
        with br.create_rnn(steps=3).stepnet() as inner:
            inner.add_output(add(inner, h))

    return read


def in_plain_block(net: Any, h: Any, x: Any) -> None:
    with br.block("inner"):
        br.tanh(h)


def in_switch(net: Any, h: Any, x: Any) -> None:
    with br.create_switch().case(br.any(x > 0.0)) as case:
        case.add_output(h)


def in_pass_through(net: Any, h: Any, x: Any) -> None:
    choice = br.create_if_else(br.any(x > 0.0))
    choice.pass_through(h)


READINGS: dict[str, Reading] = {
    "operator": lambda net, h, x: h + x,
    "operator from the right": lambda net, h, x: 1.0 - h,
    "comparison": lambda net, h, x: h < x,
    "sign": lambda net, h, x: -h,
    "index": lambda net, h, x: h[0],
    "index by it": lambda net, h, x: x[br.cast(h, "int32")],
    "method": lambda net, h, x: h.sum(),
    "transpose": lambda net, h, x: h.T,
    "function": lambda net, h, x: br.tanh(h),
    "function of several": lambda net, h, x: br.concat([x, h]),
    "composed function": lambda net, h, x: br.var(h),
    "function of NumPy": lambda net, h, x: np.tanh(h),
    "array beside it": lambda net, h, x: np.ones(3, "f4") * h,
    "layer": lambda net, h, x: br.fc(h, 3),
    "loss": lambda net, h, x: br.squared_error(h, x, reduction="none"),
    "output": lambda net, h, x: net.add_output(h),
    "update of another": lambda net, h, x: net.add_memory(init=br.zeros([3])).update(h),
    "rows of another": lambda net, h, x: br.create_rnn(lengths=h),
    "capture of a branch": in_branch(lambda block, h: h * 2.0),
    "input of a branch": in_branch(lambda block, h: block.add_input(h)),
    "output of a branch": in_branch(lambda block, h: h),
    "condition of a branch": lambda net, h, x: br.create_if_else(h),
    "what passes through": in_pass_through,
    "switch": in_switch,
    "index of a switch": lambda net, h, x: br.create_switch(h),
    "capture of a loop": in_rnn(lambda net, h: h * 2.0),
    "input of a loop": in_rnn(lambda net, h: net.add_input(h)),
    "init of a loop": in_rnn(lambda net, h: net.add_memory(init=h)),
    "plain block": in_plain_block,
    "cond": lambda net, h, x: br.cond(br.any(x > 0.0), lambda: h, lambda: x),
    "operand of cond": lambda net, h, x: br.cond(True, lambda a: a, lambda a: x, h),
    "switch function": lambda net, h, x: br.switch(0, [lambda: x, lambda: h]),
    "init of scan": lambda net, h, x: br.scan(lambda c, _: (c, None), h, length=2),
    "input of scan": lambda net, h, x: br.scan(lambda c, row: (c, row), x, h),
    "capture of scan": lambda net, h, x: br.scan(lambda c, _: (c, h), x, length=2),
    "init of while_loop": lambda net, h, x: br.while_loop(lambda c: False, lambda c: c, h),
    "capture of while_loop": lambda net, h, x: br.while_loop(
        lambda c: br.any(h > c), lambda c: c, x
    ),
    "input of a gradient": lambda net, h, x: br.gradients([br.sum(x)], [h]),
    "target of a gradient": lambda net, h, x: br.gradients([h], [x]),
    "tangent": lambda net, h, x: br.jvp([x * 2.0], [x], [h]),
    "shared function": lambda net, h, x: br.shared(br.tanh, name="f")(h),
}  # fmt: skip


IN_RNN: dict[str, Reading] = {
    "condition to stop": lambda net, h, x: net.stop_when(h),
    "what tells a batch": lambda net, h, x: net.add_memory(shape=[2], batch_like=h),
}


def a_loop(kind: str) -> Any:
    return br.create_rnn(steps=2).stepnet() if kind == "rnn" else br.create_while().block()


def build(kind: str, read: Reading) -> None:
    x = br.get_variable("x")
    with a_loop(kind) as block:
        h = block.add_memory(init=br.zeros([3]))
        h.update(h + 1.0)
        read(block, h, x)


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        *(pytest.param("rnn", read, id=f"rnn-{name}") for name, read in READINGS.items()),
        *(pytest.param("rnn", read, id=f"rnn-{name}") for name, read in IN_RNN.items()),
        *(pytest.param("while", read, id=f"while-{name}") for name, read in READINGS.items()),
        pytest.param("while", lambda body, h, x: body.set_condition(h), id="while-condition"),
    ],
)
def test_a_bare_memory_after_its_update_is_refused_wherever_a_variable_stands(
    kind: str, read: Reading
) -> None:
    with br.Program() as prog:
        br.data("x", [3])
    before = prog.definition
    with prog, pytest.raises(ProgramError, match=AMBIGUOUS) as caught:
        build(kind, read)
    assert caught.match(HERE)
    assert prog.definition == before


@pytest.mark.parametrize("kind", ["rnn", "while"])
def test_the_error_of_next_before_the_update_has_a_fix(kind: str) -> None:
    def read() -> None:
        with br.Program(), a_loop(kind) as block:
            block.add_memory(init=br.zeros([3])).next  # noqa: B018

    with pytest.raises(
        ProgramError, match=r"no next value before its update(?s:.*)pre\(1\)"
    ) as caught:
        read()
    assert caught.match(HERE)


def test_the_error_of_a_memory_after_the_block_suggests_its_final_value() -> None:
    with br.Program():
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3])
            h.update(h + 1.0)
        assert str(rnn.final(h).type) == "f32[3]"
        with pytest.raises(ProgramError, match=r"block that is closed(?s:.*)final\("):
            br.tanh(h)


def test_what_was_read_before_the_update_keeps_its_meaning(mode: str) -> None:
    with br.Program() as prog:
        rnn = br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[])
            choice = br.create_if_else(h > 1.0)
            choice.pass_through(h)
            with choice.true_block() as block:
                block.add_output(h * 10.0)
            net.add_output(h)
            h.update(h + 1.0)
            net.add_output(choice())
        fetch = list(rnn())
    rows, chosen = run(mode, prog, fetch)
    assert (rows.tolist(), chosen.tolist()) == ([0.0, 1.0, 2.0], [0.0, 1.0, 20.0])


def test_an_update_that_is_undone_is_forgotten(mode: str) -> None:
    with br.Program() as prog:
        rnn = br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[])
            with contextlib.suppress(ZeroDivisionError), br.block("tried"):
                h.update(h + 5.0)
                raise ZeroDivisionError
            h.update(h + 1.0)
        fetch = rnn.final(h)
    assert run(mode, prog, fetch) == 3.0
