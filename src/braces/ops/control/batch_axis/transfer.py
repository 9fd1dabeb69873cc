"""Transfer functions of the batch axis analysis: axis kinds of inputs to those of outputs.

The axis map of an operator names each axis of its inputs and outputs. An output axis is the
join of the input axes with its name. A batch axis is found by its origin and not by its size,
with two exceptions: a repetition becomes a batch axis where it meets one, and if the number of
rows is a named size, so does an axis of that size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from braces.define.axes.axis_map import AxisMap, Index, shape_of
from braces.define.decorator import OPS
from braces.dims import Dim, Size
from braces.errors import ProgramError
from braces.ir.records import Attr, Op
from braces.ir.views import LoopView, view_of
from braces.ops.common.row_semantics import (
    ADVICE,
    OUTSIDE,
    mixed_rows_error,
    row_count_error,
    undeclared_axes_error,
)
from braces.ops.control.batch_axis.axis_kinds import (
    AxisKind,
    AxisKinds,
    AxisUse,
    OpAxes,
    Types,
    axis_map_of,
    batch_axes,
    join,
)


@dataclass
class TransferFunctions:
    """Transfer functions of all operators, for one batch axis.

    Attributes:
        rows: The number of rows: a number, or a name.
        rounded: Whether the batch axis is padded to a capacity, for which operators are
            replaced.
        numbered: Whether random draws will get row numbers, and so become pointwise along rows;
            see `braces.ops.control.partition.random`.
    """

    rows: Size
    rounded: bool = False
    numbered: bool = False

    def transfer(self, op: Op, types: Types, kinds: AxisKinds) -> OpAxes:
        """Return the axis kinds of an operator.

        Raises:
            ProgramError: If the operator mixes batch elements, or may do so.
        """
        definition = OPS.get(op.type)
        has_rows = any(AxisKind.BATCH in kinds.get(name, ()) for name in op.reads())
        replaced = self.rounded and definition.rounded_rule is not None
        data_dependent = definition.learn_rule is not None and not replaced
        if definition.axes_rule is None or (data_dependent and has_rows):
            if has_rows or any(map(self.mentions, op.attrs.values())):
                raise undeclared_axes_error(op)
            return OpAxes(op, AxisMap({}, {}))
        axes = axis_map_of(op, types.__getitem__)
        if self.numbered and "Salt" in definition.roles:
            axes = replace(axes, mixed=axes.mixed.difference(axes.of_output("out")))
        inputs = tuple(self._input_axes(op, axes, types, kinds))
        rows = frozenset(self._row_names(op, axes, inputs))
        if self.rounded and any(self.is_trip_count(op, value) for value in op.attrs.values()):
            rows |= axes.mixed  # stacked outputs have one entry per iteration
        op_axes = OpAxes(op, axes, inputs, rows)
        if not replaced:
            self._check(op_axes, types)
        return op_axes

    def _input_axes(
        self, op: Op, axes: AxisMap, types: Types, kinds: AxisKinds
    ) -> Iterator[AxisUse]:
        for slot, names in op.inputs.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                own = kinds.get(name, (AxisKind.OTHER,) * len(shape))
                for axis, index in enumerate(axes.of(slot, position)):
                    yield AxisUse(slot, position, axis, index, shape[axis], own[axis])

    def _row_names(self, op: Op, axes: AxisMap, inputs: Iterable[AxisUse]) -> Iterator[str]:
        """Yield the operator's names of the batch axes."""
        by_index: dict[Index, list[AxisUse]] = {}
        for axis in inputs:
            by_index.setdefault(axis.index, []).append(axis)
        for index, uses in by_index.items():
            rows = [use for use in uses if use.kind is AxisKind.BATCH]
            others = [use for use in uses if use.kind is AxisKind.OTHER]
            if index is None:
                if rows:
                    raise self.conflict(op, f"the batch axis is {rows[0]}, which is broadcast.")
            elif rows:
                for other in others:
                    if other.size != self.rows_name:
                        why = f"{rows[0]} is a batch axis, {other} is not, and both must match."
                        raise self.conflict(op, why)
                yield index
            elif not others and uses[0].size == self.rows_name and not axes.keeps(index):
                yield index  # a repetition of that size, with no other evidence

    def _check(self, op_axes: OpAxes, types: Types) -> None:
        """Reject an operator that mixes rows.

        Raises:
            ProgramError: If the operator mixes batch elements.
        """
        op, axes = op_axes.op, op_axes.axes
        for axis in op_axes.inputs:
            tail_excluded = self.rounded and axis.index in axes.tails
            if axis.index in op_axes.rows & axes.mixed and not tail_excluded:
                raise mixed_rows_error(
                    op, f"the batch axis is {axis}, whose entries depend on each other."
                )
        base = OPS.get(op.type.partition(".")[0])
        if base.masked_rule is not None and base.type != op.type and op_axes.reduced():
            raise mixed_rows_error(
                op, f"the derivative of {base.type} is not exact with padding."
            )
        for spec in OPS.get(op.type).attrs:
            value = op.attrs[spec.name]
            if not self.mentions(value) or (self.rounded and self.is_trip_count(op, value)):
                continue
            if not isinstance(value, tuple) or self._changes_row_count(op_axes, types):
                raise row_count_error(op, spec.name)

    def _changes_row_count(self, op_axes: OpAxes, types: Types) -> bool:
        """Return whether an output has the number of rows as a size other than that of rows."""
        for slot, names in op_axes.op.outputs.items():
            for position, name in enumerate(names):
                indices = op_axes.axes.of_output(slot, position)
                for index, size in zip(indices, shape_of(types[name]), strict=False):
                    mixed = index in op_axes.axes.mixed and index not in op_axes.rows
                    if self.mentions(size) and (mixed or size != self.rows):
                        return True
        return False

    # ---- outputs -----------------------------------------------------------------------------

    def output_kinds(self, op_axes: OpAxes, types: Types) -> AxisKinds:
        """Return the axis kinds of an operator's outputs."""
        kind_of: dict[Index, AxisKind] = {None: AxisKind.UNIFORM}
        for use in op_axes.inputs:
            if use.index is not None:
                pair = kind_of.get(use.index, AxisKind.UNIFORM), use.kind
                kind_of[use.index] = join(pair) or AxisKind.BATCH
        kind_of |= dict.fromkeys(op_axes.axes.mixed, AxisKind.OTHER)
        kind_of |= dict.fromkeys(op_axes.rows, AxisKind.BATCH)
        kinds: AxisKinds = {}
        for slot, names in op_axes.op.outputs.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                indices = op_axes.axes.of_output(slot, position) or (None,) * len(shape)
                own = [kind_of.get(index, AxisKind.UNIFORM) for index in indices]
                kinds[name] = tuple(map(self._kind_with_padding, own, shape))
        return kinds

    def output_batch_axes(self, op_axes: OpAxes, types: Types) -> Mapping[str, tuple[int, ...]]:
        """Return the batch axes of an operator's outputs."""
        return {
            name: batch_axes(kinds, shape_of(types[name]), self.rows_name)
            for name, kinds in self.output_kinds(op_axes, types).items()
        }

    def _kind_with_padding(self, kind: AxisKind, size: Size) -> AxisKind:
        """Return an axis kind for a padded batch: all axes of that size have padding."""
        if not self.rounded:
            return kind
        if size == self.rows:
            return AxisKind.BATCH
        return AxisKind.OTHER if kind is AxisKind.BATCH else kind

    # ---- sizes -------------------------------------------------------------------------------

    def is_trip_count(self, op: Op, value: Attr) -> bool:
        """Return whether an attribute makes a loop iterate over the rows."""
        view = view_of(op)
        return isinstance(view, LoopView) and value == view.length == self.rows

    @property
    def rows_name(self) -> Dim | None:
        """The name of the number of rows, if it has one."""
        return self.rows if isinstance(self.rows, Dim) and self.rows.name else None

    def mentions(self, value: Attr | Size) -> bool:
        """Return whether an attribute mentions the name of the number of rows."""
        if isinstance(value, tuple):
            return any(map(self.mentions, value))
        return isinstance(value, Dim) and str(self.rows_name) in value.names()

    def conflict(self, op: Op, why: str) -> ProgramError:
        """Build the error for a batch axis that meets another axis."""
        if self.rows_name is not None:
            return mixed_rows_error(op, why, OUTSIDE)
        advice = f"An equal size ({self.rows}) does not make an axis the batch axis. {ADVICE}"
        return mixed_rows_error(op, why, advice)
