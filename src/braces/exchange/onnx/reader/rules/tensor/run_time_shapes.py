"""Shapes, slices and ranges whose sizes follow from what a run is fed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces import dims
from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import is_integer
from braces.exchange.common.rules.reshape_slice_pad import number_of, steps_between
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.onnx.reader.graph.node import Node
from braces.exchange.onnx.reader.graph.run_time_sizes import (
    Part,
    Told,
    as_sizes,
    sizes_at,
    told,
)
from braces.frontend.array_api import data_dependent as finding
from braces.frontend.core import functions as ops


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
    told_sizes = ops.where(missing, rest, wanted)
    return [
        finding.as_size(told_sizes[i]) if isinstance(part, Told) or part == -1 else part
        for i, part in enumerate(given)
    ]


def _or_own(part: Part, own: Size, keeps: bool) -> Var:
    number = number_of(told(part))
    if not (keeps and isinstance(part, Told)):
        return number
    return ops.where(ops.equal(number, 0), number_of(own), number)


def no_smaller(x: Var, given: Sequence[Part]) -> Var:
    """An array that is spread to these sizes, of which a symbolic one is stretched in no run.

    A run looks whether it is as long as what it meets already; that may be 1, where it has no
    number.
    """
    own, wanted = x.shape[::-1], [*given[::-1], *[1] * x.ndim]
    shape = [_kept(size, part) for size, part in zip(own, wanted, strict=False)][::-1]
    return x if tuple(shape) == x.shape else looked_at(x, shape)


def looked_at(x: Var, shape: Sequence[Size]) -> Var:
    """An array that a run finds to have these sizes; what is no number keeps its name."""
    kept = [n if isinstance(n, int) else own for n, own in zip(shape, x.shape, strict=True)]
    made = ops.ensure_shape(x, shape)
    return made if made.shape == tuple(kept) else ops.ensure_shape(made, kept)


def _kept(own: Size, wanted: Part) -> Size:
    if not isinstance(own, Dim) or isinstance(wanted, Told) or wanted in (own, 1):
        return own
    return wanted if isinstance(wanted, int) else sizes.largest(own, wanted)


def expanded(node: Node, shape: Sequence[Size], given: Sequence[Part]) -> list[Size]:
    """The sizes of an array that is spread to some: its own where they are not 1."""
    rank = max(len(given), len(shape))
    own: list[Size] = [*[1] * (rank - len(shape)), *shape]
    wanted: list[Part] = [*[1] * (rank - len(given)), *given]
    chosen = [n if m == 1 else m for n, m in zip(wanted, own, strict=True)]
    return as_sizes(node.names, chosen)


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
        count = finding.as_size(ops.reshape(steps_between(start, limit, delta), ()))
    steps = ops.cast(one("arange", stop=count), start.dtype)
    return steps * ops.reshape(delta, ()) + ops.reshape(start, ())
