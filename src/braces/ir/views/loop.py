"""A loop taken apart: its memories, slices and rows, each as one thing.

x, ys, n = loop(init=a, sliced=s) {reverse=false, ...}
    body (t, before, slice) { ... return after, y }

LoopView(index="t", memories=(Memory("a", "before", "after", "x"),),
         slices=(Slice("s", "slice"),), rows=(Row("y", "ys"),), trips="n", ...)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from braces.dims import Size
from braces.ir.records import ARGUMENT, Attr, Body, Op
from braces.ir.views.common import Origin, fitted, size_in, slots
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a loop carries from trip to trip.

    Attributes:
        init: The variable outside that it starts with.
        param: The body's name of it before a trip.
        next: The body's name of it after a trip.
        final: The variable outside that it ends in; empty while the loop is not built.
    """

    init: str
    param: str
    next: str
    final: str = ""


@dataclass(frozen=True, slots=True)
class Slice:
    """What a loop cuts into one piece a trip.

    Attributes:
        source: The variable outside.
        param: The body's name of the piece.
    """

    source: str
    param: str


@dataclass(frozen=True, slots=True)
class Row:
    """What a loop collects, one piece a trip.

    Attributes:
        result: The body's name of the piece.
        stacked: The variable outside; empty while the loop is not built.
    """

    result: str
    stacked: str = ""


@dataclass(frozen=True, slots=True)
class LoopView:
    """A loop as a value; `to_op` puts it together again.

    Attributes:
        index: The body's name of the trip's number.
        content: The body's variables and operators; its parameters and results are those of
            memories, slices and rows.
        memories: What is carried.
        slices: What is cut.
        rows: What is collected.
        condition: The content of the condition, whose parameters are those of the memories.
        count: The variable that holds the number of trips, where it is known only then.
        trips: The variable that tells how many there were.
        length: The number of trips, where it is known beforehand.
        reverse: Whether the index counts down.
        max_trips: More are an error.
        history: The loop whose trips this one repeats; empty for its own.
        recompute: Whether the gradient runs each trip again.
        origin: The operator that this was made from, or that it will replace.
    """

    index: str
    content: Body
    memories: tuple[Memory, ...] = ()
    slices: tuple[Slice, ...] = ()
    rows: tuple[Row, ...] = ()
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
        """A loop of a program that is well formed, taken apart."""
        body, cond, attrs = op.attrs["body"], op.attrs["cond"], op.attrs
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
            memories=tuple(Memory(*names) for names in memories),
            slices=tuple(Slice(*names) for names in slices),
            rows=tuple(Row(*names) for names in rows),
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
        """How many final values and rows a loop binds, well formed or not."""
        return len(op.outputs.get("final", ())), len(op.outputs.get("stacked", ()))

    @classmethod
    def around(cls, body: Body, inits: int, sources: int = 0) -> Self:
        """A loop that is not built, of a body that takes its parameters in a loop's order."""
        params, nexts, split = body.params[1:], body.results[:inits], inits + sources
        memories = zip(params[:inits], nexts, strict=True)
        return cls(
            index=body.params[0],
            content=body,
            memories=tuple(Memory("", param, after) for param, after in memories),
            slices=tuple(Slice("", param) for param in params[inits:split]),
            rows=tuple(Row(result) for result in body.results[inits:]),
        )

    def bound(self, finals: Iterable[T], stacked: Iterable[T], trips: T) -> dict[str, T]:
        """What belongs to each output by its name, from what belongs to memories and rows."""
        names = (memory.final for memory in self.memories)
        found = dict(zip(names, finals, strict=True)) | {self.trips: trips}
        return found | dict(zip((row.stacked for row in self.rows), stacked, strict=True))

    def to_op(self) -> Op:
        """The operator; what its blocks read from outside is listed anew."""
        inputs = slots(
            self.origin.inputs,
            init=(memory.init for memory in self.memories),
            sliced=(slice_.source for slice_ in self.slices),
            count=() if self.count is None else (self.count,),
        )
        outputs = slots(
            self.origin.outputs,
            final=(memory.final for memory in self.memories if memory.final),
            stacked=(row.stacked for row in self.rows if row.stacked),
            trips=(self.trips,) if self.trips else (),
        )
        made = self.origin.with_(inputs=inputs, outputs=outputs, attrs=self.attrs)
        return with_captures(made)

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The attributes of the operator."""
        return {
            **self.origin.attrs,
            "body": self.body,
            "cond": self.cond,
            "length": self.length,
            "reverse": self.reverse,
            "max_trips": self.max_trips,
            "history": self.history,
            "recompute": self.recompute,
        }

    @staticmethod
    def operands(inits: Sequence[T], sources: Sequence[T] = ()) -> dict[str, Sequence[T]]:
        """What belongs to the inputs, by slot, from what belongs to memories and slices."""
        return {"init": inits, "sliced": sources}

    @property
    def captures(self) -> tuple[str, ...]:
        """What the blocks of the operator that this was made from read from outside."""
        return self.origin.captures()

    def sources(self, name: str) -> list[Origin]:
        """Where an output comes from: a memory from its start or the body, a row from that."""
        found: list[Origin] = []
        for memory in self.memories:
            if memory.final == name:
                found += [(None, memory.init), (self.body, memory.next)]
        return found + [(self.body, row.result) for row in self.rows if row.stacked == name]

    @property
    def body(self) -> Body:
        """The block of a trip."""
        memories = (memory.param for memory in self.memories)
        params = (self.index, *memories, *(slice_.param for slice_ in self.slices))
        nexts = (memory.next for memory in self.memories)
        return fitted(self.content, params, (*nexts, *(row.result for row in self.rows)))

    @property
    def cond(self) -> Body | None:
        """The block that says whether there is one more trip."""
        if self.condition is None:
            return None
        params = tuple(memory.param for memory in self.memories)
        cond = fitted(self.condition, params, self.condition.results)
        new = {
            n: self.content.vars[n].with_(kind=ARGUMENT) for n in params if n not in cond.vars
        }
        return cond.with_(vars={**cond.vars, **new}) if new else cond

    @property
    def counted(self) -> bool:
        """Whether the trips are known before the loop runs, from shapes alone."""
        return self.condition is None and self.count is None

    @property
    def recorded(self) -> str:
        """The loop whose trips histories of this one record."""
        return self.history or self.origin.name
