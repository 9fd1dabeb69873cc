"""Draws of rows: what a row draws follows from its own number in the whole batch.

    (valid: bool[n], r: f32[n,3]) {
      y: f32[n,3] = dropout(state=s, x=r, trips=[t]) {…}
      return y
    }

    (valid: bool[n], r: f32[n,3], number: i64[n]) {
      y: f32[n,3] = dropout(state=s, x=r, trips=[t, number]) {…}
      return y
    }

So neither which other rows run makes a difference, nor padding, nor how the branch is run. Rows
along another axis are drawn for along the first one, and moved to their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, visible_var
from braces.define.axes.axis_map import shape_of
from braces.define.core.signature import AttrSpec
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import Type
from braces.errors import BracesError
from braces.ir.records import Attr, Body, Op
from braces.ir.walk import all_ops
from braces.ops.control.batch_axis.analysis import Site, Tracked, Tracker, axes_of
from braces.ops.control.batch_axis.rewrite import Places, RowWalk, begun, visible

T = TypeVar("T")


def row_numbers(program: Builder, table: SymbolTable, rows: Size) -> Var:
    """The numbers of the rows of a branch in the whole batch.

    A branch around it that has those rows tells them. Else they are counted, outside of loops.

    Args:
        program: The program that is built.
        table: The block that the branch stands in.
        rows: How many rows there are.
    """
    home, size = table, table.unifier.resolve(rows)
    for block in table.chain():
        if block.numbers is not None and block.numbers.rows == size:
            return block.numbers.found()
        if block.trip_index is not None and block.parent is not None:
            home = block.parent
    with program.building(home):
        return one("arange", stop=rows)


def number_draws(
    program: Builder,
    table: SymbolTable,
    rows: Size,
    places: Places,
    numbers: Callable[[], Var],
) -> None:
    """Let what is drawn for rows follow from their numbers; what cannot stays as it is.

    Args:
        program: The program that is built.
        table: The block, which nobody builds any more.
        rows: How many rows there are: a number, or a name.
        places: The axes of the parameters of the block that are rows.
        numbers: Gives the variable of the block that tells them; asked where needed.

    Raises:
        ProgramError: Something else mixes rows in a way that has no mask.
    """
    if not any(_draws(op) for _, op in all_ops(Body((), (), {}, tuple(table.ops)))):
        return
    tracker, sites = Tracker(rows, table.unifier.resolve, numbered=True), dict[str, Site]()
    types, known = visible(table), begun(table, places)
    tracker.follow(table.ops, types, dict(known), sites)
    numbering = _Numbering(program, tracker, numbers)
    RowWalk(tracker, numbering.numbered).put(table, types, known, sites)


def _draws(op: Op) -> bool:
    return "Salt" in OPS.get(op.type).roles


@dataclass(frozen=True)
class _Numbering:
    """Tells draws the numbers of rows.

    Attributes:
        numbers: Gives the variable of the block that tells those of rows.
    """

    program: Builder
    tracker: Tracker
    numbers: Callable[[], Var]

    def numbered(self, table: SymbolTable, found: Tracked, op: Op) -> list[Op]:
        """The operators that take the place of one operator."""
        axis = self._axis(table, found) if _draws(op) else None
        if axis is None:
            return [op]
        before = len(table.ops)
        with self.program.building(table), self.program.at(op.source):
            told = _Told(self.program, table, op, axis, self.numbers().name).ops()
        extra = table.ops[before:]
        del table.ops[before:]
        return [*extra, *told]

    def _axis(self, table: SymbolTable, found: Tracked) -> int | None:
        """The first axis of what is drawn that is rows, which no numbers tell apart yet."""
        axes, op = axes_of(found.op, table.type_of), found.op
        types = {name: table.type_of(name) for name in (*op.reads(), *op.binds())}
        (rows,) = self.tracker.rows_bound(found, types).values()
        indices = axes.of_output("out")
        return next((axis for axis in rows if indices[axis] in axes.mixed), None)


@dataclass(frozen=True)
class _Told:
    """A draw that is told the number of each row.

    Attributes:
        axis: Where rows are in what is drawn.
        number: What tells them.
    """

    program: Builder
    table: SymbolTable
    op: Op
    axis: int
    number: str

    def ops(self) -> list[Op]:
        """The draw with rows on its first axis, and what moves them to their place.

        What leads inputs with rows is appended. A draw that cannot be told stays what it was.
        """
        (out,), types = self.op.binds(), self.table.type_of
        trips, told = OPS.get(self.op.type).inputs[-1].name, self.op.inputs
        given = told.get(trips, ())
        first = sum(len(shape_of(types(name))) for name in given)
        led = self._led(first)
        led = led.with_(inputs={**led.inputs, trips: (*given, self.number)})
        try:
            found = infer_op(led, {name: types(name) for name in led.reads()}, Unifier())[out]
        except BracesError:
            return [self.op]
        if shape_of(found) != _moved(shape_of(types(out)), self.axis, first):
            return [self.op]
        return [led] if self.axis == first else self._moved_back(led, found, first)

    def _led(self, first: int) -> Op:
        """The draw with an axis of rows where the first one is that is not of trips."""
        op, definition = self.op, OPS.get(self.op.type)
        axes, place = axes_of(op, self.table.type_of), self.axis
        rank, inputs = len(axes.of_output("out")), dict(op.inputs)
        for slot in definition.inputs[1:-1]:  # behind the state, before the trips
            (x,), indices = op.inputs[slot.name], axes.of(slot.name)
            place, rank = indices.index(axes.of_output("out")[self.axis]), len(indices)
            inputs[slot.name] = (self._turned(x, place, first),)
        attrs = {
            spec.name: _attr(spec, op.attrs[spec.name], place, first, rank)
            for spec in definition.attrs
        }
        return op.with_(inputs=inputs, attrs=attrs)

    def _turned(self, name: str, source: int, destination: int) -> str:
        if source == destination:
            return name
        x = visible_var(self.program, self.table, name)
        return one("moveaxis", x, source=source, destination=destination).name

    def _moved_back(self, led: Op, type_: Type, first: int) -> list[Op]:
        """The draw, and what moves its rows where they belong."""
        (out,), table = self.op.binds(), self.table
        drawn = table.new_var(type=type_, stem=f"{out}.led").name
        self._turned(drawn, first, self.axis)
        back = table.ops.pop()
        del table.vars[next(back.binds())]
        led = led.with_(name=drawn, outputs={"out": (drawn,)})
        return [led, back.with_(name=self.op.name, outputs={"out": (out,)})]


def _attr(spec: AttrSpec, value: Attr, source: int, destination: int, rank: int) -> Attr:
    """An attribute where an axis is moved forward to another place."""
    if spec.sizes_axes and isinstance(value, tuple):
        return _moved(value, source, destination)
    if spec.kind == "Axis" and isinstance(value, int):
        at = value % rank
        return at + 1 if destination <= at < source else at
    return value


def _moved(given: tuple[T, ...], source: int, destination: int) -> tuple[T, ...]:
    others = [*given[:source], *given[source + 1 :]]
    return (*others[:destination], given[source], *others[destination:])
