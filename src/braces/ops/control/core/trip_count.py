"""Types of a loop's scanned inputs, and the trip count that they imply."""

from __future__ import annotations

from collections.abc import Sequence

from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import TensorType, Type
from braces.errors import ShapeError


def infer_trip_count(
    context: InferenceContext, sliced: Sequence[Type], length: Size | None
) -> Size:
    """Return the trip count on which all scanned inputs agree."""
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


def infer_slice_type(source: Type) -> TensorType:
    """Return the type of a scanned input in one iteration."""
    if not isinstance(source, TensorType) or not source.shape:
        raise ShapeError(f"A {source} cannot be cut into steps.", fix="Give it a step axis.")
    return TensorType(source.dtype, source.shape[1:])
