"""The interface of primitive rules to an equation of a kernel's jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from braces.errors import ProgramError
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph
from braces.extend.types import DType, JaxTypeConverter, Shape, Size, TensorType
from braces.lazy import jax

WORD = np.dtype(np.uint32)


def is_key(aval: Any) -> bool:
    """Return whether values are random keys."""
    dtypes: Any = jax.dtypes
    return dtypes.issubdtype(aval.dtype, dtypes.extended)


def is_complex(aval: Any) -> bool:
    """Return whether values are complex numbers."""
    dtypes: Any = jax.dtypes
    return dtypes.issubdtype(aval.dtype, np.complexfloating)


class Unsupported(ProgramError):
    """An unsupported primitive, or a parameter of it."""


class JaxprExporter(Protocol):
    """Exports jaxprs into a graph."""

    translation: JaxTypeConverter

    def run(
        self, g: OnnxGraph, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[str]
    ) -> list[str]:
        """Export the equations of a jaxpr; return the names of its results."""
        ...

    def call(
        self,
        g: OnnxGraph,
        function: Callable[..., Any],
        structs: Sequence[Any],
        inputs: Sequence[str],
    ) -> list[str]:
        """Trace a JAX function for abstract arrays, and export its equations."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class ExportedEquation:
    """An equation: a JAX primitive, its parameters, and the graph for its nodes.

    Attributes:
        g: The graph.
        runner: The exporter of inner jaxprs.
        eqn: The JAX record.
    """

    g: OnnxGraph
    runner: JaxprExporter
    eqn: Any

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.eqn.primitive.name

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the primitive."""
        return self.eqn.params

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.result().dtype

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.sizes(self.eqn.outvars[0].aval.shape)

    @property
    def stored(self) -> Shape:
        """The shape of the first result in ONNX: keys are two words each."""
        return (*self.shape, 2) if is_key(self.eqn.outvars[0].aval) else self.shape

    def type(self, position: int = 0) -> TensorType:
        """The type of an input."""
        return self._type(self.eqn.invars[position].aval)

    def result(self, position: int = 0) -> TensorType:
        """The type of a result."""
        return self._type(self.eqn.outvars[position].aval)

    def _type(self, aval: Any) -> TensorType:
        """Return the type of a value; keys are without their last axis of two words."""
        dtype = WORD if is_key(aval) else np.dtype(aval.dtype)
        return TensorType(dtype, self.sizes(aval.shape))

    def sizes(self, jax_sizes: Sequence[Any]) -> Shape:
        """Convert sizes of JAX."""
        return self.runner.translation.shape(jax_sizes)

    def size(self, jax_size: Any) -> Size:
        """Convert a size of JAX."""
        return self.sizes([jax_size])[0]

    def same(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with operands and result of the result's dtype."""
        return widths.widened_op(self.g, kind, *inputs, dtype=self.dtype, **attrs)

    def query(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """Add a node with operands of the first input's dtype; it returns bools or indices."""
        return widths.widened_query(self.g, kind, *inputs, dtype=self.type().dtype, **attrs)

    def scalar(self, number: Any) -> str:
        """Return a number in the dtype of the result."""
        return self.g.constant(number, self.dtype)

    def call(self, closed: Any, inputs: Sequence[str]) -> list[str]:
        """Export the equations of a called jaxpr inline."""
        return self.runner.run(self.g, closed.jaxpr, closed.consts, inputs)

    def refuse(self, why: str) -> Unsupported:
        """Return the error for an unsupported equation."""
        return Unsupported(f"JAX primitive `{self.name}`: {why}")


Rule: TypeAlias = "Callable[..., str | Sequence[str]]"
"""Maps an equation and the names of its inputs to those of its results."""
