"""Whether devices that have parts of the rows can run a row-wise branch each for its own.

They can where what a row gives needs that row alone, and all else is added up: then parts give
rows, and sums of which the sum is that of all rows. So each value of a case is one of three:
rows; a sum over rows, a *total*; or the same on each device, as all that a case reads from
outside. Loops and branches in it go the same way on each device, so what says which must be the
same; a row-wise branch in it is asked the same of its own rows. Whatever mixes rows in another
way, counts them, or draws without their numbers is computed for all rows together.
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
from braces.ops.common.rules import gives_zeros
from braces.ops.control.batch_axis.analysis import (
    Known,
    Site,
    Sites,
    Tracker,
    Types,
    led_by_rows,
)
from braces.ops.control.core.value_flow import deciders_of, links_of
from braces.ops.control.partition.additivity import adds


def runs_in_parts(view: PartitionView, type_of: Callable[[str], Type], cut: str) -> bool:
    """Whether each device can run the cases of a branch for the rows that it has.

    Args:
        view: The branch, as it is compiled.
        type_of: The types of what is visible where it stands.
        cut: The name of a size along which devices have parts.
    """
    types = {name: type_of(name) for name in view.captures}
    arrays = all(isinstance(type_, TensorType) for type_ in types.values())
    return arrays and _splits(view, types, (cut,))


def _splits(view: PartitionView, outer: Types, cuts: tuple[str, ...]) -> bool:
    """Whether parts of the rows of a branch give parts of its results.

    Args:
        view: The branch.
        outer: The types of what its cases read from outside, which each device has whole.
        cuts: The sizes of which a device has a part.
    """
    if any(dimensions(shape_of(type_)) & {*cuts} for type_ in outer.values()):
        return False
    rows = Dim({(f"?rows{len(cuts)}",): 1})  # no program has this name
    return all(
        isinstance(case.count, Dim)
        and _case_splits(_renamed(body, case.count, rows), outer, rows, cuts, len(view.outs))
        for case, body in zip(view.cases, view.bodies, strict=True)
    )


def _renamed(body: Body, count: Size, rows: Size) -> Body:
    """The block with one name for the number of its rows."""
    return resolve_body(body, lambda size: rows if size == count else size)


def _case_splits(body: Body, outer: Types, rows: Dim, cuts: tuple[str, ...], outs: int) -> bool:
    """Whether parts of the rows of a case give parts of its results, `outs` of them rows."""
    if not set(cuts).isdisjoint(_sizes_in(body)):
        return False
    types = {**outer, **{name: info.type for name, info in body.vars.items()}}
    known: Known = {name: led_by_rows(types[name]) for name in body.params}
    tracker, sites = Tracker(rows, lambda size: size), dict[str, Site]()
    try:
        tracker.follow(body.ops, types, known, sites)
        case = _Part.of(_Rows(tracker, (*cuts, str(rows))), body, types, known, sites)
    except BracesError:  # it mixes rows
        return False
    while case.spread():
        pass
    results = body.results
    return (
        case.holds()
        and all(map(case.is_row, results[:outs]))
        and all(map(case.is_total, results[outs:]))
    )


def _sizes_in(body: Body) -> set[str]:
    """The names of the sizes that a block and those in it mention."""
    found = set[str]()
    for inner, _ in all_bodies(body):
        shapes = (shape_of(info.type) for info in inner.vars.values())
        attrs = (value for op in inner.ops for value in op.attrs.values())
        found = found.union(*map(dimensions, (*shapes, *attrs)))
    return found


@dataclass(frozen=True)
class _Rows:
    """The rows of a case.

    Attributes:
        tracker: Where they are; it has followed them.
        cuts: The sizes of which a device has a part, theirs among them.
    """

    tracker: Tracker
    cuts: tuple[str, ...]


@dataclass
class _Part:
    """A case, or a block in it that is no row-wise branch, and what is found of it.

    Attributes:
        rows: The rows of the case.
        body: The block.
        types: Of all that is visible in it.
        known: Where rows are in it.
        ends: The operators in which rows end.
        makers: What makes each.
        inside: Its constructs, and the blocks of each by their labels.
        totals: What is a sum over rows.
    """

    rows: _Rows
    body: Body
    types: Types
    known: Known
    ends: Set[str]
    makers: Mapping[str, Op]
    inside: Mapping[str, Mapping[str, _Part]]
    totals: set[str] = field(default_factory=set[str])

    @classmethod
    def of(cls, rows: _Rows, body: Body, types: Types, known: Known, sites: Sites) -> _Part:
        """A block, of which the rows were followed.

        Raises:
            BracesError: An operator in it mixes them.
        """
        ends = {op.name for op in body.ops if rows.tracker.track(op, types, known).reduced()}
        inside = {
            op.name: {
                label: cls.of(
                    rows, inner, site.scopes[label], site.ends[label], site.sites[label]
                )
                for label, inner in op.bodies().items()
            }
            for op in body.ops
            if (site := sites.get(op.name)) and not isinstance(view_of(op), PartitionView)
        }
        return cls(rows, body, types, known, ends, producers(body.ops), inside)

    # ---- what is a sum -----------------------------------------------------------------------

    def spread(self) -> bool:
        """Follow sums through the block once; whether more were found."""
        grew = [self._spread(op) for op in self.body.ops]  # all of them
        return any(grew)

    def _spread(self, op: Op) -> bool:
        inner, view = self.inside.get(op.name), view_of(op)
        if inner is not None:
            return self._spread_inside(op, inner)
        if isinstance(view, PartitionView):
            return self._add(out.name for out in view.sums)
        return self._gives_total(op) and self._add(op.binds())

    def _gives_total(self, op: Op) -> bool:
        """Whether rows end in an operator that owns no blocks, or it reads a sum of them."""
        return op.name in self.ends or not self.totals.isdisjoint(op.reads())

    def _spread_inside(self, op: Op, inner: Mapping[str, _Part]) -> bool:
        parts = {"": self, **inner}
        grew = [one._add(self.totals - one.body.vars.keys()) for one in inner.values()]
        for link in links_of(op):
            if link.source in parts[link.origin].totals:
                grew.append(parts[link.block]._add([link.target]))
        grew += [one.spread() for one in inner.values()]
        return any(grew)

    def _add(self, names: Iterable[str]) -> bool:
        new = {*names} - self.totals
        self.totals |= new
        return bool(new)

    # ---- whether all is rows, sums, or the same ----------------------------------------------

    def holds(self) -> bool:
        """Whether each operator gives rows, sums, or what is the same on each device."""
        return all(map(self._goes_on, self.body.ops))

    def _goes_on(self, op: Op) -> bool:
        inner, view = self.inside.get(op.name), view_of(op)
        if inner is not None:
            return self._goes_through(op, inner) and self._has_rows_once(op)
        if isinstance(view, PartitionView):
            return self._splits(view)
        if self._gives_total(op):
            return self._ends_rows(op)
        return self._has_rows_once(op)

    def _has_rows_once(self, op: Op) -> bool:
        return all(len(self._rows_of(name)) <= 1 for name in op.binds())

    def _ends_rows(self, op: Op) -> bool:
        made = adds(op, self.totals, self.types.keys(), self.makers)
        return made and not any(map(self._rows_of, op.binds()))

    def _goes_through(self, op: Op, inner: Mapping[str, _Part]) -> bool:
        """Whether blocks run alike on each device, and each sum is one wherever it goes."""
        parts = {"": self, **inner}
        totals = (link for link in links_of(op) if link.target in parts[link.block].totals)
        return (
            all(parts[label].is_same(name) for label, name in deciders_of(op))
            and all(parts[link.origin].is_total(link.source) for link in totals)
            and all(one.holds() for one in inner.values())
        )

    def _splits(self, view: PartitionView) -> bool:
        """Whether rows of this block are those of a branch, which each device can run alone."""
        given = (*(case.mask for case in view.cases), *(row.source for row in view.rows))
        outer = {name: self.types[name] for name in view.captures}
        return (
            all(map(self.is_row, given))
            and all(map(self.is_same, outer))
            and _splits(view, outer, self.rows.cuts)
        )

    def is_row(self, name: str) -> bool:
        """Whether something is led by rows."""
        return name not in self.totals and self._rows_of(name) == (0,)

    def is_total(self, name: str) -> bool:
        """Whether the sum of what devices have of something is what it is of all rows."""
        return name in self.totals or gives_zeros(self.makers.get(name))

    def is_same(self, name: str) -> bool:
        """Whether each device has the same of something."""
        return name not in self.totals and not self._rows_of(name)

    def _rows_of(self, name: str) -> tuple[int, ...]:
        """The axes of something that are rows, or a repetition that is as long."""
        sizes, rows = shape_of(self.types[name]), self.rows.tracker.rows
        whats = self.known.get(name, ("other",) * len(sizes))
        return tuple(
            i
            for i, (what, size) in enumerate(zip(whats, sizes, strict=True))
            if what == "rows" or (what == "same" and size == rows)
        )
