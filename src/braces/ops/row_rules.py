"""What an operator does with an axis of rows; `@op(rows=...)` says which of these rules holds.

A compiled row-wise branch works on its rows and some padding. Most operators treat each row on
its own, and padding stays padding. What mixes rows must leave the padding out: its inputs are
masked with what changes nothing. What cannot be masked so is refused when the branch is built.

A rule looks at one operator of such a branch and says what to mask with, by input slot; nothing
where rows are kept apart. It holds for the operator's derivatives too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.dims import Dim, Shape
from braces.dtypes import ListType, Type
from braces.errors import OpDefinitionError, ProgramError, suggest
from braces.ir.records import Op

LOWEST, HIGHEST = "lowest", "highest"
"""Neutral elements of the maximum and the minimum, in the dtype of what is masked."""
FIRST = "first"
"""The first row, which is a real one, in place of padding."""


@dataclass
class RowView:
    """One operator and where the rows are in its inputs and outputs.

    Attributes:
        follows: The variables that depend on the parameters of the block.
        cotangents: The input slots that hold cotangents, where it is a derivative.
    """

    op: Op
    types: Mapping[str, Type]
    rows: Dim
    cotangents: Container[str] = ()

    def shape(self, name: str) -> Shape:
        """The sizes of a variable; of its values where it is a list."""
        type_ = self.types[name]
        return type_.element.shape if isinstance(type_, ListType) else type_.shape

    def axes(self, name: str) -> list[int]:
        """The axes of a variable that are rows."""
        return [i for i, size in enumerate(self.shape(name)) if size == self.rows]

    def tangled(self, name: str) -> bool:
        """Whether the number of rows is part of a larger expression."""
        return any(self.mentioned(size) and size != self.rows for size in self.shape(name))

    def mentioned(self, size: Any) -> bool:
        """Whether the number of rows is part of a size."""
        return isinstance(size, Dim) and str(self.rows) in size.names()

    @property
    def base(self) -> str:
        """The type without its transforms."""
        return self.op.type.partition(".")[0]

    @property
    def derived(self) -> bool:
        """Whether this is a derivative made from a kernel."""
        return "." in self.op.type

    def touches(self) -> bool:
        """Whether rows, or their number, are in it at all."""
        names = [*self.op.reads(), *self.op.binds()]
        counted = any(map(self.mentioned, self.op.attrs.values()))
        return counted or any(self.axes(n) or self.tangled(n) for n in names)

    def lists(self) -> bool:
        """Whether lists are in it."""
        names = [*self.op.reads(), *self.op.binds()]
        return any(isinstance(self.types[n], ListType) for n in names)

    def keeps(self) -> bool:
        """Whether all outputs have rows."""
        return all(self.axes(name) for name in self.op.binds())


Fills: TypeAlias = "Mapping[str, Any]"
"""What to mask with, by input slot."""
RowRule: TypeAlias = "Callable[[RowView], Fills]"
Rows: TypeAlias = "str | Fills | RowRule | None"
"""How a definition says its rule: by name, as a reduction's fills, or as a function."""


OUTSIDE = "Compute it on all rows outside, and use add_input for the result"


def refused(view: RowView, fix: str = "") -> ProgramError:
    """The error for an operator that mixes rows without a mask for it."""
    return ProgramError(
        f"{view.op.type} mixes the rows of a row-wise branch, which cannot be done compiled.",
        at=view.op.describe(),
        fix=fix or f"{OUTSIDE}.",
    )


def undeclared(view: RowView) -> ProgramError:
    """The error for an operator whose definition does not say what it does with rows."""
    return ProgramError(
        f"{view.op.type} may mix the rows of a row-wise branch: its definition does not say.",
        at=view.op.describe(),
        fix=f"{OUTSIDE}. If it is an operator of your own, say rows=... in its definition.",
    )


def rule_of(type: str, rows: Rows, inputs: Iterable[str]) -> RowRule | None:
    """The rule that the definition of an operator with these inputs names.

    Raises:
        OpDefinitionError: There is no rule of that name, or no input of that name.
    """
    if rows is None or callable(rows):
        return rows
    named = isinstance(rows, str)
    what, known = ("rule", list(RULES)) if named else ("input", list(inputs))
    for name in [rows] if named else rows:
        if name not in known:
            raise OpDefinitionError(
                f"{type}: rows={rows!r}, but there is no {what} {name!r}.",
                fix=suggest(name, known),
            )
    return RULES[rows] if named else reduction(rows)


# ---- the rules -------------------------------------------------------------------------------


def each(view: RowView) -> Fills:
    """Each row of the result comes from the same row of the inputs."""
    if any(view.tangled(name) for name in view.op.binds()):
        raise refused(view)
    if view.keeps() or view.op.bodies():
        return {}
    if view.derived:
        return _cotangents(view)
    if any(view.axes(n) for n in view.op.reads()) and not view.lists():
        raise refused(view)
    return {}


def _cotangents(view: RowView) -> Fills:
    return {slot: 0 for slot in view.op.inputs if slot in view.cotangents}


def batch(view: RowView) -> Fills:
    """As `each`, where the rows are axis 0."""
    if any(view.axes(n) not in ([], [0]) or view.tangled(n) for n in view.op.reads()):
        raise refused(view)
    return each(view)


def reduction(fills: Fills) -> RowRule:
    """Rows are mixed along the axes in the attribute `axis`, or along all without one.

    Args:
        fills: What the inputs take in without changing the result.
    """
    return Reduction(fills)


@dataclass(frozen=True)
class Reduction:
    """The rule of a reduction.

    Attributes:
        fills: What the inputs take in without changing the result.
    """

    fills: Fills

    def __call__(self, view: RowView) -> Fills:
        """What to mask with where rows are mixed."""
        # The derivative of a reduction reads what the reduction read: it is masked.
        return self.fills if self.mixes(view) and not view.derived else {}

    def mixes(self, view: RowView) -> bool:
        """Whether the operator, or the one that it derives from, works along rows."""
        names = [name for slot in self.fills for name in view.op.inputs.get(slot, ())]
        if any(view.tangled(name) for name in names):
            raise refused(view)
        return any(operated_axes(view, n).intersection(view.axes(n)) for n in names)


def operated_axes(view: RowView, name: str) -> set[int]:
    """The axes that the operator works along; all of them where it says none."""
    rank, axis = len(view.shape(name)), view.op.attrs.get("axis")
    if axis is None:
        return set(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    return {int(str(a)) % max(1, rank) for a in given}


def along_axis(*others: str) -> RowRule:
    """As `each` along every axis but the one in the attribute `axis`.

    Args:
        *others: The inputs that do not have this axis.
    """

    def rule(view: RowView) -> Fills:
        for slot, names in view.op.inputs.items():
            for name in names:
                mixed = slot not in others and operated_axes(view, name) & {*view.axes(name)}
                if view.tangled(name) or mixed:
                    raise refused(view)
        if any(view.tangled(name) for name in view.op.binds()):
            raise refused(view)
        return _cotangents(view) if view.derived and not view.keeps() else {}

    return rule


def contraction(view: RowView) -> Fills:
    """Products are summed along what the result does not have."""
    counts = [len(view.axes(n)) for n in view.op.reads()]
    kept = sum(len(view.axes(n)) for n in view.op.binds())
    if any(view.tangled(n) for n in (*view.op.reads(), *view.op.binds())):
        raise refused(view)
    return {} if kept >= sum(counts) else dict.fromkeys(view.op.inputs, 0)


def scatter(view: RowView) -> Fills:
    """Rows of `updates` are added to a result that has no rows."""
    if view.axes(view.op.inputs["x"][0]):
        raise refused(view)
    return {"updates": 0}


RULES: Mapping[str, RowRule] = {
    "each": each,
    "batch": batch,
    "along_axis": along_axis(),
    "contraction": contraction,
    "scatter": scatter,
}
"""The rules that `@op(rows=...)` knows by name."""
