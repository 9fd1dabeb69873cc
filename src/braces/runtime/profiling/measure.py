"""Measured runs: JAX's profiler for compiled code, a clock for interpretation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, NamedTuple

from braces.errors import ProgramError
from braces.ir.records import Op, ProgramDef
from braces.ir.walk import all_ops
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.interpret.operator_timing import OperatorClock, OpLocation, OpTime, Span
from braces.lower.interrupt.deadline import CancellationToken
from braces.passes.core.pipeline import Pass
from braces.runtime.backend.interface import Backend, Runnable
from braces.runtime.backend.plan_by_shape import bind_asked_sizes
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.persistables import NO_REPLACEMENTS, Run, seed_random_states
from braces.runtime.plan.plan import NO_SIZES, Plan
from braces.runtime.profiling.compile_phases import PhaseRecorder
from braces.runtime.profiling.profile import Profile
from braces.runtime.profiling.table_rows import NO_OPERATOR, SECOND, Key, OpCosts
from braces.runtime.profiling.time_attribution import TimeAccount
from braces.runtime.profiling.xla_trace import (
    RUN_ANNOTATION,
    annotate_span,
    convert_clock,
    record_trace,
)
from braces.scope import Scope

if sys.platform != "win32":
    import resource

    def _peak_of_process() -> dict[str, int]:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        return {"peak of the process so far": peak}

else:

    def _peak_of_process() -> dict[str, int]:
        return {}


RUNS = "runs"
"""The track of complete runs."""


@dataclass(frozen=True)
class ProfileTask:
    """The arguments of `Executor.profile`."""

    mode: str
    backend: Backend
    devices: Devices
    definition: ProgramDef
    names: tuple[str, ...]
    passes: tuple[Pass, ...]
    scope: Scope
    convert: Callable[[Plan], dict[str, Any]]
    seed: int | None
    checks: ValueChecks
    timeout_s: float | None


def check_count(what: str, count: Any, least: int) -> None:
    """Refuse arguments that are not a number of runs.

    Raises:
        ProgramError: If `count` is not an integer of at least `least`.
    """
    if type(count) is not int or count < least:
        raise ProgramError(
            f"invalid {what}={count!r:.40}.", fix=f"Use an integer of at least {least}."
        )


class RunTimes(NamedTuple):
    """The start, the end of the feeds, the computation and the end of a run, in nanoseconds."""

    start: int
    fed: int
    first: int
    last: int
    end: int

    def parts(self) -> dict[str, int]:
        """Return the duration of each part."""
        return {
            "feeds": self.fed - self.start,
            "begin": self.first - self.fed,
            "operators": self.last - self.first,
            "results": self.end - self.last,
        }

    def spans(self, number: int) -> list[Span]:
        """Return spans of the run and its parts."""
        parts_and_run, begin = (
            [Span(f"run {number}", self.start, self.end, RUNS, {})],
            self.start,
        )
        for name, took in self.parts().items():
            parts_and_run.append(Span(name, begin, begin + took, RUNS, {}))
            begin += took
        return parts_and_run


class ProfileSession:
    """A prepared plan, and its runs.

    Args:
        task: The task to measure.

    Attributes:
        maker: The compilation listener.
        results: The results of the last run.
    """

    def __init__(self, task: ProfileTask) -> None:
        self.task, self.maker, self.results = task, PhaseRecorder(), list[Any]()
        with self.maker.phase("plan"):
            plan = self._plan(NO_SIZES)
            feeds = task.convert(plan)
            sizes = bind_asked_sizes(plan, feeds, task.scope)
            if not plan.fits(sizes):
                plan = self._plan(sizes)
                feeds = task.convert(plan)
        self.plan = plan
        with self.maker.phase("code"):
            self.runnable: Runnable = task.backend(
                plan, task.devices, task.checks, ExecutableCache(), CompileReporter()
            )
            self.runnable.compile(self._run(feeds))

    def _plan(self, sizes: Mapping[str, int]) -> Plan:
        task, target = self.task, self.task.devices.target
        run_pass = self.maker.run_pass
        return Plan.of(task.definition, task.names, task.passes, run_pass, target, sizes)

    def _run(self, feeds: Mapping[str, Any], clock: OperatorClock | None = None) -> Run:
        task = self.task
        limit = task.timeout_s
        watch = CancellationToken() if limit is None else CancellationToken.lasting(limit)
        seed = task.seed
        replacements = (
            NO_REPLACEMENTS
            if seed is None
            else seed_random_states(self.plan.random_states, seed)
        )
        return Run(task.scope, feeds, watch, replacements, clock=clock, making=self.maker)

    def warm_up(self, number: int) -> None:
        """Run once, and record only the total time."""
        with self.maker.phase(f"warm-up {number}"):
            self.run(self.task.convert(self.plan))

    def run(self, feeds: Mapping[str, Any], clock: OperatorClock | None = None) -> None:
        """Run once."""
        self.results = self.runnable.run(self._run(feeds, clock))


@dataclass
class Measurement:
    """The result of a measurement.

    Attributes:
        times: The times of each run.
        works: The cost of each operator, with facts about it.
        spans: The spans of operators.
        memory: Bytes by use.
        notes: Caveats for the reader.
        levels: The bytes of live values over time.
    """

    times: list[RunTimes]
    works: OpCosts
    spans: Sequence[Span]
    memory: Mapping[str, int]
    notes: list[str]
    levels: Sequence[tuple[int, int]] = ()


def profile_runs(
    task: ProfileTask, runs: int, warmup: int, shape_up: Callable[[list[Any]], Any]
) -> Profile:
    """Run several times, and measure all runs but warm-up; see `Executor.profile`.

    Raises:
        ProgramError: If `runs` or `warmup` is invalid.
    """
    check_count("runs", runs, 1)
    check_count("warmup", warmup, 0)
    session = ProfileSession(task)
    for number in range(1, warmup + 1):
        session.warm_up(number)
    measured = MEASURES[task.mode](session, runs)
    spans = [span for n, times in enumerate(measured.times, 1) for span in times.spans(n)]
    return Profile(
        mode=task.mode,
        device=task.devices.platform,
        runs_s=tuple((one_run.end - one_run.start) / SECOND for one_run in measured.times),
        parts=_average_parts([one_run.parts() for one_run in measured.times]),
        phases=tuple(session.maker.phases),
        memory=dict(measured.memory) | _peak_of_process(),
        notes=tuple(measured.notes),
        fetches=shape_up(session.results),
        _works=measured.works,
        _spans=(*session.maker.spans, *spans, *measured.spans),
        _levels=tuple(measured.levels),
    )


def _average_parts(several: Sequence[Mapping[str, int]]) -> dict[str, float]:
    return {
        name: sum(parts[name] for parts in several) / len(several) / SECOND
        for name in several[0]
    }


# ---- interpreted -----------------------------------------------------------------------------


def _measure_interpreted(session: ProfileSession, runs: int) -> Measurement:
    clock, times = OperatorClock(), list[RunTimes]()
    for _ in range(runs):
        start = clock.now()
        feeds = session.task.convert(session.plan)
        fed = clock.now()
        session.run(feeds, clock)
        times.append(RunTimes(start, fed, *clock.window(), clock.now()))
    ops = {OpLocation(block, op.name): op for block, op in all_ops(session.plan.interpreted)}
    works = {(place,): work for place, work in clock.works.items()}
    notes = [
        "Each operator is synchronized; the overhead of recording is excluded.",
        *_note_left_out(clock.left_out),
    ]
    memory = {"peak of live values": clock.peak_bytes}
    return Measurement(times, OpCosts(works, ops), clock.spans, memory, notes, clock.levels)


def _note_left_out(spans: int) -> list[str]:
    return [f"The trace omits {spans:,} later spans; the rows include them."] if spans else []


# ---- compiled --------------------------------------------------------------------------------


def _measure_compiled(session: ProfileSession, runs: int) -> Measurement:
    account, maker, times = TimeAccount(), session.maker, list[RunTimes]()
    for _ in range(runs):
        with record_trace(lambda: maker.compiled) as events:
            start = perf_counter_ns()
            with annotate_span(RUN_ANNOTATION):
                feeds = session.task.convert(session.plan)
                fed = perf_counter_ns()
                session.run(feeds)
            end = perf_counter_ns()
        ran = convert_clock(events, start, end)
        first, last = account.add(maker.compiled, ran) or (fed, end)
        first = min(max(fed, first), end)
        times.append(RunTimes(start, fed, first, max(first, min(end, last)), end))
    return _collect_measured(session, account, times)


def _collect_measured(
    session: ProfileSession, account: TimeAccount, times: list[RunTimes]
) -> Measurement:
    ops, maker = dict[OpLocation, Op](), session.maker
    for compiled in maker.compiled.values():
        ops |= zip(compiled.numbering.places, compiled.numbering.ops, strict=True)
    works = dict(account.works)
    notes = _note_left_out(account.left_out)
    if works:
        notes = [*_note_fused(works, ops), *_note_threads(account, works, times), *notes]
    elif ops:
        total_ns = sum(each.last - each.first for each in times)
        works[()] = OpTime(len(times), total_ns)
        notes.append(
            "JAX reports no times of instructions on this device; the only row is the total."
        )
    notes.append("Tracing adds overhead to small instructions; warm-up runs are not traced.")
    memory = analyze_memory(maker.codes[-1])
    return Measurement(times, OpCosts(works, ops), account.spans, memory, notes)


def _note_fused(works: Mapping[Key, OpTime], ops: Mapping[OpLocation, Op]) -> list[str]:
    """Return notes about operators without a separate time."""
    seen_places = {place for key in works for place in key}
    untimed = [place for place in ops if place not in seen_places]
    notes = []
    if any(len(key) > 1 for key in works):
        notes.append(
            "XLA fused several operators: the time of such a row is that of the fusion."
        )
    if () in works:
        notes.append(
            f"Instructions that XLA inserted, such as copies, count as {NO_OPERATOR[1:-1]}."
        )
    if untimed:
        notes.append(
            f"{len(untimed)} of {len(ops)} operators have no time: XLA folded them, "
            "fused them without a name, or removed them."
        )
    return notes


def _note_threads(
    account: TimeAccount, works: Mapping[Key, OpTime], times: list[RunTimes]
) -> list[str]:
    """Return a note if times add up to more than the runs took, because of threads."""
    took = sum(each.last - each.first for each in times)
    busy = sum(work.self_ns for work in works.values())
    if account.threads < 2 or busy <= took * 1.01:
        return []
    return [
        f"Instructions ran in {account.threads} threads: the sum of their times is "
        f"{busy / max(took, 1):.2f} times the time of the runs."
    ]


def analyze_memory(code: Any) -> dict[str, int]:
    """Return the memory use of compiled code."""
    analysis = code.memory_analysis()
    if analysis is None:
        return {}
    reused = int(analysis.alias_size_in_bytes)
    sizes = {
        "arguments": int(analysis.argument_size_in_bytes),
        "results": int(analysis.output_size_in_bytes) - reused,
        "temporaries": int(analysis.temp_size_in_bytes),
    }
    return {"peak": sum(sizes.values()), **sizes}


MEASURES: Mapping[str, Callable[[ProfileSession, int], Measurement]] = {
    "compile": _measure_compiled,
    "interpret": _measure_interpreted,
}
