"""Attribution of instruction times to the operators that they were compiled from.

The time of a fusion counts for all of its operators together, because it cannot be divided. The
same holds for loops that XLA compiled as one instruction. If the instructions within a loop or
a branch have separate times, its own time is the remainder.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from braces.define.decorator import OPS
from braces.lower.interpret.operator_timing import MAX_SPANS, OpTime, Span
from braces.runtime.profiling.hlo_text import HloModule, Instruction, Numbering
from braces.runtime.profiling.table_rows import Key, label_of
from braces.runtime.profiling.xla_trace import TraceEvent


@dataclass(frozen=True)
class ProfiledCode:
    """Code that was compiled for a profile.

    Attributes:
        code: Its instructions.
        numbering: The operators of the source block.
    """

    code: HloModule
    numbering: Numbering


@dataclass(eq=False)
class _Execution:
    """An executed instruction.

    Attributes:
        event: Its time interval.
        instruction: The instruction.
        parent: The loop, branch or call that ran it.
        covered_ns: The time of nested instructions, without overlaps.
        until_ns: The end of the last of those.
        key: The operators that it was compiled from.
    """

    event: TraceEvent
    instruction: Instruction
    parent: _Execution | None
    covered_ns: float = 0.0
    until_ns: float = 0.0
    key: Key = ()

    @property
    def self_ns(self) -> int:
        """Its own time."""
        return max(0, round(self.event.end_ns - self.event.start_ns - self.covered_ns))

    def cover(self, start_ns: float, end_ns: float) -> None:
        """Subtract a nested interval; overlaps count once."""
        begin = max(start_ns, self.until_ns, self.event.start_ns)
        end = min(end_ns, self.event.end_ns)
        self.covered_ns += max(0.0, end - begin)
        self.until_ns = max(self.until_ns, end)


@dataclass
class TimeAccount:
    """Times of compiled runs, by operators.

    Attributes:
        works: The cost of operators that are computed together.
        spans: The first `MAX_SPANS` instructions.
        left_out: The number of further instructions.
        threads: The maximum number of threads in one run.
    """

    works: dict[Key, OpTime] = field(default_factory=dict[Key, OpTime])
    spans: list[Span] = field(default_factory=list[Span])
    left_out: int = 0
    threads: int = 0

    def add(
        self, code: Mapping[str, ProfiledCode], events: Sequence[TraceEvent]
    ) -> tuple[int, int] | None:
        """Record the events of one run.

        Returns:
            The start of the first and the end of the last event; `None` without any.
        """
        tracks = _Tracks()
        for module in dict.fromkeys(event.module for event in events):
            compiled = code[module]
            executed = _link_parents(compiled.code, [e for e in events if e.module == module])
            entered = {ran.parent.instruction.name for ran in executed if ran.parent}
            for ran in executed:
                ran.key = _attribute_ops(compiled, ran, ran.instruction.name in entered)
            self._enter(executed)
            self._draw(executed, compiled, tracks)
        self.threads = max(self.threads, len({event.thread for event in events}))
        if not events:
            return None
        first, last = min(e.start_ns for e in events), max(e.end_ns for e in events)
        return round(first), round(last)

    def _enter(self, several: Iterable[_Execution]) -> None:
        calls = defaultdict[tuple[Key, str], Counter[str]](Counter)
        for ran in several:
            self.works.setdefault(ran.key, OpTime()).self_ns += ran.self_ns
            if ran.parent is None or ran.parent.key != ran.key:
                instruction = ran.instruction
                calls[ran.key, instruction.computation][instruction.name] += 1
        for (key, _), counts in calls.items():
            self.works[key].calls += max(counts.values())

    def _draw(
        self, several: Iterable[_Execution], compiled: ProfiledCode, tracks: _Tracks
    ) -> None:
        ops = dict(zip(compiled.numbering.places, compiled.numbering.ops, strict=True))
        for ran in several:
            if len(self.spans) >= MAX_SPANS:
                self.left_out += 1
                continue
            paths = ", ".join(place.path for place in ran.key)
            details = {"operators": paths, "instruction": ran.instruction.name}
            start, end = round(ran.event.start_ns), round(ran.event.end_ns)
            track = tracks.find(ran)
            self.spans.append(Span(label_of(ran.key, ops), start, end, track, details))


class _Tracks:
    """Assignment of spans to tracks, on which spans nest or are disjoint."""

    def __init__(self) -> None:
        self._open = defaultdict[str, list[float]](list)
        self._of = dict[_Execution, str]()

    def find(self, ran: _Execution) -> str:
        """Return the track of an instruction; calls are in the order of starts.

        It is the track of the parent loop if the span fits there, else one of its thread.
        """
        thread = ran.event.thread
        more = (f"{thread} ({n})" for n in range(2, len(self._open) + 3))
        above = [self._of[ran.parent]] if ran.parent else []
        track = next(
            candidate
            for candidate in (*above, thread, *more)
            if self._fits(candidate, ran.event)
        )
        self._open[track].append(ran.event.end_ns)
        self._of[ran] = track
        return track

    def _fits(self, track: str, event: TraceEvent) -> bool:
        ends = self._open[track]
        while ends and ends[-1] <= event.start_ns:
            ends.pop()
        return not ends or event.end_ns <= ends[-1]


def _link_parents(code: HloModule, events: Sequence[TraceEvent]) -> list[_Execution]:
    """Return the executed instructions by start, each with its parent."""
    executed, latest = list[_Execution](), dict[str, _Execution]()
    for event in sorted(events, key=lambda entry: (entry.start_ns, -entry.end_ns)):
        instruction = code.instructions.get(event.name) or Instruction(event.name, "")
        ran = _Execution(event, instruction, _find_parent(code, instruction, event, latest))
        executed.append(ran)
        latest[event.name] = ran
    _infer_ends(code, executed, frozenset(latest))
    for ran in executed:
        if ran.parent is not None:
            ran.parent.cover(ran.event.start_ns, ran.event.end_ns)
    return executed


def _find_parent(
    code: HloModule,
    instruction: Instruction,
    event: TraceEvent,
    latest: Mapping[str, _Execution],
) -> _Execution | None:
    """Return the instruction that runs the computation of another, or one around it."""
    caller = code.callers.get(instruction.computation)
    while caller is not None:
        caller_run = latest.get(caller.name)
        if caller_run is not None and event.start_ns < caller_run.event.end_ns:
            return caller_run
        caller = code.callers.get(caller.computation)
    return None


def _infer_ends(code: HloModule, several: Sequence[_Execution], there: frozenset[str]) -> None:
    """Infer the unknown ends of events.

    An unknown end is the start of the next dependent event: an instruction that reads the
    result, another part of the same loop, or the same instruction in the next iteration. A loop
    ends with its last instruction.
    """
    end = max((ran.event.start_ns for ran in several), default=0.0)
    end = max([end, *(ran.event.end_ns for ran in several if ran.event.sure)])
    last = dict[_Execution, float]()
    for at, ran in reversed(list(enumerate(several))):
        event, parent = ran.event, ran.parent
        if not event.sure:
            later = (several[i] for i in range(at + 1, len(several)))
            event.end_ns = min(event.end_ns, end, _find_next_start(code, later, ran, there))
            event.end_ns = min(event.end_ns, last.get(ran, end))
        if parent is not None:
            last[parent] = max(last.get(parent, 0.0), event.end_ns)


def _find_next_start(
    code: HloModule, later: Iterable[_Execution], ran: _Execution, there: frozenset[str]
) -> float:
    """Return the first start that must follow the end of an instruction."""
    after, own = (
        _find_dependents(code, ran.instruction.name, there),
        ran.instruction.computation,
    )
    for other in later:
        same = other.parent is ran.parent
        name, computation = other.instruction.name, other.instruction.computation
        if same and (name in after or (ran.parent and computation != own)):
            return other.event.start_ns
    return inf


def _find_dependents(code: HloModule, name: str, there: frozenset[str]) -> set[str]:
    """Return an instruction and its executed readers, direct or indirect."""
    names, pending = {name}, [name]
    while pending:
        users = set(code.users.get(pending.pop(), ())) - names
        names |= users
        pending += users - there
    return names


def _attribute_ops(compiled: ProfiledCode, ran: _Execution, entered: bool) -> Key:
    """Return the operators that an instruction was compiled from.

    Costly ones come first, and those that own blocks last, except for a loop executed as a
    whole. Instructions that XLA inserted belong to the operator that owns the block.
    """
    executed, numbering = ran.instruction, compiled.numbering
    numbers = dict.fromkeys(executed.numbers)
    if not entered:
        inside = frozenset[int]().union(*map(compiled.code.inside, executed.called))
        numbers |= dict.fromkeys(sorted(inside))
    if not numbers:
        return ran.parent.key[:1] if ran.parent else ()
    ops, order = numbering.ops, list(numbers)
    if not (executed.runs and ops[order[0]].bodies()):
        order.sort(key=lambda n: (bool(ops[n].bodies()), not OPS.get(ops[n].type).costly))
    return tuple(numbering.places[n] for n in order)
