"""Helpers of sequence layers and losses: checks of lengths, scores and labels."""

from __future__ import annotations

from typing import Any

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import is_float, is_integer
from braces.errors import DTypeError, ShapeError
from braces.frontend.control.rnn import check_lengths
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand
from braces.frontend.core.public_names import arange
from braces.ops.common.rules import axis_index

LOG_ZERO = -1e30
"""Logarithm of probability zero: a finite number, so that gradients are finite."""


def same_size(left: Size, right: Size) -> bool:
    """Return whether two sizes are equal after unifying unnamed dimensions."""
    return current_program().current.unifier.unify(left, right) is not None


def check_floats(what: str, x: Any) -> Var:
    """Return the input of a sequence layer, which must have a float dtype.

    Raises:
        DTypeError: If the dtype of `x` is not a float dtype.
    """
    var = operand(x, what)
    if not is_float(var.dtype):
        raise DTypeError(
            f"{what}: expected floats, got {var.dtype}.",
            given=f"{var.name}: {var.type}",
            fix="Use br.cast, or br.embedding for ids.",
        )
    return var


def time_axis(what: str, x: Var, axis: int) -> int:
    """Return the index of the time axis.

    Raises:
        ShapeError: If the axis is out of range, or is the feature axis.
    """
    at = axis_index(axis, len(x.shape), what)
    if at == len(x.shape) - 1:
        raise ShapeError(
            f"{what}: expected the axis of steps before the last one, that of the features.",
            given=f"{x.name}: {x.type}   axis={axis}",
            fix="Pass [rows, steps, features], or [steps, rows, features] and axis=0.",
        )
    return at


def check_row_lengths(what: str, x: Var, rows: tuple[Size, ...], value: Any) -> Var:
    """Check sequence lengths against the batch axis of a layer's input.

    Raises:
        ShapeError: If the batch axis is missing, or its size differs.
    """
    lengths = check_lengths(value)
    if not rows or not same_size(rows[0], lengths.shape[0]):
        raise ShapeError(
            f"{what}: expected one entry of lengths= for each batch element.",
            given=f"{x.name}: {x.type}   lengths={lengths.name}: {lengths.type}",
            fix="The batch axis is the first axis of the input other than the steps, axis=.",
        )
    return lengths


def check_scores(what: str, x: Any, axis: int, each: str) -> tuple[Var, int]:
    """Check scores of classes or tags, [rows, steps, classes]; return them and the time axis.

    Raises:
        ShapeError: If the rank of `x` is not 3.
    """
    var = check_floats(what, x)
    if var.ndim != 3:
        raise ShapeError(
            f"{what}: expected scores of rank 3, [rows, steps, {each}], got rank {var.ndim}.",
            given=f"{var.name}: {var.type}",
        )
    return var, time_axis(what, var, axis)


def check_row_labels(what: str, x: Var, labels: Any, sizes: tuple[Size, ...]) -> Var:
    """Convert labels to int32 and check their sizes; a second size may be omitted.

    Raises:
        DTypeError: If the labels are not integers.
        ShapeError: If the sizes of the labels differ.
    """
    var = as_var(labels)
    if not is_integer(var.dtype):
        raise DTypeError(
            f"{what}: expected integer labels, got {var.dtype}.",
            given=f"labels={var.name}: {var.type}",
            fix="Labels are class indices.",
        )
    if var.ndim != 2 or not all(map(same_size, var.shape, sizes)):
        raise ShapeError(
            f"{what}: expected labels of shape [{', '.join(map(str, (*sizes, '…')[:2]))}].",
            given=f"{x.name}: {x.type}   labels={var.name}: {var.type}",
        )
    return ops.cast(var, dtype="int32")


def zero_padded_labels(labels: Var, lengths: Var | None) -> Var:
    """Replace labels in the padding by 0."""
    if lengths is None:
        return labels
    places = arange(labels.shape[1], dtype="int32")
    return ops.where(places < ops.expand_dims(lengths, axis=1), labels, 0)


def widen_half(x: Var) -> Var:
    """Cast 16-bit scores to float32 for accumulation."""
    return ops.cast(x, dtype="float32") if x.dtype.itemsize < 4 else x


def take_per_row(x: Var, at: Var) -> Var:
    """Gather one element of each row."""
    return ops.take_along_axis(x, ops.expand_dims(at, axis=1), axis=1)[:, 0]
