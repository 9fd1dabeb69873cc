"""The trace of a profile, and the attribution of XLA instructions to operators."""

from __future__ import annotations

import gzip
import json
from math import inf
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.lower.interpret import operator_timing as clocks
from braces.lower.interpret.operator_timing import OperatorClock, OpLocation
from braces.runtime.profiling.chrome_trace import build_trace
from braces.runtime.profiling.hlo_text import HloModule, Numbering
from braces.runtime.profiling.time_attribution import ProfiledCode, TimeAccount
from braces.runtime.profiling.xla_trace import TraceEvent, convert_clock
from tests.runtime.profiling.profiled import STEPS, TRIPS, check_trace, complete, nested, tracks

RUNS = 2


def saved(mode: str, path: Path) -> Any:
    prog, loss, feed = nested()
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    exe.profile(prog, scope, feed, fetch=loss, runs=RUNS).save(path)
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def within(outer: Any, several: list[Any]) -> list[Any]:
    """The spans that lie within another; a nanosecond is rounded."""
    begin, end = outer["ts"] - 0.002, outer["ts"] + outer["dur"] + 0.002
    return [one for one in several if begin <= one["ts"] and one["ts"] + one["dur"] <= end]


# ---- files -----------------------------------------------------------------------------------


def test_a_trace_follows_the_rules_and_nests(mode: str, tmp_path: Path) -> None:
    trace = saved(mode, tmp_path / "trace.json")
    check_trace(trace)
    by_track = tracks(trace["traceEvents"])
    runs = [one for one in by_track["runs"] if one["name"].startswith("run ")]
    assert [one["name"] for one in runs] == ["run 1", "run 2"]
    for run in runs:
        inside = [one["name"] for one in within(run, by_track["runs"])]
        assert inside == [run["name"], "feeds", "begin", "operators", "results"]
    made = [one["name"] for one in by_track["making"]]
    assert made[:2] == ["plan", *[one.name for one in br.Executor(mode).passes][:1]]
    assert made[-1] == "warm-up 1"


def test_operators_lie_within_the_loops_that_ran_them(mode: str, tmp_path: Path) -> None:
    events = saved(mode, tmp_path / "trace.json.gz")["traceEvents"]
    spans = list(complete(events))
    for run in (one for one in spans if one["name"].startswith("run ")):
        inside = within(run, spans)
        (loop,) = (one for one in inside if one["name"] == "loop_1" and _outermost(one, inside))
        waves = [one for one in within(loop, inside) if _is_of(one, "wave")]
        assert len(waves) == TRIPS * STEPS
        assert {one["tid"] for one in waves} == {loop["tid"]}


def _outermost(span: Any, several: list[Any]) -> bool:
    """Return whether it is the longest of its name: a loop of ours may be two of XLA's."""
    return span["dur"] == max(one["dur"] for one in several if one["name"] == span["name"])


def _is_of(span: Any, name: str) -> bool:
    told = span["args"].get("operators") or span["args"].get("path", "")
    return any(path.endswith(f"/{name}") for path in told.split(", "))


def test_interpreted_trips_are_spans_and_live_bytes_are_counted(tmp_path: Path) -> None:
    events = saved("interpret", tmp_path / "trace.json")["traceEvents"]
    operators = tracks(events)["operators"]
    trips = [one for one in operators if one["args"]["path"] == "loop_1/body[2]/loop_0/body[4]"]
    assert [one["name"] for one in trips] == ["body[4]"] * RUNS
    names = [one["name"] for one in within(trips[0], operators)]
    assert {"partition_0", "squash", "mix", "wave"} <= set(names)
    levels = [one["args"]["bytes"] for one in events if one["ph"] == "C"]
    assert max(levels) > 1.5 * min(levels) > 0


def test_a_trace_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with br.Program() as prog:
        out = br.tanh(br.data("x", [3]))
    prof = br.Executor("interpret").profile(prog, br.Scope(), {"x": [0.0] * 3}, out, runs=1)
    with pytest.raises(OSError, match="nowhere"):
        prof.save(tmp_path / "nowhere" / "trace.json")
    assert not list(tmp_path.iterdir())
    prof.save(tmp_path / "trace.json")
    before = (tmp_path / "trace.json").read_bytes()
    prof.save(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").read_bytes() == before


def test_names_that_a_terminal_obeys_are_escaped_in_a_trace() -> None:
    span = clocks.Span("a\x1b[2Jb", 5, 8, "track", {"path": "\n"})
    trace = build_trace("interpret", "cpu", [span], [])
    check_trace(trace)
    (event,) = complete(trace["traceEvents"])
    assert (event["name"], event["args"]) == ("a\\x1b[2Jb", {"path": "\\n"})


def test_a_trace_is_bounded_and_rows_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "MAX_SPANS", 10)
    prog, loss, feed = nested()
    exe, scope = br.Executor("interpret"), br.Scope()
    exe.init(prog, scope)
    prof = exe.profile(prog, scope, feed, fetch=loss, runs=1)
    (wave,) = (row for row in prof.rows() if row.name == "wave")
    assert wave.calls == TRIPS * STEPS
    assert any("The trace omits" in note for note in prof.notes)


# ---- the clock -------------------------------------------------------------------------------


def test_the_clock_stands_still_while_it_takes_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    time = [0]

    def tick() -> int:
        time[0] += 7
        return time[0]

    monkeypatch.setattr(clocks, "perf_counter_ns", tick)
    prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x)  return y }")
    clock = OperatorClock()
    clock.begin([])
    (op,) = prog.definition.main.ops

    class OneStep:
        def __init__(self) -> None:
            self.op = op

    for _ in clock.over([OneStep()], "", {"y": None}):
        time[0] += 100
    work = clock.works[OpLocation("", op.name)]
    assert (work.calls, work.self_ns) == (1, 100 + 7)  # one look at the time is part of it


# ---- instructions ----------------------------------------------------------------------------

PROGRAM = """
program {
  data x: f32[4]
  data w: f32[4,4]
  final=[last: f32[4]], stacked=[], trips=[n: i64[]] = loop(init=x)
    {cond=none, length=3, reverse=false} captures [w] as repeat
    body (t: i64[], m: f32[4]) {
      a: f32[4] = matmul(x=m, y=w)
      b: f32[4] = tanh(x=a)
      return b
    }
  c: f32[4] = exp(x=last)
  return c
}
"""
HLO = """\
HloModule jit_code, is_scheduled=true

%fused (p0: f32[4], p1: f32[4,4]) -> f32[4] {
  %p0 = f32[4]{0} parameter(0)
  %dot.1 = f32[4]{0} dot(%p0, %p1), metadata={op_name="jit(code)/repeat#0/while/body/a#1/dot"}
  ROOT %tanh.1 = f32[4]{0} tanh(%dot.1), metadata={op_name="jit(code)/repeat#0/while/body/b#2/tanh"}
}

%body (arg: (s64[], f32[4])) -> (s64[], f32[4]) {
  %next = s64[] add(%i, %one), metadata={op_name="jit(code)/repeat#0/while/body/add"}
  %copy.1 = f32[4]{0} copy(%x)
  %fusion.1 = f32[4]{0} fusion(%copy.1, %w), kind=kLoop, calls=%fused, metadata={op_name="jit(code)/repeat#0/while/body/b#2/tanh"}
  ROOT %tuple.1 = (s64[], f32[4]{0}) tuple(%next, %fusion.1)
}

%condition (arg: (s64[], f32[4])) -> pred[] {
  ROOT %lt.1 = pred[] compare(%i, %three), direction=LT, metadata={op_name="jit(code)/repeat#0/while/cond/lt"}
}

ENTRY %main (x: f32[4], w: f32[4,4]) -> f32[4] {
  %while.1 = (s64[], f32[4]{0}) while(%tuple.2), condition=%condition, body=%body, metadata={op_name="jit(code)/repeat#0/while"}, backend_config={"known_trip_count":{"n":"3"}}
  %copy.2 = f32[4]{0} copy(%last)
  ROOT %exp.1 = f32[4]{0} exponential(%copy.2), metadata={op_name="jit(code)/c#3/exp;jit(code)/d"}
}
"""  # noqa: E501 - the text of XLA has long lines


def account_of(*events: TraceEvent) -> tuple[TimeAccount, dict[str, tuple[int, int]]]:
    """Return the totals of events: calls and time by operator name."""
    compiled = ProfiledCode(HloModule(HLO), Numbering(br.parse(PROGRAM).definition.main))
    account = TimeAccount()
    account.add({"jit_code": compiled}, events)
    found = {
        " ".join(place.name for place in key): (work.calls, work.self_ns)
        for key, work in account.works.items()
    }
    return account, found


def ran(name: str, start: float, end: float, thread: str = "one") -> TraceEvent:
    return TraceEvent(name, "jit_code", start, end, thread)


def test_the_text_of_xla_says_what_instructions_were_made_of() -> None:
    code = HloModule(HLO)
    assert code.module == "jit_code"
    loop, fusion = code.instructions["while.1"], code.instructions["fusion.1"]
    assert (loop.numbers, loop.called, loop.runs) == ((0,), ("condition", "body"), True)
    assert (fusion.computation, fusion.numbers, fusion.runs) == ("body", (2,), False)
    assert code.inside("body") == {0, 1, 2}
    assert code.callers["fused"].name == "fusion.1"
    assert code.instructions["exp.1"].numbers == (3,)
    assert code.instructions["copy.1"].numbers == ()
    assert code.users["copy.1"] == ["fusion.1"]


def test_trips_are_within_their_loop_and_fusions_count_for_all_in_them() -> None:
    account, found = account_of(
        ran("while.1", 0, 100),
        ran("lt.1", 0, 5),
        ran("copy.1", 5, 15),
        ran("fusion.1", 20, 50),
        ran("lt.1", 50, 55),
        ran("copy.1", 55, 60),
        ran("fusion.1", 60, 90),
        ran("copy.2", 100, 107),
        ran("exp.1", 110, 115),
    )
    assert found == {"repeat": (1, 100 - 60), "a b": (2, 60), "c": (1, 5), "": (1, 7)}
    assert [span.name for span in account.spans][:4] == ["repeat", "repeat", "repeat", "a + b"]
    check_trace(build_trace("compile", "cpu", account.spans, []))


def test_a_loop_without_times_inside_counts_as_a_whole() -> None:
    account, found = account_of(ran("while.1", 0, 100), ran("exp.1", 100, 110))
    assert found == {"repeat a b": (1, 100), "c": (1, 10)}
    assert account.spans[0].name == "repeat with 2 inside"


def test_what_runs_beside_something_else_takes_no_time_from_its_loop_twice() -> None:
    account, found = account_of(
        ran("while.1", 0, 100),
        ran("copy.1", 10, 60, "two"),
        ran("fusion.1", 40, 90, "three"),
    )
    assert found == {"repeat": (1, 20 + 50), "a b": (1, 50)}
    assert account.threads == 3
    check_trace(build_trace("compile", "cpu", account.spans, []))
    assert len({span.track for span in account.spans}) == 2


def test_an_instruction_that_outlives_its_loop_is_drawn_beside_it() -> None:
    account, found = account_of(ran("while.1", 0, 50), ran("fusion.1", 40, 70))
    assert found == {"repeat": (1, 40), "a b": (1, 30)}
    check_trace(build_trace("compile", "cpu", account.spans, []))


def unsure(name: str, start: float, end: float = inf) -> TraceEvent:
    return TraceEvent(name, "jit_code", start, end, "one", sure=False)


def test_a_loop_of_which_the_end_is_not_sure_ends_with_what_is_in_it() -> None:
    for end in (1000, inf):
        _, found = account_of(
            unsure("while.1", 0, end),
            ran("copy.1", 10, 20),
            ran("fusion.1", 20, 60),
            ran("exp.1", 70, 90),
        )
        assert found == {"repeat": (1, 10 + 10), "a b": (1, 40), "c": (1, 20)}


def test_an_instruction_of_which_the_end_is_not_sure_ends_where_its_result_is_read() -> None:
    _, found = account_of(ran("while.1", 0, 100), unsure("copy.1", 10), ran("fusion.1", 40, 90))
    assert found == {"repeat": (1, 20 + 30), "a b": (1, 50)}


def test_at_the_latest_it_ends_where_its_loop_goes_on() -> None:
    for later in ("lt.1", "fusion.1"):
        _, found = account_of(
            ran("while.1", 0, 100), unsure("fusion.1", 10, 2000), ran(later, 40, 50)
        )
        assert sum(self_ns for _, self_ns in found.values()) == 100
        assert found["a b"][1] == 30 + (10 if later == "fusion.1" else 0)


def test_the_clock_of_the_profiler_is_put_to_ours() -> None:
    whole = TraceEvent("braces: run", "", 500, 1500, "python")
    (event,) = convert_clock([ran("exp.1", 750, 1000), whole], 20_000, 22_000)
    assert (event.start_ns, event.end_ns) == (20_500, 21_000)


def test_what_the_text_does_not_have_is_of_no_operator() -> None:
    assert account_of(ran("unknown.7", 0, 5))[1] == {"": (1, 5)}


def test_runs_without_times_of_instructions_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = HloModule.__init__

    def renamed(self: HloModule, text: str) -> None:
        kept(self, text.replace("HloModule jit_", "HloModule other_", 1))

    monkeypatch.setattr(HloModule, "__init__", renamed)
    with br.Program() as prog:
        out = br.tanh(br.data("x", [3]))
    prof = br.Executor().profile(prog, br.Scope(), {"x": [0.0] * 3}, out, runs=2)
    (row,) = prof.rows()
    assert (row.name, row.calls, row.share) == ("(no operator)", 2, 1.0)
    assert any("JAX reports no times of instructions" in note for note in prof.notes)
