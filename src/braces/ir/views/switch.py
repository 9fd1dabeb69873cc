"""View of a switch: its cases, and its outputs with their results in every case.

out = switch(index=i) {total=true} captures [x]
    cases [ { ... return a }, { ... return b } ]

SwitchView(index="i", contents=(..., ...), outputs=(Output("out", ("a", "b")),), total=True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from braces.ir.records import Attr, Body, Op
from braces.ir.views.branches import CasesView
from braces.ir.views.common import cases_in, outputs_of, replace_slots
from braces.ir.walk import with_captures

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SwitchView(CasesView):
    """View of a switch; `to_op` builds the operator.

    Attributes:
        index: The variable that selects the case.
        total: Whether the index is always in range.
    """

    index: str
    total: bool = False
    origin: Op = field(default=Op("switch", "", {}, {}), kw_only=True)

    @classmethod
    def of(cls, op: Op) -> Self:
        """Return the view of a switch in a well-formed program."""
        (index,), cases = op.inputs["index"], cases_in(op.attrs)
        outputs = outputs_of(op.outputs["out"], [body.results for body in cases])
        total = bool(op.attrs["total"])
        return cls(index, total, contents=cases, outputs=outputs, origin=op)

    def to_op(self) -> Op:
        """Return the operator; the captures of its blocks are recomputed."""
        inputs = replace_slots(self.origin.inputs, index=(self.index,))
        outputs = replace_slots(
            self.origin.outputs, out=(out.name for out in self.outputs if out.name)
        )
        attrs = {**self.origin.attrs, **self.attributes(self.cases, self.total)}
        return with_captures(self.origin.with_(inputs=inputs, outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(cases: Sequence[Body], total: bool) -> dict[str, Attr]:
        """Return the attributes of a switch with these cases, which need not be consistent."""
        return {"cases": tuple(cases), "total": total}

    @staticmethod
    def operands(index: T) -> dict[str, Sequence[T]]:
        """Return values by input slot, from the value of the index."""
        return {"index": (index,)}
