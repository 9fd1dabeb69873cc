"""The only place where names are invented.

Names are unique in a whole program and the same on every run: a stem and a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from braces.errors import ProgramError

_NAME = re.compile(r"[A-Za-z_@][\w.@/-]*")
LONGEST_NAME = 200


def check_name(name: str) -> str:
    """`name`, if a variable or operator may be called so.

    Raises:
        ProgramError: It is empty, too long, or has characters other than letters, digits, and
            `_ . @ / -`.
    """
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise ProgramError(
            f"{name!r:.80} cannot be a name.",
            fix="Names begin with a letter or `_`; letters, digits and `_ . @ / -` follow.",
        )
    return name


class Names:
    """The names that a program has used.

    Example:
        >>> names = Names()
        >>> names.unique("tanh"), names.unique("tanh")
        ('tanh_0', 'tanh_1')
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self.counts: dict[str, int] = {}

    def unique(self, stem: str) -> str:
        """A name that nobody has: the stem and the next count."""
        count = self.counts.get(stem, 0)
        while (name := f"{stem}_{count}") in self.taken:
            count += 1
        self.counts[stem] = count + 1
        self.taken.add(name)
        return name

    def claim(self, name: str) -> str:
        """Take a name that somebody chose."""
        if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            check_name(name)
        self.taken.add(name)
        return name

    def copy(self) -> Names:
        """The same names, independent from now on."""
        other = Names(self.taken)
        other.counts = dict(self.counts)
        return other
