"""Patches as users write them: a value or a function, and the iterations that it replaces."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from braces.builder.checked_calls import checked_call, elements_of
from braces.errors import ProgramError

ALL, NONE = -1, -2
"""Entries of the fed iterations: all iterations of a loop, and no iteration."""
LARGEST = 2**63
"""The end of the range of an index."""


@dataclass(frozen=True, eq=False)
class Patch:
    """A replacement of an inner value, as `br.patch` returns it.

    Attributes:
        value: An array, or a function of the value.
        trips: The iterations: an int, a list, or `None` for all.
    """

    value: Any
    trips: Any = None

    @property
    def function(self) -> Callable[[Any], Any] | None:
        """The function; `None` if the value is an array."""
        known = hasattr(self.value, "shape") or hasattr(self.value, "dtype")
        return self.value if callable(self.value) and not known else None

    def places(self, path: str, loops: int) -> tuple[tuple[int, ...], ...] | None:
        """Return the iterations of each loop around, outermost first; `None` for all.

        Args:
            path: The path of the value, for messages.
            loops: The number of loops around the value.

        Raises:
            ProgramError: If `trips` does not have this form, or there is no loop.
        """
        if self.trips is None:
            return None
        if not loops:
            raise ProgramError(
                f"`{path}` is in no loop, so its patch has no iterations.",
                given=f"trips={self.trips!r:.60}",
                fix="Omit trips.",
            )
        trips: Any = self.trips
        elements = None if isinstance(trips, tuple | str) else elements_of(trips)
        items: list[Any] = [trips] if elements is None else elements
        return tuple(self._place(path, loops, item) for item in items)

    def _place(self, path: str, loops: int, item: Any) -> tuple[int, ...]:
        parts = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else (item,)
        try:
            numbers = [ALL if part is None else operator.index(part) for part in parts]
        except TypeError:
            numbers = []
        if len(numbers) != loops:
            flat = "Pass an int or a list of ints, as trips=3 or trips=[0, 3]."
            several = f"Pass a tuple of {loops} ints, outermost loop first; None is all of one."
            raise ProgramError(
                f"invalid iterations of the patch of `{path}`, which is in {loops} "
                f"loop{'s' * (loops > 1)}.",
                given=f"trips={self.trips!r:.60}",
                fix=flat if loops == 1 else several,
            )
        wrong = next((n for n, part in zip(numbers, parts, strict=True) if _bad(n, part)), None)
        if wrong is not None:
            raise ProgramError(
                f"iteration {wrong} of the patch of `{path}` is out of range.",
                given=f"trips={self.trips!r:.60}",
                fix="Iterations count from 0.",
            )
        return tuple(numbers)


def _bad(number: int, part: Any) -> bool:
    return part is not None and not 0 <= number < LARGEST


@checked_call
def patch(value: Any, *, trips: Any = None) -> Patch:
    """Return a patch of some iterations, for `exe.run(patch=...)` and `prog.patch`.

        exe.run(prog, scope, feed, patch={"loop_0/body/act": br.patch(0.0, trips=3)})

    Args:
        value: An array of the shape of the inner value, or one that broadcasts to it; with one
            more leading axis for each loop around, as a probe returns it, each iteration has a
            value of its own. Or a function of the inner value: `lambda v: v * 2`.
        trips: The iterations to replace: an int, a list of ints, or `None` for all. In nested
            loops, a tuple with an int or `None` for each loop, outermost first, or a list of
            such tuples.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, rnn = br.data("x", ["t"]), br.create_rnn()
        ...     with rnn.stepnet() as step:
        ...         step.add_output(br.square(step.add_input(x), name="act"))
        ...     y = rnn()
        >>> exe, scope, feed = br.Executor(), br.Scope(), {"x": [1.0, 2.0, 3.0]}
        >>> exe.run(prog, scope, feed, y, patch={"loop_0/body/act": br.patch(0.0, trips=1)})
        array([1., 0., 9.], dtype=float32)
    """
    return Patch(value, trips)


def as_patch(value: Any) -> Patch:
    """Return a patch from a value, a function or a patch."""
    return value if isinstance(value, Patch) else Patch(value)
