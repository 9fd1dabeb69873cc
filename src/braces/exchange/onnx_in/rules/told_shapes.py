"""Shapes, slices and ranges whose sizes follow from what a run is fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import INT64, is_float, is_integer
from braces.exchange.onnx_in.node import Node
from braces.exchange.onnx_in.told import Part, Told, as_sizes, number_of, sizes_at
from braces.frontend import found as finding, functions as ops


def shape_told(node: Node, x: Var, given: Sequence[Part]) -> list[Size]:
    """The sizes that numbers say, of which a run tells some: 0 for that of the array, and -1.

    What is known stays known; where it says -1, the run tells sizes of its own.
    """
    if not any(isinstance(part, Told) for part in given):
        return as_sizes(node.names, list(given))
    own = [x.shape[i] if i < x.ndim else 1 for i in range(len(given))]
    keeps = not node.flag("allowzero")
    numbers = [_or_own(part, size, keeps) for part, size in zip(given, own, strict=True)]
    wanted = ops.stack(numbers)
    missing = wanted < 0
    others = ops.prod(ops.where(missing, ops.ones_like(wanted), wanted))
    rest = number_of(dims.product(x.shape)) // ops.maximum(others, 1)
    sizes = ops.where(missing, rest, wanted)
    return [
        finding.as_size(sizes[i]) if isinstance(part, Told) or part == -1 else part
        for i, part in enumerate(given)
    ]


def _or_own(part: Part, own: Size, keeps: bool) -> Var:
    number = number_of(part)
    if not (keeps and isinstance(part, Told)):
        return number
    return ops.where(ops.equal(number, 0), number_of(own), number)


def expanded(node: Node, shape: Sequence[Size], given: Sequence[Part]) -> list[Size]:
    """The sizes of an array that is spread to some: its own where they are not 1."""
    rank = max(len(given), len(shape))
    own: list[Size] = [*[1] * (rank - len(shape)), *shape]
    wanted: list[Part] = [*[1] * (rank - len(given)), *given]
    chosen = [n if m == 1 else m for n, m in zip(wanted, own, strict=True)]
    return as_sizes(node.names, chosen)


def cut_told(x: Var, axis: int, start: Part, end: Part, step: int) -> Var:
    """A part of an axis, with bounds that a run tells and that are cut off at its ends."""
    size = number_of(x.shape[axis])
    last = size if step > 0 else size - 1
    first, stop = (_bound(part, size) for part in (start, end))
    first = ops.minimum(ops.maximum(first, 0), last)
    stop = ops.minimum(ops.maximum(stop, 0 if step > 0 else -1), last)
    count = ops.maximum(-((first - stop) // step), 0)
    places = first + one("arange", stop=finding.as_size(count)) * step
    return ops.take(x, places, axis=axis)


def _bound(part: Part, size: Var) -> Var:
    """A bound from the front, where it is negative and counts from the end."""
    number = number_of(part)
    return ops.where(number < 0, number + size, number)


def counted_told(node: Node, bounds: Sequence[Any]) -> Var:
    """Numbers from one to another, as many as a run tells.

    Args:
        node: The node.
        bounds: Start, limit and step, where they are known; `None` where they are not.
    """
    start, limit, delta = (node.var(at) for at in range(3))
    if bounds[0] == 0 and bounds[2] == 1 and is_integer(limit.dtype):
        (count,) = sizes_at(node, 1) or [0]
    else:
        count = finding.as_size(ops.reshape(_count(start, limit, delta), ()))
    steps = ops.cast(one("arange", stop=count), start.dtype)
    return steps * ops.reshape(delta, ()) + ops.reshape(start, ())


def _count(start: Var, limit: Var, delta: Var) -> Var:
    """How many steps there are from one number to before another."""
    if is_float(start.dtype):
        steps = ops.cast(ops.ceil((limit - start) / delta), INT64)
    else:
        start, limit, delta = (ops.cast(v, INT64) for v in (start, limit, delta))
        steps = -((start - limit) // delta)
    return ops.maximum(steps, 0)
