"""Case of a partitioned branch in a loop, for the batch elements of all iterations at once.

    (v: bool[b], r: f32[b,3]) {               (v: bool[n*b], r: f32[n*b,3]) {
      c: f32[b,1] = reshape(x=…)                c: f32[n*b,1] = reshape(x=…)
        {shape=[size(b), 1]}           ->         {shape=[size(n*b), 1]}
      y: f32[b,4] = matmul(x=r, y=w)            y: f32[n*b,4] = matmul(x=r, y=w)
      s: f32[4] = sum(x=y) {axis=[0]}           s: f32[4] = sum(x=y) {axis=[0]}
      return y, s                               return y, s
    }                                         }

The batch axis of all iterations is their concatenation. Results are the same if each operator
is pointwise along the batch axis, or is an additive reduction of it. A value without batch axis
is then the sum over all iterations. Axis maps determine the batch axis; attributes that are
shapes get the new size there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Attr, Body, Op
from braces.ir.views import PartitionView
from braces.ir.walk import producers
from braces.ops.common.rules import is_zeros
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis, BlockState
from braces.ops.control.batch_axis.axis_kinds import AxisKind, OpAxes, leading_row_kinds
from braces.ops.control.partition.additivity import is_additive
from braces.passes.core.random_effects import is_random


class FlattenedCase:
    """Operators of a case that can be written for the batch elements of all iterations.

    Attributes:
        body: The block of the case.
        types: The types of the variables visible in it.
        total: Number of batch elements in all iterations.
        ops: The flattened operators, by the names of the original ones.
        totals: Their outputs that are sums over all iterations.
        masked: Values that depend on the validity mask of the padding.
    """

    def __init__(
        self, view: PartitionView, type_of: Callable[[str], Type], total: Size
    ) -> None:
        (case,), (self.body,) = view.cases, view.bodies
        self._view = view
        self.total = total
        self.types = {n: info.type for n, info in self.body.vars.items()}
        self.types |= {n: type_of(n) for n in view.origin.captures()}
        self.ops = dict[str, Op]()
        self.totals = set[str]()
        self.masked = {case.valid}
        self._makers = producers(self.body.ops)
        self._analysis = BatchAxisAnalysis(case.count)
        kinds = {n: leading_row_kinds(self.types[n]) for n in self.body.params}
        self._block = BlockState(self.types, kinds).at_entry()
        self._met: dict[str, set[int]] = {}  # broadcast axes that meet the batch axis
        self._analyze()

    def _analyze(self) -> None:
        for tracked in self._track_batch_axis():
            if not self.masked.isdisjoint(tracked.op.reads()):
                self.masked.update(tracked.op.binds())
            flat_op = self._flatten_op(tracked)
            if flat_op is not None:
                self.ops[tracked.op.name] = flat_op

    def _track_batch_axis(self) -> list[OpAxes]:
        """Return the batch axes of the operators, up to one that mixes batch elements."""
        tracked_ops = list[OpAxes]()
        for op in self.body.ops:
            try:
                tracked_ops.append(self._analysis.step(op, self._block))
            except BracesError:  # axes of later operators are unknown then
                break
        for tracked in tracked_ops:
            for axis_use in tracked.inputs:
                if axis_use.index in tracked.rows and axis_use.kind is AxisKind.UNIFORM:
                    name = tracked.op.inputs[axis_use.slot][axis_use.position]
                    self._met.setdefault(name, set()).add(axis_use.axis)
        return tracked_ops

    def is_row(self, name: str) -> bool:
        """Return whether a value has the batch axis as its first axis, and only there."""
        return name in self._block.kinds and self._batch_axes(name) == (0,)

    def is_total(self, name: str) -> bool:
        """Return whether the value of the flattened case is the sum over all iterations."""
        return name in self.totals or is_zeros(self._makers.get(name))

    def crosses(self, name: str) -> bool:
        """Return whether another case may read a value per batch element.

        A masked value may not: its padding would become the copy of an element.
        """
        return self.is_row(name) and name not in self.masked

    def longer(self, name: str) -> Type:
        """Return the type of a value for all iterations."""
        type_, axes = self.types[name], self._batch_axes(name)
        if not isinstance(type_, TensorType) or not axes:
            return type_
        sizes = (self.total if i in axes else size for i, size in enumerate(type_.shape))
        return TensorType(type_.dtype, tuple(sizes))

    def flatten_body(self) -> Body | None:
        """Return the case for all iterations; `None` if part of it cannot be flattened."""
        body, outs = self.body, len(self._view.outs)
        rows = all(map(self.is_row, body.results[:outs]))
        if not rows or not all(map(self.is_total, body.results[outs:])):
            return None
        if any(op.name not in self.ops for op in body.ops):
            return None
        infos = {n: info.with_(type=self.longer(n)) for n, info in body.vars.items()}
        return body.with_(vars=infos, ops=tuple(self.ops[op.name] for op in body.ops))

    # ---- one operator ------------------------------------------------------------------------

    def _flatten_op(self, tracked: OpAxes) -> Op | None:
        """Return an operator for all iterations."""
        op, names = tracked.op, (*tracked.op.reads(), *tracked.op.binds())
        is_tracked = all(
            name in self._block.kinds or name not in self.body.vars for name in op.reads()
        )
        if op.bodies() or is_random(op) or OPS.get(op.type).axes_rule is None or not is_tracked:
            return None
        if any(len(self._batch_axes(name)) > 1 for name in names):
            return None
        if tracked.reduced() or not self.totals.isdisjoint(op.reads()):
            if not is_additive(op, self.totals, self.types.keys(), self._makers):
                return None
            self.totals.update(op.binds())
        return self._flatten_checked(op)

    def _flatten_checked(self, op: Op) -> Op | None:
        """Return the operator for all iterations, if its outputs have the expected types."""
        rows = self._batch_axes(next(op.binds()))
        attrs = dict(op.attrs)
        for spec in OPS.get(op.type).attrs:
            value = attrs[spec.name]
            if spec.sizes_axes and isinstance(value, tuple):
                attrs[spec.name] = self._replace_sizes(value, rows, self.total)
                value = self._replace_sizes(value, rows, 0)
            if self._analysis.mentions(value):  # of unknown meaning
                return None
        longer = op.with_(attrs=attrs)
        types = {name: self.longer(name) for name in (*op.reads(), *op.binds())}
        try:
            inferred_types = infer_op(longer, types, Unifier())
        except BracesError:
            return None
        return (
            longer
            if all(types[name] == inferred for name, inferred in inferred_types.items())
            else None
        )

    @staticmethod
    def _replace_sizes(
        sizes: tuple[Attr, ...], axes: Collection[int], size: Size
    ) -> tuple[Attr, ...]:
        return tuple(size if i in axes else old_size for i, old_size in enumerate(sizes))

    def _batch_axes(self, name: str) -> tuple[int, ...]:
        """Return the batch axes of a value; a broadcast axis of the same named size counts."""
        shape, named = shape_of(self.types[name]), self._analysis.rows_name
        met, kinds = self._met.get(name, ()), self._block.kinds.get(name, ())
        return tuple(
            i
            for i, (kind, size) in enumerate(zip(kinds, shape, strict=False))
            if kind is AxisKind.BATCH
            or (kind is AxisKind.UNIFORM and (i in met or size == named))
        )
