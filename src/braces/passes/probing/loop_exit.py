"""Exit of values from a loop: as stacked outputs, or as lists that iterations extend.

    final=[a] = loop(init=start) as w     rows: list<f32[8]> = list_empty() …
      body (t, h) {                       final=[a, w.rows] = loop(init=[start, rows]) as w
        g: f32[8] = tanh(x=h)        ->     body (t, h, rows_0: list<f32[8]>) {
        return g                              g: f32[8] = tanh(x=h)
      }                                       pushed: list<f32[8]> = list_push(list=rows_0, …)
      cond (h) { … }                          return g, pushed
                                            }
                                            cond (h, rows_0: list<f32[8]>) { … }
                                          w.stacked: f32[trips,8] = list_stack(list=w.rows)

A list crosses all loops around as one more memory. So its elements are in the order of the
iterations of all of these loops. The outermost loop stacks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from braces.builder.append import apply
from braces.dims import Dim, Size
from braces.dtypes import INT64, ListType, TensorType
from braces.ir.records import ARGUMENT, Body, Op, VarInfo
from braces.ir.views import LoopView, MemoryView, StackedOutputView, view_of
from braces.ir.walk import producers
from braces.ops.lists.list_to_array import append_stack
from braces.ops.lists.stack import EMPTY, list_attrs, push_op, push_operands
from braces.passes.core.rewrite import InsertionPoint
from braces.passes.probing.exposed import Exposed, check_sizes


@dataclass
class LoopExit:
    """Exit of values from a loop.

    Attributes:
        loop: The loop, with the outputs and memories added so far.
        place: The loop, in the enclosing block.
        infos: The new variables of the enclosing block.
    """

    loop: LoopView
    place: InsertionPoint
    infos: list[VarInfo] = field(default_factory=list[VarInfo])

    @property
    def nested(self) -> bool:
        """True if a loop contains this one."""
        return any(isinstance(view_of(op), LoopView) for op in owners(self.place))

    def leave(self, item: Exposed) -> Exposed:
        """Return a value of the body as it is outside of the loop."""
        check_sizes(item, self.place, self.loop.origin.name)
        if item.history:
            return self._pass_on(item)
        return self._stack(item) if self.loop.counted else self._collect(item)

    def finish(self) -> None:
        """Insert the loop."""
        self.place.keep(self.loop.to_op(), self.infos)

    def stacked(self, item: Exposed) -> Exposed:
        """Return a list as an array, after the outermost loop; an array is unchanged."""
        if not item.history or self.nested:
            return item
        with self.place.building() as table:
            rows = append_stack(
                self.place.var(item.name), Dim.named(table.names.unique_word("trips"))
            )
        assert isinstance(rows.type, TensorType)
        return Exposed(rows.name, rows.type, 1)

    # ---- stacked outputs ---------------------------------------------------------------------

    def _stack(self, item: Exposed) -> Exposed:
        known = self._known_stack(item.name)
        name = known or self._unique(item)
        shape = (_trip_count(self.loop, self.place), *item.type.shape)
        stacked = Exposed(name, TensorType(item.type.dtype, shape), item.loops + 1)
        if known is None:
            rows = (*self.loop.rows, StackedOutputView(item.name, name))
            self.loop = replace(self.loop, rows=rows)
            self.infos.append(stacked.info)
        return stacked

    def _known_stack(self, name: str) -> str | None:
        """Return the variable outside that has all values of a variable already."""
        for row in self.loop.rows:
            if row.result == name:
                return row.stacked
        slices = (part.source for part in self.loop.slices if part.param == name)
        return next(slices, None)

    # ---- lists -------------------------------------------------------------------------------

    def _collect(self, item: Exposed) -> Exposed:
        """Push the value onto a list in each iteration."""
        known = None if self.nested else self._known_list(item.name)
        if known is not None:
            return replace(item, name=known, history="known")
        unique = self.place.table.names.unique
        param, pushed, history = unique("rows"), unique("pushed"), unique("probe")
        push = push_op(pushed, (param, item.name), pushed, history)
        type_ = ListType(item.type)
        content = extended(self.loop.content, push, VarInfo(pushed, type_))
        self.loop = replace(self.loop, content=content)
        collected = replace(item, history=history)
        return self._carry(collected, param, pushed)

    def _pass_on(self, item: Exposed) -> Exposed:
        """Carry the list of an inner loop, which starts with the list of earlier iterations."""
        return self._carry(item, item.start, item.name)

    def _carry(self, item: Exposed, param: str, after: str) -> Exposed:
        """Add the memory of a list."""
        argument = VarInfo(param, ListType(item.type), ARGUMENT)
        final, content = self._unique(item), extended(self.loop.content, None, argument)
        start = self.place.table.names.unique("start") if self.nested else self._empty(item)
        memories = (*self.loop.memories, MemoryView(start, param, after, final))
        self.loop = replace(self.loop, content=content, memories=memories)
        carried = replace(item, name=final, start=start)
        self.infos.append(carried.info)
        return carried

    def _empty(self, item: Exposed) -> str:
        with self.place.building():
            attrs = list_attrs(item.type, item.history)
            return apply(EMPTY, {}, attrs)["out"][0].name

    def _known_list(self, name: str) -> str | None:
        """Return the final list of a memory to which each iteration pushes just this value."""
        makers = producers(self.loop.content.ops)
        for memory in self.loop.memories:
            push, start = makers.get(memory.next), self.place.maker(memory.init)
            if (
                push is not None
                and push_operands(push) == (memory.param, name)
                and start is not None
                and start.type == EMPTY
            ):
                return memory.final
        return None

    def _unique(self, item: Exposed) -> str:
        return self.place.table.names.unique(f"{self.loop.origin.name}.{item.name}")


def trips_of(loop: LoopView) -> Exposed:
    """Return the trip count of a loop."""
    return Exposed(loop.trips, TensorType(INT64, ()))


def owners(place: InsertionPoint) -> list[Op]:
    """Return the constructs around a block, innermost first."""
    constructs = list[Op]()
    around: InsertionPoint | None = place
    while around is not None and around.owner is not None:
        constructs.append(around.owner)
        around = around.outer
    return constructs


def extended(body: Body, op: Op | None, *infos: VarInfo) -> Body:
    """Return a block with one more operator at the end, and more variables."""
    ops = body.ops if op is None else (*body.ops, op)
    return body.with_(ops=ops, vars={**body.vars, **{info.name: info for info in infos}})


def _trip_count(loop: LoopView, place: InsertionPoint) -> Size:
    """Return the trip count of a counted loop."""
    if loop.length is not None:
        return loop.length
    return place.info(loop.slices[0].source).shape[0]
