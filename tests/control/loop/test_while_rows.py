"""The rows of a while: few compilations, no run twice without need, and no padding anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.compile.executable import Executable
from braces.runtime.compile.list_capacity import FIRST_ROOM

pytestmark = pytest.mark.unoptimized

W = np.array([0.3, -0.5, 0.7], "float64")
Use = Callable[[br.Var, br.Var], br.Var]


def collected(w: br.Var, n: br.Var | None = None) -> br.Var:
    """One row for each of `n` trips."""
    n = br.data("n", [], dtype="int32") if n is None else n
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        s = body.add_memory(init=w)
        body.set_condition(i < n)
        s.update(br.tanh(s * 1.1) + 0.1 * w)
        i.update(i + 1)
        body.add_output(s.pre(1) * w)
    return loop()


def program(use: Use) -> tuple[br.Program, dict[str, br.Var]]:
    """Return the outputs, with gradients of both orders."""
    with br.Program() as prog:
        w = br.parameter("w", [3], dtype="float64")
        rows = collected(w)
        out = use(rows, w)
        fetch = {"rows": rows, "out": out}
        (first,) = br.gradients([br.sum(out * out)], [w])
        if first is not None:
            (second,) = br.gradients([br.sum(first * first)], [w])
            fetch |= {"first": first} | ({} if second is None else {"second": second})
    return prog, fetch


def scope_with_w() -> br.Scope:
    scope = br.Scope()
    scope.var("w").set(W)
    return scope


class Counts:
    """Return the numbers of compilations and of executions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compiled = self.called = 0
        compile_, transact = CompiledPlan._compile, CompiledPlan._transact

        def compiling(plan: CompiledPlan, *given: Any) -> Executable:
            self.compiled += 1
            return compile_(plan, *given)

        def calling(plan: CompiledPlan, *given: Any) -> Any:
            self.called += 1
            return transact(plan, *given)

        monkeypatch.setattr(CompiledPlan, "_compile", compiling)
        monkeypatch.setattr(CompiledPlan, "_transact", calling)

    def take(self) -> tuple[int, int]:
        """The counts since the last time."""
        found, self.compiled, self.called = (self.compiled, self.called), 0, 0
        return found


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


# ---- what follows from rows ------------------------------------------------------------------


def _loop_over(rows: br.Var, w: br.Var, reverse: bool = False) -> br.Var:
    rnn = br.create_rnn(reverse=reverse)
    with rnn.stepnet() as net:
        row = net.add_input(rows)
        h = net.add_memory(init=w)
        h.update(br.tanh(row + h))
        net.add_output(h.pre(1) * row)
    return br.sum(rnn()) + rnn.final(h)


def _branch(rows: br.Var, w: br.Var) -> br.Var:
    choice = br.create_if_else(rows[:, 0] > 0.12)
    with choice.true_block() as t:
        x = t.add_input(rows)
        t.add_output(br.log(x * x + 0.5) + br.mean(x, axis=0))
    with choice.false_block() as f:
        f.add_output(f.add_input(rows) * 0.5)
    return br.sum(choice(), axis=0) * w


def _another_while(rows: br.Var, w: br.Var) -> br.Var:
    loop = br.create_while()
    with loop.block() as body:
        s = body.add_memory(init=rows)
        k = body.add_memory(init=br.constant(0, dtype="int32"))
        body.set_condition(br.any(br.sum(br.abs(s)) > 0.5) & (k < 3))
        s.update(s * 0.5 + br.sum(s, axis=0) * w * 0.01)
        k.update(k + 1)
    return br.sum(br.sin(loop.final(s)), axis=0)


def _in_blocks(rows: br.Var, w: br.Var) -> br.Var:
    with br.block("outer"):
        more = collected(w * 0.5, br.size(rows.shape[0], "int32"))
        with br.block("inner", recompute=True):
            both = br.tanh(br.sum(more, axis=0) + br.mean(rows, axis=0))
        out = both * w
    return out


def _embedded(rows: br.Var, w: br.Var) -> br.Var:
    ids = br.cast(br.clip(br.abs(rows[:, 0]) * 6.0, 0.0, 4.0), "int32")
    table = br.reshape(w, [1, 3]) * br.reshape(br.arange(5, dtype="float64"), [5, 1])
    return br.sum(br.take(table, ids, axis=0) * rows, axis=0)


def _numbers(places: br.Var) -> br.Var:
    return br.reshape(br.cast(places, "float64"), [-1, 1])


ROUNDED: dict[str, Use] = {
    "itself": lambda rows, w: rows * w,
    "sum": lambda rows, w: br.sum(rows, axis=0),
    "sum of all": lambda rows, w: br.sum(rows * rows) * w,
    "mean": lambda rows, w: br.mean(br.exp(rows), axis=0),
    "product": lambda rows, w: br.prod(1.0 + rows * 0.1, axis=0),
    "norm": lambda rows, w: br.linalg.norm(rows + 1.0, axis=0),
    "matmul": lambda rows, w: br.matmul(br.permute_dims(rows), rows + 1.0),
    "gram": lambda rows, w: br.sum(br.matmul(rows, br.permute_dims(rows)) + 1.0),
    "layer": lambda rows, w: br.sum(br.tanh(br.matmul(rows + 1.0, br.diag(w))), axis=0),
    "softmax of each": lambda rows, w: br.sum(br.softmax(rows, axis=1) * w, axis=0),
    "reciprocal": lambda rows, w: br.sum(1.0 / (rows + 0.01), axis=0),
    "broadcast": lambda rows, w: br.sum(rows[:, 0:1] + w + br.ones_like(rows), axis=0),
    "logarithm": lambda rows, w: br.sum(br.log(br.abs(rows)), axis=0),
    "number": lambda rows, w: w * br.mean(br.ones_like(rows)) + br.sum(rows),
    "branch": _branch,
    "another while": _another_while,
    "embedded": _embedded,
    "in blocks": _in_blocks,
}
ROUNDED |= {
    "loop": _loop_over,
    "loop backwards": lambda rows, w: _loop_over(rows, w, reverse=True),
    "cumulative": lambda rows, w: br.sum(br.cumsum(rows, axis=0) ** 2, axis=0),
    "cumulative from the end": lambda rows, w: br.sum(
        br.cumsum(rows, axis=0, reverse=True) ** 2, axis=0
    ),
    "softmax": lambda rows, w: br.sum(br.softmax(rows, axis=0) * rows, axis=0),
    "largest": lambda rows, w: br.cast(br.argmax(rows, axis=0), "float64") * w,
    "flipped": lambda rows, w: br.sum(br.flip(rows, axis=0) * br.cumsum(rows, axis=0), axis=0),
    "rolled": lambda rows, w: br.sum(
        br.roll(rows, 2, axis=0) * br.cumsum(rows, axis=0), axis=0
    ),
    "numbered": lambda rows, w: br.sum(rows * _numbers(br.arange(rows.shape[0]))) * w,
    "numbered from the end": lambda rows, w: br.sum(
        rows * _numbers(br.arange(rows.shape[0] - 1, -1, -1)) ** 2, axis=0
    ),
    "numbered from one": lambda rows, w: br.sum(
        rows / _numbers(br.arange(1, rows.shape[0] + 1)), axis=0
    ),
    "last": lambda rows, w: rows[-1] * w,
    "first": lambda rows, w: rows[0] * w,
}
EXACT: dict[str, Use] = {
    "taken by number": lambda rows, w: br.sum(
        rows * br.take(rows, br.arange(rows.shape[0] - 1, -1, -1), axis=0), axis=0
    ),
    "every other number": lambda rows, w: (
        w * br.sum(br.arange(0, 2 * rows.shape[0], 2, dtype="float64"))
    ),
    "flat": lambda rows, w: br.sum(br.reshape(rows, [-1]) ** 2) * w,
    "all but the first": lambda rows, w: br.sum(rows[1:], axis=0),
    "deviation": lambda rows, w: br.std(br.concat([rows, br.reshape(w, [1, 3])], axis=0)) * w,
}


@pytest.mark.parametrize("use", [*ROUNDED, *EXACT])
def test_what_follows_from_rows_is_what_the_interpreter_says(use: str) -> None:
    prog, fetch = program((ROUNDED | EXACT)[use])
    compiler, interpreter = br.Executor(), br.Executor(mode="interpret")
    scope = scope_with_w()
    none = [] if use in ("largest", "last", "first") else [0]
    for n in (5, 1, *none, 3, *([FIRST_ROOM + 2] if use in ("sum", "loop") else [])):
        feed = {"n": np.int32(n)}
        with np.errstate(all="ignore"):
            got, want = (
                e.run(prog, scope, feed=feed, fetch=fetch) for e in (compiler, interpreter)
            )
        for name, value in want.items():
            np.testing.assert_allclose(
                got[name], value, rtol=1e-9, atol=1e-12, err_msg=f"{name}, {n} rows"
            )
            assert got[name].shape == value.shape
            assert got[name].base is None or got[name].base.nbytes <= 2 * value.nbytes + 64


@pytest.mark.parametrize("use", ROUNDED)
def test_one_compilation_is_enough_for_few_rows(use: str, counts: Counts) -> None:
    prog, fetch = program(ROUNDED[use])
    exe, scope = br.Executor(), scope_with_w()
    for n in (5, 60, 2):
        exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=fetch)
    assert counts.take() == (1, 3)


# ---- compilations and repeated runs ----------------------------------------------------------


def _sum_of_rows() -> tuple[br.Program, Any]:
    prog, fetch = program(lambda rows, w: br.sum(rows, axis=0))
    return prog, [fetch["rows"], fetch["first"]]


def test_many_numbers_of_rows_take_few_compilations(counts: Counts) -> None:
    prog, fetch = _sum_of_rows()
    exe, scope = br.Executor(), scope_with_w()

    def run_all() -> tuple[int, int]:
        for n in range(3, 60):
            rows, _ = exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=fetch)
            assert rows.shape == (n, 3)
        return counts.take()

    compiled, called = run_all()
    assert compiled <= 10
    assert called <= 57 + 5
    assert run_all() == (0, 57)


@pytest.mark.parametrize("use", ["sum", "cumulative", "flat"])
def test_an_alternating_number_of_rows_does_not_run_twice(use: str, counts: Counts) -> None:
    prog, fetch = program((ROUNDED | EXACT)[use])
    exe, scope = br.Executor(), scope_with_w()
    for n in [300, 301] * 4:
        exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=fetch)
    counts.take()
    for n in [300, 301] * 5:
        exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=fetch)
    assert counts.take() == (0, 10)


def test_no_rows_now_and_then_cost_a_short_run_more(counts: Counts) -> None:
    prog, fetch = _sum_of_rows()
    exe, scope = br.Executor(), scope_with_w()
    for n in [5, 0] * 4:
        exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=fetch)
    assert counts.take() == (2, 12)


def _from_a_branch(rows: br.Var, shift: int) -> br.Var:
    """Indices from what a branch gives, which is 0 in padding, and its reciprocal no index."""
    choice = br.create_if_else(rows[:, 0] > 0.0)
    with choice.true_block() as t:
        t.add_output(t.add_input(rows[:, 0]) * 0.0 + 1.0)
    with choice.false_block() as f:
        f.add_output(f.add_input(rows[:, 0]) * 0.0 + 0.5)
    ids = br.cast(1.0 / choice(), "int32") + shift
    return br.take(br.constant(np.arange(3.0)), ids, axis=0)


def test_a_failure_in_padding_is_none(mode: str) -> None:
    with br.Program() as prog:
        rows = collected(br.constant(W))
        right, wrong = br.sum(_from_a_branch(rows, 0)), _from_a_branch(rows, 2)
    exe, scope = br.Executor(mode=mode), br.Scope()
    for n in (4, 7, 4):
        assert exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=right) == n
        with pytest.raises(br.BracesError, match="take"):
            exe.run(prog, scope, feed={"n": np.int32(n)}, fetch=wrong)
    assert exe.run(prog, scope, feed={"n": np.int32(0)}, fetch=wrong).shape == (0,)


def test_padding_that_fails_is_not_tried_again(counts: Counts) -> None:
    with br.Program() as prog:
        right = br.sum(_from_a_branch(collected(br.constant(W)), 0))
    exe, scope = br.Executor(), br.Scope()
    exe.run(prog, scope, feed={"n": np.int32(4)}, fetch=right)
    assert counts.take() == (2, 2)
    for _ in range(3):
        assert exe.run(prog, scope, feed={"n": np.int32(4)}, fetch=right) == 4
    assert counts.take() == (0, 3)


def test_rows_that_become_a_parameter_are_exact(mode: str) -> None:
    with br.Program() as prog:
        total = br.parameter("total", [3], dtype="float64")
        prog.update("total", (total + br.sum(collected(br.constant(W)), axis=0)).name)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.var("total").set(np.zeros(3))
    for n in (3, 100, 0, 3):
        exe.run(prog, scope, feed={"n": np.int32(n)})
    want = br.Scope()
    want.var("total").set(np.zeros(3))
    other = br.Executor(mode="interpret")
    for n in (3, 100, 0, 3):
        other.run(prog, want, feed={"n": np.int32(n)})
    np.testing.assert_allclose(scope.var("total").value, want.var("total").value, rtol=1e-12)


# ---- sizes that nothing but an operator tells ------------------------------------------------


def doubling(x: br.Var, max_trips: int | None = None) -> br.Var:
    """Squares of a number that doubles until it is 1: one a trip."""
    loop = br.create_while(max_trips=max_trips)
    with loop.block() as body:
        h = body.add_memory(init=x)
        body.set_condition(h < 1.0)
        h.update(h * 2.0)
        body.add_output(h.pre(1) * h.pre(1))
    return loop()


@pytest.mark.parametrize("derive", ["gradient", "second", "in a block"])
def test_a_gradient_alone_knows_how_many_rows_there_are(derive: str, mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [], dtype="float64")
        if derive == "in a block":
            with br.block("doubling"):
                total = br.sum(doubling(x))
        else:
            total = br.sum(doubling(x))
        (slope,) = br.gradients([total], [x])
        if derive == "second":
            (slope,) = br.gradients([slope], [x])
    small = br.prune(prog, [slope])
    for one in (prog, small, br.parse(str(small))):
        for start, trips in ((0.3, 2), (0.1, 4), (2.0, 0)):
            got = br.Executor(mode=mode).run(one, br.Scope(), {"x": start}, slope.name)
            per_trip = 2.0 * np.sum(4.0 ** np.arange(trips))
            want = per_trip if derive == "second" else per_trip * start
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_loop_that_makes_too_many_trips_fails_whatever_comes_after_it(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        rows = doubling(x, max_trips=2)
        (moved,) = br.jvp([rows], [x], [br.sum(rows)])  # one more loop, with as many rows
    executor = br.Executor(mode=mode)
    for start in (0.6, 0.1, 0.3):
        if start == 0.1:
            with pytest.raises(br.TripLimitError):
                executor.run(prog, br.Scope(), {"x": start}, [rows, moved])
            continue
        found, pushed = executor.run(prog, br.Scope(), {"x": start}, [rows, moved])
        np.testing.assert_allclose(pushed, 2.0 * found / start * np.sum(found), rtol=1e-5)


@pytest.mark.parametrize("use", ["largest", "last", "first"])
def test_what_needs_a_row_fails_without_any(use: str, mode: str) -> None:
    with br.Program() as prog:
        out = ROUNDED[use](collected(br.constant(W)), br.constant(W))
    exe = br.Executor(mode)
    before, *_ = exe.run(prog, br.Scope(), {"n": np.int32(4)}, [out])
    with pytest.raises(br.BracesError):
        exe.run(prog, br.Scope(), {"n": np.int32(0)}, out)
    after, *_ = exe.run(prog, br.Scope(), {"n": np.int32(3)}, [out])
    assert before.shape == after.shape


def test_a_row_from_the_end_that_is_not_there_is_an_error(mode: str) -> None:
    with br.Program() as prog:
        out = collected(br.constant(W))[-3]
    exe = br.Executor(mode)
    for n in (3, 2, 5, 1):
        if n >= 3:
            assert exe.run(prog, br.Scope(), {"n": np.int32(n)}, out).shape == (3,)
        else:
            with pytest.raises(br.IndexRangeError):
                exe.run(prog, br.Scope(), {"n": np.int32(n)}, out)


def test_what_is_compiled_for_each_number_of_rows_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prog, fetch = program(EXACT["flat"])
    said = "not padded, so each size is compiled: reshape mixes batch elements"
    assert said in str(prog.explain(list(fetch.values())))
    with caplog.at_level("INFO", logger="braces"):
        exe = br.Executor()
        exe.run(prog, scope_with_w(), {"n": np.int32(2)}, fetch)
    (change,) = {one.change for one in exe.stats.listed if "exact because of op" in one.change}
    assert re.search(r"exact because of op `reshape_\d` \(reshape\).*, is 2, was 1", change)
    (record,) = (one for one in caplog.records if "not padded" in one.getMessage())
    assert said in record.getMessage()
    prog, fetch = program(ROUNDED["cumulative"])
    assert "not padded" not in str(prog.explain(list(fetch.values())))


# ---- sizes that an operator needs ------------------------------------------------------------


def _largest_two(rows: br.Var) -> br.Var:
    return br.sum(br.topk(rows[:, 0], 2)[0])


def _in_a_branch(rows: br.Var) -> br.Var:
    return br.cond(br.sum(rows) > 1e6, lambda: _largest_two(rows), lambda: br.sum(rows))


def _in_a_loop(rows: br.Var) -> br.Var:
    def step(total: br.Var, row: br.Var) -> tuple[br.Var, br.Var]:
        total = total + _largest_two(rows) * row[0]
        return total, total

    return br.scan(step, br.constant(0.0, dtype="float64"), rows)[0]


@pytest.mark.parametrize("use", [_largest_two, _in_a_branch, _in_a_loop])
def test_what_needs_two_rows_runs_as_soon_as_there_are(use: Any, mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3], dtype="float64")
        out = use(collected(w))
        prog.update("w", (w + out).name)
    exe, scope, other = br.Executor(mode=mode), scope_with_w(), scope_with_w()
    interpreter = br.Executor(mode="interpret")
    exe.compile(prog, scope, {"n": np.int32(5)}, out)
    for n in (3, 1, 5, 2):
        if n == 1 and use is not _in_a_branch:
            with pytest.raises(
                br.ShapeError, match="topk: k=2 is out of range for an axis of size 1"
            ) as caught:
                exe.run(prog, scope, {"n": np.int32(n)}, out)
            assert "built at" in str(caught.value)
        else:
            got = exe.run(prog, scope, {"n": np.int32(n)}, out)
            want = interpreter.run(prog, other, {"n": np.int32(n)}, out)
            np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(scope.var("w").value, other.var("w").value, rtol=1e-12)
