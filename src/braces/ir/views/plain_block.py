"""View of a plain block: its content, and its outputs with their results.

out = block() {recompute=false} captures [x]
body { ... return a }

BlockView(contents=(...,), outputs=(Output("out", ("a",)),), recompute=False)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from braces.ir.records import BLOCK, Attr, Body, Op
from braces.ir.views.branches import CasesView
from braces.ir.views.common import outputs_of, replace_slots
from braces.ir.walk import with_captures


@dataclass(frozen=True, slots=True)
class BlockView(CasesView):
    """View of a plain block: a single case that always runs.

    Attributes:
        recompute: Whether gradients recompute it instead of saving residuals.
    """

    recompute: bool = False
    origin: Op = field(default=Op(BLOCK, "", {}, {}), kw_only=True)

    @classmethod
    def of(cls, op: Op) -> Self:
        """Return the view of a plain block in a well-formed program."""
        body = op.attrs["body"]
        assert isinstance(body, Body)
        outputs = outputs_of(op.outputs.get("out", ()), [body.results])
        return cls(bool(op.attrs["recompute"]), contents=(body,), outputs=outputs, origin=op)

    def to_op(self) -> Op:
        """Return the operator; the captures of its body are recomputed."""
        outputs = replace_slots(
            self.origin.outputs, out=(out.name for out in self.outputs if out.name)
        )
        attrs = {**self.origin.attrs, **self.attributes(self.body, self.recompute)}
        return with_captures(self.origin.with_(outputs=outputs, attrs=attrs))

    @staticmethod
    def attributes(body: Body, recompute: bool) -> dict[str, Attr]:
        """Return the attributes of a plain block."""
        return {"body": body, "recompute": recompute}

    @property
    def body(self) -> Body:
        """The block."""
        return self.cases[0]
