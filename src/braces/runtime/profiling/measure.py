"""Runs that are measured: compiled as JAX's profiler sees them, interpreted by a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, NamedTuple

from braces.errors import ProgramError
from braces.ir.records import Op, ProgramDef
from braces.ir.walk import all_ops
from braces.lower.interpret.operator_timing import Clock, Placed, Span, Work
from braces.lower.interrupt.deadline import Watch
from braces.passes.core.pipeline import Pass
from braces.runtime.backend.interface import Backend, Runnable
from braces.runtime.backend.plan_by_shape import sizes_of
from braces.runtime.compile.executable_cache import Notice, Recent
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.persistables import NONE_GIVEN, Run, seeded
from braces.runtime.plan.plan import NO_SIZES, Plan
from braces.runtime.profiling.compile_phases import Maker
from braces.runtime.profiling.profile import Profile
from braces.runtime.profiling.table_rows import NO_OPERATOR, SECOND, Key, Works
from braces.runtime.profiling.time_attribution import Account
from braces.runtime.profiling.xla_trace import WHOLE, annotated, by_our_clock, traced
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
"""The track of whole runs."""


@dataclass(frozen=True)
class Task:
    """What is to be measured, as `Executor.profile` is told it."""

    mode: str
    backend: Backend
    devices: Devices
    definition: ProgramDef
    names: tuple[str, ...]
    passes: tuple[Pass, ...]
    scope: Scope
    convert: Callable[[Plan], dict[str, Any]]
    seed: int | None
    check_nan: bool
    timeout_s: float | None


def check_count(what: str, count: Any, least: int) -> None:
    """Refuse what is no number of runs.

    Raises:
        ProgramError: It is none.
    """
    if type(count) is not int or count < least:
        raise ProgramError(
            f"{what}={count!r:.40} is no number of runs.", fix=f"Use an integer from {least}."
        )


class Times(NamedTuple):
    """When a run began, had its feeds, computed, and was over; in nanoseconds."""

    start: int
    fed: int
    first: int
    last: int
    end: int

    def parts(self) -> dict[str, int]:
        """How long each part took."""
        return {
            "feeds": self.fed - self.start,
            "begin": self.first - self.fed,
            "operators": self.last - self.first,
            "results": self.end - self.last,
        }

    def spans(self, number: int) -> list[Span]:
        """The run and its parts, to be drawn."""
        found, begin = [Span(f"run {number}", self.start, self.end, RUNS, {})], self.start
        for name, took in self.parts().items():
            found.append(Span(name, begin, begin + took, RUNS, {}))
            begin += took
        return found


class Session:
    """A plan that is made ready, and runs.

    Args:
        task: What is to be measured.

    Attributes:
        maker: What hears how the plan is made ready.
        results: What the last run gave.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.maker, self.results = task, Maker(), list[Any]()
        with self.maker.phase("plan"):
            plan = self._plan(NO_SIZES)
            feeds = task.convert(plan)
            sizes = sizes_of(plan, feeds, task.scope)
            if not plan.fits(sizes):
                plan = self._plan(sizes)
                feeds = task.convert(plan)
        self.plan = plan
        with self.maker.phase("code"):
            self.runnable: Runnable = task.backend(
                plan, task.devices, task.check_nan, Recent(), Notice()
            )
            self.runnable.compile(self._run(feeds))

    def _plan(self, sizes: Mapping[str, int]) -> Plan:
        task, target = self.task, self.task.devices.target
        run_pass = self.maker.run_pass
        return Plan.of(task.definition, task.names, task.passes, run_pass, target, sizes)

    def _run(self, feeds: Mapping[str, Any], clock: Clock | None = None) -> Run:
        task = self.task
        limit = task.timeout_s
        watch = Watch() if limit is None else Watch.lasting(limit)
        seed = task.seed
        given = NONE_GIVEN if seed is None else seeded(self.plan.random_states, seed)
        return Run(task.scope, feeds, watch, given, clock=clock, making=self.maker)

    def warm_up(self, number: int) -> None:
        """Run once, unmeasured but for the time of all of it."""
        with self.maker.phase(f"warm-up {number}"):
            self.run(self.task.convert(self.plan))

    def run(self, feeds: Mapping[str, Any], clock: Clock | None = None) -> None:
        """Run once."""
        self.results = self.runnable.run(self._run(feeds, clock))


@dataclass
class Measured:
    """What measuring found.

    Attributes:
        times: When each run was where.
        works: What operators took, and what is known of them.
        spans: What ran when.
        memory: Bytes by what takes them.
        notes: What one must know of the numbers.
        levels: When which bytes were alive.
    """

    times: list[Times]
    works: Works
    spans: Sequence[Span]
    memory: Mapping[str, int]
    notes: list[str]
    levels: Sequence[tuple[int, int]] = ()


def profiled(
    task: Task, runs: int, warmup: int, shape_up: Callable[[list[Any]], Any]
) -> Profile:
    """Run some times, and measure all but the first of them; see `Executor.profile`."""
    session = Session(task)
    for number in range(1, warmup + 1):
        session.warm_up(number)
    found = MEASURES[task.mode](session, runs)
    spans = [span for n, times in enumerate(found.times, 1) for span in times.spans(n)]
    return Profile(
        mode=task.mode,
        device=task.devices.platform,
        runs_s=tuple((one.end - one.start) / SECOND for one in found.times),
        parts=_means([one.parts() for one in found.times]),
        phases=tuple(session.maker.phases),
        memory=dict(found.memory) | _peak_of_process(),
        notes=tuple(found.notes),
        fetches=shape_up(session.results),
        _works=found.works,
        _spans=(*session.maker.spans, *spans, *found.spans),
        _levels=tuple(found.levels),
    )


def _means(several: Sequence[Mapping[str, int]]) -> dict[str, float]:
    return {
        name: sum(one[name] for one in several) / len(several) / SECOND for name in several[0]
    }


# ---- interpreted -----------------------------------------------------------------------------


def _interpreted(session: Session, runs: int) -> Measured:
    clock, times = Clock(), list[Times]()
    for _ in range(runs):
        start = clock.now()
        feeds = session.task.convert(session.plan)
        fed = clock.now()
        session.run(feeds, clock)
        times.append(Times(start, fed, *clock.window(), clock.now()))
    ops = {Placed(block, op.name): op for block, op in all_ops(session.plan.interpreted)}
    works = {(place,): work for place, work in clock.works.items()}
    notes = [
        "Each operator is waited for, and the clock stands still while notes are taken.",
        *_left_out(clock.left_out),
    ]
    memory = {"peak of live values": clock.peak_bytes}
    return Measured(times, Works(works, ops), clock.spans, memory, notes, clock.levels)


def _left_out(spans: int) -> list[str]:
    return [f"The trace leaves out {spans:,} later spans; the rows have all."] if spans else []


# ---- compiled --------------------------------------------------------------------------------


def _compiled(session: Session, runs: int) -> Measured:
    account, maker, times = Account(), session.maker, list[Times]()
    for _ in range(runs):
        with traced(lambda: maker.compiled) as events:
            start = perf_counter_ns()
            with annotated(WHOLE):
                feeds = session.task.convert(session.plan)
                fed = perf_counter_ns()
                session.run(feeds)
            end = perf_counter_ns()
        ran = by_our_clock(events, start, end)
        first, last = account.add(maker.compiled, ran) or (fed, end)
        first = min(max(fed, first), end)
        times.append(Times(start, fed, first, max(first, min(end, last)), end))
    return _told(session, account, times)


def _told(session: Session, account: Account, times: list[Times]) -> Measured:
    ops, maker = dict[Placed, Op](), session.maker
    for compiled in maker.compiled.values():
        ops |= zip(compiled.numbering.places, compiled.numbering.ops, strict=True)
    works = dict(account.works)
    notes = _left_out(account.left_out)
    if works:
        notes = [*_shared(works, ops), *_beside(account, works, times), *notes]
    elif ops:
        whole = sum(one.last - one.first for one in times)
        works[()] = Work(len(times), whole)
        notes.append("JAX told no times of single instructions here: the only row has all.")
    notes.append(
        "Instructions are traced while they run, which small ones feel; a warm-up run is not."
    )
    memory = memory_of(maker.codes[-1])
    return Measured(times, Works(works, ops), account.spans, memory, notes)


def _shared(works: Mapping[Key, Work], ops: Mapping[Placed, Op]) -> list[str]:
    """What is to be said of operators that have no time of their own."""
    there = {place for key in works for place in key}
    without = [place for place in ops if place not in there]
    said = []
    if any(len(key) > 1 for key in works):
        said.append("XLA computes several operators as one: such a row is the time of all.")
    if () in works:
        said.append(f"What XLA put in by itself, as copies, is of {NO_OPERATOR[1:-1]}.")
    if without:
        said.append(
            f"{len(without)} of {len(ops)} operators take no time: XLA made constants of them, "
            "put them into others unnamed, or left them out."
        )
    return said


def _beside(account: Account, works: Mapping[Key, Work], times: list[Times]) -> list[str]:
    """What is to be said where times add up to more than runs took."""
    took = sum(one.last - one.first for one in times)
    busy = sum(work.self_ns for work in works.values())
    if account.threads < 2 or busy <= took * 1.01:
        return []
    return [
        f"Instructions ran beside each other in {account.threads} threads: their times add up "
        f"to {busy / max(took, 1):.2f} of the time of the runs."
    ]


def memory_of(code: Any) -> dict[str, int]:
    """What compiled code says that it takes."""
    found = code.memory_analysis()
    if found is None:
        return {}
    reused = int(found.alias_size_in_bytes)
    sizes = {
        "arguments": int(found.argument_size_in_bytes),
        "results": int(found.output_size_in_bytes) - reused,
        "meanwhile": int(found.temp_size_in_bytes),
    }
    return {"peak of a run": sum(sizes.values()), **sizes}


MEASURES: Mapping[str, Callable[[Session, int], Measured]] = {
    "compile": _compiled,
    "interpret": _interpreted,
}
