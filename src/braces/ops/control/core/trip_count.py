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
        raise ShapeError("a step input cannot be a scalar.", fix="Add a step axis.")
    if length is not None:
        sizes.append(length)
    if not sizes:
        raise ShapeError(
            "the number of steps is unknown.", fix="Pass steps=, or call add_input first."
        )
    first = sizes[0]
    for size in sizes[1:]:
        first = context.unify(
            first, size, f"Step inputs have different numbers of steps: {first} and {size}."
        )
    return first


def infer_slice_type(source: Type) -> TensorType:
    """Return the type of a scanned input in one iteration."""
    if not isinstance(source, TensorType) or not source.shape:
        raise ShapeError(f"a step input cannot be of type {source}.", fix="Add a step axis.")
    return TensorType(source.dtype, source.shape[1:])
