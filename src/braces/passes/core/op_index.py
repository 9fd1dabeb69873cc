"""Index of the operators of a block under rewriting: producers and readers of each name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from braces.ir.records import Op


class OpIndex:
    """Producers and readers of names, by a list of operators that grows at its end.

    Entries are added at the next query. `replace` exchanges an operator of the list.

    Example:
        >>> ops = [Op("tanh", "y", {"x": ("x",)}, {"out": ("y",)})]
        >>> index = OpIndex(ops)
        >>> index.maker("y") is ops[0], list(index.readers("x")) == ops, index.maker("x")
        (True, True, None)
    """

    def __init__(self, ops: list[Op]) -> None:
        self._ops = ops
        self._makers: dict[str, Op] = {}
        self._readers: dict[str, list[Op]] = defaultdict(list)
        self._made = 0
        self._read = 0

    def maker(self, name: str) -> Op | None:
        """Return the operator that binds a name, or `None`."""
        for op in self._ops[self._made :]:
            self._makers |= dict.fromkeys(op.binds(), op)
        self._made = len(self._ops)
        return self._makers.get(name)

    def readers(self, name: str) -> Iterator[Op]:
        """Yield the operators that read a name."""
        for op in self._ops[self._read :]:
            for read in dict.fromkeys(op.reads()):
                self._readers[read].append(op)
        self._read = len(self._ops)
        for op in self._readers.get(name, ()):
            bound = next(op.binds(), None)
            if bound is not None and self.maker(bound) is op:
                yield op

    def replace(self, at: int, op: Op) -> None:
        """Replace the operator at a place of the list."""
        for name in self._ops[at].binds():
            self._makers.pop(name, None)
        self._ops[at] = op
        if at < self._made:
            self._makers |= dict.fromkeys(op.binds(), op)
        if at < self._read:
            for name in dict.fromkeys(op.reads()):
                self._readers[name].append(op)
