"""The only place where names are invented.

Names are unique in a whole program and the same on every run: a stem and a count. In a plain
block they begin with the block's own: `encoder/tanh_0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from braces.errors import ProgramError

_NAME = re.compile(r"[A-Za-z_@][\w.@/-]*")
_CHOSEN = -1
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
        taken: All names in the order in which they were taken, shared by all views. Each has
            the count that its stem had before; one that somebody chose has -1.
        counts: The next count of each stem, likewise.
        blocks: The names of plain blocks as keys, in their order, likewise.
        prefix: What names that are made up begin with.

    Example:
        >>> names = Names()
        >>> names.unique("tanh"), names.unique("tanh")
        ('tanh_0', 'tanh_1')
        >>> inner = names.within("encoder/")
        >>> inner.unique("tanh"), inner.unique("encoder/w_grad")
        ('encoder/tanh_0', 'encoder/w_grad_0')
    """

    def __init__(self, prefix: str = "") -> None:
        self.taken: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.blocks: dict[str, None] = {}
        self.prefix = prefix

    def within(self, prefix: str) -> Names:
        """The same names, as a block with this prefix sees them."""
        view = Names(prefix)
        view.taken, view.counts, view.blocks = self.taken, self.counts, self.blocks
        return view

    def unique(self, stem: str) -> str:
        """A name that nobody has: the stem and the next count."""
        return self.unique_word(stem if stem.startswith(self.prefix) else self.prefix + stem)

    def unique_word(self, stem: str) -> str:
        """The same without the prefix, as dimensions are called, whose names have no slash."""
        before = count = self.counts.get(stem, 0)
        while (name := f"{stem}_{count}") in self.taken:
            count += 1
        self.counts[stem] = count + 1
        self.taken[name] = before
        return name

    def claim(self, name: str) -> str:
        """Take a name that somebody chose."""
        if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
            check_name(name)
        self.taken.setdefault(name, _CHOSEN)
        return name

    def made_up(self, name: str) -> bool:
        """Whether a name is one of `unique`, so that nothing else was called so before."""
        return self.taken.get(name, _CHOSEN) != _CHOSEN

    def take(self, names: Iterable[str]) -> None:
        """Take names as they are, as those of a file."""
        for name in names:
            self.taken.setdefault(name, _CHOSEN)

    def unique_block(self, name: str) -> str:
        """The name of a plain block, with a count from 1 where another one is called so."""
        whole = made = check_name(self.prefix + name)
        count = 0
        while made in self.blocks:
            count += 1
            made = f"{whole}_{count}"
        self.blocks[made] = None
        return made

    def rewind(self, names: int, blocks: int) -> None:
        """Give names back, in all views, until so many are taken as once were."""
        while len(self.taken) > names:
            name, before = self.taken.popitem()
            if before != _CHOSEN:
                self.counts[name.rpartition("_")[0]] = before
        while len(self.blocks) > blocks:
            self.blocks.popitem()
