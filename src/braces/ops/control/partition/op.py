"""The partitioned branch: each block runs on a subset of the batch axis.

    partition(masks, rows, captures) { cases, counts } -> out, sums

    case (valid, rows...) -> rows..., sums...

Rows are batch elements, the entries of axis 0. `masks[k]` selects the rows of case k; each row
belongs to at most one case. A case gets its rows in order, as arrays with the leading dimension
`counts[k]`. Its row results are scattered to their positions in `out`, with zeros where no case
has the row. Its other results are summed over the cases in `sums`.

With `compact=False` a case gets all `counts[k]` rows in place. A row of the case replaces those
of other cases, and `valid` is its mask.

`linear` are the positions of inputs in which the results are linear, such as cotangents. They
are zero in padding, so that `sums` counts each row once.

Interpreted, a compact case gets exactly its rows, and a case without rows does not run.
Compiled, it runs on one of several capacities, padded with one of its rows, or on all rows in
place; `valid` is false for padding. In a `masked` branch, operators that mix rows read `valid`.
Any other branch is masked before it runs with padding (see
`braces.ops.control.batch_axis.masking`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import final

from braces.define.axes.axis_map import AxisMap, with_leading_axis
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import InferenceContext
from braces.dims import Dim, Size
from braces.dtypes import BOOL, TensorType, Type, unifies
from braces.errors import ProgramError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView, cases_in, names_read, size_in
from braces.ops.control.core.block_op import (
    BlockOp,
    DeadCodeElimination,
    ForwardDependence,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import find_dependent_case_outputs
from braces.ops.control.core.differentiation import JvpContext, VjpContext
from braces.ops.control.core.trip_count import infer_slice_type
from braces.ops.control.partition.gradient import partition_gradient, partition_jvp
from braces.ops.control.partition.interpret import CaseRows, results_without_rows
from braces.ops.control.partition.lowering import lower_cases


def axes_of_partition(types: Types, attrs: Attrs) -> AxisMap:
    """Return the axis map: rows are kept, all else is mapped by the cases.

    The masks contain no padding.
    """
    del attrs
    masks, rows, out = (types.get(slot, ()) for slot in ("masks", "rows", "out"))
    inputs = {
        "masks": with_leading_axis("row", masks),
        "rows": with_leading_axis("row", rows, "row"),
    }
    return AxisMap(
        inputs, {"out": with_leading_axis("row", out)}, fills={"row": {"masks": False}}
    )


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
        """Parameters are the mask of valid rows and the rows; results match the outputs."""
        counts, results = _counts_of(op, types), len(tuple(op.binds()))
        rows = [infer_slice_type(type_) for type_ in types.get("rows", ())]
        return {
            label: Interface((TensorType(BOOL, (count,)), *_row_types(rows, count)), results)
            for label, count in zip(op.bodies(), counts, strict=True)
        }

    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Row results of all cases agree but for their number of rows; so do sums."""
        total = self._rows(context, types)
        result_types_of_cases = [result_types(body, outer, context) for body in cases_in(attrs)]
        outs, counts = attrs["outs"], attrs["counts"]
        assert isinstance(outs, int)
        assert isinstance(counts, tuple)
        rows = [
            [_drop_row_axis(t, size_in(count)) for t in results[:outs]]
            for results, count in zip(result_types_of_cases, counts, strict=True)
        ]
        sums = [list(results[outs:]) for results in result_types_of_cases]
        for these, those in zip(rows[1:], sums[1:], strict=True):
            _check_agreement(context, [*rows[0], *sums[0]], [*these, *those])
        out = tuple(TensorType(t.dtype, (total, *t.shape)) for t in rows[0])
        return {"out": out, "sums": tuple(sums[0])}

    def _rows(self, context: InferenceContext, types: Types) -> Size:
        total: Size | None = None
        for type_ in (*types["masks"], *types.get("rows", ())):
            if not isinstance(type_, TensorType) or not type_.shape:
                raise ShapeError(
                    f"an operand of a row-wise branch requires a batch axis, got {type_}."
                )
            size = type_.shape[0]
            problem = f"Batch sizes of a row-wise branch differ: {total} and {size}."
            total = size if total is None else context.unify(total, size, problem)
        assert total is not None
        return total

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Run each case on exactly its rows."""
        view, bodies, linear = frame.once(_decode)
        outs = len(view.outs)
        results: list[Value] | None = None
        for k, (case, body) in enumerate(zip(view.cases, bodies, strict=True)):
            own = CaseRows(frame, frame.read(case.mask), view.compact)
            frame.set_size(case.count, own.passed)
            if own.number:
                rows = [frame.read(row.source) for row in view.rows]
                results = own.run(f"cases[{k}]", body, rows, linear, results, outs)
            elif results is None and k == len(bodies) - 1:
                results = results_without_rows(frame, body, own.total, outs)
        return view.bound(results or [])

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """Lower each case for several capacities; see `partition/lowering.py`."""
        return lower_cases(lowering, PartitionView.of(lowering.op))

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Drop unused results, and rows that no case reads."""
        if live.isdisjoint(op.binds()):
            return None
        view = PartitionView.of(op).only(live)
        bodies = [eliminate(body, body.results) for body in view.bodies]
        names_of_cases = [names_read(body) for body in bodies]
        rows = tuple(
            row
            for row in view.rows
            if any(
                name in names for name, names in zip(row.params, names_of_cases, strict=True)
            )
        )
        return replace(view.containing(bodies), rows=rows).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return the rows and sums that depend on active names in some case."""
        view = PartitionView.of(op)
        captured = {name for name in view.captures if name in active}
        inside = [
            captured | {row.params[k] for row in view.rows if row.source in active}
            for k in range(len(view.cases))
        ]
        return find_dependent_case_outputs(view.bodies, inside, view.outputs, follow)

    def build_gradient(self, d: VjpContext) -> None:
        """Build a partitioned branch on the same masks, which reads the saved residuals."""
        partition_gradient(d)

    def build_jvp(self, d: JvpContext) -> None:
        """Build the same branch with a tangent beside each result."""
        partition_jvp(d)


PARTITION = OPS.add(PartitionOp())


def _decode(op: Op) -> tuple[PartitionView, tuple[Body, ...], tuple[bool, ...]]:
    """Decode a partitioned branch: its view, blocks, and the linearity of its rows."""
    view = PartitionView.of(op)
    return view, view.bodies, tuple(row.linear for row in view.rows)


def _counts_of(op: Op, types: Types) -> tuple[Size, ...]:
    """Return the number of rows of each case; check masks, counts and outputs."""
    declaration = PartitionView.declared(op)
    masks, rows = types.get("masks", ()), types.get("rows", ())
    if not len(op.bodies()) == len(declaration.counts) == len(masks) or not masks:
        raise ProgramError(
            "a row-wise branch requires a mask and a count for each case, and one case."
        )
    for mask in masks:
        if not isinstance(mask, TensorType) or mask.dtype != BOOL or mask.rank != 1:
            raise ShapeError(f"a mask of a row-wise branch must be bool[batch], got {mask}.")
    if declaration.outs != declaration.bound:
        raise ProgramError("the number of outputs of a row-wise branch differs from `outs`.")
    if any(not 0 <= i < len(rows) for i in declaration.linear):
        raise ProgramError("`linear` has an index that is out of range.")
    any_size = not declaration.compact  # all rows, however many
    sizes = (n for n in declaration.counts if isinstance(n, int | Dim))
    valid_counts = [n for n in sizes if any_size or isinstance(n, int) or n.name]
    if len(valid_counts) != len(masks):
        raise ProgramError("the batch size of a case must be an integer or a named dimension.")
    return tuple(valid_counts)


def _row_types(rows: Sequence[TensorType], count: Size) -> list[TensorType]:
    return [TensorType(row.dtype, (count, *row.shape)) for row in rows]


def _drop_row_axis(type_: Type, count: Size) -> TensorType:
    if not isinstance(type_, TensorType) or not type_.shape or type_.shape[0] != count:
        raise ShapeError(
            "the leading axis of an output of a row-wise branch is not the batch axis: "
            f"{type_}.",
            fix=f"Add an output with the leading axis {count}: compute it from a result of "
            "add_input, or from an operand of br.cond or br.switch, not from the whole batch.",
        )
    return TensorType(type_.dtype, type_.shape[1:])


def _check_agreement(
    context: InferenceContext, first: Sequence[Type], second: Sequence[Type]
) -> None:
    if len(first) != len(second):
        raise ShapeError(
            f"branches have {len(first)} and {len(second)} outputs.",
            fix="Add the same number of outputs in every branch.",
        )
    for position, (a, b) in enumerate(zip(first, second, strict=True)):
        if not unifies(a, b, context.unifier):
            raise ShapeError(
                f"output {position} differs between branches.",
                given=f"batch elements of {a} and of {b}",
                fix="Use one dtype and shape in both branches; br.cast and br.reshape help.",
            )
