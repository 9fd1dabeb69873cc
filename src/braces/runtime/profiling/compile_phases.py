"""How a plan was made ready to run: how long each phase took, and what XLA made."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter_ns
from typing import Any

from braces.errors import visible
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.text_table import in_time
from braces.lower.interpret.operator_timing import Span
from braces.passes.core.pipeline import Pass, run_pass
from braces.runtime.profiling.hlo_text import Code, Numbering
from braces.runtime.profiling.table_rows import SECOND
from braces.runtime.profiling.time_attribution import Compiled

TRACK = "making"


@dataclass(frozen=True, slots=True)
class Phase:
    """Something that is done once before runs are measured.

    Attributes:
        name: What it is.
        seconds: How long it took.
        parts: What was done within.
    """

    name: str
    seconds: float
    parts: tuple[Phase, ...] = ()

    def __str__(self) -> str:
        inside = f" ({', '.join(map(str, self.parts))})" if self.parts else ""
        return f"{visible(self.name)} {in_time(self.seconds)}{inside}"


@dataclass
class Maker:
    """Takes note of how code is made; see `braces.runtime.monitoring.compile_listener.Making`.

    Attributes:
        phases: What was done, in order.
        spans: The same and what was done within, to be drawn.
        compiled: What was made, by what it is called when it runs.
        codes: The same as JAX has it, in order.
    """

    phases: list[Phase] = field(default_factory=list[Phase])
    spans: list[Span] = field(default_factory=list[Span])
    compiled: dict[str, Compiled] = field(default_factory=dict[str, Compiled])
    codes: list[Any] = field(default_factory=list[Any])
    _numbering: Numbering | None = None

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Take the time of one phase."""
        outer, self.phases, start = self.phases, list[Phase](), perf_counter_ns()
        yield
        end = perf_counter_ns()
        outer.append(Phase(name, (end - start) / SECOND, tuple(self.phases)))
        self.phases = outer
        self.spans.append(Span(name, start, end, TRACK, {}))

    def run_pass(self, one: Pass, program: ProgramDef) -> ProgramDef:
        """What a pass makes of a program."""
        with self.phase(one.name):
            return run_pass(one, program)

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """Names with numbers, which no two operators share."""
        self._numbering = Numbering(body)
        return self._numbering.scope

    def named(self, name: str) -> str:
        """Another name for other operators.

        Where JAX finds code that it kept, it has the scopes of the program that it was made
        for. With this name, they are those of this one.
        """
        assert self._numbering is not None, "operators have numbers before code has a name"
        places = repr((len(self.codes), self._numbering.places))
        return f"{name}_{sha256(places.encode()).hexdigest()[:16]}"

    def made(self, code: Any) -> None:
        """Read what XLA made."""
        assert self._numbering is not None, "operators have numbers before they are compiled"
        with self.phase("read what XLA made"):
            found = Code(code.as_text())
        self.compiled[found.module] = Compiled(found, self._numbering)
        self.codes.append(code)
