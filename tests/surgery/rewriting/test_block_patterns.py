"""Patterns with loops, branches, switches and plain blocks: bodies compared by structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
X = np.random.default_rng(0).normal(size=(5, 3, 4)).astype("f")


def folded(step: Callable[[Any, Any], Any], start: Any, xs: Any, **options: Any) -> Any:
    return br.scan(lambda h, row: (step(h, row), None), start, xs, **options)[0]


def made(build: Callable[[Any], Any], shape: Any = (5, "b", 4)) -> br.Program:
    with br.Program() as prog:
        prog.give(br.identity(build(br.data("x", list(shape))), name="out").name)
    return prog


def value(prog: br.Program, mode: str) -> Any:
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    return exe.run(prog, scope, {"x": X}, "out")


def types(prog: br.Program) -> list[str]:
    return [op.type for op in prog.block(0).ops if op.inputs]


# ---- each construct, written twice, and its replacement without a block --------------------


def scanned(start: Any, xs: Any) -> Any:
    return br.scan(lambda h, row: (0.5 * h + row, row), start, xs)[0]


def stepped(start: Any, xs: Any) -> Any:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        h = net.add_memory(init=start)
        row = net.add_input(xs)
        h.update(br.add(row, h.pre(1) * 0.5, name="next"))
        net.add_output(row)
    return rnn.final(h)


def weighted(start: Any, xs: Any) -> Any:
    total = start * 0.5 ** xs.shape[0]
    powers = br.constant(np.array([0.5**i for i in range(xs.shape[0])][::-1], "f"))
    return total + br.sum(xs * br.reshape(powers, [-1] + [1] * (xs.ndim - 1)), axis=0)


def halved(x: Any) -> Any:
    return br.while_loop(lambda h: br.sum(h * h) > 1.0, lambda h: h * 0.5, x)


def halving(x: Any) -> Any:
    loop = br.create_while()
    with loop.block() as body:
        h = body.add_memory(init=x)
        body.set_condition(br.sum(h * h) > 1.0)
        h.update(br.multiply(0.5, h, name="less"))
    return loop.final(h)


def chosen(x: Any) -> Any:
    return br.cond(br.sum(x) > 0.0, lambda: br.tanh(x), lambda: -x)


def rowwise(x: Any) -> Any:
    choice = br.create_if_else(br.sum(x, axis=1) > 0.0)
    with choice.true_block() as case:
        case.add_output(br.tanh(case.add_input(x)))
    with choice.false_block() as case:
        case.add_output(-case.add_input(x))
    return choice()


def selected(x: Any) -> Any:
    positive = br.sum(x, axis=1, keepdims=True) > 0.0
    return br.where(positive, br.tanh(x), -x)


def blocked(x: Any) -> Any:
    with br.block("inner"):
        h = br.exp(x)
        y = h / (1.0 + h)
    return y


def test_a_scan_matches_an_rnn_of_the_same_body(mode: str) -> None:
    for build in (scanned, stepped):
        prog = made(lambda x, build=build: br.tanh(build(x[0] * 0.0, x), name="end"))
        for pattern in (scanned, stepped):
            new = prog.rewrite(pattern, weighted)
            assert len(new.report) == 1
            assert "loop" not in types(new)
            assert str(br.parse(str(new))) == str(new)
            np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-5)


def test_a_while_matches_with_its_condition(mode: str) -> None:
    prog = made(halving)
    new = prog.rewrite(halved, lambda x: halving(x) * 1.0)
    assert len(new.report) == 1
    np.testing.assert_allclose(value(new, mode), value(prog, mode))

    def other(x: Any) -> Any:
        return br.while_loop(lambda h: br.sum(h * h) > 2.0, lambda h: h * 0.5, x)

    report = prog.rewrite(other, lambda x: x).report
    assert report.paths == ()
    assert "`constant_" in str(report)
    assert "has value=1.0, not 2.0" in str(report)


def test_branches_and_row_wise_branches_match(mode: str) -> None:
    prog = made(lambda x: chosen(x) + br.exp(rowwise(br.sin(x[0]))))
    new = prog.rewrite(rowwise, selected)
    assert len(new.report) == 1
    assert "partition" not in types(new)
    np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-5)
    again = new.rewrite(
        chosen, lambda x: br.cond(br.sum(x) > 0.0, lambda: br.tanh(x), lambda: -x)
    )
    assert len(again.report) == 1
    np.testing.assert_allclose(value(again, mode), value(prog, mode), rtol=1e-5)
    swapped = prog.rewrite(
        lambda x: br.cond(br.sum(x) > 0.0, lambda: -x, lambda: br.tanh(x)), lambda x: x
    )
    assert swapped.report.paths == ()


def test_a_row_wise_branch_matches_inside_of_another_and_in_a_loop(mode: str) -> None:
    def nested(x: Any) -> Any:
        choice = br.create_if_else(br.max(x, axis=1) > 0.3)
        with choice.true_block() as case:
            case.add_output(rowwise(case.add_input(x)) * 2.0)
        with choice.false_block() as case:
            case.add_output(case.add_input(x))
        return choice()

    prog = made(lambda x: folded(lambda h, row: nested(br.sin(h + row)), x[0], x))
    new = prog.rewrite(rowwise, selected)
    assert len(new.report) == 1
    assert new.report.paths[0].startswith("loop_0/body/partition_")
    np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-4)
    whole = prog.rewrite(nested, lambda x: br.where(br.max(x, axis=1, keepdims=True) > 0.3,
                                                    selected(x) * 2.0, x))  # fmt: skip
    assert len(whole.report) == 1
    np.testing.assert_allclose(value(whole, mode), value(prog, mode), rtol=1e-4)


def test_switches_and_plain_blocks_match(mode: str) -> None:
    def switched(index: Any, x: Any) -> Any:
        switch = br.create_switch(index)
        with switch.case(0) as case:
            case.add_output(br.sin(x))
        with switch.case(3) as case:
            case.add_output(br.cos(x))
        with switch.default() as case:
            case.add_output(x)
        return switch()

    prog = made(lambda x: switched(br.cast(br.sum(x) > 0.0, "int32") * 3, blocked(x)))
    new = prog.rewrite(blocked, br.sigmoid)
    assert len(new.report) == 1
    assert "block" not in types(new)
    np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-5)
    new = prog.rewrite(switched, lambda i, x: switched(i, x) * 1.0)
    assert len(new.report) == 1
    np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-5)


def test_loops_in_loops_match_with_captured_values(mode: str) -> None:
    def attend(q: Any, keys: Any, w: Any) -> Any:
        def outer(h: Any, key: Any) -> Any:
            inner = folded(lambda g, row: br.tanh(g @ w + row), h, keys)
            return br.sin(inner + key)

        return folded(outer, q, keys)

    def build(x: Any) -> Any:
        w = br.parameter("w", [4, 4], br.init.normal(0.3))
        return attend(x[0], x, w)

    prog = made(build)
    new = prog.rewrite(attend, lambda q, keys, w: attend(q, keys, w + 0.0))
    assert len(new.report) == 1
    assert {"w"} == {p.name for p in new.parameters}
    np.testing.assert_allclose(value(new, mode), value(prog, mode), rtol=1e-5)
    inner = prog.rewrite(
        lambda g, xs, w: folded(lambda g, row: br.tanh(g @ w + row), g, xs),
        lambda g, xs, w: folded(lambda g, row: br.tanh(row + g @ w), g, xs),
    )
    assert len(inner.report) == 1
    assert inner.report.paths[0].startswith("loop_1/body/")


def test_operators_that_nothing_reads_do_not_count() -> None:
    def wordy(start: Any, xs: Any) -> Any:
        def body(h: Any, row: Any) -> Any:
            br.exp(h)
            return row + h * 0.5, row

        return br.scan(body, start, xs)[0]

    prog = made(lambda x: wordy(x[0], x))
    assert len(prog.rewrite(scanned, weighted).report) == 1


def test_wildcards_and_alternatives_in_a_block() -> None:
    either = br.any_of(br.tanh, br.sigmoid)

    def cell(h: Any, xs: Any, *, axis: int) -> Any:
        return folded(lambda h, row: br.softmax(either(h), axis=axis) + row, h, xs)

    def plain(h: Any, xs: Any, *, axis: int, match: Any) -> Any:
        found.append((axis, sorted(op.type for op in match.ops.values())))
        return folded(lambda h, row: h + row, h, xs)

    found: list[Any] = []
    prog = made(
        lambda x: folded(
            lambda h, row: br.softmax(br.sigmoid(h), axis=1) + row,
            folded(lambda h, row: br.softmax(br.tanh(h), axis=0) + row, x[0], x),
            x,
        )
    )
    assert len(prog.rewrite(cell, plain).report) == 2
    assert found == [(0, ["loop"]), (1, ["loop"])]


def test_differences_within_blocks_are_near_misses() -> None:
    prog = made(lambda x: scanned(x[0], x))

    def tanh(start: Any, xs: Any) -> Any:
        return br.scan(lambda h, row: (0.5 * h + br.tanh(row), row), start, xs)[0]

    def captured(start: Any, xs: Any, y: Any) -> Any:
        return br.scan(lambda h, row: (0.5 * h + y, row), start, xs)[0]

    def reversed_(start: Any, xs: Any) -> Any:
        return br.scan(lambda h, row: (0.5 * h + row, row), start, xs, reverse=True)[0]

    reasons = {
        tanh: "is not computed by `tanh`: it is an input",
        captured: "inside of a block of the match, not an input of it",
        reversed_: "has reverse=False, not True",
    }
    for pattern, reason in reasons.items():
        report = prog.rewrite(pattern, lambda *wild: wild[0]).report
        assert report.paths == ()
        assert reason in str(report)
    assert prog.rewrite(halved, lambda x: x).report.paths == ()
    longer = made(lambda x: folded(lambda h, row: h + row, (x[0]), x))
    assert longer.rewrite(lambda h, w: br.scan(lambda g, r: (g + r, g), h, w)[0], weighted
                          ).report.paths == ()  # fmt: skip


def test_a_value_computed_before_the_loop_is_not_one_within() -> None:
    def outside(start: Any, xs: Any) -> Any:
        scale = br.exp(start)
        return folded(lambda h, row: h * scale + row, start, xs)

    def within(start: Any, xs: Any) -> Any:
        return folded(lambda h, row: h * br.exp(start) + row, start, xs)

    for left, right in ((outside, within), (within, outside)):
        report = made(lambda x, left=left: left(x[0], x)).rewrite(right, lambda h, xs: h).report
        assert report.paths == ()
        assert "inside a block" in str(report) or "do not cross blocks" in str(report)
    for build in (outside, within):
        prog = made(lambda x, build=build: build(x[0], x))
        assert len(prog.rewrite(build, lambda h, xs: h).report) == 1


def test_a_layer_in_a_pattern_of_a_loop_brings_its_parameters(mode: str) -> None:
    def gated(start: f32[b, 4], xs: f32[t, b, 4]) -> Any:  # noqa: F821
        def body(h: Any, row: Any) -> Any:
            return br.tanh(br.fc(br.concat([h, row], axis=-1), 4))

        return folded(body, start, xs)

    prog = made(lambda x: gated(x[0] * 0.0, x))

    def dropped(h: Any, row: Any) -> Any:
        return br.dropout(br.fc(h + row, 4, name="new"), 0.5)

    new = prog.rewrite(gated, lambda h, xs: br.batch_norm(folded(dropped, h, xs), name="norm"))
    assert len(new.report) == 1
    assert {"norm.mean", "norm.var", "random_state"} <= set(new.updates)
    assert np.isfinite(value(new, mode)).all()
