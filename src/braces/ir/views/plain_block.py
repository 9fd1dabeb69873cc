"""A plain block taken apart: its content, and each output with the result that gives it.

out = block() {recompute=false} captures [x]
body { ... return a }

BlockView(contents=(...,), outputs=(Output("out", ("a",)),), recompute=False)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from braces.ir.records import BLOCK, Attr, Body, Op
from braces.ir.views.branches import CasesView
from braces.ir.views.common import outputs_of, slots
from braces.ir.walk import with_captures


@dataclass(frozen=True, slots=True)
class BlockView(CasesView):
    """A plain block as a value: the one case that always runs.

    Attributes:
        recompute: Whether gradients run it again in place of keeping values.
    """

    recompute: bool = False
    origin: Op = field(default=Op(BLOCK, "", {}, {}), kw_only=True)

    @classmethod
    def of(cls, op: Op) -> Self:
        """A plain block of a program that is well formed, taken apart."""
        body = op.attrs["body"]
        assert isinstance(body, Body)
        outputs = outputs_of(op.outputs.get("out", ()), [body.results])
        return cls(bool(op.attrs["recompute"]), contents=(body,), outputs=outputs, origin=op)

    def to_op(self) -> Op:
        """The operator; what its body reads from outside is listed anew."""
        outputs = slots(self.origin.outputs, out=(out.name for out in self.outputs if out.name))
        attrs = {**self.origin.attrs, **self.attributes(self.body, self.recompute)}
        return with_captures(self.origin.with_(outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(body: Body, recompute: bool) -> dict[str, Attr]:
        """The attributes of a plain block."""
        return {"body": body, "recompute": recompute}

    @property
    def body(self) -> Body:
        """The block."""
        return self.cases[0]
