"""Sharding analysis: whether each device can run a partitioned branch on its own rows.

It can if each result is row-wise or additive: a shard then gives its rows, and partial sums
that add up to the sums over all rows. So each value of a case has one of three kinds:

- row: led by the row axis,
- total: a sum over rows,
- uniform: the same on every device, like all captures.

Control operands of loops and branches inside must be uniform, so that all devices take the same
path. A nested partitioned branch is analyzed for its own rows. Operators that mix rows in
another way, count them, or draw random numbers without row numbers prevent the split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field

from braces.define.axes.axis_map import shape_of
from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView, view_of
from braces.ir.walk import all_bodies, dimensions, producers, resolve_body
from braces.ops.common.rules import is_zeros
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis, BlockState
from braces.ops.control.batch_axis.axis_kinds import (
    AxisKind,
    Types,
    batch_axes,
    leading_row_kinds,
)
from braces.ops.control.core.value_flow import control_operands, value_edges
from braces.ops.control.partition.additivity import is_additive


def can_run_per_device(
    view: PartitionView, type_of: Callable[[str], Type], sharded_size: str
) -> bool:
    """Return whether each device can run the cases of a branch on its shard of the rows.

    Args:
        view: The branch, as compiled.
        type_of: The types of the variables visible to the branch.
        sharded_size: Its name.
    """
    types = {name: type_of(name) for name in view.captures}
    arrays = all(isinstance(type_, TensorType) for type_ in types.values())
    return arrays and _is_splittable(view, types, (sharded_size,))


def _is_splittable(view: PartitionView, outer: Types, cuts: tuple[str, ...]) -> bool:
    """Return whether shards of the rows of a branch give shards of its results.

    Args:
        view: The branch.
        outer: The types of its captures, which are replicated.
        cuts: The sharded sizes.
    """
    if any(dimensions(shape_of(type_)) & {*cuts} for type_ in outer.values()):
        return False
    rows = Dim({(f"?rows{len(cuts)}",): 1})  # no program has this name
    return all(
        isinstance(case.count, Dim)
        and _is_case_splittable(
            _rename_count(body, case.count, rows), outer, rows, cuts, len(view.outs)
        )
        for case, body in zip(view.cases, view.bodies, strict=True)
    )


def _rename_count(body: Body, count: Size, rows: Size) -> Body:
    """Return the block with one name for its number of rows."""
    return resolve_body(body, lambda size: rows if size == count else size)


def _is_case_splittable(
    body: Body, outer: Types, rows: Dim, cuts: tuple[str, ...], outs: int
) -> bool:
    """Return whether shards of a case give shards of its results, the first `outs` rows."""
    if not set(cuts).isdisjoint(_sizes_in(body)):
        return False
    types = {**outer, **{name: info.type for name, info in body.vars.items()}}
    block = BlockState(types, {name: leading_row_kinds(types[name]) for name in body.params})
    block, analysis = block.at_entry(), BatchAxisAnalysis(rows)
    try:
        analysis.run(body.ops, block)
        case = _BlockAnalysis.of(_ShardedRows(analysis, (*cuts, str(rows))), body, block)
    except BracesError:  # it mixes rows
        return False
    while case.propagate():
        pass
    results = body.results
    return (
        case.is_valid()
        and all(map(case.is_row, results[:outs]))
        and all(map(case.is_total, results[outs:]))
    )


def _sizes_in(body: Body) -> set[str]:
    """Return the names of sizes in a block and its sub-blocks."""
    names = set[str]()
    for inner, _ in all_bodies(body):
        shapes = (shape_of(info.type) for info in inner.vars.values())
        attrs = (value for op in inner.ops for value in op.attrs.values())
        names = names.union(*map(dimensions, (*shapes, *attrs)))
    return names


@dataclass(frozen=True)
class _ShardedRows:
    """The rows of a case.

    Attributes:
        analysis: The batch axis analysis, already run.
        cuts: The sharded sizes, the number of rows included.
    """

    analysis: BatchAxisAnalysis
    cuts: tuple[str, ...]


@dataclass
class _BlockAnalysis:
    """A case, or a block in it other than a nested partition, with the analysis of its values.

    Attributes:
        rows: The rows of the case.
        body: The block.
        block: Its abstract state in the batch axis analysis.
        reductions: The operators that reduce over rows.
        makers: The operator that binds each name.
        inside: The blocks of its constructs, by construct and label.
        totals: The values known to be sums over rows.
    """

    rows: _ShardedRows
    body: Body
    block: BlockState
    reductions: Set[str]
    makers: Mapping[str, Op]
    inside: Mapping[str, Mapping[str, _BlockAnalysis]]
    totals: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, rows: _ShardedRows, body: Body, block: BlockState) -> _BlockAnalysis:
        """Build the record of a block after the batch axis analysis.

        Raises:
            BracesError: If an operator in the branch mixes batch elements.
        """
        transfer, types, kinds = rows.analysis.transfer, block.types, block.kinds
        reductions = {op.name for op in body.ops if transfer(op, types, kinds).reduced()}
        inside = {
            op.name: {
                label: cls.of(rows, inner, construct.blocks[label])
                for label, inner in op.bodies().items()
            }
            for op in body.ops
            if (construct := block.constructs.get(op.name))
            and not isinstance(view_of(op), PartitionView)
        }
        return cls(rows, body, block, reductions, producers(body.ops), inside)

    # ---- propagation of totals ---------------------------------------------------------------

    def propagate(self) -> bool:
        """Propagate totals through the block once; return whether any were added."""
        grew = [self._propagate(op) for op in self.body.ops]  # no short circuit
        return any(grew)

    def _propagate(self, op: Op) -> bool:
        inner, view = self.inside.get(op.name), view_of(op)
        if inner is not None:
            return self._propagate_inside(op, inner)
        if isinstance(view, PartitionView):
            return self._add(out.name for out in view.sums)
        return self._is_total_producer(op) and self._add(op.binds())

    def _is_total_producer(self, op: Op) -> bool:
        """Return whether an operator without blocks reduces over rows, or reads a total."""
        return op.name in self.reductions or not self.totals.isdisjoint(op.reads())

    def _propagate_inside(self, op: Op, inner: Mapping[str, _BlockAnalysis]) -> bool:
        parts = {"": self, **inner}
        grew = [part._add(self.totals - part.body.vars.keys()) for part in inner.values()]
        for link in value_edges(op):
            if link.source in parts[link.origin].totals:
                grew.append(parts[link.block]._add([link.target]))
        grew += [part.propagate() for part in inner.values()]
        return any(grew)

    def _add(self, names: Iterable[str]) -> bool:
        new = {*names} - self.totals
        self.totals |= new
        return bool(new)

    # ---- validation of all values ------------------------------------------------------------

    def is_valid(self) -> bool:
        """Return whether each operator's results are rows, totals or uniform."""
        return all(map(self._is_valid_op, self.body.ops))

    def _is_valid_op(self, op: Op) -> bool:
        inner, view = self.inside.get(op.name), view_of(op)
        if inner is not None:
            return self._are_blocks_valid(op, inner) and self._has_rows_once(op)
        if isinstance(view, PartitionView):
            return self._is_splittable(view)
        if self._is_total_producer(op):
            return self._is_valid_reduction(op)
        return self._has_rows_once(op)

    def _has_rows_once(self, op: Op) -> bool:
        return all(len(self._rows_of(name)) <= 1 for name in op.binds())

    def _is_valid_reduction(self, op: Op) -> bool:
        additive = is_additive(op, self.totals, self.block.types.keys(), self.makers)
        return additive and not any(map(self._rows_of, op.binds()))

    def _are_blocks_valid(self, op: Op, inner: Mapping[str, _BlockAnalysis]) -> bool:
        """Return whether blocks take the same path on each device, with consistent totals."""
        parts = {"": self, **inner}
        totals = (link for link in value_edges(op) if link.target in parts[link.block].totals)
        return (
            all(parts[label].is_uniform(name) for label, name in control_operands(op))
            and all(parts[link.origin].is_total(link.source) for link in totals)
            and all(part.is_valid() for part in inner.values())
        )

    def _is_splittable(self, view: PartitionView) -> bool:
        """Return whether a nested branch partitions rows of this block and is splittable."""
        row_inputs = (*(case.mask for case in view.cases), *(row.source for row in view.rows))
        outer = {name: self.block.types[name] for name in view.captures}
        return (
            all(map(self.is_row, row_inputs))
            and all(map(self.is_uniform, outer))
            and _is_splittable(view, outer, self.rows.cuts)
        )

    def is_row(self, name: str) -> bool:
        """Return whether a value is led by the row axis."""
        return name not in self.totals and self._rows_of(name) == (0,)

    def is_total(self, name: str) -> bool:
        """Return whether the sum of a value over the devices is its value for all rows."""
        return name in self.totals or is_zeros(self.makers.get(name))

    def is_uniform(self, name: str) -> bool:
        """Return whether a value is uniform over the devices."""
        return name not in self.totals and not self._rows_of(name)

    def _rows_of(self, name: str) -> tuple[int, ...]:
        """Return the row axes of a value, including repetitions of that size."""
        sizes = shape_of(self.block.types[name])
        kinds = self.block.kinds.get(name, (AxisKind.OTHER,) * len(sizes))
        return batch_axes(kinds, sizes, self.rows.analysis.rows)
