"""Trainings that take turns over one scope, as the two networks of a GAN.

The first of them has the folder. Its checkpoints have the positions of the others, and are
written before its turn, when each of the others has ended its own. One file therefore has a
state that all continue from.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from braces.errors import FileFormatError, ProgramError
from braces.fitting.steps.position import Position

ZIP = "for one_step, two_step in zip(one, two)"


class Partner(Protocol):
    """A training beside another one."""

    position: Position

    @property
    def is_counted(self) -> bool:
        """True if the last step was counted."""
        ...

    def record(self) -> Mapping[str, Any]:
        """Return the position as JSON."""
        ...


def _entries_of(stored: Any) -> Mapping[str, Any]:
    """Return a stored position as a dict; empty for other JSON."""
    return cast("Mapping[str, Any]", stored) if isinstance(stored, Mapping) else {}


class Turns:
    """The trainings beside a training.

    Args:
        stored: The position of the training in its checkpoint, with those of the others.
    """

    def __init__(self, stored: Any) -> None:
        entries: Any = _entries_of(stored).get("beside", [])
        if not isinstance(entries, list):
            raise FileFormatError("the checkpoint has invalid positions of trainings.")
        self._stored = cast("list[Any]", entries)
        self._partners = list[Partner]()
        self._counts = 0, list[int]()

    def stored(self) -> Any:
        """Return the stored position of the training that joins next; `None` without one.

        Raises:
            ProgramError: If the checkpoint has fewer trainings.
        """
        if not self._stored:
            return None
        if len(self._partners) == len(self._stored):
            raise self._other_number(len(self._partners) + 1)
        return self._stored[len(self._partners)]

    def join(self, partner: Partner) -> None:
        """Add a training."""
        self._partners.append(partner)
        self._counts = 0, [*self._counts[1], partner.position.step]

    def begin(self, step: int) -> None:
        """Begin the loop of the training with the folder.

        Raises:
            ProgramError: If the checkpoint has other trainings, or another one began first.
        """
        if self._stored and len(self._stored) != len(self._partners):
            raise self._other_number(len(self._partners))
        if self._steps() != self._counts[1]:
            raise ProgramError(
                "a training with `beside` began before the one that it is beside.",
                fix=f"Write the training with the folder first: {ZIP}.",
            )
        self._counts = step, self._steps()

    def _other_number(self, joined: int) -> ProgramError:
        return ProgramError(
            f"the checkpoint has {len(self._stored)} trainings beside this one; expected "
            f"{joined}.",
            fix="Make the same trainings with beside=, in the same order, or pass fresh=True.",
        )

    def mark(self, step: int) -> None:
        """Accept that the turns of all have ended."""
        self._counts = step, self._steps()

    def are_complete(self, step: int) -> bool:
        """Return whether all have had their turn since the last mark, after an early end.

        Each takes as many steps for a step of the first as before.
        """
        before, counts = self._counts
        if not all(partner.is_counted for partner in self._partners):
            return False
        if not before:
            return all(number == step for number in self._steps())
        pairs = zip(counts, self._steps(), strict=True)
        return all(number * before == count * step for count, number in pairs)

    def records(self) -> dict[str, Any]:
        """Return the positions as an entry of a checkpoint."""
        records = [partner.record() for partner in self._partners]
        return {"beside": records} if records else {}

    def _steps(self) -> list[int]:
        return [partner.position.step for partner in self._partners]

    def state(self) -> tuple[int, ...]:
        """Return the numbers of steps."""
        return tuple(self._steps())


_LOOPING = set[int]()
"""The identities of the scopes that a loop with a folder trains."""


@contextmanager
def only_loop(scope: object, has_folder: bool) -> Generator[None]:
    """Refuse a second loop with a folder over one scope.

    Raises:
        ProgramError: If a loop with a folder trains the scope.
    """
    key = id(scope)
    if not has_folder:
        yield
        return
    if key in _LOOPING:
        raise ProgramError(
            "two trainings with folders take turns over one scope, so that a checkpoint of the "
            "one would have half a turn of the other.",
            fix="Pass beside=one in place of scope= and folder=: the checkpoints of `one` then "
            "have both.",
        )
    _LOOPING.add(key)
    try:
        yield
    finally:
        _LOOPING.discard(key)


def check_beside(options: Mapping[str, Any]) -> None:
    """Refuse options of a training beside another one that are those of the other.

    Raises:
        ProgramError: If an option is set.
    """
    if names := [
        name for name, value in options.items() if value is not None and value is not False
    ]:
        listed = ", ".join(f"`{name}`" for name in names)
        raise ProgramError(
            f"{listed} cannot be combined with `beside`.",
            fix="Pass them to the training that this one is beside.",
        )
