"""Planning context of passes: target machine, sizes, and the answers that passes decided by.

    every = at_once(each=(24*b, 4*b), trips=t)        # in a pass: iterations that fit
    with planning(target, {"b": 32, "t": 64}) as answers: …   # in the caller of the passes

A program has symbolic sizes and is planned before any of them is fed. A pass whose decision
depends on sizes queries them here. The answers are stored with the plan. A run with other sizes
reuses the plan if all answers are the same, and gets a separate plan otherwise. Unknown sizes
count as 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from braces.dims import Dim, Size, substitute
from braces.dims.human_units import format_bytes
from braces.target import Target, target_of

Answers: TypeAlias = "dict[SizeQuery, int]"
"""Size queries of passes, with their answers."""


@dataclass(frozen=True)
class SizeQuery:
    """Size query: do so many bytes fit so many times?

    Attributes:
        each: Bytes of one time; the entries are added.
        times: Number of times.
        limit: Available bytes.
        counted: Whether the answer is the number of times that fit, if not all do.
    """

    each: tuple[Size, ...]
    times: Size
    limit: int
    counted: bool = False

    def answer(self, sizes: Mapping[str, int]) -> int:
        """Return 0 if all fit; else a power of two that fits if `counted`, or 1.

        There are few answers, however many sizes there are.
        """
        if self.total_bytes(sizes) <= self.limit:
            return 0
        each = sum(_evaluate_size(size, sizes) for size in self.each)
        return 1 << max(0, (self.limit // each).bit_length() - 1) if self.counted else 1

    def total_bytes(self, sizes: Mapping[str, int]) -> int:
        """Return the bytes of all times."""
        each = sum(_evaluate_size(size, sizes) for size in self.each)
        return each * _evaluate_size(self.times, sizes)

    @property
    def names(self) -> set[str]:
        """The named dimensions that the answer depends on."""
        dim_names = (size.names() for size in (*self.each, self.times) if isinstance(size, Dim))
        return set[str]().union(*dim_names)


def _evaluate_size(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    value = substitute(size, {**dict.fromkeys(size.names(), 1), **sizes})
    assert isinstance(value, int)
    return value


@dataclass(frozen=True)
class PassContext:
    """Context of passes: target and known sizes.

    Attributes:
        target: The machine.
        sizes: Known named dimensions of the run.
        answers: The size queries so far, with their answers.
    """

    target: Target
    sizes: Mapping[str, int]
    answers: Answers = field(default_factory=dict["SizeQuery", int])


_setting: ContextVar[PassContext | None] = ContextVar("braces_setting", default=None)


def current_context() -> PassContext:
    """Return the current context; by default a CPU and no sizes."""
    return _setting.get() or PassContext(target_of("cpu"), {})


@contextmanager
def planning(target: Target | None, sizes: Mapping[str, int]) -> Generator[Answers]:
    """Set target and sizes for the passes run inside; yield their size queries with answers."""
    context = PassContext(target or target_of("cpu"), sizes)
    token = _setting.set(context)
    try:
        yield context.answers
    finally:
        _setting.reset(token)


def iterations_that_fit(each: Iterable[Size], trips: Size) -> int:
    """Return how many iterations of so many bytes fit at once; 0 if all do."""
    return _ask(replace(_query_iterations(each, trips), counted=True))


def exceeds_memory(each: Iterable[Size], trips: Size) -> bool:
    """Return whether all iterations of so many bytes do not fit at once."""
    return _ask(_query_iterations(each, trips)) != 0


def surely_fit(most: Iterable[Size], trips: Size) -> bool:
    """Return `not too_many` for an upper bound of bytes; after False, query the exact bytes."""
    question, context = _query_iterations(most, trips), current_context()
    return not question.answer(context.sizes) and not _ask(question)


def exceeds_limit(each: Iterable[Size], limit: int) -> bool:
    """Return whether these bytes exceed a limit."""
    return _ask(SizeQuery(_group_terms(each), 1, limit)) != 0


def format_total_bytes(each: Iterable[Size], trips: Size = 1) -> str:
    """Format the bytes of all iterations for messages; unknown sizes count as 1."""
    return format_bytes(_query_iterations(each, trips).total_bytes(current_context().sizes))


def _query_iterations(each: Iterable[Size], trips: Size) -> SizeQuery:
    return SizeQuery(_group_terms(each), trips, current_context().target.stacked_bytes)


def _group_terms(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """Merge equal sizes; one polynomial of all could have more terms than a size may."""
    return tuple(size * count for size, count in Counter(sizes).items())


def _ask(question: SizeQuery) -> int:
    context = current_context()
    return context.answers.setdefault(question, question.answer(context.sizes))
