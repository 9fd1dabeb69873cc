"""Loops and branches of ONNX, whatever they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from braces.dims import Shape, Size
from braces.dtypes import BOOL, INT64, TensorType, Type
from braces.exchange.onnx.writer.graph.graph import Graph, declared

SCALAR = TensorType(INT64, ())
LEAST = -(2**63)
"""Before all that there is: where a slice backwards ends."""


class Trip(NamedTuple):
    """What a trip gives.

    Attributes:
        carried: The next values of what is carried.
        rows: What is collected.
        goes_on: Whether there is one more trip; where that is not known, there is.
    """

    carried: Sequence[str]
    rows: Sequence[str] = ()
    goes_on: str | None = None


class Looped(NamedTuple):
    """What a loop gives: the last values of what was carried, and what was collected."""

    carried: list[str]
    rows: list[str]


Step: TypeAlias = "Callable[[Graph, str, list[str]], Trip]"
"""From the graph of a trip, its number and what is carried."""


def loop(
    g: Graph,
    label: str,
    inits: Sequence[str],
    types: Sequence[Type],
    step: Step,
    *,
    count: str = "",
    goes_on: str = "",
    rows: Sequence[TensorType] = (),
) -> Looped:
    """A loop.

    Args:
        g: The graph that it stands in.
        label: Before the names of what is in it.
        inits: What it carries at first.
        types: Their types.
        step: Writes a trip.
        count: How many trips there are at most.
        goes_on: Whether there is a first one.
        rows: The types of what it collects, one piece a trip.
    """
    inner = g.inside(label)
    index, before = inner.fresh("trip"), inner.fresh("goes_on")
    carried = [inner.fresh("carried") for _ in types]
    for name, type_ in zip(carried, types, strict=True):
        if isinstance(type_, TensorType):
            inner.learn(name, type_)
    made = step(inner, index, list(carried))
    names = [
        inner.op("Identity", name)
        for name in (made.goes_on or before, *made.carried, *made.rows)
    ]
    flag = TensorType(BOOL, ())
    given = zip((index, before, *carried), (SCALAR, flag, *types), strict=True)
    found = zip(names, (flag, *types, *rows), strict=True)
    body = inner.proto((declared(*one) for one in given), (declared(*one) for one in found))
    results = g.several("Loop", count, goes_on, *inits, count=len(types) + len(rows), body=body)
    return Looped(results[: len(types)], results[len(types) :])


def at(g: Graph, x: str, place: str, axis: int = 0) -> str:
    """What an array has at a place of an axis, which goes."""
    return g.op("Gather", x, place, axis=axis)


def backwards(g: Graph, x: str, axes: Sequence[int]) -> str:
    """An array the other way round along some axes."""
    ends = g.integers(*[LEAST] * len(axes))
    ones = g.integers(*[-1] * len(axes))
    return g.op("Slice", x, ones, ends, g.integers(*axes), ones)


def last_first(g: Graph, count: str, trip: str) -> str:
    """The place of a trip where they count down."""
    return g.op("Sub", g.op("Sub", count, g.constant(1, INT64)), trip)


def collected(g: Graph, rows: str, size: Size, row: TensorType, reverse: bool = False) -> str:
    """What a loop collected, in order; of no trips ONNX does not know the shape."""
    ordered = backwards(g, rows, (0,)) if reverse else rows
    shape: Shape = (size, *row.shape)
    return g.op("Reshape", ordered, g.shape(shape), allowzero=1)


def along(
    g: Graph,
    x: str,
    type_: TensorType,
    axis: int,
    start: str,
    step: Callable[[Graph, str, str], tuple[str, str]],
    reverse: bool = False,
) -> str:
    """What is collected going along an axis, as an array of the same shape.

    Args:
        g: The graph.
        x: An array.
        type_: Its type.
        axis: The axis.
        start: What is carried at first; of the type of a piece.
        step: From what is carried, and a piece, to the next of it and a piece.
        reverse: Whether to go backwards.
    """
    row = type_.with_shape(tuple(n for i, n in enumerate(type_.shape) if i != axis))
    count = g.number(type_.shape[axis])

    def trip(inner: Graph, index: str, carried: list[str]) -> Trip:
        place = last_first(inner, count, index) if reverse else index
        after, piece = step(inner, carried[0], at(inner, x, place, axis))
        return Trip([after], [piece])

    made = loop(g, "along", [start], [row], trip, count=count, rows=[row])
    rows = collected(g, made.rows[0], type_.shape[axis], row, reverse)
    order = list(range(1, type_.rank))
    order.insert(axis, 0)
    return g.op("Transpose", rows, perm=order)


Case: TypeAlias = "Callable[[Graph], Sequence[str]]"
"""Writes a case into its graph; what its results are called."""


def branch(
    g: Graph, label: str, condition: str, yes: Case, no: Case, types: Sequence[Type]
) -> list[str]:
    """One of two cases."""
    graphs = {}
    for name, case in (("then_branch", yes), ("else_branch", no)):
        inner = g.inside(f"{label}/{name.removesuffix('_branch')}")
        names = [inner.op("Identity", result) for result in case(inner)]
        outputs = zip(names, types, strict=True)
        graphs[name] = inner.proto((), (declared(*one) for one in outputs))
    return g.several("If", condition, count=len(types), **graphs)
