"""Whether devices that have parts of the rows can run a row-wise branch each for its own.

They can where what a row gives needs that row alone, and all else is added up: then parts give
rows, and sums of which the sum is that of all rows. Whatever mixes rows in another way, counts
them, draws without their numbers or owns blocks is computed for all rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from braces.define.axes import shape_of
from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Body, Op
from braces.ir.views import PartitionView
from braces.ir.walk import dimensions, producers, resolve_body
from braces.ops.control.adding import adds
from braces.ops.control.tracking import Known, Site, Tracked, Tracker, led_by_rows
from braces.ops.rules import gives_zeros

_ROWS = Dim({("?rows",): 1})
"""What the number of rows of a case is called here; no program has it."""


def runs_in_parts(view: PartitionView, type_of: Callable[[str], Type], cut: str) -> bool:
    """Whether each device can run the cases of a branch for the rows that it has.

    Args:
        view: The branch, as it is compiled.
        type_of: The types of what is visible where it stands.
        cut: The name of a size along which devices have parts.
    """
    types = {name: type_of(name) for name in view.captures}
    arrays = all(isinstance(type_, TensorType) for type_ in types.values())
    if not arrays or any(cut in dimensions(shape_of(type_)) for type_ in types.values()):
        return False
    return all(
        isinstance(case.count, Dim)
        and _Case(_renamed(body, case.count), types, len(view.outs)).fits(cut)
        for case, body in zip(view.cases, view.bodies, strict=True)
    )


def _renamed(body: Body, count: Size) -> Body:
    """The block with one name for the number of its rows."""
    return resolve_body(body, lambda size: _ROWS if size == count else size)


@dataclass
class _Case:
    """One case, and what is found of it.

    Attributes:
        body: Its block.
        outer: The types of what it reads from outside.
        outs: How many of its results are rows.
        totals: What is a sum over rows.
    """

    body: Body
    outer: Mapping[str, Type]
    outs: int
    totals: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        own = {name: info.type for name, info in self.body.vars.items()}
        self.types = {**self.outer, **own}
        self.known: Known = {name: led_by_rows(own[name]) for name in self.body.params}
        self.tracker = Tracker(_ROWS, lambda size: size)
        self.makers = producers(self.body.ops)

    def fits(self, cut: str) -> bool:
        """Whether parts of its rows give parts of its results."""
        attrs = (value for op in self.body.ops for value in op.attrs.values())
        shapes = (shape_of(info.type) for info in self.body.vars.values())
        if any(cut in dimensions(value) for value in (*attrs, *shapes)):
            return False
        results = self.body.results
        return (
            all(map(self._goes_on, self.body.ops))
            and all(map(self._is_row, results[: self.outs]))
            and all(map(self._is_total, results[self.outs :]))
        )

    def _goes_on(self, op: Op) -> bool:
        """Whether an operator gives rows or sums; what it gives is known then."""
        if op.bodies():
            return False
        try:
            found = self.tracker.step(op, self.types, self.known, dict[str, Site]())
        except BracesError:  # it mixes rows
            return False
        if found.reduced() or not self.totals.isdisjoint(op.reads()):
            return self._ends_rows(found)
        return all(len(self._rows_of(name)) <= 1 for name in op.binds())

    def _ends_rows(self, found: Tracked) -> bool:
        op = found.op
        self.totals.update(op.binds())
        made = adds(op, self.totals.difference(op.binds()), self.types.keys(), self.makers)
        return made and not any(map(self._rows_of, op.binds()))

    def _is_row(self, name: str) -> bool:
        return name not in self.totals and self._rows_of(name) == (0,)

    def _is_total(self, name: str) -> bool:
        return name in self.totals or gives_zeros(self.makers.get(name))

    def _rows_of(self, name: str) -> tuple[int, ...]:
        """The axes of something that are rows, or a repetition that is as long."""
        sizes = shape_of(self.types[name])
        whats = self.known.get(name, ("other",) * len(sizes))
        return tuple(
            i
            for i, (what, size) in enumerate(zip(whats, sizes, strict=True))
            if what == "rows" or (what == "same" and size == _ROWS)
        )
