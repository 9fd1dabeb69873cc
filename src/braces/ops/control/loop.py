"""The one loop: RNN and While are two faces of it.

    loop(init, sliced, count, captures) { body, cond, length, reverse, max_trips, history }
      -> final, stacked, trips

    body (t, memories..., slices...) -> next memories..., rows...
    cond (memories...) -> bool

A *counted* loop makes `length` trips, which is the size of axis 0 of all that is sliced; its
rows are stacked. A loop with a `cond`, or with a `count` known only at run time, has memories
alone. All memories update together. `t` is the trip's index, counting down under `reverse`.
The memories of `cond` have the names that they have in `body`. `history` names the loop whose
trips this one repeats: gradient loops keep as much history as the loop that they came from.
`recompute` makes the gradient run each trip again instead of keeping its values.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from typing import Any, final

from braces.dims import Size
from braces.dtypes import BOOL, INT64, TensorType, Type, is_integer, unifies
from braces.errors import BracesError, ProgramError, ShapeError, TripLimitError
from braces.ir.records import Body, Op
from braces.ir.walk import with_captures
from braces.lazy import jnp
from braces.ops.control.base import BlockOp, Follow, Frame, Interface, Lowering, result_types
from braces.ops.control.loop_gradient import loop_gradient
from braces.ops.control.loop_parts import Parts, slice_type, trip_count
from braces.ops.control.reached import loop_reached
from braces.ops.control.tangents import loop_jvp
from braces.ops.define import OPS, Attrs, AttrSpec, Slot, Types
from braces.ops.inference import Context
from braces.ops.row_rules import Fills, RowView, each, refused


@final
class Loop(BlockOp):
    """Run `body` again and again; see the module's docstring."""

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
            doc=__doc__ or "",
        )

    def may_fail(self, attrs: Attrs) -> bool:
        """Where the trips are limited."""
        return attrs["max_trips"] is not None

    def failure(self, attrs: Attrs, found: int) -> BracesError:
        """The condition still holds after the last trip that is allowed."""
        del found
        return TripLimitError(_limit_text(attrs["max_trips"]), fix=_LIMIT_FIX)

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """The body gets the index, the memories and one slice of each input."""
        parts, cond = Parts.of(op), op.attrs["cond"]
        init = types.get("init", ())
        slices = tuple(map(slice_type, types.get("sliced", ())))
        final, stacked = op.outputs.get("final", ()), op.outputs.get("stacked", ())
        _check_finals(len(init), len(final))
        _check_count(types.get("count", ()))
        params = (TensorType(INT64, ()), *init, *slices)
        found = {"body": Interface(params, len(init) + len(stacked))}
        if isinstance(cond, Body):
            _check_cond(cond, parts)
            found["cond"] = Interface(tuple(init), 1)
        return found

    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Mapping[str, Any],
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Memories keep their types; rows get the trips as a new leading axis."""
        body: Body = attrs["body"]
        init = types.get("init", ())
        results = result_types(body, outer, context)
        for param, before, after in zip(body.params[1:], init, results, strict=False):
            _check_memory(context, param, before, after)
        counted = attrs["cond"] is None and not types.get("count")
        if not counted:
            self._refuse_rows(types, results[len(init) :], attrs, outer, context)
            return {"final": tuple(init), "stacked": (), "trips": (TensorType(INT64, ()),)}
        length = trip_count(context, types.get("sliced", ()), attrs["length"])
        stacked = tuple(_stack_type(length, t) for t in results[len(init) :])
        return {"final": tuple(init), "stacked": stacked, "trips": (TensorType(INT64, ()),)}

    def _refuse_rows(
        self,
        types: Types,
        rows: Sequence[Type],
        attrs: Mapping[str, Any],
        outer: Mapping[str, Type],
        context: Context,
    ) -> None:
        if rows or types.get("sliced"):
            raise ProgramError(
                "A loop whose trips are not known beforehand has memories alone."
            )
        cond: Body | None = attrs["cond"]
        if cond is not None:
            (found,) = result_types(cond, outer, context)
            if found != TensorType(BOOL, ()):
                raise ShapeError(
                    "The condition of a loop must be a bool scalar.",
                    given=f"{cond.results[0]}: {found}",
                    fix="Reduce it with br.all or br.any.",
                )

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, tuple[Any, ...]]:
        """Trip by trip, each in a scope of its own."""
        parts, attrs = Parts.of(frame.op), frame.op.attrs
        memories, sliced = list(frame.values("init")), frame.values("sliced")
        rows: list[list[Any]] = [[] for _ in parts.rows]
        trips = 0
        for t in self._trips(frame, memories):
            slices = [x[t] for x in sliced]
            results = frame.run("body", parts.body, [jnp.asarray(t, INT64), *memories, *slices])
            memories[:] = results[: parts.memories]
            for row, value in zip(rows, results[parts.memories :], strict=True):
                row.append(value)
            trips += 1
        order = slice(None, None, -1 if attrs["reverse"] else 1)
        stacked = tuple(
            _stack(frame, parts.body, name, row[order])
            for name, row in zip(parts.rows, rows, strict=True)
        )
        return {
            "final": tuple(memories),
            "stacked": stacked,
            "trips": (jnp.asarray(trips, INT64),),
        }

    def _trips(self, frame: Frame, memories: list[Any]) -> Any:
        attrs, cond = frame.op.attrs, frame.op.attrs["cond"]
        if not isinstance(cond, Body):
            count = _count(frame)
            yield from range(count - 1, -1, -1) if attrs["reverse"] else range(count)
            return
        trip, limit = 0, attrs["max_trips"]
        while bool(frame.run("cond", cond, memories)[0]):
            if isinstance(limit, int) and trip >= limit:
                raise self.failure(attrs, trip)
            yield trip
            trip += 1

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, tuple[Any, ...]]:
        """A scan where the trips are known, else a while."""
        if lowering.op.attrs["cond"] is None and not lowering.values("count"):
            return _lower_counted(lowering)
        return _lower_while(lowering)

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: Callable[..., Body]) -> Op | None:
        """Drop memories, slices and rows that nothing live needs; a fixpoint over memories."""
        if not live & set(op.binds()):
            return None
        parts, cond = Parts.of(op), op.attrs["cond"]
        finals, stacked = op.outputs.get("final", ()), op.outputs.get("stacked", ())
        rows = [i for i, name in enumerate(stacked) if name in live]
        kept = {i for i, name in enumerate(finals) if name in live}
        if isinstance(cond, Body):
            cond = eliminate(cond, cond.results)
            kept |= _read_by(free_of_params(cond), cond.params)
        while True:
            results = [parts.next_memories[i] for i in sorted(kept)]
            body = eliminate(parts.body, [*results, *(parts.rows[i] for i in rows)])
            needed = _read_by(free_of_params(body), parts.memory_params)
            if needed <= kept:
                break
            kept |= needed
        return _rebuilt(op, parts, body, cond, sorted(kept), rows)

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """The memories and rows that depend on active names, over any number of trips."""
        return loop_reached(op, active, follow)

    def build_gradient(self, differentiation: Any) -> None:
        """A loop that counts down; see `loop_gradient`."""
        loop_gradient(differentiation, Parts.of(differentiation.op))

    def build_jvp(self, differentiation: Any) -> None:
        """The same loop with a tangent beside each memory, slice and row."""
        loop_jvp(differentiation, Parts.of(differentiation.op))


LOOP = OPS.add(Loop())


@LOOP.rows
def rows_of_loop(view: RowView) -> Fills:
    """Rows pass through the body, which is masked itself; one row a trip is not for padding."""
    if any(0 in view.axes(name) for name in view.op.inputs.get("sliced", ())):
        raise refused(view)
    return each(view)


_LIMIT_FIX = "Raise max_trips, or see why the condition stays true."


def _limit_text(limit: object) -> str:
    return f"The loop's condition still holds after max_trips = {limit} trips."


# ---- types -----------------------------------------------------------------------------------


def _check_memory(context: Context, param: str, before: Type, after: Type) -> None:
    if not unifies(before, after, context.unifier):
        raise ShapeError(
            f"Memory `{param}` changes its type from one trip to the next.",
            given=f"init: {before}   update: {after}",
            fix="The update must have the dtype and shape of the initial value; br.cast helps.",
        )


def _check_finals(memories: int, finals: int) -> None:
    if memories != finals:
        raise ProgramError(
            f"The loop has {memories} memories and {finals} final values.",
            fix="Bind the last value of each memory in `final`.",
        )


def _check_count(count: Sequence[Type]) -> None:
    for given in count:
        if not isinstance(given, TensorType) or given.shape or not is_integer(given.dtype):
            raise ShapeError(f"The number of trips must be an integer scalar, not {given}.")


def _check_cond(cond: Body, parts: Parts) -> None:
    if cond.params != parts.memory_params:
        raise ProgramError(
            "The condition of a loop calls the memories by other names than the body.",
            given=f"cond: {', '.join(cond.params)}   body: {', '.join(parts.memory_params)}",
            fix="Use the same names in the same order.",
        )


def _stack_type(length: Size, row: Type) -> TensorType:
    if not isinstance(row, TensorType):
        raise ShapeError("A list cannot be collected row by row.")
    return TensorType(row.dtype, (length, *row.shape))


# ---- interpreting ----------------------------------------------------------------------------


def _count(frame: Frame) -> int:
    if frame.values("count"):
        return int(frame.values("count")[0])
    sliced = frame.values("sliced")
    return int(sliced[0].shape[0]) if sliced else frame.size(frame.op.attrs["length"])


def _stack(frame: Frame, body: Body, name: str, rows: list[Any]) -> Any:
    if rows:
        return jnp.stack(rows)
    if name not in body.vars:
        value = frame.read(name)
        return jnp.zeros((0, *value.shape), value.dtype)
    row = body.vars[name].type
    assert isinstance(row, TensorType)
    return jnp.zeros((0, *map(frame.size, row.shape)), row.dtype)


# ---- lowering --------------------------------------------------------------------------------


def _lower_counted(lowering: Lowering) -> dict[str, tuple[Any, ...]]:
    parts, attrs = Parts.of(lowering.op), lowering.op.attrs
    sliced = lowering.values("sliced")
    length = sliced[0].shape[0] if sliced else lowering.size(attrs["length"])

    def step(carry: Any, slices: Any) -> Any:
        memories, state = carry
        arguments = [slices[0], *memories, *slices[1:]]
        results, state = lowering.run("body", parts.body, arguments, state)
        return (tuple(results[: parts.memories]), state), tuple(results[parts.memories :])

    (memories, state), rows = lowering.scan(
        step,
        (lowering.values("init"), lowering.state("body")),
        (jnp.arange(length, dtype=INT64), *sliced),
        length,
        bool(attrs["reverse"]),
    )
    lowering.leave(state)
    return {"final": memories, "stacked": rows, "trips": (jnp.asarray(length, INT64),)}


def _lower_while(lowering: Lowering) -> dict[str, tuple[Any, ...]]:
    parts, attrs = Parts.of(lowering.op), lowering.op.attrs
    cond, limit, count = attrs["cond"], attrs["max_trips"], lowering.values("count")

    def goes_on(carry: Any) -> tuple[Any, Any]:
        trip, memories, state = carry
        if isinstance(cond, Body):
            (wanted,), state = lowering.run("cond", cond, memories, state)
        else:
            wanted = trip < count[0].astype(INT64)
        return wanted & lowering.running(state), state

    def check(carry: Any) -> Any:
        wanted, _ = goes_on(carry)
        return wanted & (carry[0] < limit) if isinstance(limit, int) else wanted

    def step(carry: Any) -> Any:
        trip, memories, state = carry
        t = count[0].astype(INT64) - 1 - trip if attrs["reverse"] else trip
        results, state = lowering.run("body", parts.body, [t, *memories], state)
        return trip + 1, tuple(results), state

    start = (jnp.asarray(0, INT64), lowering.values("init"), lowering.state("cond", "body"))
    trips, memories, state = end = lowering.repeat(check, step, start, isinstance(cond, Body))
    if isinstance(limit, int):
        state = lowering.flag(state, goes_on(end)[0])
    lowering.leave(state)
    return {"final": memories, "stacked": (), "trips": (trips,)}


# ---- trimming --------------------------------------------------------------------------------


def free_of_params(body: Body) -> frozenset[str]:
    """The names that operators and results of a block read."""
    return frozenset(n for op in body.ops for n in op.reads()) | frozenset(body.results)


def _read_by(read: frozenset[str], params: Sequence[str]) -> set[int]:
    return {i for i, name in enumerate(params) if name in read}


def _rebuilt(
    op: Op, parts: Parts, body: Body, cond: Any, kept: list[int], rows: list[int]
) -> Op:
    read = free_of_params(body)
    slices = sorted(_read_by(read, parts.slice_params))
    if not slices and op.inputs.get("sliced"):
        slices = [0]  # the number of trips comes from it
    memories = [parts.memory_params[i] for i in kept]
    params = (parts.index, *memories, *(parts.slice_params[i] for i in slices))
    dropped = set(parts.body.params) - set(params)
    body = _without(body, params, dropped)
    inputs = dict(op.inputs) | {
        "init": tuple(op.inputs["init"][i] for i in kept) if kept else (),
        "sliced": tuple(op.inputs["sliced"][i] for i in slices) if slices else (),
    }
    outputs = dict(op.outputs) | {
        "final": tuple(op.outputs["final"][i] for i in kept) if kept else (),
        "stacked": tuple(op.outputs["stacked"][i] for i in rows) if rows else (),
    }
    if isinstance(cond, Body):
        cond = _without(cond, memories, dropped)
    trimmed = op.with_(
        inputs=inputs, outputs=outputs, attrs=dict(op.attrs) | {"body": body, "cond": cond}
    )
    return with_captures(trimmed)


def _without(body: Body, params: Sequence[str], dropped: Container[str]) -> Body:
    infos = {name: info for name, info in body.vars.items() if name not in dropped}
    return body.with_(params=tuple(params), vars=infos)
