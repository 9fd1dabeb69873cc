"""Export of `dot_general`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.jaxpr_equation import ExportedEquation, Rule
from braces.exchange.onnx.writer.primitives.shape import reshape_to
from braces.extend import dims
from braces.extend.operators import einsum_terms
from braces.extend.types import TensorType


def contraction(e: ExportedEquation, x: str, y: str) -> str:
    """A contraction: a matrix product if possible, else an einsum."""
    (of_x, of_y), (batch_x, batch_y) = e.params["dimension_numbers"]
    x, y = (
        widths.cast_value(e.g, operand, e.type(i).dtype, e.dtype)
        for i, operand in enumerate((x, y))
    )
    rank_x, rank_y = e.type(0).rank, e.type(1).rank
    free_x = [i for i in range(rank_x) if i not in (*of_x, *batch_x)]
    free_y = [i for i in range(rank_y) if i not in (*of_y, *batch_y)]
    orders = [*batch_x, *free_x, *of_x], [*batch_y, *of_y, *free_y]
    if len(of_x) == len(free_x) == len(free_y) == 1:
        return e.same("MatMul", _transpose_to(e, x, orders[0]), _transpose_to(e, y, orders[1]))
    may_be_empty = [
        _may_be_empty(e.type(at), operand) for at, operand in enumerate((free_x, free_y))
    ]
    if not all(may_be_empty):
        return _einsum(e, x, y, swapped=may_be_empty[1])
    left, right = _transpose_to(e, x, orders[0]), _transpose_to(e, y, orders[1])
    return _as_matrices(e, left, right, len(batch_x), len(free_x))


def _may_be_empty(type_: TensorType, axes: Sequence[int]) -> bool:
    """Return whether one of some axes may have size 0."""
    sizes = [type_.shape[axis] for axis in axes]
    return any(not dims.never_negative(dims.sum_of((size, -1))) for size in sizes)


def _as_matrices(e: ExportedEquation, x: str, y: str, batch: int, free: int) -> str:
    """Return a matrix product whose rows, columns and sums each merge several axes."""
    common, rows = e.shape[:batch], dims.product(e.shape[batch : batch + free])
    columns = dims.product(e.shape[batch + free :])
    (of_x, _), _ = e.params["dimension_numbers"]
    sizes = e.type().shape
    inner = dims.product([sizes[int(axis)] for axis in of_x])
    left = reshape_to(e.g, x, (*common, rows, inner))
    right = reshape_to(e.g, y, (*common, inner, columns))
    return reshape_to(e.g, e.same("MatMul", left, right), e.shape)


def _transpose_to(e: ExportedEquation, x: str, axes: list[int]) -> str:
    return x if axes == sorted(axes) else e.g.op("Transpose", x, perm=axes)


def _einsum(e: ExportedEquation, x: str, y: str, swapped: bool) -> str:
    """Return the contraction as an einsum; `swapped` if only the second operand may be empty.

    ONNX Runtime's einsum crashes if its second operand is empty along its free axes, because it
    divides by their size.
    """
    terms, result = einsum_terms(
        e.params["dimension_numbers"], (e.type(0).rank, e.type(1).rank)
    )
    order = slice(None, None, -1 if swapped else 1)
    equation = f"{','.join(terms[order])}->{result}"
    return e.same("Einsum", *(x, y)[order], equation=equation)


CONTRACTIONS: Mapping[str, Rule] = {"dot_general": contraction}
