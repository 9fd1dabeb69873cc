"""View of a loop: its memories (carries), slices (scanned inputs) and rows (stacked outputs).

x, ys, n = loop(init=a, sliced=s) {reverse=false, ...}
    body (t, before, slice) { ... return after, y }

LoopView(index="t", memories=(MemoryView("a", "before", "after", "x"),),
         slices=(Slice("s", "slice"),), rows=(StackedOutputView("y", "ys"),), trips="n", ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from braces.dims import Size
from braces.ir.records import ARGUMENT, Attr, Body, Op
from braces.ir.views.common import Origin, fit_interface, replace_slots, size_in
from braces.ir.walk import with_captures

T = TypeVar("T")
CONDITION = "cond"
"""The label of the block that computes the condition of a loop."""


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Carry of a loop.

    Attributes:
        init: The variable outside with the initial value.
        param: The name in the body before an iteration.
        next: The name in the body after an iteration.
        final: The variable outside with the final value; empty while the loop is not built.
    """

    init: str
    param: str
    next: str
    final: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """Scanned input: a variable that a loop slices, one piece per iteration.

    Attributes:
        source: The variable outside.
        param: The name of the piece in the body.
    """

    source: str
    param: str


@dataclass(frozen=True, slots=True)
class StackedOutputView:
    """Stacked output: a variable that a loop stacks, one piece per iteration.

    Attributes:
        result: The name of the piece in the body.
        stacked: The variable outside; empty while the loop is not built.
    """

    result: str
    stacked: str = ""


@dataclass(frozen=True, slots=True)
class LoopView:
    """View of a loop; `to_op` builds the operator.

    Attributes:
        index: The name of the iteration index in the body.
        content: The body's variables and operators; its parameters and results are those of
            memories, slices and rows.
        memories: The carries.
        slices: The scanned inputs.
        rows: The stacked outputs.
        condition: The content of the condition, whose parameters are those of the memories.
        count: The variable that holds the trip count, if it is data-dependent.
        trips: The variable that receives the actual trip count.
        length: The trip count, if it is known beforehand.
        reverse: Whether the index counts down.
        max_trips: Limit of the trip count; more iterations are an error.
        history: The loop whose iterations this one repeats; empty for its own.
        recompute: Whether the gradient recomputes each iteration.
        origin: The operator of this view, or the one that it will replace.
    """

    index: str
    content: Body
    memories: tuple[MemoryView, ...] = ()
    slices: tuple[Slice, ...] = ()
    rows: tuple[StackedOutputView, ...] = ()
    condition: Body | None = None
    count: str | None = None
    trips: str = ""
    length: Size | None = None
    reverse: bool = False
    max_trips: int | None = None
    history: str = ""
    recompute: bool = False
    origin: Op = field(default=Op("loop", "", {}, {}))

    @classmethod
    def of(cls, op: Op) -> Self:
        """Return the view of a loop in a well-formed program."""
        body, cond, attrs = op.attrs["body"], op.attrs[CONDITION], op.attrs
        assert isinstance(body, Body)
        init, sliced = op.inputs.get("init", ()), op.inputs.get("sliced", ())
        length, limit, n = attrs["length"], attrs["max_trips"], len(init)
        nexts, finals = body.results[:n], op.outputs.get("final", ())
        memories = zip(init, body.params[1 : 1 + n], nexts, finals, strict=True)
        slices = zip(sliced, body.params[1 + n :], strict=True)
        rows = zip(body.results[n:], op.outputs.get("stacked", ()), strict=True)
        return cls(
            index=body.params[0],
            content=body,
            memories=tuple(MemoryView(*names) for names in memories),
            slices=tuple(Slice(*names) for names in slices),
            rows=tuple(StackedOutputView(*names) for names in rows),
            condition=cond if isinstance(cond, Body) else None,
            count=next(iter(op.inputs.get("count", ())), None),
            trips=next(iter(op.outputs["trips"])),
            length=None if length is None else size_in(length),
            reverse=bool(attrs["reverse"]),
            max_trips=limit if isinstance(limit, int) else None,
            history=str(attrs["history"]),
            recompute=bool(attrs["recompute"]),
            origin=op,
        )

    @staticmethod
    def sizes(op: Op) -> tuple[int, int]:
        """Return the numbers of final values and stacked outputs of a loop, valid or not."""
        return len(op.outputs.get("final", ())), len(op.outputs.get("stacked", ()))

    @classmethod
    def around(cls, body: Body, inits: int, sources: int = 0) -> Self:
        """Return the view of a new loop for a body with parameters in the order of a loop."""
        params, nexts, split = body.params[1:], body.results[:inits], inits + sources
        memories = zip(params[:inits], nexts, strict=True)
        return cls(
            index=body.params[0],
            content=body,
            memories=tuple(MemoryView("", param, after) for param, after in memories),
            slices=tuple(Slice("", param) for param in params[inits:split]),
            rows=tuple(StackedOutputView(result) for result in body.results[inits:]),
        )

    def bound(self, finals: Iterable[T], stacked: Iterable[T], trips: T) -> dict[str, T]:
        """Return values by the names of the outputs, from values of memories and rows."""
        names = (memory.final for memory in self.memories)
        values_by_name = dict(zip(names, finals, strict=True)) | {self.trips: trips}
        return values_by_name | dict(
            zip((row.stacked for row in self.rows), stacked, strict=True)
        )

    def to_op(self) -> Op:
        """Return the operator; the captures of its blocks are recomputed."""
        inputs = replace_slots(
            self.origin.inputs,
            init=(memory.init for memory in self.memories),
            sliced=(slice_.source for slice_ in self.slices),
            count=() if self.count is None else (self.count,),
        )
        outputs = replace_slots(
            self.origin.outputs,
            final=(memory.final for memory in self.memories if memory.final),
            stacked=(row.stacked for row in self.rows if row.stacked),
            trips=(self.trips,) if self.trips else (),
        )
        new_op = self.origin.with_(inputs=inputs, outputs=outputs, attrs=self.attrs)
        return with_captures(new_op)

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The attributes of the operator."""
        return {
            **self.origin.attrs,
            "body": self.body,
            CONDITION: self.cond,
            "length": self.length,
            "reverse": self.reverse,
            "max_trips": self.max_trips,
            "history": self.history,
            "recompute": self.recompute,
        }

    @staticmethod
    def operands(inits: Sequence[T], sources: Sequence[T] = ()) -> dict[str, Sequence[T]]:
        """Return values by input slot, from values of memories and slices."""
        return {"init": inits, "sliced": sources}

    @property
    def captures(self) -> tuple[str, ...]:
        """Captures of the blocks of the original operator."""
        return self.origin.captures()

    def sources(self, name: str) -> list[Origin]:
        """Return the sources of an output: start and body of a memory, body of a row."""
        origins: list[Origin] = []
        for memory in self.memories:
            if memory.final == name:
                origins += [(None, memory.init), (self.body, memory.next)]
        return origins + [(self.body, row.result) for row in self.rows if row.stacked == name]

    @property
    def body(self) -> Body:
        """The block of an iteration."""
        memories = (memory.param for memory in self.memories)
        params = (self.index, *memories, *(slice_.param for slice_ in self.slices))
        nexts = (memory.next for memory in self.memories)
        return fit_interface(self.content, params, (*nexts, *(row.result for row in self.rows)))

    @property
    def cond(self) -> Body | None:
        """The block that decides whether there is one more iteration."""
        if self.condition is None:
            return None
        params = tuple(memory.param for memory in self.memories)
        cond = fit_interface(self.condition, params, self.condition.results)
        new = {
            n: self.content.vars[n].with_(kind=ARGUMENT) for n in params if n not in cond.vars
        }
        return cond.with_(vars={**cond.vars, **new}) if new else cond

    @property
    def counted(self) -> bool:
        """True if the trip count is known before the loop runs, from shapes alone."""
        return self.condition is None and self.count is None

    @property
    def recorded(self) -> str:
        """The loop whose iterations the lists of this one record."""
        return self.history or self.origin.name
