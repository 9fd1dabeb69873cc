"""One equation of a kernel's jaxpr, as the rules of primitives see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from braces.define.jax_types import Translation
from braces.dims import Shape, Size
from braces.dtypes import DType, TensorType
from braces.errors import ProgramError
from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import Graph
from braces.lazy import jax

WORD = np.dtype(np.uint32)


def is_key(aval: Any) -> bool:
    """Whether values are keys of draws."""
    dtypes: Any = jax.dtypes
    return dtypes.issubdtype(aval.dtype, dtypes.extended)


def is_complex(aval: Any) -> bool:
    """Whether values are complex numbers."""
    dtypes: Any = jax.dtypes
    return dtypes.issubdtype(aval.dtype, np.complexfloating)


class Cannot(ProgramError):
    """What stands in the way of an operator: a primitive, or a parameter of it."""


class Runner(Protocol):
    """What writes jaxprs into the graph that it is given."""

    translation: Translation

    def run(
        self, g: Graph, jaxpr: Any, consts: Sequence[Any], given: Sequence[str]
    ) -> list[str]:
        """Write the equations of a jaxpr; what its results are called."""
        ...

    def call(
        self,
        g: Graph,
        function: Callable[..., Any],
        structs: Sequence[Any],
        given: Sequence[str],
    ) -> list[str]:
        """Trace a function of JAX for arrays of these types, and write its equations."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """An equation: a primitive of JAX, its parameters, and where its nodes go.

    Attributes:
        g: The graph.
        runner: What writes other jaxprs.
        eqn: JAX's own record.
    """

    g: Graph
    runner: Runner
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
        """The dtype of the first that it gives."""
        return self.result().dtype

    @property
    def shape(self) -> Shape:
        """The shape of the first that it gives."""
        return self.sizes(self.eqn.outvars[0].aval.shape)

    @property
    def stored(self) -> Shape:
        """The shape of what the first is in ONNX: keys are two words each."""
        return (*self.shape, 2) if is_key(self.eqn.outvars[0].aval) else self.shape

    def type(self, position: int = 0) -> TensorType:
        """The type of an input."""
        return self._type(self.eqn.invars[position].aval)

    def result(self, position: int = 0) -> TensorType:
        """The type of a result."""
        return self._type(self.eqn.outvars[position].aval)

    def _type(self, aval: Any) -> TensorType:
        """The type of a value; of keys without the axis of their two words, which is last."""
        dtype = WORD if is_key(aval) else np.dtype(aval.dtype)
        return TensorType(dtype, self.sizes(aval.shape))

    def sizes(self, given: Sequence[Any]) -> Shape:
        """Sizes of JAX as ours."""
        return self.runner.translation.shape(given)

    def size(self, given: Any) -> Size:
        """A size of JAX as ours."""
        return self.sizes([given])[0]

    def same(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """A node from values of the dtype of the result to it."""
        return widths.same(self.g, kind, *inputs, dtype=self.dtype, **attrs)

    def asked(self, kind: str, *inputs: str, **attrs: Any) -> str:
        """A node from values of the dtype of the first input to a bool, or to places."""
        return widths.asked(self.g, kind, *inputs, dtype=self.type().dtype, **attrs)

    def scalar(self, number: Any) -> str:
        """A number in the dtype of the result."""
        return self.g.constant(number, self.dtype)

    def call(self, closed: Any, given: Sequence[str]) -> list[str]:
        """Write the equations of what is called in its place."""
        return self.runner.run(self.g, closed.jaxpr, closed.consts, given)

    def refuse(self, why: str) -> Cannot:
        """The error for what ONNX does not have."""
        return Cannot(f"`{self.name}` of JAX, {why}")


Rule: TypeAlias = "Callable[..., str | Sequence[str]]"
"""From an equation and the names of its inputs to those of what it gives."""
