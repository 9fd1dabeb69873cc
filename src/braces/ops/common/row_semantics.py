"""Operators inside partitioned branches: masking of padding, and errors for unsupported ones.

A compiled partitioned branch runs on its batch elements plus padding. If an operator maps the
batch axis to an output axis, padding stays padding. If it reduces the batch axis, padding is
masked by the identity element declared with the axes, or the definition supplies a replacement
operator. Any other operator raises an error when the branch is built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from braces.builder.var import Var
from braces.define.axes.axis_map import AxisPlace
from braces.dims import Dim, Size
from braces.errors import ProgramError
from braces.ir.records import Attr, Op

FIRST_ROW = "first"
"""Fill value: replace padding by the first batch element, which is never padding."""

OUTSIDE = "Compute it for the whole batch outside, and pass the result to add_input."
ADVICE = (
    "If a branch runs for a part of the batch, name the batch dimension: "
    "br.data('x', ['batch', 8])."
)


@dataclass(frozen=True)
class RowView:
    """One operator of a partitioned branch, as seen by the rule that replaces it.

    Attributes:
        places: The batch axes of the inputs.
        rows: The size of the batch axis, padding included: a number, or a name.
        var: Returns the variable of a name, for building operators.
    """

    op: Op
    places: Collection[AxisPlace]
    rows: Size
    var: Callable[[str], Var]

    def axes(self, slot: str, position: int = 0) -> frozenset[int]:
        """Return the batch axes of one input, given by its slot and its position there."""
        return frozenset(axis for *at, axis in self.places if at == [slot, position])

    def axis(self, slot: str) -> int | None:
        """Return the batch axis of an input, or `None`.

        Raises:
            ProgramError: If the input has several batch axes.
        """
        row_axes = self.axes(slot)
        if len(row_axes) > 1:
            raise mixed_rows_error(self.op, f"its `{slot}` has {len(row_axes)} batch axes.")
        return next(iter(row_axes), None)

    def mentions(self, value: Attr) -> bool:
        """Return whether an attribute depends on the number of rows."""
        return isinstance(value, Dim) and str(self.rows) in value.names()


def mixed_rows_error(op: Op, why: str, fix: str = OUTSIDE) -> ProgramError:
    """Build the error for an operator that mixes batch elements and cannot be masked."""
    return ProgramError(
        f"{op.type} mixes batch elements of a row-wise branch: {why}", at=op.describe(), fix=fix
    )


def undeclared_axes_error(op: Op) -> ProgramError:
    """Build the error for an operator whose definition declares no axis map."""
    return ProgramError(
        f"{op.type} may mix batch elements of a row-wise branch: unknown axis map.",
        at=op.describe(),
        fix=f"{OUTSIDE} For an operator of your own, declare axes= in its definition.",
    )


def row_count_error(op: Op, attr: str) -> ProgramError:
    """Build the error for an operator with the number of rows as an attribute."""
    return ProgramError(
        f"{op.type} may mix batch elements of a row-wise branch: `{attr}` is the batch size, "
        "which includes padding.",
        at=op.describe(),
        fix=OUTSIDE,
    )
