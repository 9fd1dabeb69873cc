"""How to take back what did not simply append.

Nearly all that building does is to append: going back to a moment means to cut lists and dicts
to the lengths that they had. The few other changes say here how they are undone.

A moment holds on to what came after it, and nothing else does: what no moment can ask for any
more is let go, however long a program is built on.
"""

from __future__ import annotations

from collections.abc import Callable


class Moment:
    """A moment in the life of a program.

    Attributes:
        undo: Takes back the change that ended it; `None` where it has not ended.
        after: The moment after that change.
    """

    __slots__ = ("after", "undo")

    def __init__(self) -> None:
        self.undo: Callable[[], None] | None = None
        self.after: Moment | None = None


class Journal:
    """The changes of a program that cutting cannot undo, as far as a moment remembers them.

    Attributes:
        now: The moment after the last of them.

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
        """Say how the change is undone that was just made."""
        ended, self.now = self.now, Moment()
        ended.undo, ended.after = undo, self.now

    def back_to(self, moment: Moment) -> None:
        """Undo all changes since a moment, the last one first."""
        changes = list[Callable[[], None]]()
        one: Moment | None = moment
        while one is not None:
            if one.undo is not None:
                changes.append(one.undo)
            one = one.after
        for undo in reversed(changes):
            undo()
        moment.undo = moment.after = None
        self.now = moment
