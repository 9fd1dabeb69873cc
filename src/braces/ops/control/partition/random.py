"""Random draws in partitions: the bits of a row depend on its number in the whole batch.

    (valid: bool[n], r: f32[n,3]) {
      y: f32[n,3] = dropout(state=s, x=r, trips=[t]) {…}
      return y
    }

    (valid: bool[n], r: f32[n,3], number: i64[n]) {
      y: f32[n,3] = dropout(state=s, x=r, trips=[t, number]) {…}
      return y
    }

So the result is independent of other rows, padding and the lowering strategy. Rows along
another axis are drawn along the first one and transposed back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from braces.builder.append import emit
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
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis
from braces.ops.control.batch_axis.axis_kinds import OpAxes, axis_map_of
from braces.ops.control.batch_axis.rewrite import RowAxes, build_detached, rewrite_block

T = TypeVar("T")


def row_numbers(program: Builder, table: SymbolTable, rows: Size) -> Var:
    """Return the numbers of the rows of a branch in the whole batch.

    An enclosing branch over the same rows provides them. Otherwise they are counted, outside of
    loops.

    Args:
        program: The program under construction.
        table: The block that contains the branch.
        rows: The number of rows.
    """
    home, size = table, table.unifier.resolve(rows)
    for block in table.chain():
        if block.numbers is not None and block.numbers.rows == size:
            return block.numbers.found()
        if block.trip_index is not None and block.parent is not None:
            home = block.parent
    with program.building(home):
        return emit("arange", stop=rows)


def number_draws(
    program: Builder,
    table: SymbolTable,
    rows: Size,
    places: RowAxes,
    numbers: Callable[[], Var],
) -> None:
    """Make random draws for rows depend on row numbers; other draws stay unchanged.

    Args:
        program: The program under construction.
        table: The block, complete.
        rows: The number of rows: a number, or a name.
        places: The row axes of the block's parameters.
        numbers: Returns the variable of the row numbers; called if needed.

    Raises:
        ProgramError: If an operator that mixes batch elements does not support a mask.
    """
    if not any(_is_random(op) for _, op in all_ops(Body((), (), {}, tuple(table.ops)))):
        return
    analysis = BatchAxisAnalysis(rows, numbered=True, resolve=table.unifier.resolve)
    rewrite_block(table, places, analysis, _Numbering(program, analysis, numbers).number)


def _is_random(op: Op) -> bool:
    return "Salt" in OPS.get(op.type).roles


@dataclass(frozen=True)
class _Numbering:
    """Adds row numbers to random draws.

    Attributes:
        numbers: Returns the variable of the row numbers.
    """

    program: Builder
    analysis: BatchAxisAnalysis
    numbers: Callable[[], Var]

    def number(self, table: SymbolTable, op_axes: OpAxes, op: Op) -> list[Op]:
        """Return the replacement of one operator."""
        axis = self._axis(table, op_axes) if _is_random(op) else None
        if axis is None:
            return [op]
        build = partial(self._numbered_draw, table, op, axis)
        return build_detached(self.program, table, op, build)

    def _numbered_draw(self, table: SymbolTable, op: Op, axis: int) -> list[Op]:
        return _NumberedDraw(self.program, table, op, axis, self.numbers().name).ops()

    def _axis(self, table: SymbolTable, op_axes: OpAxes) -> int | None:
        """Return the first row axis of a draw that has no row numbers yet."""
        axes, op = axis_map_of(op_axes.op, table.type_of), op_axes.op
        types = {name: table.type_of(name) for name in (*op.reads(), *op.binds())}
        (rows,) = self.analysis.output_batch_axes(op_axes, types).values()
        indices = axes.of_output("out")
        return next((axis for axis in rows if indices[axis] in axes.mixed), None)


@dataclass(frozen=True)
class _NumberedDraw:
    """A draw with a row number as an additional operand.

    Attributes:
        axis: The row axis of the draw.
        number: The variable of the row numbers.
    """

    program: Builder
    table: SymbolTable
    op: Op
    axis: int
    number: str

    def ops(self) -> list[Op]:
        """Return the draw with rows on axis 0, and the transpose that restores the axis.

        Transposes of its inputs are appended to the block. A draw that cannot be numbered
        stays.
        """
        (out,), types = self.op.binds(), self.table.type_of
        trips, op_inputs = OPS.get(self.op.type).inputs[-1].name, self.op.inputs
        trip_operands = op_inputs.get(trips, ())
        first = sum(len(shape_of(types(name))) for name in trip_operands)
        leading = self._with_leading_axis(first)
        leading = leading.with_(inputs={**leading.inputs, trips: (*trip_operands, self.number)})
        try:
            drawn_type = infer_op(
                leading, {name: types(name) for name in leading.reads()}, Unifier()
            )[out]
        except BracesError:
            return [self.op]
        if shape_of(drawn_type) != _move_entry(shape_of(types(out)), self.axis, first):
            return [self.op]
        return (
            [leading] if self.axis == first else self._restore_axis(leading, drawn_type, first)
        )

    def _with_leading_axis(self, first: int) -> Op:
        """Return the draw with its row axis moved to the front, behind axes of iterations."""
        op, definition = self.op, OPS.get(self.op.type)
        axes, row_axis = axis_map_of(op, self.table.type_of), self.axis
        rank, inputs = len(axes.of_output("out")), dict(op.inputs)
        for slot in definition.inputs[1:-1]:  # behind the state, before the trips
            (x,), indices = op.inputs[slot.name], axes.of(slot.name)
            row_axis, rank = indices.index(axes.of_output("out")[self.axis]), len(indices)
            inputs[slot.name] = (self._move_axis(x, row_axis, first),)
        attrs = {
            spec.name: _move_axis_attr(spec, op.attrs[spec.name], row_axis, first, rank)
            for spec in definition.attrs
        }
        return op.with_(inputs=inputs, attrs=attrs)

    def _move_axis(self, name: str, source: int, destination: int) -> str:
        if source == destination:
            return name
        x = visible_var(self.program, self.table, name)
        return emit("moveaxis", x, source=source, destination=destination).name

    def _restore_axis(self, leading: Op, type_: Type, first: int) -> list[Op]:
        """Return the draw, and the transpose that moves its row axis back."""
        (out,), table = self.op.binds(), self.table
        result = table.new_var(type=type_, stem=f"{out}.led").name
        self._move_axis(result, first, self.axis)
        back = table.ops.pop()
        del table.vars[next(back.binds())]
        leading = leading.with_(name=result, outputs={"out": (result,)})
        return [leading, back.with_(name=self.op.name, outputs={"out": (out,)})]


def _move_axis_attr(
    spec: AttrSpec, value: Attr, source: int, destination: int, rank: int
) -> Attr:
    """Return an attribute after moving an axis forward."""
    if spec.sizes_axes and isinstance(value, tuple):
        return _move_entry(value, source, destination)
    if spec.kind == "Axis" and isinstance(value, int):
        at = value % rank
        return at + 1 if destination <= at < source else at
    return value


def _move_entry(entries: tuple[T, ...], source: int, destination: int) -> tuple[T, ...]:
    others = [*entries[:source], *entries[source + 1 :]]
    return (*others[:destination], entries[source], *others[destination:])
