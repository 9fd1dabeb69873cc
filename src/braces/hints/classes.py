"""The table of public classes of PyTorch and Keras, with their equivalents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from braces.hints.table_files import table_lines

PLACES = {
    "torch.nn": {"nn", "layers", "losses", "functional", "f"},
    "torch.optim": {"optim", "optimizer", "optimizers"},
    "torch.distributions": {"distributions", "distribution"},
    "keras.layers": {"layers", "nn"},
    "keras.losses": {"losses", "loss"},
    "keras.metrics": {"metrics", "metric"},
    "keras.optimizers": {"optim", "optimizer", "optimizers"},
}
"""The namespaces in which users look for the classes of a module, in lower case."""


@dataclass(frozen=True)
class Equivalent:
    """Some classes of another library.

    Attributes:
        theirs: The names.
        ours: The equivalents, by their names in `br`.
        why: An expression or a reason; empty where the equivalents suffice.
    """

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    why: str

    @staticmethod
    def of(line: str) -> Equivalent:
        """Return the row of a line: `theirs = ours`, `theirs ! why`, `theirs = ours ! why`."""
        left, _, why = line.partition(" ! ")
        theirs, _, ours = left.partition(" = ")
        return Equivalent(tuple(theirs.split()), tuple(ours.split()), why)

    def ours_of(self, their: str) -> Sequence[str]:
        """Return the equivalents of one of the classes.

        It is the one at its position where there are as many equivalents as classes, else the
        one with its number of axes, else all.
        """
        if len(self.ours) == len(self.theirs):
            return (self.ours[self.theirs.index(their)],)
        axes = re.search(r"[123]d", their.lower())
        same = [our for our in self.ours if axes and our.endswith(axes[0])]
        return same or self.ours


@cache
def sections() -> tuple[tuple[str, tuple[Equivalent, ...]], ...]:
    """Return the sections of the table: title, as "torch.nn (PyTorch 2.13)", and rows."""
    parts = "\n".join(table_lines("classes")).strip().split("\n\n")
    split = (part.splitlines() for part in parts)
    return tuple(
        (title.removeprefix("# "), tuple(map(Equivalent.of, rows))) for title, *rows in split
    )


def rows_of(name: str, inside: Sequence[str] = ()) -> Iterator[tuple[Equivalent, str]]:
    """Return the rows of a class in any case, with its spelling.

    Args:
        name: The name, as `Conv2d`.
        inside: The namespaces in which it was looked for, as `["losses"]`. The modules that
            belong to them decide, if there are any.
    """
    within = {word.lower() for word in inside}
    rows = _by_name().get(name.lower(), ())
    near = [(row, their) for title, row, their in rows if within & PLACES[title.split()[0]]]
    return iter(near or [(row, their) for _, row, their in rows])


@cache
def _by_name() -> dict[str, tuple[tuple[str, Equivalent, str], ...]]:
    """Return title, row and spelling of each class, by its name in lower case."""
    by_name: dict[str, tuple[tuple[str, Equivalent, str], ...]] = {}
    for title, rows in sections():
        for row in rows:
            for their in row.theirs:
                others = by_name.get(their.lower(), ())
                by_name[their.lower()] = (*others, (title, row, their))
    return by_name
