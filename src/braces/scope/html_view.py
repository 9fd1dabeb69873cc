"""HTML view of a scope in a notebook: a tree of names, with a summary of each value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from braces.notebook import END_OF_BOX, Piece, open_box, text_row
from braces.scope.value_summary import Summary
from braces.scope.values import bytes_of, format_total, is_list, value_text

_MOST_PARTS = 12
_LARGEST = 1 << 28
"""Limit in bytes on summarized values; beyond it, only types are shown."""


@dataclass
class TrieNode:
    """Trie node: names with a common prefix, as values that end here and longer branches."""

    raws: dict[str, Any] = field(default_factory=dict[str, Any])
    branches: dict[str, TrieNode] = field(default_factory=dict[str, "TrieNode"])

    def all_raws(self) -> Iterator[Any]:
        """Iterate over all values at and below this branch."""
        yield from self.raws.values()
        for branch in self.branches.values():
            yield from branch.all_raws()


def build_tree(raws: Mapping[str, Any]) -> TrieNode:
    """Build the trie of names, split after `/` and `.`; single children join their parent."""
    root = TrieNode()
    for name, raw in raws.items():
        *parts, last = re.split(r"(?<=[/.])(?=.)", name, maxsplit=_MOST_PARTS)
        at = root
        for part in parts:
            at = at.branches.setdefault(part, TrieNode())
        at.raws[last] = raw
    return _merge_single_children(root)


def _merge_single_children(branch: TrieNode) -> TrieNode:
    merged = TrieNode(dict(branch.raws))
    for part, inner in branch.branches.items():
        child = _merge_single_children(inner)
        is_single = len(child.raws) + len(child.branches) == 1
        merged.raws |= {part + name: raw for name, raw in child.raws.items() if is_single}
        others = child.branches if is_single else {"": child}
        merged.branches |= {part + name: other for name, other in others.items()}
    return TrieNode(dict(sorted(merged.raws.items())), merged.branches)


def render_lines(path: str, raws: Mapping[str, Any] | None) -> list[str]:
    """Render a scope as text: its path and its values by name; `None` if it is closed."""
    if raws is None:
        return [f"scope {path} (closed)"]
    head = f"scope {path}: {format_total(list(raws.values()))}"
    return [head, *(f"  {name}: {value_text(raw)}" for name, raw in raws.items())]


def render_pieces(
    scopes: Iterable[tuple[str, Mapping[str, Any] | None, int]],
) -> Iterator[Piece]:
    """Generate rows and boxes for `braces.notebook.join_pieces`.

    Args:
        scopes: The path, the values by name and the depth of each scope; parents first.
    """
    depth, room = 0, _ByteBudget(_LARGEST)
    for path, held, level in scopes:
        raws = held or {}
        for _ in range(depth - level + 1 if level else 0):
            yield END_OF_BOX
        title, depth = f"scope {path}: {format_total(list(raws.values()))}", level
        yield open_box(title, len(raws)) if level else text_row(title)
        yield from _branch_pieces(build_tree(raws), room)
    for _ in range(depth):
        yield END_OF_BOX


def _branch_pieces(branch: TrieNode, room: _ByteBudget) -> Iterator[Piece]:
    for name, raw in branch.raws.items():
        yield text_row(f"{name}: {_text(raw, room)}")
    for name, inner in branch.branches.items():
        below = list(inner.all_raws())
        yield open_box(f"{name}  {format_total(below)}", len(below))
        yield from _branch_pieces(inner, room)
        yield END_OF_BOX


@dataclass
class _ByteBudget:
    """Remaining bytes of values that may be summarized."""

    size_bytes: int

    def takes(self, size_bytes: int) -> bool:
        self.size_bytes -= size_bytes
        return self.size_bytes >= 0


def _text(raw: Any, room: _ByteBudget) -> str:
    head = value_text(raw)
    if raw is None or is_list(raw) or not room.takes(bytes_of(raw)):
        return head
    try:
        summary = Summary.of(raw)
    except RuntimeError:  # donated to a run in the meantime
        return head
    return f"{head}  {'' if summary.is_well else '⚠ '}{summary}"
