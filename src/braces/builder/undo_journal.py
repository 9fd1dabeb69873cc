"""Undo log for changes that are not appends.

Nearly all changes of a program append: rollback truncates lists and dicts to their former
lengths. The few other changes record an undo function here.

The log is a linked list in which only a moment references later moments. Entries that no moment
can reach are garbage collected, so the log does not grow with the program.
"""

from __future__ import annotations

from collections.abc import Callable


class Moment:
    """A point in the undo log, between two recorded changes.

    Attributes:
        undo: Reverts the next change; `None` if there is none yet.
        after: The moment after that change.
    """

    __slots__ = ("after", "undo")

    def __init__(self) -> None:
        self.undo: Callable[[], None] | None = None
        self.after: Moment | None = None


class Journal:
    """Undo log of the changes of a program that truncation cannot undo.

    Attributes:
        now: The moment after the last change.

    Example:
        >>> journal, said = Journal(), ["a"]
        >>> before = journal.now
        >>> said[0] = "b"
        >>> journal.note(lambda: said.__setitem__(0, "a"))
        >>> journal.back_to(before)
        >>> said
        ['a']
    """

    def __init__(self) -> None:
        self.now = Moment()

    def note(self, undo: Callable[[], None]) -> None:
        """Record the undo function of the last change."""
        previous, self.now = self.now, Moment()
        previous.undo, previous.after = undo, self.now

    def back_to(self, moment: Moment) -> None:
        """Undo all changes since a moment, in reverse order."""
        changes = list[Callable[[], None]]()
        later: Moment | None = moment
        while later is not None:
            if later.undo is not None:
                changes.append(later.undo)
            later = later.after
        for undo in reversed(changes):
            undo()
        moment.undo = moment.after = None
        self.now = moment
