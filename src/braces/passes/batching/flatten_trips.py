"""The case of a row-wise branch in a loop, written for the rows of all trips at once.

    (v: bool[b], r: f32[b,3]) {               (v: bool[n*b], r: f32[n*b,3]) {
      c: f32[b,1] = reshape(x=…)                c: f32[n*b,1] = reshape(x=…)
        {shape=[size(b), 1]}           ->         {shape=[size(n*b), 1]}
      y: f32[b,4] = matmul(x=r, y=w)            y: f32[n*b,4] = matmul(x=r, y=w)
      s: f32[4] = sum(x=y) {axis=[0]}           s: f32[4] = sum(x=y) {axis=[0]}
      return y, s                               return y, s
    }                                         }

The trips lie one behind the other. That gives the same where each operator computes each row
on its own, or adds up products of rows: what then is not one a row is the sum over all trips.
Where rows are tell the axes; attributes that are shapes get the new number there.
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
from braces.ops.common.rules import gives_zeros
from braces.ops.control.batch_axis.analysis import Known, Site, Tracked, Tracker, led_by_rows
from braces.ops.control.partition.additivity import adds
from braces.passes.core.random_effects import is_random


class Folding:
    """The operators of a case, as far as they can be written for the rows of all trips.

    Attributes:
        body: The block of the case.
        types: The types of what is visible in it.
        total: How many rows there are in all trips.
        ops: The operators that can, by their names, as they are written then.
        totals: What they give that is a sum over all trips, and not one a row.
        masked: What is computed from that which tells rows from padding.
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
        self._tracker = Tracker(case.count, lambda size: size)
        self._known: Known = {n: led_by_rows(self.types[n]) for n in self.body.params}
        self._met: dict[str, set[int]] = {}  # axes of repetitions that meet rows
        self._follow()

    def _follow(self) -> None:
        for found in self._tracked():
            if not self.masked.isdisjoint(found.op.reads()):
                self.masked.update(found.op.binds())
            folded = self._folded(found)
            if folded is not None:
                self.ops[found.op.name] = folded

    def _tracked(self) -> list[Tracked]:
        """Where rows are in the operators, up to one that mixes them."""
        done, sites = list[Tracked](), dict[str, Site]()
        for op in self.body.ops:
            try:
                done.append(self._tracker.step(op, self.types, self._known, sites))
            except BracesError:  # of what follows nothing is known then
                break
        for found in done:
            for one in found.inputs:
                if one.index in found.rows and one.what == "same":
                    name = found.op.inputs[one.slot][one.position]
                    self._met.setdefault(name, set()).add(one.axis)
        return done

    def is_row(self, name: str) -> bool:
        """Whether something is one a row."""
        return name in self._known and self._rows_of(name) == (0,)

    def is_total(self, name: str) -> bool:
        """Whether something is the sum over all trips, where all of them are rows."""
        return name in self.totals or gives_zeros(self._makers.get(name))

    def crosses(self, name: str) -> bool:
        """Whether another case can get something row by row.

        Of what was masked, what stands in for padding would be the copy of a row.
        """
        return self.is_row(name) and name not in self.masked

    def longer(self, name: str) -> Type:
        """The type of something for all trips."""
        type_, axes = self.types[name], self._rows_of(name)
        if not isinstance(type_, TensorType) or not axes:
            return type_
        sizes = (self.total if i in axes else size for i, size in enumerate(type_.shape))
        return TensorType(type_.dtype, tuple(sizes))

    def whole(self) -> Body | None:
        """The case for all trips; `None` where something of it cannot be written so."""
        body, outs = self.body, len(self._view.outs)
        rows = all(map(self.is_row, body.results[:outs]))
        if not rows or not all(map(self.is_total, body.results[outs:])):
            return None
        if any(op.name not in self.ops for op in body.ops):
            return None
        infos = {n: info.with_(type=self.longer(n)) for n, info in body.vars.items()}
        return body.with_(vars=infos, ops=tuple(self.ops[op.name] for op in body.ops))

    # ---- one operator ------------------------------------------------------------------------

    def _folded(self, found: Tracked) -> Op | None:
        """An operator for all trips."""
        op, names = found.op, (*found.op.reads(), *found.op.binds())
        known = all(name in self._known or name not in self.body.vars for name in op.reads())
        if op.bodies() or is_random(op) or OPS.get(op.type).axes_rule is None or not known:
            return None
        if any(len(self._rows_of(name)) > 1 for name in names):
            return None
        if found.reduced() or not self.totals.isdisjoint(op.reads()):
            if not adds(op, self.totals, self.types.keys(), self._makers):
                return None
            self.totals.update(op.binds())
        return self._longer_op(op)

    def _longer_op(self, op: Op) -> Op | None:
        """The operator for all trips, where it gives what is wanted of it then."""
        rows = self._rows_of(next(op.binds()))
        attrs = dict(op.attrs)
        for spec in OPS.get(op.type).attrs:
            value = attrs[spec.name]
            if spec.sizes_axes and isinstance(value, tuple):
                attrs[spec.name] = self._with(value, rows, self.total)
                value = self._with(value, rows, 0)
            if self._tracker.mentions(value):  # and who knows what for
                return None
        longer = op.with_(attrs=attrs)
        types = {name: self.longer(name) for name in (*op.reads(), *op.binds())}
        try:
            found = infer_op(longer, types, Unifier())
        except BracesError:
            return None
        return longer if all(types[name] == one for name, one in found.items()) else None

    @staticmethod
    def _with(sizes: tuple[Attr, ...], axes: Collection[int], size: Size) -> tuple[Attr, ...]:
        return tuple(size if i in axes else one for i, one in enumerate(sizes))

    def _rows_of(self, name: str) -> tuple[int, ...]:
        """The axes of something that are rows; a repetition of that name is meant so."""
        shape, named = shape_of(self.types[name]), self._tracker.rows_name
        met, whats = self._met.get(name, ()), self._known.get(name, ())
        return tuple(
            i
            for i, (what, size) in enumerate(zip(whats, shape, strict=False))
            if what == "rows" or (what == "same" and (i in met or size == named))
        )
