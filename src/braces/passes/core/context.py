"""What passes are told of a run: the machine, and sizes; and what they decided by that.

    every = at_once(each=(24*b, 4*b), trips=t)        # in a pass: how many trips fit
    with planning(target, {"b": 32, "t": 64}) as answers: …   # in what runs passes

A program has names for sizes, and is planned before any of them is fed. So what a pass decides
by sizes it asks here. The answers are kept with the plan: a run with other sizes takes it as
long as all of them are the same, and else has a plan of its own. Sizes that nobody knows count
as 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from braces.dims import Dim, Size, substitute
from braces.target import Target, target_of

Answers: TypeAlias = "dict[Question, int]"
"""What passes asked, and what they were told."""


@dataclass(frozen=True)
class Question:
    """Whether what takes so many bytes fits so many times.

    Attributes:
        each: Bytes that it takes, which are added.
        times: How often it is wanted.
        limit: How many bytes there may be.
        counted: Whether it is asked how often it fits, where that is less.
    """

    each: tuple[Size, ...]
    times: Size
    limit: int
    counted: bool = False

    def answer(self, sizes: Mapping[str, int]) -> int:
        """0 where it fits; else a power of two of times that do, or 1 where that is not asked.

        So there are few answers, however many sizes there are.
        """
        if self.taken(sizes) <= self.limit:
            return 0
        each = sum(_number(size, sizes) for size in self.each)
        return 1 << max(0, (self.limit // each).bit_length() - 1) if self.counted else 1

    def taken(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all times."""
        each = sum(_number(size, sizes) for size in self.each)
        return each * _number(self.times, sizes)

    @property
    def names(self) -> set[str]:
        """The dimensions that the answer depends on."""
        found = (size.names() for size in (*self.each, self.times) if isinstance(size, Dim))
        return set[str]().union(*found)


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    found = substitute(size, {**dict.fromkeys(size.names(), 1), **sizes})
    assert isinstance(found, int)
    return found


@dataclass(frozen=True)
class Setting:
    """What passes are told.

    Attributes:
        target: The machine.
        sizes: Named dimensions of the run, as far as they are known.
        answers: What was asked so far.
    """

    target: Target
    sizes: Mapping[str, int]
    answers: Answers = field(default_factory=dict["Question", int])


_setting: ContextVar[Setting | None] = ContextVar("braces_setting", default=None)


def setting() -> Setting:
    """What passes are told here; of a CPU and no size where nobody says more."""
    return _setting.get() or Setting(target_of("cpu"), {})


@contextmanager
def planning(target: Target | None, sizes: Mapping[str, int]) -> Generator[Answers]:
    """Inside, passes are told of a machine and of sizes; gives what they ask."""
    told = Setting(target or target_of("cpu"), sizes)
    token = _setting.set(told)
    try:
        yield told.answers
    finally:
        _setting.reset(token)


def at_once(each: Iterable[Size], trips: Size) -> int:
    """How many trips at once fit, each of which takes such bytes; 0 for all of them."""
    return _ask(replace(_of_trips(each, trips), counted=True))


def too_many(each: Iterable[Size], trips: Size) -> bool:
    """Whether all trips at once do not fit, each of which takes such bytes."""
    return _ask(_of_trips(each, trips)) != 0


def surely_fit(most: Iterable[Size], trips: Size) -> bool:
    """As `not too_many`, with more bytes than a trip takes; who is told no has to ask on."""
    question, told = _of_trips(most, trips), setting()
    return not question.answer(told.sizes) and not _ask(question)


def larger(each: Iterable[Size], limit: int) -> bool:
    """Whether these bytes are more than so many."""
    return _ask(Question(_added(each), 1, limit)) != 0


def gibibytes(each: Iterable[Size], trips: Size = 1) -> str:
    """Such bytes, as far as sizes are known, for people."""
    return f"{_of_trips(each, trips).taken(setting().sizes) / 2**30:.1f} GiB"


def _of_trips(each: Iterable[Size], trips: Size) -> Question:
    return Question(_added(each), trips, setting().target.stacked_bytes)


def _added(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """The same, with each symbol once: one polynomial could have more terms than a size may."""
    return tuple(size * count for size, count in Counter(sizes).items())


def _ask(question: Question) -> int:
    told = setting()
    return told.answers.setdefault(question, question.answer(told.sizes))
