"""Runs: their inputs, their committed values, and the state after a failure."""

from __future__ import annotations

import contextlib
import gc
import signal
import weakref
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.lower.interpret import kernels as single
from tests.support.call_counts import calls_of

ONES = np.ones((2, 3), "float32")


def counter() -> tuple[br.Program, br.Var, br.Var]:
    """A program that adds 1 to a state each run, and indexes a table."""
    with br.Program() as prog:
        i = br.data("i", [], dtype="int64")
        n = br.state("n", [], init=0.0)
        table = br.parameter("table", [4], init=np.arange(4.0))
        picked = br.take(table, i, axis=0)
        prog.update("n", (n + 1.0).name)
    return prog, n, picked


def started(prog: br.Program, mode: str) -> tuple[br.Executor, br.Scope]:
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    return exe, scope


def test_a_fetched_persistable_is_its_value_at_the_start_of_the_run(mode: str) -> None:
    prog, n, _ = counter()
    exe, scope = started(prog, mode)
    assert [float(exe.run(prog, scope, fetch=n)) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert float(scope.var("n").value) == 3.0


def test_a_failed_run_leaves_the_scope_as_it_was(mode: str) -> None:
    prog, _, picked = counter()
    exe, scope = started(prog, mode)
    exe.run(prog, scope, feed={"i": 1}, fetch=picked)
    before = {name: scope.var(name).value for name in scope.names()}
    with pytest.raises(br.IndexRangeError, match="take") as error:
        exe.run(prog, scope, feed={"i": 9}, fetch=picked)
    assert "test_executor.py" in str(error.value)
    after = {name: scope.var(name).value for name in scope.names()}
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert float(exe.run(prog, scope, feed={"i": 2}, fetch=picked)) == 2.0
    assert float(scope.var("n").value) == 2.0


def test_values_that_were_read_do_not_change_with_later_runs(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3], init=np.zeros(3))
        prog.update("w", (w + 1.0).name)
    exe, scope = started(prog, mode)
    first, fetched = scope.var("w").value, exe.run(prog, scope, fetch=w)
    second = scope.var("w").value
    exe.run(prog, scope)
    assert [float(a[0]) for a in (first, fetched, second, scope.var("w").value)] == [0, 0, 1, 2]


def test_unused_data_and_states_are_not_required(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", [2, 3]), br.data("y", ["b"])
        twice, thrice = x * 2.0, y * 3.0
    exe, scope = started(prog, mode)
    assert exe.run(prog, scope, feed={"x": ONES}, fetch=twice).sum() == 12.0
    got = exe.run(prog, scope, feed={"x": ONES, "y": [1.0]}, fetch={"t": twice, "y": thrice})
    assert set(got) == {"t", "y"}
    assert got["y"].tolist() == [3.0]
    with pytest.raises(br.FeedError, match="`y`: f32"):
        exe.run(prog, scope, feed={"x": ONES}, fetch=thrice)


def test_a_dimension_has_one_size_in_a_run(mode: str) -> None:
    with br.Program() as prog:
        total = br.sum(br.data("x", ["b"])) + br.sum(br.data("y", ["b"]))
    exe, scope = started(prog, mode)
    assert exe.run(prog, scope, feed={"x": [1.0, 2.0], "y": [3.0, 4.0]}, fetch=total) == 10.0
    with pytest.raises(br.FeedError, match="axis 0 has size 3; expected `b` = 2 in this run"):
        exe.run(prog, scope, feed={"x": [1.0, 2.0], "y": [3.0, 4.0, 5.0]}, fetch=total)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_every_symbolic_dimension_may_have_any_size(mode: str, size: int) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", None])
        y = br.tanh(x) + br.zeros([x.shape[0], 1])
    exe, scope = started(prog, mode)
    feed = {"x": np.ones((size, 2), "f4")}
    assert exe.run(prog, scope, feed=feed, fetch=y).shape == (size, 2)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float16", "bfloat16", "float64"])
def test_declared_dtypes_are_kept(mode: str, dtype: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [3], dtype=dtype)
        y, loss = x + x, br.sum(x * 2)
    exe, scope = started(prog, mode)
    feed = {"x": np.arange(3).astype(y.dtype)}
    assert exe.run(prog, scope, feed=feed, fetch=y).dtype == y.dtype == np.dtype(x.dtype)
    assert exe.run(prog, scope, feed=feed, fetch=loss).dtype == loss.dtype


def test_a_value_of_another_type_in_the_scope_is_refused(mode: str) -> None:
    prog, n, _ = counter()
    exe, scope = started(prog, mode)
    scope.var("n").set(np.zeros((2,), "float32"))
    with pytest.raises(br.ShapeError, match="type mismatch of `n` between program and scope"):
        exe.run(prog, scope, fetch=n)
    scope.var("n").set(np.float32(7))
    assert exe.run(prog, scope, fetch=n) == 7.0


def test_a_child_scope_reads_and_updates_its_parent(mode: str) -> None:
    prog, n, _ = counter()
    exe, scope = started(prog, mode)
    with scope.new_scope() as child:
        exe.run(prog, child, fetch=n)
        assert child.find_local_var("n") is None
    assert float(scope.var("n").value) == 1.0


def test_missing_only_fills_gaps_and_init_overwrites(mode: str) -> None:
    prog, _, _ = counter()
    exe, scope = started(prog, mode)
    scope.var("n").set(np.float32(5))
    scope.erase("table")
    exe.init(prog, scope, missing_only=True)
    assert float(scope.var("n").value) == 5.0
    assert scope.var("table").value.tolist() == [0.0, 1.0, 2.0, 3.0]
    exe.init(prog, scope)
    assert float(scope.var("n").value) == 0.0


def test_missing_only_keeps_the_values_of_parent_scopes(mode: str) -> None:
    with br.Program() as prog:
        br.parameter("w", [3], init=br.init.normal())
        br.parameter("v", [2], init=br.init.normal())
    exe, parent = br.Executor(mode=mode), br.Scope()
    parent["w"] = np.ones(3, np.float32)
    child = exe.init(prog, parent.new_scope(), seed=1, missing_only=True)
    np.testing.assert_array_equal(parent["w"], [1, 1, 1])
    assert child.find_local_var("w") is None
    assert child.find_local_var("v") is not None


def test_the_same_seed_draws_the_same_values(mode: str) -> None:
    with br.Program() as prog:
        br.parameter("a", [4, 4])
        br.parameter("b", [4, 4])
    values = []
    for seed in (1, 1, 2):
        exe, scope = br.Executor(mode=mode), br.Scope()
        exe.init(prog, scope, seed=seed)
        values.append((scope.var("a").value, scope.var("b").value))
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])
    assert not np.array_equal(values[0][0], values[0][1])


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, None])
def test_a_seed_has_32_bits(seed: object) -> None:
    with pytest.raises(br.ProgramError, match="invalid seed="):
        br.Executor().init(br.Program(), br.Scope(), seed=seed)


def test_programs_are_compiled_once_and_anew_when_they_change() -> None:
    with br.Program() as prog:
        y = br.data("x", ["b"]) * 2.0
    exe, scope = br.Executor(), br.Scope()
    for size in (2, 3, 2, 3):
        exe.run(prog, scope, feed={"x": np.ones(size, "f4")}, fetch=y)
    (_, plans) = exe._plans.by_program[prog]
    (plan,) = plans.values()
    assert len(plan.executables) == 2
    with prog:
        z = y + 1.0
    assert exe.run(prog, scope, feed={"x": [1.0]}, fetch=z).tolist() == [3.0]


def test_interpreting_a_constant_compiles_nothing() -> None:
    def run(number: float) -> int:
        with br.Program() as prog:
            y = br.data("x", [], dtype="float64") + br.constant(number, dtype="float64")
        exe, scope = br.Executor(mode="interpret"), br.Scope()
        assert exe.run(prog, scope, feed={"x": 1.0}, fetch=y) == number + 1.0
        return single._kernel.cache_info().currsize

    assert run(0.25) == run(0.75) == run(0.5)


@pytest.mark.usefixtures("frozen_heap")
def test_an_executor_does_not_keep_programs_alive() -> None:
    exe, scope = br.Executor(), br.Scope()
    with br.Program() as prog:
        y = br.data("x", [1]) * 2.0
    exe.run(prog, scope, feed={"x": [1.0]}, fetch=y)
    watcher = weakref.ref(prog)
    del prog, y
    gc.collect()
    assert watcher() is None


def test_a_history_that_outgrows_its_buffer_repeats_the_run_and_commits_once() -> None:
    with br.Program() as prog:
        n = br.data("n", [], dtype="int64")
        runs = br.state("runs", [], init=0.0)
        w = br.parameter("w", [2], init=np.full(2, 0.999))
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0))
            v = body.add_memory(init=br.constant([1.0, 2.0]))
            body.set_condition(i < n)
            v.update(v * w)
            i.update(i + 1)
        (grad,) = br.gradients([loop.final(v)], [w])
        prog.update("runs", (runs + 1.0).name)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    for trips in (3, 1000, 0, 65, 1000):
        got = exe.run(prog, scope, feed={"n": trips}, fetch=grad)
        want = trips * 0.999 ** max(trips - 1, 0) * np.array([1.0, 2.0])
        np.testing.assert_allclose(got, want, rtol=2e-4)
    assert float(scope.var("runs").value) == 5.0


def test_a_nan_is_found_where_it_was_made(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        n = br.state("n", [], init=0.0)
        prog.update("n", (n + 1.0).name)
        safe = br.where(x > 0.0, br.log(x, name="risky"), 0.0)
    exe, scope = started(prog, mode)
    feed = {"x": np.array([1.0, -1.0], "f4")}
    assert exe.run(prog, scope, feed=feed, fetch=safe).tolist() == [0.0, 0.0]
    with pytest.raises(br.NaNError, match="log produced a NaN in `risky`") as error:
        exe.run(prog, scope, feed=feed, fetch=safe, check_nan=True)
    assert "test_executor.py" in str(error.value)
    assert float(scope.var("n").value) == 1.0


def test_the_error_of_an_unknown_mode_lists_the_modes() -> None:
    with pytest.raises(br.ProgramError, match="'compile' or 'interpret'"):
        br.Executor(mode="eager")


def test_inner_variables_cannot_be_fetched_but_can_be_looked_at() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            inner = br.multiply(xt, 2.0, name="inner")
            net.add_output(inner)
        out = rnn()
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    with pytest.raises(br.ProgramError, match="inner block"):
        exe.run(prog, scope, feed={"x": np.arange(3.0, dtype="f4")}, fetch=inner)
    seen = []
    exe.run(
        prog,
        scope,
        feed={"x": np.arange(3.0, dtype="f4")},
        fetch=out,
        keep_scopes=True,
        listeners=[lambda path, op, values: seen.append((path, op.name, sorted(values)))],
    )
    values = [float(exe.step_scopes[f"loop_0/body[{t}]"].var("inner").value) for t in range(3)]
    assert values == [0.0, 2.0, 4.0]
    assert ("loop_0/body[1]", "inner", ["inner"]) in seen


@pytest.fixture
def ctrl_c() -> Generator[None]:
    """Ctrl-C interrupts, as in a terminal; what runs in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_in_a_run_waits_for_its_end(mode: str, monkeypatch: Any) -> None:
    prog, *_ = counter()
    exe, scope = started(prog, mode)
    put_all = br.Scope.put_all

    def commit(*args: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        put_all(*args)

    monkeypatch.setattr(br.Scope, "put_all", commit)
    with pytest.raises(KeyboardInterrupt):
        exe.run(prog, scope)
    assert scope.var("n").value == 1.0
    monkeypatch.undo()
    exe.run(prog, scope)
    assert scope.var("n").value == 2.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_donated_state_reports_a_run_of_another_thread(monkeypatch: Any) -> None:
    prog, *_ = counter()
    exe, scope = started(prog, "compile")
    stale = [scope.var("n").raw]
    exe.run(prog, scope)
    monkeypatch.setattr(br.Scope, "raws", lambda *_: stale)
    with pytest.raises(br.RunError, match="another thread ran with this scope"):
        exe.run(prog, scope)
    assert scope.var("n").value == 1.0


def test_a_program_and_a_scope_are_given_in_this_order() -> None:
    prog, scope = br.Program(), br.Scope()
    with pytest.raises(br.ProgramError, match=r"exe\.run\(prog, scope"):
        br.Executor().run(scope, prog)  # pyright: ignore


def test_a_run_does_no_more_where_operators_stand_in_a_block() -> None:
    def calls(boxed: bool) -> int:
        with br.Program() as prog:
            x = br.data("x", [3])
            with br.block("a") if boxed else contextlib.nullcontext():
                w = br.parameter("w", [3], init=1.0)
                y = br.tanh(x * w)
            prog.update(w, w + br.mean(y))
        exe, scope, feed = br.Executor(), br.Scope(), {"x": np.ones(3, np.float32)}
        exe.init(prog, scope)
        exe.run(prog, scope, feed, y)
        return calls_of(lambda: exe.run(prog, scope, feed, y))

    assert calls(True) == calls(False)
