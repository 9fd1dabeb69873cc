"""The row-wise branch: each block runs on its own rows only.

    partition(masks, rows, captures) { cases, counts } -> out, sums

    case (valid, rows...) -> rows..., sums...

`masks[k]` selects the rows of case k, at most one case a row. A case sees its rows in order, as
arrays whose leading size is `counts[k]`, a dimension of its own. Its row results come back to
their places in `out`, zero where no case has the row; its other results are added up in `sums`.

With `compact=False` a case sees all rows at their places, `counts[k]` of them; rows that are
not its own are stood in for by one that is, and `valid` says which are which.

`linear` are the positions of rows that results are linear in, cotangents say: where a row
stands in for another, they are zero, so that nothing is counted twice in `sums`.

Interpreted, a compact case gets exactly its rows, and one without rows does not run. Compiled,
it runs on one of a few capacities, padded with a row that is selected, or on all rows at their
places; `valid` tells rows from padding. In a `masked` branch what mixes rows reads that; any
other is masked before it runs, where it may have padding (see
`braces.ops.control.batch_axis.masking`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import final

from braces.define.axes.axis_map import AxisMap, led_by
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import Context
from braces.dims import Dim, Size
from braces.dtypes import BOOL, TensorType, Type, unifies
from braces.errors import ProgramError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView, cases_in, names_read, size_in
from braces.ops.control.core.block_op import (
    BlockOp,
    Eliminate,
    Follow,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import cases_reached
from braces.ops.control.core.differentiation import Differentiation, Pushing
from braces.ops.control.core.trip_count import slice_type
from braces.ops.control.partition.gradient import partition_gradient, partition_jvp
from braces.ops.control.partition.interpret import CaseRows, no_rows
from braces.ops.control.partition.lowering import lower_cases


def axes_of_partition(types: Types, attrs: Attrs) -> AxisMap:
    """Rows are kept; no case has padding among its rows. All else goes through the cases."""
    del attrs
    masks, rows, out = (types.get(slot, ()) for slot in ("masks", "rows", "out"))
    inputs = {"masks": led_by("row", masks), "rows": led_by("row", rows, "row")}
    return AxisMap(inputs, {"out": led_by("row", out)}, fills={"row": {"masks": False}})


@final
class PartitionOp(BlockOp):
    """Run each block on its own rows; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type="partition",
            inputs=(
                Slot("masks", many=True, optional=True),
                Slot("rows", many=True, optional=True),
                Slot("captures", many=True, optional=True),
            ),
            attrs=(
                AttrSpec("cases", "Bodies"),
                AttrSpec("counts", "Shape"),
                AttrSpec("outs", "int"),
                AttrSpec("compact", "bool", True),
                AttrSpec("linear", "tuple[int, ...]", ()),
                AttrSpec("masked", "bool", False),
            ),
            outputs=(
                Slot("out", many=True, optional=True),
                Slot("sums", many=True, optional=True),
            ),
            kernel=lambda: None,
            axes_rule=axes_of_partition,
            doc=__doc__ or "",
        )

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """Which of its rows are real, and the rows; as many results as there are outputs."""
        counts, results = _counts_of(op, types), len(tuple(op.binds()))
        rows = [slice_type(given) for given in types.get("rows", ())]
        return {
            label: Interface((TensorType(BOOL, (count,)), *_rows_of(rows, count)), results)
            for label, count in zip(op.bodies(), counts, strict=True)
        }

    def infer_blocks(
        self,
        context: Context,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Row results of all cases agree but for their rows; so do sums."""
        total = self._rows(context, types)
        found = [result_types(body, outer, context) for body in cases_in(attrs)]
        outs, counts = attrs["outs"], attrs["counts"]
        assert isinstance(outs, int)
        assert isinstance(counts, tuple)
        rows = [
            [_without_rows(t, size_in(count)) for t in results[:outs]]
            for results, count in zip(found, counts, strict=True)
        ]
        sums = [list(results[outs:]) for results in found]
        for these, those in zip(rows[1:], sums[1:], strict=True):
            _agree(context, [*rows[0], *sums[0]], [*these, *those])
        out = tuple(TensorType(t.dtype, (total, *t.shape)) for t in rows[0])
        return {"out": out, "sums": tuple(sums[0])}

    def _rows(self, context: Context, types: Types) -> Size:
        total: Size | None = None
        for given in (*types["masks"], *types.get("rows", ())):
            if not isinstance(given, TensorType) or not given.shape:
                raise ShapeError(f"A row-wise branch cannot take rows of {given}.")
            size = given.shape[0]
            problem = f"The rows differ: {total} and {size}."
            total = size if total is None else context.unify(total, size, problem)
        assert total is not None
        return total

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Each case on exactly its rows."""
        view, bodies, linear = frame.once(_taken_apart)
        outs = len(view.outs)
        results: list[Value] | None = None
        for k, (case, body) in enumerate(zip(view.cases, bodies, strict=True)):
            own = CaseRows(frame, frame.read(case.mask), view.compact)
            frame.set_size(case.count, own.seen)
            if own.number:
                rows = [frame.read(row.source) for row in view.rows]
                results = own.run(f"cases[{k}]", body, rows, linear, results, outs)
            elif results is None and k == len(bodies) - 1:
                results = no_rows(frame, body, own.total, outs)
        return view.bound(results or [])

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """Each case on the smallest capacity that holds its rows; see `partition_lowering`."""
        return lower_cases(lowering, PartitionView.of(lowering.op))

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: Eliminate) -> Op | None:
        """Drop results that nobody reads and rows that no case reads."""
        if live.isdisjoint(op.binds()):
            return None
        view = PartitionView.of(op).only(live)
        bodies = [eliminate(body, body.results) for body in view.bodies]
        read = [names_read(body) for body in bodies]
        rows = tuple(
            row
            for row in view.rows
            if any(name in names for name, names in zip(row.params, read, strict=True))
        )
        return replace(view.containing(bodies), rows=rows).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: Follow) -> set[str]:
        """The rows and sums that depend on active names in some case."""
        view = PartitionView.of(op)
        captured = {name for name in view.captures if name in active}
        inside = [
            captured | {row.params[k] for row in view.rows if row.source in active}
            for k in range(len(view.cases))
        ]
        return cases_reached(view.bodies, inside, view.outputs, follow)

    def build_gradient(self, d: Differentiation) -> None:
        """A row-wise branch on the same masks, which takes what its cases kept."""
        partition_gradient(d)

    def build_jvp(self, d: Pushing) -> None:
        """The same branch with a tangent beside each result."""
        partition_jvp(d)


PARTITION = OPS.add(PartitionOp())


def _taken_apart(op: Op) -> tuple[PartitionView, tuple[Body, ...], tuple[bool, ...]]:
    """A row-wise branch, its blocks, and in which rows results are linear."""
    view = PartitionView.of(op)
    return view, view.bodies, tuple(row.linear for row in view.rows)


def _counts_of(op: Op, types: Types) -> tuple[Size, ...]:
    """The number of rows of each case, where masks, counts and outputs fit the cases."""
    said = PartitionView.declared(op)
    masks, rows = types.get("masks", ()), types.get("rows", ())
    if not len(op.bodies()) == len(said.counts) == len(masks) or not masks:
        raise ProgramError(
            "A row-wise branch has a mask and a count for each case, and a case."
        )
    for mask in masks:
        if not isinstance(mask, TensorType) or mask.dtype != BOOL or mask.rank != 1:
            raise ShapeError(f"A mask of rows is bool[rows], not {mask}.")
    if said.outs != said.bound:
        raise ProgramError("The outputs of a row-wise branch are not as many as `outs` says.")
    if any(not 0 <= i < len(rows) for i in said.linear):
        raise ProgramError("`linear` names rows that a row-wise branch does not have.")
    any_size = not said.compact  # all rows, however many
    sizes = (n for n in said.counts if isinstance(n, int | Dim))
    found = [n for n in sizes if any_size or isinstance(n, int) or n.name]
    if len(found) != len(masks):
        raise ProgramError("The number of rows of a case is a number or a named dimension.")
    return tuple(found)


def _rows_of(rows: Sequence[TensorType], count: Size) -> list[TensorType]:
    return [TensorType(row.dtype, (count, *row.shape)) for row in rows]


def _without_rows(given: Type, count: Size) -> TensorType:
    if not isinstance(given, TensorType) or not given.shape or given.shape[0] != count:
        raise ShapeError(
            f"An output of a row-wise branch is {given}, whose leading axis is not its rows.",
            fix=f"Give one row for each selected row, a leading axis of {count}: compute it "
            "from what add_input returned, or in br.cond from operands, not from all rows.",
        )
    return TensorType(given.dtype, given.shape[1:])


def _agree(context: Context, left: Sequence[Type], right: Sequence[Type]) -> None:
    if len(left) != len(right):
        raise ShapeError(
            f"One branch has {len(left)} outputs, the other {len(right)}.",
            fix="Every branch adds the same number of outputs.",
        )
    for position, (a, b) in enumerate(zip(left, right, strict=True)):
        if not unifies(a, b, context.unifier):
            raise ShapeError(
                f"Output {position} differs between branches.",
                given=f"rows of {a} and rows of {b}",
                fix="Both branches give the same dtype and shape; br.cast and br.reshape help.",
            )
