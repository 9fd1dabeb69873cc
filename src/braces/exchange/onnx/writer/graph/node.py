"""The interface of operator rules to an operator of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.extend.programs import Op
from braces.extend.types import TensorType, Type


@dataclass(frozen=True)
class NodeDesc:
    """An operator.

    Attributes:
        g: The graph for its nodes.
        op: The operator.
        types: The types of its outputs.
    """

    g: OnnxGraph
    op: Op
    types: Sequence[Type]

    @property
    def label(self) -> str:
        """The prefix of names in its blocks."""
        return self.op.name.removeprefix(self.g.model.prefix)

    def input(self, slot: str) -> str:
        """Return the name of the only input of a slot."""
        return self.g.name(self.op.inputs[slot][0])

    def type(self, slot: str, position: int = 0) -> TensorType:
        """Return the type of an input that is an array."""
        array_type = self.g.type(self.op.inputs[slot][position])
        assert isinstance(array_type, TensorType)
        return array_type

    def result(self, position: int = 0) -> TensorType:
        """Return the type of an output that is an array."""
        array_type = self.types[position]
        assert isinstance(array_type, TensorType)
        return array_type

    def attr(self, name: str) -> Any:
        """Return an attribute."""
        return self.op.attrs[name]

    def promoted(self) -> list[str]:
        """Return all inputs in the dtype of the result."""
        reads = [(name, self.g.type(name)) for name in self.op.reads()]
        return [
            widths.cast_value(self.g, self.g.name(name), type_.dtype, self.result().dtype)
            for name, type_ in reads
            if isinstance(type_, TensorType)
        ]


Rule: TypeAlias = "Callable[[NodeDesc], str | Sequence[str | Sequence[str]] | None]"
"""Maps an operator to its outputs, slot by slot; `None` leaves it to its kernel."""
