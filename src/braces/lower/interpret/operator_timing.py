"""The time of each operator that is interpreted, and the bytes that are alive meanwhile.

The clock stands still while it takes notes, so that what measuring costs is part of no time.
What an operator computes is waited for before its time ends.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import ref

from braces.ir.records import Op
from braces.lazy import jax

MOST_SPANS = 200_000
TRACK = "operators"


class Step(Protocol):
    """What the interpreter goes through, one for each operator."""

    op: Op


S = TypeVar("S", bound=Step)


class Placed(NamedTuple):
    """An operator by where it stands.

    Attributes:
        block: The path of its block, as `loop_0/body`; empty for block 0.
        name: Its own name, unique there.
    """

    block: str
    name: str

    @property
    def path(self) -> str:
        """Both, as `loop_0/body/add_1`."""
        return f"{self.block}/{self.name}".lstrip("/")


class Span(NamedTuple):
    """Something that took time, in nanoseconds.

    Attributes:
        name: What it is called.
        start_ns: When it began.
        end_ns: When it ended.
        track: Where it is drawn: spans of one track lie beside each other, or within.
        told: What else is known of it.
    """

    name: str
    start_ns: int
    end_ns: int
    track: str
    told: Mapping[str, str]


@dataclass(slots=True)
class Work:
    """What something took in all.

    Attributes:
        calls: How often it was computed.
        self_ns: How long that took, less what was computed within.
    """

    calls: int = 0
    self_ns: int = 0


@dataclass(slots=True)
class _Open:
    """An operator that is being computed, with the block of it that ran last.

    Attributes:
        placed: The operator.
        inside: Its path with the trips around it, as `loop_0/body[2]/loop_1`.
        start_ns: When it began.
        inner_ns: How long what is within took.
        path: That block with its trip, as `loop_0/body[2]`; `None` where there is none yet.
        block: The same block without trips.
        began_ns: When its first operator began.
        ended_ns: When its last one so far ended.
    """

    placed: Placed
    inside: str
    start_ns: int
    inner_ns: int = 0
    path: str | None = None
    block: str = ""
    began_ns: int = 0
    ended_ns: int = 0

    def enter(self, path: str, now: int) -> None:
        """Begin with a block, or with one more trip of it."""
        label = path[len(self.inside) + 1 :].rpartition("[")[0]
        self.path, self.block, self.began_ns = path, f"{self.placed.path}/{label}", now


@dataclass
class Clock:
    """Takes the time of operators while they are interpreted.

    Attributes:
        works: What each operator took.
        spans: The first `MOST_SPANS` operators and trips, as they were over.
        left_out: How many more there were.
        live_bytes: The bytes of all values that operators bound and that are still alive.
        peak_bytes: The most that were.
        levels: When the bytes changed, and what they were then.
    """

    works: dict[Placed, Work] = field(default_factory=dict[Placed, Work])
    spans: list[Span] = field(default_factory=list[Span])
    left_out: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    levels: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _stopped_ns: int = 0
    _held: dict[int, Any] = field(default_factory=dict[int, Any])
    _open: list[_Open] = field(default_factory=list[_Open])

    def now(self) -> int:
        """The time in nanoseconds, less all in which the clock stood still."""
        return perf_counter_ns() - self._stopped_ns

    def begin(self, values: Iterable[Any]) -> None:
        """Begin with a run, which has these values."""
        now = self.now()
        self._open = [_Open(Placed("", ""), "", now, path="", began_ns=now, ended_ns=now)]
        self._hold(values)

    def window(self) -> tuple[int, int]:
        """When the last run began with its operators, and when the last of them ended."""
        return self._open[0].began_ns, self._open[0].ended_ns

    def over(self, steps: Iterable[S], path: str, env: Mapping[str, Any]) -> Generator[S]:
        """The steps of a block; the time of each ends when the next is asked for."""
        for step in steps:
            self._start(step.op, path)
            yield step
            for name in step.op.binds():
                if isinstance(value := env[name], jax.Array):
                    value.block_until_ready()
            self._stop(step.op, env)

    def _start(self, op: Op, path: str) -> None:
        entered = perf_counter_ns()
        owner, now = self._open[-1], entered - self._stopped_ns
        if owner.path != path:
            self._leave(owner)
            owner.enter(path, now)
        inside = f"{path}/{op.name}".lstrip("/")
        self._open.append(_Open(Placed(owner.block, op.name), inside, now))
        self._stopped_ns += perf_counter_ns() - entered

    def _stop(self, op: Op, env: Mapping[str, Any]) -> None:
        entered = perf_counter_ns()
        done, now = self._open.pop(), entered - self._stopped_ns
        self._leave(done)
        took, owner = now - done.start_ns, self._open[-1]
        owner.inner_ns, owner.ended_ns = owner.inner_ns + took, now
        work = self.works.setdefault(done.placed, Work())
        work.calls, work.self_ns = work.calls + 1, work.self_ns + took - done.inner_ns
        self._keep(op.name, done.start_ns, now, {"type": op.type, "path": done.inside})
        self._hold(env[name] for name in op.binds())
        if not self.levels or self.levels[-1][1] != self.live_bytes:
            self._level(now)
        self._stopped_ns += perf_counter_ns() - entered

    def _leave(self, owner: _Open) -> None:
        """Take note of a block that was gone through once; of the main one, runs do."""
        if owner.path:
            label = owner.path[len(owner.inside) + 1 :]
            self._keep(label, owner.began_ns, owner.ended_ns, {"path": owner.path})

    def _keep(self, name: str, start_ns: int, end_ns: int, told: Mapping[str, str]) -> None:
        if len(self.spans) < MOST_SPANS:
            self.spans.append(Span(name, start_ns, end_ns, TRACK, told))
        else:
            self.left_out += 1

    def _level(self, now: int) -> None:
        if len(self.levels) < MOST_SPANS:
            self.levels.append((now, self.live_bytes))

    def _hold(self, values: Iterable[Any]) -> None:
        """Count the bytes of values until they are let go."""
        for value in values:
            if isinstance(value, jax.Array) and id(value) not in self._held:
                key, size = id(value), value.nbytes
                self._held[key] = ref(value, lambda _, k=key, n=size: self._let_go(k, n))
                self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _let_go(self, key: int, size: int) -> None:
        del self._held[key]
        self.live_bytes -= size
