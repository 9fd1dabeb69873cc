"""Statistics of an executor: runs and compilations."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from braces.hints.objects import Hinted
from braces.report import count_text

MAX_LISTED = 1000
"""The number of compilations that are listed, the latest ones."""


@dataclass(frozen=True)
class Compilation:
    """One compilation of a program.

    Attributes:
        program: The number of the program, in the order in which the executor first compiled
            them.
        change: The change since the last compilation of this program, or the shapes of the
            feeds in the first one.
        seconds: The time to trace and lower the program, and for XLA to compile it.
        read: Whether XLA's code was read from the persistent cache.
    """

    program: int
    change: str
    seconds: float
    read: bool

    def __str__(self) -> str:
        read = "yes" if self.read else "no"
        return f"{self.program:<8} {self.seconds:8.2f}  {read:<4}  {self.change}"


@dataclass(frozen=True)
class Stats(Hinted):
    """Statistics of an executor up to now; returned by `Executor.stats`.

    Interpretation compiles single operators for the whole process, which are not counted.

    Attributes:
        runs: The runs that succeeded, including those of `init` and `evaluate`.
        compilations: The number of compilations, each for a set of shapes.
        reads: The number of these that were read from the persistent cache.
        seconds: The time of all compilations.
        repeats: The number of runs repeated because an assumed size was wrong.
        listed: The latest compilations, up to 1,000, the oldest first.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.tanh(br.data("x", ["n"]))
        >>> exe, scope = br.Executor(), br.Scope()
        >>> for rows in ([1.0], [1.0], [1.0, 2.0]):
        ...     _ = exe.run(prog, scope, {"x": rows}, y)
        >>> exe.stats.runs, exe.stats.compilations
        (3, 2)
        >>> [one.change for one in exe.stats.listed]
        ['`x` is f32[1]', '`x` is f32[2], was f32[1]']
    """

    runs: int = 0
    compilations: int = 0
    reads: int = 0
    seconds: float = 0.0
    repeats: int = 0
    listed: tuple[Compilation, ...] = ()

    @property
    def summary(self) -> str:
        """All counts in one line."""
        parts = [
            count_text(self.runs, "run"),
            f"{count_text(self.compilations, 'compilation')} in {self.seconds:.2f} s",
        ]
        if self.reads:
            parts.append(f"{self.reads} of them read from the cache")
        if self.repeats:
            parts.append(f"{self.repeats} runs repeated")
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __str__(self) -> str:
        if not self.listed:
            return self.summary
        head = f"{'program':<8} {'seconds':>8}  read  compiled for"
        return "\n".join([self.summary, head, *map(str, self.listed)])


@dataclass
class Counters:
    """Counters of an executor, updated by plans and runs.

    Attributes:
        runs, compilations, reads, seconds, repeats: As in `Stats`.
        listed: The latest compilations.
    """

    runs: int = 0
    compilations: int = 0
    reads: int = 0
    seconds: float = 0.0
    repeats: int = 0
    listed: list[Compilation] = field(default_factory=list[Compilation])

    def add(self, compilation: Compilation) -> None:
        """Count a compilation."""
        self.compilations += 1
        self.reads += compilation.read
        self.seconds += compilation.seconds
        self.listed.append(compilation)
        del self.listed[:-MAX_LISTED]

    def stats(self) -> Stats:
        """Return the current statistics."""
        listed = tuple(self.listed)
        counts = self.runs, self.compilations, self.reads, self.seconds, self.repeats
        return Stats(*counts, listed)


class WithStats:
    """An object that counts its runs and compilations."""

    _counters: Counters

    @property
    def stats(self) -> Stats:
        """Statistics of runs and compilations up to now; `print(exe.stats)` shows a table."""
        return self._counters.stats()

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        return (
            f"<code>{html.escape(repr(self))}</code><pre>{html.escape(str(self.stats))}</pre>"
        )
