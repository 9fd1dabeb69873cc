"""Checkpointing: a loop in segments, of which only the beginnings are kept.

    loop of n trips  =  loop over n / k segments, each a loop of k trips

The outer loop runs each segment again for its gradient, so that what is kept are the memories
at the n / k beginnings and the values of one segment: with k near the square root of n, memory
grows with the square root of the trips, for one more forward computation. Results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braces.dims import Size
from braces.dtypes import BOOL, INT64, TensorType
from braces.errors import ProgramError
from braces.ir.program import Program
from braces.ir.records import ARGUMENT, Body, VarInfo
from braces.ir.table import SymbolTable
from braces.ir.walk import rename_body
from braces.ops.build import Var, apply, one, var_of
from braces.ops.lists import INDEX_TYPE


@dataclass
class Segments:
    """A loop about to be cut into segments.

    Attributes:
        program: The program that is built.
        body: The loop's body: index, memories, slices.
        memories: How many memories there are.
        every: Trips in one segment.
    """

    program: Program
    body: Body
    memories: int
    every: int

    @property
    def memory_params(self) -> tuple[str, ...]:
        """The parameters that hold the memories."""
        return self.body.params[1 : 1 + self.memories]

    def counted(
        self, init: Sequence[Var], sliced: Sequence[Var], length: Size, reverse: bool
    ) -> tuple[list[Var], list[Var]]:
        """A loop whose trips are known: final memories and stacked rows."""
        whole = length // self.every
        done = whole * self.every
        first = [
            one("reshape", x[:done], shape=(whole, self.every, *x.shape[1:])) for x in sliced
        ]
        rest = [x[done:] for x in sliced]
        parts: list[tuple[list[Var], bool]] = [(first, True), (rest, False)]
        rows: dict[bool, list[Var]] = {}
        memories = list(init)
        for slices, segmented in reversed(parts) if reverse else parts:
            if segmented:
                memories, found = self._segments(memories, slices, whole, reverse)
                shapes = [(done, *row.shape[2:]) for row in found]
                rows[True] = [
                    one("reshape", row, shape=shape)
                    for row, shape in zip(found, shapes, strict=True)
                ]
            else:
                memories, rows[False] = self._rest(memories, slices, length, done, reverse)
        both = zip(rows[True], rows[False], strict=True)
        return memories, [one("concat", a, b, axis=0) for a, b in both]

    def _segments(
        self, init: list[Var], sliced: list[Var], whole: Size, reverse: bool
    ) -> tuple[list[Var], list[Var]]:
        table, segment = self._outer_table()
        types = [TensorType(x.dtype, x.shape[1:]) for x in sliced]
        slices = [self._param(table, "segment", type_) for type_ in types]
        memories = [var_of(self.program, table, n) for n in self._memory_params(table)]
        with self.program.building(table):
            made = apply(
                "loop",
                {"init": memories, "sliced": slices},
                {
                    "body": self._numbered(table, segment * self.every),
                    "length": self.every,
                    "reverse": reverse,
                },
            )
        table.params = [segment.name, *(m.name for m in memories), *(s.name for s in slices)]
        body = table.freeze([v.name for v in (*made["final"], *made["stacked"])])
        attrs = {"body": body, "length": whole, "reverse": reverse, "recompute": True}
        outer = apply("loop", {"init": init, "sliced": sliced}, attrs)
        return list(outer["final"]), list(outer["stacked"])

    def _rest(
        self, init: list[Var], sliced: list[Var], length: Size, done: Size, reverse: bool
    ) -> tuple[list[Var], list[Var]]:
        table = self.program.current
        body = self._numbered(table, one("size", value=done, dtype=INT64))
        attrs = {"body": body, "length": length - done, "reverse": reverse}
        made = apply("loop", {"init": init, "sliced": sliced}, attrs)
        return list(made["final"]), list(made["stacked"])

    def conditional(self, init: Sequence[Var], cond: Body) -> tuple[list[Var], Var]:
        """A loop with a condition: final memories, and how many trips it made."""
        table, segment = self._outer_table()
        memories = [var_of(self.program, table, n) for n in self._memory_params(table)]
        count = VarInfo(table.names.unique("trip"), INDEX_TYPE, ARGUMENT)
        with self.program.building(table):
            zero = one("full", shape=(), value=0.0, dtype=INT64)
            inner = self._numbered(table, segment * self.every, count)
            made = apply(
                "loop",
                {"init": [*memories, zero]},
                {"body": inner, "cond": self._bounded(table, cond, count)},
            )
        table.params = [segment.name, *(m.name for m in memories)]
        body = table.freeze([v.name for v in made["final"][: self.memories]])
        attrs = {"body": body, "cond": cond, "recompute": True}
        outer = apply("loop", {"init": list(init)}, attrs)
        return list(outer["final"]), outer["trips"][0]

    # ---- pieces ------------------------------------------------------------------------------

    def _outer_table(self) -> tuple[SymbolTable, Var]:
        table = SymbolTable(parent=self.program.current)
        return table, self._param(table, "segment", INDEX_TYPE)

    def _param(self, table: SymbolTable, stem: str, type_: Any) -> Var:
        name = table.add_param(table.names.unique(stem), type_).name
        return var_of(self.program, table, name)

    def _memory_params(self, table: SymbolTable) -> tuple[str, ...]:
        """The memories of a segment are called as those of the loop."""
        for name in self.memory_params:
            table.vars[name] = self.body.vars[name]
        return self.memory_params

    def _numbered(self, outer: SymbolTable, start: Var, count: VarInfo | None = None) -> Body:
        """The body with its index counted on from `start`."""
        table = SymbolTable(parent=outer)
        index = self._param(table, "trip", INDEX_TYPE)
        extra = [] if count is None else [count]
        for info in extra:
            table.vars[info.name] = info
        with self.program.building(table):
            step = start + index
            counted = [(var_of(self.program, table, i.name) + 1).name for i in extra]
        body = rename_body(self.body, {self.body.params[0]: step.name})
        split = 1 + self.memories
        params = (*body.params[1:split], *(i.name for i in extra), *body.params[split:])
        results = (*body.results[: self.memories], *counted, *body.results[self.memories :])
        infos = {n: v for n, v in body.vars.items() if n != step.name} | dict(table.vars)
        return Body((index.name, *params), results, infos, (*table.ops, *body.ops))

    def _bounded(self, outer: SymbolTable, cond: Body, count: VarInfo) -> Body:
        """The condition, for no more trips than a segment has."""
        table = SymbolTable(parent=outer).thaw(cond)
        table.new_var(count.name, INDEX_TYPE, ARGUMENT)
        with self.program.building(table):
            more = var_of(self.program, table, count.name) < self.every
            held = table.table_of(cond.results[0])
            assert held is not None
            goes_on = var_of(self.program, held, cond.results[0]) & more
        assert goes_on.type == TensorType(BOOL, ())
        table.params = [*cond.params, count.name]
        return table.freeze([goes_on.name])


def check_trips(given: int | None, what: str, least: int = 1) -> int | None:
    """A number of trips, or nothing.

    Raises:
        ProgramError: It is less than `least`.
    """
    if given is None or given >= least:
        return given
    raise ProgramError(
        f"{what}={given!r} is not a number of trips.",
        fix=f"Use an integer of at least {least}.",
    )
