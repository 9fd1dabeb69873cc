"""The time of instructions that ran, put to the operators that they were made of.

A fusion counts for all operators in it together: no part of it is anybody's alone. So does what
XLA compiled as one though it has loops in it. Where the instructions within a loop or a branch
have times of their own, its own time is the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from braces.define.decorator import OPS
from braces.lower.interpret.operator_timing import MOST_SPANS, Span, Work
from braces.runtime.profiling.hlo_text import Code, Instruction, Numbering
from braces.runtime.profiling.table_rows import Key, name_of
from braces.runtime.profiling.xla_trace import Event


@dataclass(frozen=True)
class Compiled:
    """Code that was made for a profile.

    Attributes:
        code: Its instructions.
        numbering: The operators of the block that it was made of.
    """

    code: Code
    numbering: Numbering


@dataclass(eq=False)
class _Ran:
    """An instruction that ran.

    Attributes:
        event: When.
        instruction: Which.
        parent: The loop, branch or call that ran it.
        covered_ns: How long what it ran took, less what ran at the same time.
        until_ns: When the last of those ended.
        key: The operators that it was computed for.
    """

    event: Event
    instruction: Instruction
    parent: _Ran | None
    covered_ns: float = 0.0
    until_ns: float = 0.0
    key: Key = ()

    @property
    def self_ns(self) -> int:
        """How long it took itself."""
        return max(0, round(self.event.end_ns - self.event.start_ns - self.covered_ns))

    def cover(self, start_ns: float, end_ns: float) -> None:
        """Take off what ran within, a moment once."""
        begin = max(start_ns, self.until_ns, self.event.start_ns)
        end = min(end_ns, self.event.end_ns)
        self.covered_ns += max(0.0, end - begin)
        self.until_ns = max(self.until_ns, end)


@dataclass
class Account:
    """What compiled runs took, by operators.

    Attributes:
        works: What those that are computed together took.
        spans: The first `MOST_SPANS` instructions.
        left_out: How many more there were.
        threads: The most of them in which one run computed.
    """

    works: dict[Key, Work] = field(default_factory=dict[Key, Work])
    spans: list[Span] = field(default_factory=list[Span])
    left_out: int = 0
    threads: int = 0

    def add(
        self, made: Mapping[str, Compiled], events: Sequence[Event]
    ) -> tuple[int, int] | None:
        """Enter the events of one run.

        Returns:
            When the first began and the last was done; `None` without any.
        """
        tracks = _Tracks()
        for module in dict.fromkeys(event.module for event in events):
            compiled = made[module]
            several = _followed(compiled.code, [e for e in events if e.module == module])
            entered = {ran.parent.instruction.name for ran in several if ran.parent}
            for ran in several:
                ran.key = _key(compiled, ran, ran.instruction.name in entered)
            self._enter(several)
            self._draw(several, compiled, tracks)
        self.threads = max(self.threads, len({event.thread for event in events}))
        if not events:
            return None
        first, last = min(e.start_ns for e in events), max(e.end_ns for e in events)
        return round(first), round(last)

    def _enter(self, several: Iterable[_Ran]) -> None:
        calls = defaultdict[tuple[Key, str], Counter[str]](Counter)
        for ran in several:
            self.works.setdefault(ran.key, Work()).self_ns += ran.self_ns
            if ran.parent is None or ran.parent.key != ran.key:
                instruction = ran.instruction
                calls[ran.key, instruction.computation][instruction.name] += 1
        for (key, _), counts in calls.items():
            self.works[key].calls += max(counts.values())

    def _draw(self, several: Iterable[_Ran], compiled: Compiled, tracks: _Tracks) -> None:
        ops = dict(zip(compiled.numbering.places, compiled.numbering.ops, strict=True))
        for ran in several:
            if len(self.spans) >= MOST_SPANS:
                self.left_out += 1
                continue
            paths = ", ".join(place.path for place in ran.key)
            told = {"operators": paths, "instruction": ran.instruction.name}
            start, end = round(ran.event.start_ns), round(ran.event.end_ns)
            track = tracks.find(ran)
            self.spans.append(Span(name_of(ran.key, ops), start, end, track, told))


class _Tracks:
    """Where spans are drawn: beside each other or within, one track for each thread or more."""

    def __init__(self) -> None:
        self._open = defaultdict[str, list[float]](list)
        self._of = dict[_Ran, str]()

    def find(self, ran: _Ran) -> str:
        """The track of an instruction, which began no sooner than those before it.

        It is that of the loop that ran it where that fits, else that of its thread.
        """
        thread = ran.event.thread
        more = (f"{thread} ({n})" for n in range(2, len(self._open) + 3))
        above = [self._of[ran.parent]] if ran.parent else []
        found = next(one for one in (*above, thread, *more) if self._fits(one, ran.event))
        self._open[found].append(ran.event.end_ns)
        self._of[ran] = found
        return found

    def _fits(self, track: str, event: Event) -> bool:
        ends = self._open[track]
        while ends and ends[-1] <= event.start_ns:
            ends.pop()
        return not ends or event.end_ns <= ends[-1]


def _followed(code: Code, events: Sequence[Event]) -> list[_Ran]:
    """Instructions in the order in which they began, each with what ran it."""
    found, latest = list[_Ran](), dict[str, _Ran]()
    for event in sorted(events, key=lambda one: (one.start_ns, -one.end_ns)):
        instruction = code.instructions.get(event.name) or Instruction(event.name, "")
        ran = _Ran(event, instruction, _parent(code, instruction, event, latest))
        found.append(ran)
        latest[event.name] = ran
    _bound(code, found, frozenset(latest))
    for ran in found:
        if ran.parent is not None:
            ran.parent.cover(ran.event.start_ns, ran.event.end_ns)
    return found


def _parent(
    code: Code, instruction: Instruction, event: Event, latest: Mapping[str, _Ran]
) -> _Ran | None:
    """What runs the computation that an instruction is part of, or one around that."""
    caller = code.callers.get(instruction.computation)
    while caller is not None:
        found = latest.get(caller.name)
        if found is not None and event.start_ns < found.event.end_ns:
            return found
        caller = code.callers.get(caller.computation)
    return None


def _bound(code: Code, several: Sequence[_Ran], there: frozenset[str]) -> None:
    """Say when those were done of which it is not sure.

    That was when what is next began: an instruction that reads its result, another part of its
    loop, or itself in the next trip. A loop was done when the last in it was.
    """
    end = max((ran.event.start_ns for ran in several), default=0.0)
    end = max([end, *(ran.event.end_ns for ran in several if ran.event.sure)])
    last = dict[_Ran, float]()
    for at, ran in reversed(list(enumerate(several))):
        event, parent = ran.event, ran.parent
        if not event.sure:
            later = (several[i] for i in range(at + 1, len(several)))
            event.end_ns = min(event.end_ns, end, _next(code, later, ran, there))
            event.end_ns = min(event.end_ns, last.get(ran, end))
        if parent is not None:
            last[parent] = max(last.get(parent, 0.0), event.end_ns)


def _next(code: Code, later: Iterable[_Ran], ran: _Ran, there: frozenset[str]) -> float:
    """When that began which cannot have begun before an instruction was done."""
    after, own = _after(code, ran.instruction.name, there), ran.instruction.computation
    for one in later:
        same = one.parent is ran.parent
        name, computation = one.instruction.name, one.instruction.computation
        if same and (name in after or (ran.parent and computation != own)):
            return one.event.start_ns
    return inf


def _after(code: Code, name: str, there: frozenset[str]) -> set[str]:
    """Itself, and what reads its result of all that ran, also by way of what has no time."""
    found, pending = {name}, [name]
    while pending:
        users = set(code.users.get(pending.pop(), ())) - found
        found |= users
        pending += users - there
    return found


def _key(compiled: Compiled, ran: _Ran, entered: bool) -> Key:
    """The operators that an instruction was computed for.

    The costly come first, and those that own blocks last, but for a loop that was run as a
    whole. What XLA put in by itself is for the operator that owns the block.
    """
    one, numbering = ran.instruction, compiled.numbering
    numbers = dict.fromkeys(one.numbers)
    if not entered:
        inside = frozenset[int]().union(*map(compiled.code.inside, one.called))
        numbers |= dict.fromkeys(sorted(inside))
    if not numbers:
        return ran.parent.key[:1] if ran.parent else ()
    ops, order = numbering.ops, list(numbers)
    if not (one.runs and ops[order[0]].bodies()):
        order.sort(key=lambda n: (bool(ops[n].bodies()), not OPS.get(ops[n].type).costly))
    return tuple(numbering.places[n] for n in order)
