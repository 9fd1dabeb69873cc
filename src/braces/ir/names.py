"""The only place where names are invented.

Names are unique in a whole program and the same on every run: a stem and a count. In a plain
block they begin with the block's own: `encoder/tanh_0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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

    A plain block has a view of them with a prefix: what is made up there begins with it.

    Attributes:
        taken: All names, shared by all views.
        counts: The next count of each stem, likewise.
        blocks: The names of plain blocks, likewise.
        prefix: What names that are made up begin with.

    Example:
        >>> names = Names()
        >>> names.unique("tanh"), names.unique("tanh")
        ('tanh_0', 'tanh_1')
        >>> inner = names.within("encoder/")
        >>> inner.unique("tanh"), inner.unique("encoder/w_grad")
        ('encoder/tanh_0', 'encoder/w_grad_0')
    """

    def __init__(self, taken: Iterable[str] = (), prefix: str = "") -> None:
        self.taken = set(taken)
        self.counts: dict[str, int] = {}
        self.blocks = set[str]()
        self.prefix = prefix

    def within(self, prefix: str) -> Names:
        """The same names, as a block with this prefix sees them."""
        view = Names(prefix=prefix)
        view.taken, view.counts, view.blocks = self.taken, self.counts, self.blocks
        return view

    def unique(self, stem: str) -> str:
        """A name that nobody has: the stem and the next count."""
        return self.unique_word(stem if stem.startswith(self.prefix) else self.prefix + stem)

    def unique_word(self, stem: str) -> str:
        """The same without the prefix, as dimensions are called, whose names have no slash."""
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

    def unique_block(self, name: str) -> str:
        """The name of a plain block, with a count from 1 where another one is called so."""
        whole = made = check_name(self.prefix + name)
        count = 0
        while made in self.blocks:
            count += 1
            made = f"{whole}_{count}"
        self.blocks.add(made)
        return made

    def copy(self) -> Names:
        """The same names, independent from now on."""
        other = Names(self.taken, self.prefix)
        other.counts, other.blocks = dict(self.counts), set(self.blocks)
        return other

    def become(self, other: Names) -> None:
        """Take over the names of another one, in all views."""
        self.recount(other.counts)
        for mine, theirs in ((self.taken, other.taken), (self.blocks, other.blocks)):
            mine.clear()
            mine.update(theirs)

    def recount(self, counts: Mapping[str, int]) -> None:
        """Go back to earlier counts, in all views."""
        earlier = dict(counts)
        self.counts.clear()
        self.counts.update(earlier)
