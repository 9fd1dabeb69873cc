"""Phases of preparation: the time of each compile phase, and the compiled code."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter_ns
from typing import Any

from braces.errors import visible
from braces.ir.records import Body, Op, ProgramDef
from braces.lower.interpret.operator_timing import Span
from braces.passes.core.pipeline import Pass, run_pass
from braces.report import in_time
from braces.runtime.profiling.hlo_text import HloModule, Numbering
from braces.runtime.profiling.table_rows import SECOND
from braces.runtime.profiling.time_attribution import ProfiledCode

TRACK = "making"


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase before the measured runs.

    Attributes:
        name: Its name.
        seconds: Its duration.
        parts: Its nested phases.
    """

    name: str
    seconds: float
    parts: tuple[Phase, ...] = ()

    def __str__(self) -> str:
        inside = f" ({', '.join(map(str, self.parts))})" if self.parts else ""
        return f"{visible(self.name)} {in_time(self.seconds)}{inside}"


@dataclass
class PhaseRecorder:
    """Compilation listener of a profile; see `CompileListener`.

    Attributes:
        phases: The phases, in order.
        spans: The spans of these and of nested phases.
        compiled: The compiled code, by module name.
        codes: The same as objects of JAX, in order.
    """

    phases: list[Phase] = field(default_factory=list[Phase])
    spans: list[Span] = field(default_factory=list[Span])
    compiled: dict[str, ProfiledCode] = field(default_factory=dict[str, ProfiledCode])
    codes: list[Any] = field(default_factory=list[Any])
    _numbering: Numbering | None = None

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Measure the time of one phase."""
        outer, self.phases, start = self.phases, list[Phase](), perf_counter_ns()
        yield
        end = perf_counter_ns()
        outer.append(Phase(name, (end - start) / SECOND, tuple(self.phases)))
        self.phases = outer
        self.spans.append(Span(name, start, end, TRACK, {}))

    def run_pass(self, pass_: Pass, program: ProgramDef) -> ProgramDef:
        """Run a pass on a program."""
        with self.phase(pass_.name):
            return run_pass(pass_, program)

    def scopes(self, body: Body) -> Callable[[str, Op], str]:
        """Return a naming with numbers, unique for each operator."""
        self._numbering = Numbering(body)
        return self._numbering.scope

    def named(self, name: str) -> str:
        """Return a name that is unique for these operators.

        Cached code of JAX has the name scopes of the program that it was compiled for. This
        name ensures that they are those of this program.
        """
        assert self._numbering is not None, "operators are numbered before code is named"
        places = repr((len(self.codes), self._numbering.places))
        return f"{name}_{sha256(places.encode()).hexdigest()[:16]}"

    def record_code(self, code: Any) -> None:
        """Parse the compiled code."""
        assert self._numbering is not None, "operators are numbered before they are compiled"
        with self.phase("parse compiled code"):
            parsed = HloModule(code.as_text())
        self.compiled[parsed.module] = ProfiledCode(parsed, self._numbering)
        self.codes.append(code)
