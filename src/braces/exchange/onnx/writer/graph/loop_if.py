"""Build `Loop` and `If` nodes of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from braces.exchange.onnx.writer.graph import dtype_widening as widths
from braces.exchange.onnx.writer.graph.graph import OnnxGraph, value_info
from braces.extend.types import BOOL, INT64, DType, Shape, Size, TensorType, Type

SCALAR = TensorType(INT64, ())
LEAST = -(2**63)
"""The end of a backwards slice that includes the first element."""


class IterationResult(NamedTuple):
    """The results of an iteration.

    Attributes:
        carried: The next carries.
        rows: The elements of stacked outputs.
        goes_on: The condition for the next iteration; unchanged if `None`.
    """

    carried: Sequence[str]
    rows: Sequence[str] = ()
    goes_on: str | None = None


class LoopResult(NamedTuple):
    """The results of a loop: the final carries, and the stacked outputs."""

    carried: list[str]
    rows: list[str]


Step: TypeAlias = "Callable[[OnnxGraph, str, list[str]], IterationResult]"
"""Maps the graph of an iteration, its number and the carries to its results."""


def loop(
    g: OnnxGraph,
    label: str,
    inits: Sequence[str],
    types: Sequence[Type],
    step: Step,
    *,
    count: str = "",
    goes_on: str = "",
    rows: Sequence[TensorType] = (),
) -> LoopResult:
    """Build a `Loop`.

    Args:
        g: The enclosing graph.
        label: The prefix of inner names.
        inits: The initial carries.
        types: The types of the carries.
        step: Writes an iteration.
        count: The maximal trip count.
        goes_on: The initial condition.
        rows: The element types of the stacked outputs.
    """
    inner = g.inside(label)
    index, before = inner.fresh("trip"), inner.fresh("goes_on")
    carried = [inner.fresh("carried") for _ in types]
    for name, type_ in zip(carried, types, strict=True):
        if isinstance(type_, TensorType):
            inner.learn(name, type_)
    iteration = step(inner, index, list(carried))
    names = [
        inner.op("Identity", name)
        for name in (iteration.goes_on or before, *iteration.carried, *iteration.rows)
    ]
    flag = TensorType(BOOL, ())
    input_types = zip((index, before, *carried), (SCALAR, flag, *types), strict=True)
    output_types = zip(names, (flag, *types, *rows), strict=True)
    body = inner.proto(
        (value_info(*entry) for entry in input_types),
        (value_info(*entry) for entry in output_types),
    )
    results = g.several("Loop", count, goes_on, *inits, count=len(types) + len(rows), body=body)
    return LoopResult(results[: len(types)], results[len(types) :])


def take_index(g: OnnxGraph, x: str, place: str, axis: int = 0) -> str:
    """Take one index of an axis, which is removed."""
    return g.op("Gather", x, place, axis=axis)


def reverse_axes(g: OnnxGraph, x: str, axes: Sequence[int]) -> str:
    """Reverse an array along some axes."""
    ends = g.integers(*[LEAST] * len(axes))
    ones = g.integers(*[-1] * len(axes))
    return g.op("Slice", x, ones, ends, g.integers(*axes), ones)


def reversed_index(g: OnnxGraph, count: str, trip: str) -> str:
    """Return the index of an iteration that counts down."""
    return g.op("Sub", g.op("Sub", count, g.constant(1, INT64)), trip)


def stacked_output(
    g: OnnxGraph, rows: str, size: Size, row: TensorType, reverse: bool = False
) -> str:
    """Return a stacked output in order, with its shape, which ONNX may not know.

    ONNX does not know the shape after 0 iterations.
    """
    ordered = reverse_axes(g, rows, (0,)) if reverse else rows
    shape: Shape = (size, *row.shape)
    return g.op("Reshape", ordered, g.shape(shape), allowzero=1)


def scan_axis(
    g: OnnxGraph,
    x: str,
    type_: TensorType,
    axis: int,
    start: str,
    step: Callable[[OnnxGraph, str, str], tuple[str, str]],
    reverse: bool = False,
) -> str:
    """Scan along an axis, with a stacked output of the same shape.

    Args:
        g: The graph.
        x: An array.
        type_: Its type.
        axis: The axis.
        start: The initial carry, of the type of an element.
        step: Maps the carry and an element to the next carry and an output element.
        reverse: Whether to go backwards.
    """
    row = type_.with_shape(tuple(n for i, n in enumerate(type_.shape) if i != axis))
    count = g.number(type_.shape[axis])

    def trip(inner: OnnxGraph, index: str, carried: list[str]) -> IterationResult:
        position = reversed_index(inner, count, index) if reverse else index
        after, element = step(inner, carried[0], take_index(inner, x, position, axis))
        return IterationResult([after], [element])

    results = loop(g, "along", [start], [row], trip, count=count, rows=[row])
    rows = stacked_output(g, results.rows[0], type_.shape[axis], row, reverse)
    order = list(range(1, type_.rank))
    order.insert(axis, 0)
    return g.op("Transpose", rows, perm=order)


Case: TypeAlias = "Callable[[OnnxGraph], Sequence[str]]"
"""Exports a case into its graph, and returns the names of its results."""


def branch(
    g: OnnxGraph, label: str, condition: str, yes: Case, no: Case, types: Sequence[Type]
) -> list[str]:
    """Build an `If` of two cases."""
    graphs = {}
    for name, case in (("then_branch", yes), ("else_branch", no)):
        inner = g.inside(f"{label}/{name.removesuffix('_branch')}")
        names = [inner.op("Identity", result) for result in case(inner)]
        outputs = zip(names, types, strict=True)
        graphs[name] = inner.proto((), (value_info(*output) for output in outputs))
    return g.several("If", condition, count=len(types), **graphs)


def switch(
    g: OnnxGraph,
    label: str,
    index: str,
    dtype: DType,
    cases: Sequence[Case],
    types: Sequence[Type],
) -> Sequence[str]:
    """Build nested `If` of several cases; an index of another case takes the last one."""

    def nested_if(number: int, inner: OnnxGraph) -> Sequence[str]:
        if number == len(cases) - 1:
            return cases[number](inner)
        at = inner.constant(number, dtype)
        is_case = widths.widened_query(inner, "Equal", index, at, dtype=dtype)
        others = partial(nested_if, number + 1)
        return branch(inner, f"{label}.{number}", is_case, cases[number], others, types)

    return nested_if(0, g)
