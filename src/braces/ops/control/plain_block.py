"""The plain block: a brace without a `for`.

    block(captures) { body, recompute } -> out

The body runs once, in the place of the operator. It has no parameters: it reads outer variables
as captures, and `out` are its results. A variable that a front end reads afterwards becomes one
more result (`braces.ir.plain_blocks.escaping_values`), so all outputs of a block are used.

A gradient saves residuals as further outputs, like that of a switch with one case. With
`recompute` it reads only the captures and recomputes the body (rematerialization).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import final

from braces.define.axes.axis_rules import axes_of_cases
from braces.define.decorator import OPS, Attrs, AttrSpec, Slot, Types
from braces.define.type_inference import InferenceContext
from braces.dtypes import Type
from braces.ir.records import BLOCK, Body, Op
from braces.ir.views import BlockView
from braces.ops.control.construct.jvp import block_jvp
from braces.ops.control.core.block_op import (
    BlockOp,
    DeadCodeElimination,
    ForwardDependence,
    Frame,
    Interface,
    Lowering,
    Value,
    result_types,
)
from braces.ops.control.core.dependence import find_dependent_case_outputs
from braces.ops.control.core.differentiation import JvpContext, VjpContext
from braces.ops.control.switch.gradient import block_gradient


@final
class PlainBlockOp(BlockOp):
    """Run one block, once; see the module's docstring."""

    def __init__(self) -> None:
        super().__init__(
            type=BLOCK,
            inputs=(Slot("captures", many=True, optional=True),),
            attrs=(AttrSpec("body", "Body"), AttrSpec("recompute", "bool", False)),
            outputs=(Slot("out", many=True, optional=True),),
            kernel=lambda: None,
            axes_rule=axes_of_cases,
            doc=__doc__ or "",
            transparent=True,
        )

    # ---- infer -------------------------------------------------------------------------------

    def interface(self, op: Op, types: Types) -> dict[str, Interface]:
        """The body has no parameters."""
        del types
        return {"body": Interface((), len(tuple(op.binds())))}

    def infer_blocks(
        self,
        context: InferenceContext,
        types: Types,
        attrs: Attrs,
        outer: Mapping[str, Type],
    ) -> dict[str, tuple[Type, ...]]:
        """Outputs have the types of the body's results."""
        del types
        body = attrs["body"]
        assert isinstance(body, Body)
        return {"out": result_types(body, outer, context)}

    # ---- interpret ---------------------------------------------------------------------------

    def interpret(self, frame: Frame) -> dict[str, Value]:
        """Run the body in its own scope."""
        view = frame.once(BlockView.of)
        return view.bound(frame.run("body", view.body, []))

    # ---- lower -------------------------------------------------------------------------------

    def lower(self, lowering: Lowering) -> dict[str, Value]:
        """Inline the body's operators."""
        view = BlockView.of(lowering.op)
        return view.bound(lowering.inline("body", view.body))

    # ---- trim --------------------------------------------------------------------------------

    def trim(self, op: Op, live: frozenset[str], eliminate: DeadCodeElimination) -> Op | None:
        """Drop unused outputs, and operators that only they need."""
        if live.isdisjoint(op.binds()):
            return None
        view = BlockView.of(op).only(live)
        return replace(view, contents=(eliminate(view.body, view.body.results),)).to_op()

    # ---- gradient ----------------------------------------------------------------------------

    def reached(self, op: Op, active: Set[str], follow: ForwardDependence) -> set[str]:
        """Return the outputs that depend on active captures, or on other active outputs."""
        view = BlockView.of(op)
        inside = {name for name in view.captures if name in active}
        inside |= {out.results[0] for out in view.outputs if out.name in active}
        return find_dependent_case_outputs(view.cases, [inside], view.outputs, follow)

    def build_gradient(self, d: VjpContext) -> None:
        """Build a block that reads residuals of this one, or recomputes it."""
        block_gradient(d)

    def build_jvp(self, d: JvpContext) -> None:
        """Build the same block with a tangent beside each output."""
        block_jvp(d)


PLAIN_BLOCK = OPS.add(PlainBlockOp())
