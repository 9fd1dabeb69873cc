"""Removal of custom gradients from programs that are not differentiated any more.

    h: f32[4] = round(x=x)                          h: f32[4] = round(x=x)
    e: f32[4] = exp(x=x)                            e: f32[4] = exp(x=x)
    y: f32[4] = custom_gradient(values=h, sources=x) y: f32[4] = identity(x=h)
        captures [e]                           ->
      backward (out: f32[4], g: f32[4]) {
        d: f32[4] = multiply(x=g, y=e)
        return d
      }

A gradient that was built contains the operators of the block, so this changes no value.
Operators that only such blocks read become dead code, and a run computes none of them. Every
run applies this pass first. Saving and pruning keep custom gradients: the program may be
differentiated again.
"""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.plain_blocks.inlining import InlinedBlock
from braces.ir.records import IDENTITY, Body, Op, ProgramDef
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, contains_types, rewrite


def drop_custom_gradients(program: ProgramDef) -> ProgramDef:
    """Return a program of the same values without custom gradients."""
    if not contains_types(program.main, lambda type_: bool(OPS.get(type_).passes_on)):
        return program  # the common case; the walk is slower
    return rewrite(program, _rule)


def _rule(op: Op, place: InsertionPoint) -> Replacement:
    slot = OPS.get(op.type).passes_on
    if not slot:
        return op
    note(place.where(op), "custom gradient removed: gradients are already built")
    infos = {name: place.info(name) for name in op.binds()}
    new_names = (place.table.names.unique(IDENTITY) for _ in op.inputs[slot][1:])
    ops = tuple(
        Op(IDENTITY, op_name, {"x": (value,)}, {"out": (name,)}, source=op.source)
        for op_name, value, name in zip(
            (op.name, *new_names), op.inputs[slot], infos, strict=True
        )
    )
    return InlinedBlock(Body((), (), infos, ops), {})


DROP_CUSTOM_GRADIENTS = Pass(
    "drop_custom_gradients",
    drop_custom_gradients,
    "Remove custom gradients, which only autodiff reads.",
    trusted=True,
)
