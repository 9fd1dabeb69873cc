"""What row-wise branches ask of operators beyond their axes, and what they refuse.

A compiled row-wise branch works on its rows and some padding. Where an operator maps the axis
of rows to one of its output, padding stays padding. Where it reduces it, padding is left out by
the fill that is declared with the axes, or what the definition says takes the operator's place.
All else is refused when the branch is built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from braces.builder.var import Var
from braces.define.axes.axis_map import Place
from braces.dims import Dim, Size
from braces.errors import ProgramError
from braces.ir.records import Attr, Op

FIRST = "first"
"""A fill: the first row, which is a real one, in place of padding."""

OUTSIDE = "Compute it on all rows outside, and use add_input for the result."
ADVICE = (
    "Where rows do not all run, give the batch dimension a name: br.data('x', ['batch', 8])."
)


@dataclass(frozen=True)
class RowView:
    """One operator of a row-wise branch, for what takes its place there.

    Attributes:
        places: The axes of inputs that are rows.
        rows: How many rows there are: a number, or a name.
        var: Gives a variable by its name, to build with.
    """

    op: Op
    places: Collection[Place]
    rows: Size
    var: Callable[[str], Var]

    def axes(self, slot: str, position: int = 0) -> frozenset[int]:
        """The axes of one input that are rows: a slot, and a position in it."""
        return frozenset(axis for *at, axis in self.places if at == [slot, position])

    def axis(self, slot: str) -> int | None:
        """The one axis of an input that is rows, if there is one.

        Raises:
            ProgramError: Several are.
        """
        found = self.axes(slot)
        if len(found) > 1:
            raise refused(self.op, f"they are {len(found)} axes of its `{slot}`.")
        return next(iter(found), None)

    def mentions(self, value: Attr) -> bool:
        """Whether an attribute depends on how many rows there are."""
        return isinstance(value, Dim) and str(self.rows) in value.names()


def refused(op: Op, why: str, fix: str = OUTSIDE) -> ProgramError:
    """The error for an operator that mixes rows without a mask for it."""
    return ProgramError(
        f"{op.type} mixes the rows of a row-wise branch: {why}", at=op.describe(), fix=fix
    )


def undeclared(op: Op) -> ProgramError:
    """The error for an operator whose definition does not say how its axes map."""
    return ProgramError(
        f"{op.type} may mix the rows of a row-wise branch: its definition does not say.",
        at=op.describe(),
        fix=f"{OUTSIDE} If it is an operator of your own, say axes=... in its definition.",
    )


def counts_rows(op: Op, attr: str) -> ProgramError:
    """The error for an operator that is told how many rows there are."""
    return ProgramError(
        f"{op.type} may mix the rows of a row-wise branch: `{attr}` is how many there are, "
        "padding included.",
        at=op.describe(),
        fix=OUTSIDE,
    )
