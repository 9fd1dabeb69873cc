"""The loop operator, shared by the front ends RNN and While.

    loop(init, sliced, count, captures) { body, cond, length, reverse, max_trips, history }
      -> final, stacked, trips

    body (t, memories..., slices...) -> next memories..., rows...
    cond (memories...) -> bool

A *counted* loop (`lax.scan`) has the trip count `length`, the size of axis 0 of all scanned
inputs `sliced`; its rows are stacked. A loop with a `cond` or a run-time `count`
(`lax.while_loop`) has memories (carries) only. All memories update together. `t` is the
iteration index, which counts down under `reverse`. The memories of `cond` have the names that
they have in `body`. `history` names the loop whose iterations this one repeats: the lists of a
gradient loop have the capacity of the original loop. `recompute` makes the gradient recompute
each iteration (rematerialization) instead of saving residuals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import final

import numpy as np

from braces.define.axes.axis_map import AxisMap, with_leading_axis
from braces.define.axes.axis_rules import with_tails
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import InferenceContext
from braces.dims import Size
from braces.dtypes import BOOL, INT64, TensorType, Type, is_integer, unifies
from braces.errors import BracesError, ProgramError, ShapeError, TripLimitError
from braces.ir.records import Body, Op
from braces.ir.views import LoopView, size_in
from braces.ops.control.construct.jvp import loop_jvp
from braces.ops.control.core.block_op import (
    BlockOp,
    DeadCodeElimination,
    ForwardDependence,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import find_dependent_loop_outputs
from braces.ops.control.core.differentiation import JvpContext, VjpContext
from braces.ops.control.core.trip_count import infer_slice_type, infer_trip_count
from braces.ops.control.loop.dead_memories import trim_loop
from braces.ops.control.loop.gradient import loop_gradient
from braces.ops.control.loop.lowering import lower_counted, lower_while
from braces.ops.control.partition.interpret import slice_arrays_at, stack_rows, to_jax_arrays
from braces.ops.lists.stack import INDEX_TYPE


def axes_of_loop(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: iterations depend on each other, all else is mapped by the body.

    The last iterations can be omitted: then the loop receives the number of valid ones.
    """
    del attrs
    sliced = with_leading_axis("trip", types.get("sliced", ()), "slice")
    stacked = with_leading_axis("trip", types.get("stacked", ()))
    return with_tails(
        AxisMap({"sliced": sliced}, {"stacked": stacked}, frozenset({"trip"})), {}
    )


@final
class LoopOp(BlockOp):
    """Run `body` repeatedly; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type="loop",
            inputs=(
                Slot("init", many=True, optional=True),
                Slot("sliced", many=True, optional=True),
                Slot("count", optional=True),
                Slot("captures", many=True, optional=True),
            ),
            attrs=(
                AttrSpec("body", "Body"),
                AttrSpec("cond", "Body | None", None),
                AttrSpec("length", "Size | None", None),
                AttrSpec("reverse", "bool", False),
                AttrSpec("max_trips", "int | None", None),
                AttrSpec("history", "str", ""),
                AttrSpec("recompute", "bool", False),
            ),
            outputs=(
                Slot("final", many=True, optional=True),
                Slot("stacked", many=True, optional=True),
                Slot("trips"),
            ),
            kernel=lambda: None,
            axes_rule=axes_of_loop,
            doc=__doc__ or "",
        )

    def may_fail(self, attrs: Attrs) -> bool:
        """Return whether the trip count is limited."""
        return attrs["max_trips"] is not None

    def failure(self, attrs: Attrs, code: int) -> BracesError:
        """Return the error: the condition still holds after the last allowed iteration."""
        del code
        return TripLimitError(_limit_text(attrs["max_trips"]), fix=_LIMIT_FIX)

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """Body parameters are the index, the memories and one slice per scanned input."""
        init, bodies = types.get("init", ()), op.bodies()
        slices = tuple(map(infer_slice_type, types.get("sliced", ())))
        _check_count(types.get("count", ()))
        finals, rows = LoopView.sizes(op)
        _check_finals(len(init), finals)
        interfaces = {"body": Interface((INDEX_TYPE, *init, *slices), len(init) + rows)}
        if "cond" in bodies:
            _check_cond(bodies["cond"].params, bodies["body"].params[1 : 1 + len(init)])
            interfaces["cond"] = Interface(tuple(init), 1)
        return interfaces

    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Memories keep their types; stacked outputs get the trip count as leading axis."""
        body, cond, length = attrs["body"], attrs["cond"], attrs["length"]
        assert isinstance(body, Body)
        init, sliced = types.get("init", ()), types.get("sliced", ())
        results = result_types(body, outer, context)
        for param, before, after in zip(body.params[1:], init, results, strict=False):
            _check_memory(context, param, before, after)
        rows, stacked = results[len(init) :], tuple[Type, ...]()
        if cond is None and not types.get("count"):
            trips = infer_trip_count(
                context, sliced, None if length is None else size_in(length)
            )
            stacked = tuple(_stack_type(trips, row) for row in rows)
        elif rows or sliced:
            raise ProgramError(
                "a loop with a data-dependent trip count has no step inputs or stacked outputs."
            )
        if isinstance(cond, Body):
            _check_bool(cond, *result_types(cond, outer, context))
        return {"final": tuple(init), "stacked": stacked, "trips": (INDEX_TYPE,)}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Interpret iteration by iteration, each in its own scope."""
        view, trips = frame.once(LoopView.of), 0
        body, order = view.body, slice(None, None, -1 if view.reverse else 1)
        memories = [frame.read(memory.init) for memory in view.memories]
        sliced = [frame.read(slice_.source) for slice_ in view.slices]
        rows: list[list[Value]] = [[] for _ in view.rows]
        for t in self._trips(frame, view, memories):
            index, *slices = slice_arrays_at(frame, t, sliced)
            results = frame.run("body", body, [index, *memories, *slices])
            memories[:] = results[: len(memories)]
            for values, value in zip(rows, results[len(memories) :], strict=True):
                values.append(value)
            trips += 1
        stacked = [
            stack_rows(frame, body, row.result, values[order])
            for row, values in zip(view.rows, rows, strict=True)
        ]
        *stacked, count = to_jax_arrays((*stacked, np.asarray(trips, INT64)))
        return view.bound(memories, stacked, count)

    def _trips(self, frame: Frame, view: LoopView, memories: list[Value]) -> Iterator[int]:
        cond, limit = view.cond, view.max_trips
        if cond is None:
            count = _trip_count(frame, view)
            yield from range(count - 1, -1, -1) if view.reverse else range(count)
            return
        trip = 0
        while bool(frame.run("cond", cond, memories)[0]):
            if limit is not None and trip >= limit:
                raise self.failure(frame.op.attrs, trip)
            yield trip
            trip += 1

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """Lower to a scan if the trip count is known, else to a while."""
        view = LoopView.of(lowering.op)
        lower = lower_counted if view.counted else lower_while
        return lower(lowering, view)

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Drop dead memories, scanned inputs and stacked outputs."""
        if live.isdisjoint(op.binds()):
            return None
        return trim_loop(LoopView.of(op), live, eliminate).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return the memories and stacked outputs that depend on active names."""
        return find_dependent_loop_outputs(op, active, follow)

    def build_gradient(self, d: VjpContext) -> None:
        """Build a loop in reverse order; see `loop_gradient`."""
        loop_gradient(d)

    def build_jvp(self, d: JvpContext) -> None:
        """Build the same loop with tangents of memories, scanned inputs and stacked outputs."""
        loop_jvp(d)


LOOP = OPS.add(LoopOp())


_LIMIT_FIX = "Raise max_trips, or check why the condition stays true."


def _limit_text(limit: object) -> str:
    return f"The loop condition still holds after max_trips = {limit} iterations."


# ---- types -----------------------------------------------------------------------------------


def _check_memory(context: InferenceContext, param: str, before: Type, after: Type) -> None:
    if not unifies(before, after, context.unifier):
        raise ShapeError(
            f"memory `{param}` changes its type between iterations.",
            given=f"init: {before}   update: {after}",
            fix="Use the dtype and shape of the initial value for the update; br.cast helps.",
        )


def _check_finals(memories: int, finals: int) -> None:
    if memories != finals:
        raise ProgramError(
            f"the loop has {memories} memories and {finals} final values.",
            fix="Bind the last value of each memory in `final`.",
        )


def _check_count(count: Sequence[Type]) -> None:
    for type_ in count:
        if not isinstance(type_, TensorType) or type_.shape or not is_integer(type_.dtype):
            raise ShapeError(f"the trip count must be an integer scalar, got {type_}.")


def _check_cond(cond: Sequence[str], body: Sequence[str]) -> None:
    if cond != body:
        raise ProgramError(
            "the condition and the body of a loop name its memories differently.",
            given=f"cond: {', '.join(cond)}   body: {', '.join(body)}",
            fix="Use the same names in the same order.",
        )


def _check_bool(cond: Body, type_: Type) -> None:
    if type_ != TensorType(BOOL, ()):
        raise ShapeError(
            "the condition of a loop must be a bool scalar.",
            given=f"{cond.results[0]}: {type_}",
            fix="Reduce it with br.all or br.any.",
        )


def _stack_type(length: Size, row: Type) -> TensorType:
    if not isinstance(row, TensorType):
        raise ShapeError("a list cannot be a stacked output of a loop.")
    return TensorType(row.dtype, (length, *row.shape))


# ---- interpreting ----------------------------------------------------------------------------


def _trip_count(frame: Frame, view: LoopView) -> int:
    if view.count is not None:
        return int(frame.read(view.count))
    if view.slices:
        return int(frame.read(view.slices[0].source).shape[0])
    assert view.length is not None
    return frame.size(view.length)
