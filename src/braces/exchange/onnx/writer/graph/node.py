"""One operator of a program, as the rules of operators see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.dtypes import TensorType, Type
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.ir.records import Op


@dataclass(frozen=True)
class Node:
    """An operator.

    Attributes:
        g: The graph that its nodes go to.
        op: The operator.
        types: The types of what it binds.
    """

    g: Graph
    op: Op
    types: Sequence[Type]

    @property
    def label(self) -> str:
        """Before the names of what is in its blocks."""
        return self.op.name.removeprefix(self.g.model.prefix)

    def input(self, slot: str) -> str:
        """What the one input of a slot is called."""
        return self.g.name(self.op.inputs[slot][0])

    def type(self, slot: str, position: int = 0) -> TensorType:
        """The type of an input, which is an array."""
        found = self.g.type(self.op.inputs[slot][position])
        assert isinstance(found, TensorType)
        return found

    def result(self, position: int = 0) -> TensorType:
        """The type of what it binds, which is an array."""
        found = self.types[position]
        assert isinstance(found, TensorType)
        return found

    def attr(self, name: str) -> Any:
        """An attribute."""
        return self.op.attrs[name]

    def promoted(self) -> list[str]:
        """All inputs, in the dtype of the result."""
        reads = [(name, self.g.type(name)) for name in self.op.reads()]
        return [
            widths.moved(self.g, self.g.name(name), type_.dtype, self.result().dtype)
            for name, type_ in reads
            if isinstance(type_, TensorType)
        ]


Rule: TypeAlias = "Callable[[Node], str | Sequence[str | Sequence[str]] | None]"
"""From an operator to what it binds, slot by slot; `None` leaves it to its kernel."""
