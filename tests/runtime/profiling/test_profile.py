"""`exe.profile`: the time of a run by the names of the program, in both modes."""

from __future__ import annotations

import io
import tempfile
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

import braces as br
from braces.extend.programs import all_ops
from braces.runtime.profiling.profile import Profile
from braces.runtime.profiling.table_rows import NO_OPERATOR
from tests.runtime.profiling.profiled import ROWS, STEPS, TRIPS, nested
from tests.support.call_counts import files_of

RUNS = 2
BRANCH = "loop_1/body/loop_0/body/partition_0"


def profiled(mode: str, **options: Any) -> tuple[br.Program, Profile]:
    prog, loss, feed = nested()
    exe, scope = br.Executor(mode=mode, **options), br.Scope()
    exe.init(prog, scope)
    return prog, exe.profile(prog, scope, feed, fetch=loss, runs=RUNS)


@pytest.fixture(scope="module")
def interpreted() -> tuple[br.Program, Profile]:
    return profiled("interpret")


@pytest.fixture(scope="module")
def compiled() -> tuple[br.Program, Profile]:
    return profiled("compile")


@pytest.fixture(params=["compile", "interpret"])
def either(request: pytest.FixtureRequest) -> tuple[br.Program, Profile]:
    name = {"compile": "compiled", "interpret": "interpreted"}[request.param]
    return request.getfixturevalue(name)


def paths_of(prog: br.Program) -> dict[str, Any]:
    found = all_ops(prog.definition.main)
    return {f"{block}/{op.name}".lstrip("/"): op for block, op in found}


# ---- rows ------------------------------------------------------------------------------------


def test_the_names_in_a_profile_are_those_of_the_program(
    either: tuple[br.Program, Profile],
) -> None:
    prog, prof = either
    known = paths_of(prog)
    for row in prof.rows():
        assert set(row.paths) <= known.keys()
        assert row.paths or row.name == NO_OPERATOR
        if len(row.paths) == 1:
            (path,) = row.paths
            op = known[path]
            assert (row.name, row.type, row.source) == (op.name, op.type, str(op.source))
            assert row.block == path.removesuffix(op.name).rstrip("/")
            assert "profiled.py" in row.source


def test_interpreting_each_operator_that_ran_has_its_own_row_and_count(
    interpreted: tuple[br.Program, Profile],
) -> None:
    calls = {row.paths: row.calls for row in interpreted[1].rows()}
    assert all(len(paths) == 1 for paths in calls)
    assert calls["loop_1",] == RUNS
    assert calls["loop_1/cond/less_0",] == RUNS * (TRIPS + 1)
    assert calls["loop_1/body/loop_0",] == RUNS * TRIPS
    assert calls["loop_1/body/loop_0/body/mix",] == RUNS * TRIPS * STEPS
    assert calls[f"{BRANCH}/cases[1]/squash",] == RUNS * TRIPS * STEPS
    assert calls["head/body/head/q",] == RUNS


def test_compiled_trips_of_loops_are_counted(compiled: tuple[br.Program, Profile]) -> None:
    rows = [row for row in compiled[1].rows() if "loop_1/body/loop_0/body/wave" in row.paths]
    assert [row.calls for row in rows] == [RUNS * TRIPS * STEPS]
    whole = [row for row in compiled[1].rows() if row.paths == ("loop_1/body/loop_0",)]
    assert [row.calls for row in whole] == [RUNS * TRIPS]


def test_compiled_operators_that_are_one_computation_are_one_row(
    compiled: tuple[br.Program, Profile],
) -> None:
    (row,) = [row for row in compiled[1].rows() if "loop_1/body/loop_0/body/wave" in row.paths]
    assert "loop_1/body/loop_0/body/add_0" in row.paths
    assert {"wave", "add_0"} & {name.split(" (")[0] for name in row.name.split(" + ")}
    assert row.block == "loop_1/body/loop_0/body"


def test_an_operator_that_is_costly_is_named_before_what_is_fused_with_it(
    compiled: tuple[br.Program, Profile],
) -> None:
    (row,) = [row for row in compiled[1].rows() if "loop_1/body/loop_0/body/mix" in row.paths]
    assert row.name.startswith("mix")


def test_times_of_their_own_add_up_to_no_more_than_the_runs(
    either: tuple[br.Program, Profile],
) -> None:
    _, prof = either
    own = sum(row.self_s for row in prof.rows())
    beside = any("Instructions ran in" in note for note in prof.notes)
    assert own > 0
    assert beside or own <= prof.parts["operators"] * RUNS * 1.011
    assert sum(prof.parts.values()) == pytest.approx(sum(prof.runs_s) / RUNS)
    assert len(prof.runs_s) == RUNS


@pytest.mark.parametrize("by", ["op", "type", "block", "line"])
def test_all_groupings_have_the_same_time(either: tuple[br.Program, Profile], by: str) -> None:
    rows = either[1].rows(by)
    assert sum(row.share for row in rows) == pytest.approx(1)
    want = sum(row.self_s for row in either[1].rows())
    assert sum(row.self_s for row in rows) == pytest.approx(want)
    assert all(row.total_s >= row.self_s for row in rows)
    assert [row.self_s for row in rows] == sorted((r.self_s for r in rows), reverse=True)


def test_the_total_of_a_loop_has_all_that_is_in_it(either: tuple[br.Program, Profile]) -> None:
    rows = either[1].rows()
    (loop,) = (row for row in rows if row.paths == ("loop_1",))
    inside = [row for row in rows if row.block.startswith("loop_1/")]
    assert loop.total_s == pytest.approx(loop.self_s + sum(row.self_s for row in inside))


def test_blocks_and_lines_say_what_is_in_them(either: tuple[br.Program, Profile]) -> None:
    _, prof = either
    blocks = {row.name: row for row in prof.rows("block")}
    assert blocks["loop_1/body/loop_0/body"].calls == RUNS * TRIPS * STEPS
    assert blocks[""].calls == RUNS
    assert blocks[""].total_s == pytest.approx(sum(row.self_s for row in prof.rows()))
    by_line = {row.name for row in prof.rows("line")}
    assert any(name.startswith(str(paths_of(either[0])["loop_1"].source)) for name in by_line)
    assert {"loop", "matmul"} <= {row.name for row in prof.rows("type")}


def test_a_grouping_that_there_is_not_is_refused(
    interpreted: tuple[br.Program, Profile],
) -> None:
    with pytest.raises(br.errors.ProgramError, match="unknown grouping by='kernel'"):
        interpreted[1].rows("kernel")


def test_passes_that_an_executor_has_show_in_rows() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["t", 4]), br.data("w", [4, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            part = step.add_input(x)
            memory = step.add_memory(shape=[4])
            memory.update(br.tanh(memory + br.matmul(part, w, name="of_input")))
        out = rnn.final(memory)
    feed = {"x": np.ones((6, 4), "f4"), "w": np.eye(4, dtype="f4")}
    rows = {}
    for passes in ((), br.passes.default):
        exe = br.Executor(mode="interpret", passes=passes)
        prof = exe.profile(prog, br.Scope(), feed, out, runs=1)
        rows[len(passes)] = {row.type: row for row in prof.rows()}
        assert [p.name for p in prof.phases[0].parts][:-1] == [one.name for one in passes][:-1]
    assert rows[0]["matmul"].block == "loop_0/body"
    assert rows[0]["matmul"].calls == 6
    stretched = rows[len(br.passes.default)]["matmul"]
    assert (stretched.block, stretched.calls) == ("", 1)
    assert stretched.source == rows[0]["matmul"].source


# ---- runs ------------------------------------------------------------------------------------


def test_a_profile_is_runs(mode: str) -> None:
    prog, loss, feed = nested()
    exe, scopes = br.Executor(mode=mode), (br.Scope(), br.Scope())
    for scope in scopes:
        exe.init(prog, scope)
    prof = exe.profile(prog, scopes[0], feed, fetch={"loss": loss}, runs=2, warmup=1)
    for _ in range(3):
        last = exe.run(prog, scopes[1], feed, fetch=loss)
    assert prof.fetches["loss"] == pytest.approx(last, rel=1e-5)
    left, right = (scope.var("head/q.w").value for scope in scopes)
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def dividing() -> br.Program:
    with br.Program() as prog:
        x, count = br.data("x", [3]), br.state("count", [3], init=0.0)
        out = br.log(x, name="risky")
        prog.update("count", count + out)
    return prog


def test_what_fails_gives_the_ordinary_error_and_changes_nothing(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    prog, exe, scope = dividing(), br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    for warmup in (0, 1):
        with pytest.raises(br.errors.NaNError, match="risky"):
            exe.profile(
                prog, scope, {"x": [1.0, -1.0, 2.0]}, runs=1, warmup=warmup, check_nan=True
            )
        assert scope.var("count").value.tolist() == [0.0] * 3
    assert not list(tmp_path.iterdir())
    prof = exe.profile(prog, scope, {"x": [1.0, 1.0, 1.0]}, runs=1, check_nan=True)
    assert "risky" in str(prof)


def test_feeds_and_fetches_are_refused_as_a_run_refuses_them(mode: str) -> None:
    prog, exe, scope = dividing(), br.Executor(mode=mode), br.Scope()
    with pytest.raises(br.errors.UninitializedError):
        exe.profile(prog, scope, {"x": [1.0] * 3})
    exe.init(prog, scope)
    with pytest.raises(br.errors.FeedError):
        exe.profile(prog, scope, {"y": 1.0})
    with pytest.raises(br.errors.UnknownNameError):
        exe.profile(prog, scope, {"x": [1.0] * 3}, fetch="nothing")
    with pytest.raises(br.errors.ProgramError, match="expected a program and a scope"):
        exe.profile(scope, prog)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"runs": 0}, {"runs": True}, {"runs": 2.0}, {"warmup": -1}, {"warmup": "1"}]
)
def test_numbers_of_runs_that_are_none_are_refused(options: dict[str, Any]) -> None:
    (what,) = options
    with pytest.raises(br.errors.ProgramError, match=f"invalid {what}="):
        br.Executor().profile(dividing(), br.Scope(), **options)


def test_a_run_that_takes_too_long_ends() -> None:
    with br.Program() as prog:
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            body.set_condition(i >= 0)
            i.update(i * 0)
        out = loop.final(i)
    for mode in ("compile", "interpret"):
        with pytest.raises(br.errors.RunError, match="took longer"):
            br.Executor(mode=mode).profile(prog, br.Scope(), fetch=out, timeout_s=0.5)


def test_a_trace_that_the_user_takes_goes_on(tmp_path: Path) -> None:
    prog, exe, scope = dividing(), br.Executor(), br.Scope()
    exe.init(prog, scope)
    jax.profiler.start_trace(str(tmp_path))
    try:
        with pytest.raises(br.errors.RunError, match="the profiler of JAX cannot be started"):
            exe.profile(prog, scope, {"x": [1.0] * 3})
    finally:
        jax.profiler.stop_trace()
    assert list(tmp_path.rglob("*.xplane.pb"))


def test_histories_grow_in_a_profile_as_in_a_run() -> None:
    with br.Program() as prog:
        w, n = br.parameter("w", [4], init=br.init.ones()), br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i, s = body.add_memory(init=br.constant(0, dtype="int32")), body.add_memory(init=w)
            body.set_condition(i < n)
            s.update(br.sin(s * w))
            i.update(i + 1)
        loss = br.sum(loop.final(s))
        br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    prof = exe.profile(prog, scope, {"n": 200}, fetch=loss, runs=1, warmup=0)
    names = [name for row in prof.rows() for name in row.paths]
    assert any("list_push" in row.type for row in prof.rows()) or "loop_0" in names
    assert np.isfinite(prof.fetches)


def test_programs_that_differ_in_names_alone_have_their_own_names() -> None:
    found = []
    for name in ("first", "second"):
        with br.Program() as prog:
            x = br.data("x", [32, 32])
            out = br.matmul(x, x, name=name)
        feed = {"x": np.ones((32, 32), "f4")}
        prof = br.Executor().profile(prog, br.Scope(), feed, out, runs=1)
        found.append([row.name for row in prof.rows() if row.paths])
    assert found == [["first"], ["second"]]


def test_a_run_without_operators_has_no_rows_of_any(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3])
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    prof = exe.profile(prog, scope, fetch=w, runs=1)
    assert {row.name for row in prof.rows()} <= {NO_OPERATOR}  # XLA copies what is fetched
    assert prof.fetches.tolist() == scope.var("w").value.tolist()
    assert str(prof).startswith("1 run, ")
    assert "<table>" in prof._repr_html_()


def test_a_profile_in_a_thread_beside_runs_tells_only_of_its_own(mode: str) -> None:
    prog, loss, feed = nested()
    exe, scopes = br.Executor(mode=mode), (br.Scope(), br.Scope())
    for scope in scopes:
        exe.init(prog, scope)
    exe.run(prog, scopes[0], feed, loss)
    done = threading.Event()

    def beside() -> None:
        while not done.is_set():
            exe.run(prog, scopes[0], feed, loss)

    other = threading.Thread(target=beside)
    other.start()
    try:
        prof = exe.profile(prog, scopes[1], feed, fetch=loss, runs=RUNS)
    finally:
        done.set()
        other.join()
    (row,) = (row for row in prof.rows() if "loop_1/body/loop_0/body/wave" in row.paths)
    assert row.calls == RUNS * TRIPS * STEPS


# ---- what it costs, and what else it says ----------------------------------------------------


def test_runs_that_are_not_profiled_call_nothing_of_it(mode: str) -> None:
    prog, loss, feed = nested()
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    exe.run(prog, scope, feed, loss)
    used = files_of(lambda: exe.run(prog, scope, feed, loss))
    files = {Path(name) for name in used} - {Path(__file__)}
    assert not [f for f in files if f.parent.name == "profiling"]
    assert not [f for f in files if f.name in ("operator_timing.py", "compile_listener.py")]


def test_memory_and_phases_are_reported(either: tuple[br.Program, Profile]) -> None:
    _, prof = either
    assert [phase.name for phase in prof.phases] == ["plan", "code", "warm-up 1"]
    assert prof.phases[0].parts[-1].name == "dce"
    least = 4 * STEPS * ROWS * 64  # the input alone
    peak = prof.memory["peak" if prof.mode == "compile" else "peak of live values"]
    assert least <= peak <= 100 * least
    if prof.mode == "compile":
        assert [part.name for part in prof.phases[1].parts][:2] == ["trace", "lower"]
        sizes = (prof.memory[name] for name in ("arguments", "results", "temporaries"))
        assert sum(sizes) == peak


def test_live_values_are_counted_until_nothing_holds_them() -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", 1000])
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            part = step.add_input(x)
            memory = step.add_memory(shape=[1000])
            memory.update(br.tanh(memory + part))
        out = rnn.final(memory)
    peaks = []
    for trips in (4, 8):
        feed = {"x": np.ones((trips, 1000), "f4")}
        prof = br.Executor("interpret").profile(prog, br.Scope(), feed, out, runs=1)
        peaks.append(prof.memory["peak of live values"])
    assert peaks[1] - peaks[0] == 4 * 4 * 1000  # the input grows, what trips make does not


# ---- how it looks ----------------------------------------------------------------------------


def test_a_profile_prints_as_a_table(either: tuple[br.Program, Profile]) -> None:
    _, prof = either
    lines = str(prof).splitlines()
    assert lines[0].startswith(f"{RUNS} runs, {prof.mode}")
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["of", "a"],
        ["before:", "plan"],
        ["memory:", "peak"],
    ]
    assert lines[5].split()[:5] == ["operator", "share", "self", "total", "calls"]
    assert any(line.startswith("loop_1 ") for line in lines)
    assert lines[-1].startswith("note: ")
    shorter = prof.text(by="type", limit=2).splitlines()
    assert shorter[5].startswith("type ")
    assert shorter[8].startswith(f"and {len(prof.rows('type')) - 2} more")


def test_a_path_that_is_long_shows_its_end(interpreted: tuple[br.Program, Profile]) -> None:
    prof = interpreted[1]
    (line,) = (x for x in prof.text(limit=99).splitlines() if x.startswith("squash "))
    assert f"{BRANCH}/cases[1]"[-40:] in line
    assert "…" in prof.text("line")


def test_a_terminal_gets_colours_and_a_file_plain_text(
    interpreted: tuple[br.Program, Profile],
) -> None:
    _, prof = interpreted
    plain = io.StringIO()
    prof.show(file=plain)
    assert plain.getvalue() == f"{prof}\n"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn = Terminal()
    prof.show(file=drawn, by="block")
    assert "loop_1/body" in drawn.getvalue()
    wide = Console(file=io.StringIO(), width=200, record=True)
    wide.print(prof)
    text = wide.export_text()
    assert f"{BRANCH}/cases[1]" in text  # brackets are no markup
    assert "operator" in text


def test_a_notebook_gets_a_table_in_html() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        out = br.tanh(x, name="a/b")
    prof = br.Executor("interpret").profile(prog, br.Scope(), {"x": [0.0] * 3}, out, runs=1)
    page = prof._repr_html_()
    assert "<td>a/b</td>" in page
    assert "<th>operator</th>" in page
    assert page.count("<tr>") == 2
