"""Alternatives in patterns: `br.any_of`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from braces.builder.source_line import user_line, with_user_line
from braces.errors import ProgramError

MOST_ALTERNATIVES = 256
T = TypeVar("T")
_active: ContextVar[Choices | None] = ContextVar("braces_pattern_choices", default=None)


class Choices:
    """The alternatives that calls of `any_of` take while a pattern is built.

    Attributes:
        given: Numbers of the alternatives of the first calls; later calls take the first one.
        taken: Numbers of the alternatives of all calls so far.
        counts: Numbers of alternatives of all calls so far.
    """

    def __init__(self, given: tuple[int, ...] = ()) -> None:
        self.given = given
        self.taken: list[int] = []
        self.counts: list[int] = []

    def next(self, count: int) -> int:
        """Return the alternative of the next call."""
        at = len(self.taken)
        self.taken.append(self.given[at] if at < len(self.given) else 0)
        self.counts.append(count)
        return self.taken[-1]

    @contextmanager
    def active(self) -> Generator[None]:
        """Context manager: let `any_of` take these alternatives."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)


def all_choices(build: Callable[[Choices], T]) -> Iterator[T]:
    """Yield a result for each combination of alternatives.

    Raises:
        ProgramError: If there are more than 256.
    """
    pending: list[tuple[int, ...]] = [()]
    number = 0
    while pending:
        number += 1
        if number > MOST_ALTERNATIVES:
            raise ProgramError(
                f"the pattern has more than {MOST_ALTERNATIVES} combinations of alternatives.",
                fix="Rewrite by several patterns, one after the other.",
            )
        choices = Choices(pending.pop(0))
        yield build(choices)
        taken = tuple(choices.taken)
        for at in range(len(choices.given), len(taken)):
            pending += [(*taken[:at], other) for other in range(1, choices.counts[at])]


@with_user_line
def any_of(*alternatives: Callable[..., Any]) -> Callable[..., Any]:
    """Alternatives in a pattern: a function that matches the operators of any of its functions.

    It is called inside of a pattern, or is itself the pattern. Alternatives are tried in order.
    Each call chooses on its own.

    Args:
        *alternatives: Functions of the same variables, such as operators or patterns.

    Returns:
        A function for patterns of `prog.rewrite`.

    Raises:
        ProgramError: If there are fewer than two functions, or it is called outside of a
            pattern.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["n", 4])
        ...     y = br.tanh(x) + br.sigmoid(x) + br.exp(x)
        >>> new = prog.rewrite(br.any_of(br.tanh, br.sigmoid), br.relu)
        >>> new.report.paths
        ('tanh_0', 'sigmoid_0')
    """
    if len(alternatives) < 2 or not all(map(callable, cast("tuple[Any, ...]", alternatives))):
        raise ProgramError(
            "any_of: expected two or more functions.",
            given=", ".join(f"{each!r:.40}" for each in alternatives) or None,
            fix="Write br.any_of(br.tanh, br.sigmoid)(x).",
        )

    @functools.wraps(alternatives[0])
    def chosen(*args: Any, **kwargs: Any) -> Any:
        choices = _active.get()
        if choices is None:
            raise ProgramError(
                "any_of: alternatives have a meaning in patterns only.",
                at=user_line(),
                fix="Call it in a function that is passed to prog.rewrite as `before`.",
            )
        return alternatives[choices.next(len(alternatives))](*args, **kwargs)

    names = (getattr(each, "__name__", "") for each in alternatives)
    chosen.__name__ = f"any_of({', '.join(names)})"
    return chosen
