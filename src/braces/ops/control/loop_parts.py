"""A loop operator taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braces.dims import Size
from braces.dtypes import TensorType, Type
from braces.errors import ShapeError
from braces.ir.records import Body, Op
from braces.ops.inference import Context


@dataclass(frozen=True)
class Parts:
    """A loop's body taken apart: what its parameters and results are for."""

    body: Body
    memories: int
    slices: int

    @staticmethod
    def of(op: Op) -> Parts:
        """The parts of a loop operator."""
        body = op.attrs["body"]
        assert isinstance(body, Body)
        return Parts(body, len(op.inputs.get("init", ())), len(op.inputs.get("sliced", ())))

    @property
    def index(self) -> str:
        """The parameter that holds the trip's index."""
        return self.body.params[0]

    @property
    def memory_params(self) -> tuple[str, ...]:
        """The parameters that hold the memories."""
        return self.body.params[1 : 1 + self.memories]

    @property
    def slice_params(self) -> tuple[str, ...]:
        """The parameters that hold the slices."""
        return self.body.params[1 + self.memories :]

    @property
    def next_memories(self) -> tuple[str, ...]:
        """The results that are the memories of the next trip."""
        return self.body.results[: self.memories]

    @property
    def rows(self) -> tuple[str, ...]:
        """The results that are stacked."""
        return self.body.results[self.memories :]


def trip_count(context: Context, sliced: Sequence[Type], length: Size | None) -> Size:
    """The number of trips that all sliced inputs agree on."""
    sizes = [t.shape[0] for t in sliced if isinstance(t, TensorType) and t.shape]
    if len(sizes) != len(sliced):
        raise ShapeError("A scalar cannot be cut into steps.", fix="Give it a step axis.")
    if length is not None:
        sizes.append(length)
    if not sizes:
        raise ShapeError(
            "The number of steps is not known.", fix="Add an input, or say steps=."
        )
    first = sizes[0]
    for size in sizes[1:]:
        first = context.unify(first, size, f"The inputs have {first} and {size} steps.")
    return first


def slice_type(given: Type) -> TensorType:
    """The type of one step of what is sliced."""
    if not isinstance(given, TensorType) or not given.shape:
        raise ShapeError(f"A {given} cannot be cut into steps.", fix="Give it a step axis.")
    return TensorType(given.dtype, given.shape[1:])
