"""Profiling clock of the interpreter: time of each operator, and bytes of live values.

The clock is stopped while it records, so its own overhead is part of no measurement. The time
of an operator ends when its results have been computed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import ref

from braces.ir.paths import label_without_number
from braces.ir.records import Op
from braces.lazy import jax

MAX_SPANS = 200_000
TRACK = "operators"


class Step(Protocol):
    """Step of the interpreter: one operator."""

    op: Op


S = TypeVar("S", bound=Step)


class OpLocation(NamedTuple):
    """An operator with its location.

    Attributes:
        block: The path of its block, as `loop_0/body`; empty for block 0.
        name: Its own name, unique there.
    """

    block: str
    name: str

    @property
    def path(self) -> str:
        """The block and the name, as `loop_0/body/add_1`."""
        return f"{self.block}/{self.name}".lstrip("/")


class Span(NamedTuple):
    """A time interval, in nanoseconds.

    Attributes:
        name: Its label.
        start_ns: Its start.
        end_ns: Its end.
        track: The track on which it is drawn; spans of one track are adjacent or nested.
        told: More facts about it.
    """

    name: str
    start_ns: int
    end_ns: int
    track: str
    told: Mapping[str, str]


@dataclass(slots=True)
class OpTime:
    """Total cost of an operator.

    Attributes:
        calls: The number of calls.
        self_ns: The time of all calls, without nested operators.
    """

    calls: int = 0
    self_ns: int = 0


@dataclass(slots=True)
class _Open:
    """An operator being computed, with the block of it that ran last.

    Attributes:
        placed: The operator.
        op: Its record; `None` for the whole run.
        inside: Its path with the iterations around it, as `loop_0/body[2]/loop_1`.
        start_ns: Its start.
        inner_ns: The time of nested operators.
        path: The path of that block with its iteration, as `loop_0/body[2]`; `None` before the
            first one.
        block: The path of the block without iterations.
        began_ns: The start of the first operator of the block.
        ended_ns: The end of the last operator so far.
    """

    placed: OpLocation
    op: Op | None
    inside: str
    start_ns: int
    inner_ns: int = 0
    path: str | None = None
    block: str = ""
    began_ns: int = 0
    ended_ns: int = 0

    def enter(self, path: str, now: int) -> None:
        """Start a block, or another iteration of it."""
        assert self.op is not None
        label = label_without_number(path[len(self.inside) + 1 :], self.op)
        self.path, self.block, self.began_ns = path, f"{self.placed.path}/{label}", now


@dataclass
class OperatorClock:
    """Measures the time of operators during interpretation.

    Attributes:
        works: The cost of each operator.
        spans: The first `MAX_SPANS` operators and iterations, in the order of their ends.
        left_out: The number of further spans.
        live_bytes: The size of all live values that operators bound, in bytes.
        peak_bytes: The maximum of `live_bytes`.
        levels: The times at which `live_bytes` changed, with the new values.
    """

    works: dict[OpLocation, OpTime] = field(default_factory=dict[OpLocation, OpTime])
    spans: list[Span] = field(default_factory=list[Span])
    left_out: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    levels: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _stopped_ns: int = 0
    _held: dict[int, Any] = field(default_factory=dict[int, Any])
    _open: list[_Open] = field(default_factory=list[_Open])

    def now(self) -> int:
        """Return the time in nanoseconds, less the periods of a stopped clock."""
        return perf_counter_ns() - self._stopped_ns

    def begin(self, values: Iterable[Any]) -> None:
        """Start a run, with its initial values."""
        now = self.now()
        self._open = [
            _Open(OpLocation("", ""), None, "", now, path="", began_ns=now, ended_ns=now)
        ]
        self._hold(values)

    def window(self) -> tuple[int, int]:
        """Return the start of the first and the end of the last operator of the last run."""
        return self._open[0].began_ns, self._open[0].ended_ns

    def over(self, steps: Iterable[S], path: str, env: Mapping[str, Any]) -> Generator[S]:
        """Yield the steps of a block; the time of each ends at the request for the next."""
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
        self._open.append(_Open(OpLocation(owner.block, op.name), op, inside, now))
        self._stopped_ns += perf_counter_ns() - entered

    def _stop(self, op: Op, env: Mapping[str, Any]) -> None:
        entered = perf_counter_ns()
        done, now = self._open.pop(), entered - self._stopped_ns
        self._leave(done)
        took, owner = now - done.start_ns, self._open[-1]
        owner.inner_ns, owner.ended_ns = owner.inner_ns + took, now
        work = self.works.setdefault(done.placed, OpTime())
        work.calls, work.self_ns = work.calls + 1, work.self_ns + took - done.inner_ns
        self._keep(op.name, done.start_ns, now, {"type": op.type, "path": done.inside})
        self._hold(env[name] for name in op.binds())
        if not self.levels or self.levels[-1][1] != self.live_bytes:
            self._level(now)
        self._stopped_ns += perf_counter_ns() - entered

    def _leave(self, owner: _Open) -> None:
        """Record one execution of a block; runs record the main block themselves."""
        if owner.path:
            label = owner.path[len(owner.inside) + 1 :]
            self._keep(label, owner.began_ns, owner.ended_ns, {"path": owner.path})

    def _keep(self, name: str, start_ns: int, end_ns: int, facts: Mapping[str, str]) -> None:
        if len(self.spans) < MAX_SPANS:
            self.spans.append(Span(name, start_ns, end_ns, TRACK, facts))
        else:
            self.left_out += 1

    def _level(self, now: int) -> None:
        if len(self.levels) < MAX_SPANS:
            self.levels.append((now, self.live_bytes))

    def _hold(self, values: Iterable[Any]) -> None:
        """Count the bytes of values until they are freed."""
        for value in values:
            if isinstance(value, jax.Array) and id(value) not in self._held:
                key, size = id(value), value.nbytes
                self._held[key] = ref(value, lambda _, k=key, n=size: self._let_go(k, n))
                self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _let_go(self, key: int, size: int) -> None:
        del self._held[key]
        self.live_bytes -= size
