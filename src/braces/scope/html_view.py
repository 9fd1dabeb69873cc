"""A scope in a notebook: a tree of names, with what each value is like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from braces.notebook import END_OF_BOX, Piece, box, row
from braces.scope.value_summary import Summary
from braces.scope.values import bytes_of, is_list, total, value_text

_MOST_PARTS = 12
_LARGEST = 1 << 28
"""Bytes of values that are looked into; of those after, only their types are told."""


@dataclass
class Branch:
    """Names that begin alike: those that end here, and the branches of the others."""

    raws: dict[str, Any] = field(default_factory=dict[str, Any])
    branches: dict[str, Branch] = field(default_factory=dict[str, "Branch"])

    def all_raws(self) -> Iterator[Any]:
        """All values at and below this branch."""
        yield from self.raws.values()
        for branch in self.branches.values():
            yield from branch.all_raws()


def tree_of(raws: Mapping[str, Any]) -> Branch:
    """Names as a tree, whose branches end in `/` and `.`; one alone is part of its parent."""
    root = Branch()
    for name, raw in raws.items():
        *parts, last = re.split(r"(?<=[/.])(?=.)", name, maxsplit=_MOST_PARTS)
        at = root
        for part in parts:
            at = at.branches.setdefault(part, Branch())
        at.raws[last] = raw
    return _joined(root)


def _joined(branch: Branch) -> Branch:
    made = Branch(dict(branch.raws))
    for part, inner in branch.branches.items():
        joined = _joined(inner)
        few = len(joined.raws) + len(joined.branches) == 1
        made.raws |= {part + name: raw for name, raw in joined.raws.items() if few}
        others = joined.branches if few else {"": joined}
        made.branches |= {part + name: other for name, other in others.items()}
    return Branch(dict(sorted(made.raws.items())), made.branches)


def lines(path: str, raws: Mapping[str, Any] | None) -> list[str]:
    """A scope as text: its path, and what it holds by name; `None` once it is closed."""
    if raws is None:
        return [f"scope {path} (closed)"]
    head = f"scope {path}: {total(list(raws.values()))}"
    return [head, *(f"  {name}: {value_text(raw)}" for name, raw in raws.items())]


def pieces(scopes: Iterable[tuple[str, Mapping[str, Any] | None, int]]) -> Iterator[Piece]:
    """Rows and boxes for `braces.notebook.whole`.

    Args:
        scopes: Of each its path, what it holds by name, and how deep it lies; parents first.
    """
    depth, room = 0, _Room(_LARGEST)
    for path, held, level in scopes:
        raws = held or {}
        for _ in range(depth - level + 1 if level else 0):
            yield END_OF_BOX
        title, depth = f"scope {path}: {total(list(raws.values()))}", level
        yield box(title, len(raws)) if level else row(title)
        yield from _branch(tree_of(raws), room)
    for _ in range(depth):
        yield END_OF_BOX


def _branch(branch: Branch, room: _Room) -> Iterator[Piece]:
    for name, raw in branch.raws.items():
        yield row(f"{name}: {_text(raw, room)}")
    for name, inner in branch.branches.items():
        below = list(inner.all_raws())
        yield box(f"{name}  {total(below)}", len(below))
        yield from _branch(inner, room)
        yield END_OF_BOX


@dataclass
class _Room:
    """How many bytes may still be looked into."""

    size_bytes: int

    def takes(self, size_bytes: int) -> bool:
        self.size_bytes -= size_bytes
        return self.size_bytes >= 0


def _text(raw: Any, room: _Room) -> str:
    head = value_text(raw)
    if raw is None or is_list(raw) or not room.takes(bytes_of(raw)):
        return head
    try:
        summary = Summary.of(raw)
    except RuntimeError:  # a run took it over meanwhile
        return head
    return f"{head}  {'' if summary.is_well else '⚠ '}{summary}"
