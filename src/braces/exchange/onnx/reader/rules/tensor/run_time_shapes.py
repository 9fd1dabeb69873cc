"""Data-dependent shapes, slices and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.exchange.common.rules.reshape_slice_pad import number_of, range_length
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.onnx.reader.graph.node import OnnxNode
from braces.exchange.onnx.reader.graph.run_time_sizes import (
    Part,
    RunTimeSize,
    as_size_or_number,
    as_sizes,
    sizes_at,
)
from braces.extend import data_dependent, dims, functions as ops
from braces.extend.building import Var, emit
from braces.extend.types import Dim, Size, is_integer


def run_time_shape(node: OnnxNode, x: Var, parts: Sequence[Part]) -> list[Size]:
    """Return the sizes of a reshape with run-time numbers; 0 keeps a size, -1 infers one.

    Known sizes stay known; a known -1 becomes a data-dependent size.
    """
    if not any(isinstance(part, RunTimeSize) for part in parts):
        return as_sizes(node.names, list(parts))
    own_sizes = [x.shape[i] if i < x.ndim else 1 for i in range(len(parts))]
    keeps = not node.flag("allowzero")
    numbers = [
        _keep_if_zero(part, size, keeps) for part, size in zip(parts, own_sizes, strict=True)
    ]
    target = ops.stack(numbers)
    missing = target < 0
    others = ops.prod(ops.where(missing, ops.ones_like(target), target))
    inferred = number_of(dims.product(x.shape)) // ops.maximum(others, 1)
    run_time_sizes = ops.where(missing, inferred, target)
    return [
        data_dependent.as_size(run_time_sizes[i])
        if isinstance(part, RunTimeSize) or part == -1
        else part
        for i, part in enumerate(parts)
    ]


def _keep_if_zero(part: Part, own: Size, keeps: bool) -> Var:
    number = number_of(as_size_or_number(part))
    if not (keeps and isinstance(part, RunTimeSize)):
        return number
    return ops.where(ops.equal(number, 0), number_of(own), number)


def assert_not_stretched(x: Var, parts: Sequence[Part]) -> Var:
    """Return an operand of a broadcast whose symbolic sizes are never stretched.

    Each run checks that such a size equals the target; it may be 1 if it has no number.
    """
    own, target = x.shape[::-1], [*parts[::-1], *[1] * x.ndim]
    shape = [_unify_size(size, part) for size, part in zip(own, target, strict=False)][::-1]
    return x if tuple(shape) == x.shape else assert_shape(x, shape)


def assert_shape(x: Var, shape: Sequence[Size]) -> Var:
    """Check the sizes of an array in each run; symbolic sizes keep their names."""
    named_shape = [
        n if isinstance(n, int) else own for n, own in zip(shape, x.shape, strict=True)
    ]
    checked = ops.ensure_shape(x, shape)
    return (
        checked
        if checked.shape == tuple(named_shape)
        else ops.ensure_shape(checked, named_shape)
    )


def _unify_size(own: Size, target: Part) -> Size:
    if not isinstance(own, Dim) or isinstance(target, RunTimeSize) or target in (own, 1):
        return own
    return target if isinstance(target, int) else sizes.largest(own, target)


def broadcast_sizes(node: OnnxNode, shape: Sequence[Size], parts: Sequence[Part]) -> list[Size]:
    """Return the shape of a broadcast: the array's own sizes unless they are 1."""
    rank = max(len(parts), len(shape))
    own: list[Size] = [*[1] * (rank - len(shape)), *shape]
    target: list[Part] = [*[1] * (rank - len(parts)), *parts]
    sizes_ = [n if m == 1 else m for n, m in zip(target, own, strict=True)]
    return as_sizes(node.names, sizes_)


def run_time_range(node: OnnxNode, bounds: Sequence[Any]) -> Var:
    """Return a range of data-dependent length.

    Args:
        node: The node.
        bounds: Start, limit and step; `None` for those that are not known.
    """
    start, limit, delta = (node.var(at) for at in range(3))
    if bounds[0] == 0 and bounds[2] == 1 and is_integer(limit.dtype):
        (count,) = sizes_at(node, 1) or [0]
    else:
        count = data_dependent.as_size(ops.reshape(range_length(start, limit, delta), ()))
    steps = ops.cast(emit("arange", stop=count), start.dtype)
    return steps * ops.reshape(delta, ()) + ops.reshape(start, ())
