"""Gradients that users wrote taken away, where nothing is differentiated any more.

    h: f32[4] = round(x=x)                          h: f32[4] = round(x=x)
    e: f32[4] = exp(x=x)                            e: f32[4] = exp(x=x)
    y: f32[4] = custom_gradient(values=h, sources=x) y: f32[4] = identity(x=h)
        captures [e]                           ->
      backward (out: f32[4], g: f32[4]) {
        d: f32[4] = multiply(x=g, y=e)
        return d
      }

A gradient that was taken has the operators of the block in it, so this changes no value. What
only such blocks read is read by nobody then, and a run computes none of it. Every run does it
first of all; a program that is saved or pruned keeps them, for it may be differentiated again.
"""

from __future__ import annotations

from braces.define.decorator import OPS
from braces.ir.plain_blocks.inlining import Opened
from braces.ir.records import IDENTITY, Body, Op, ProgramDef
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, has_types, rewrite


def without_gradients(program: ProgramDef) -> ProgramDef:
    """A program of the same values whose gradients are those of its operators."""
    if not has_types(program.main, lambda type_: bool(OPS.get(type_).passes_on)):
        return program  # as most are, and the walk would take longer
    return rewrite(program, _rule)


def _rule(op: Op, place: Place) -> Change:
    slot = OPS.get(op.type).passes_on
    if not slot:
        return op
    note(place.where(op), "loses its own gradient: nothing is differentiated any more")
    infos = {name: place.info(name) for name in op.binds()}
    more = (place.table.names.unique(IDENTITY) for _ in op.inputs[slot][1:])
    ops = tuple(
        Op(IDENTITY, called, {"x": (value,)}, {"out": (name,)}, source=op.source)
        for called, value, name in zip((op.name, *more), op.inputs[slot], infos, strict=True)
    )
    return Opened(Body((), (), infos, ops), {})


DROP_CUSTOM_GRADIENTS = Pass(
    "drop_custom_gradients",
    without_gradients,
    "Remove custom gradients, which only autodiff reads.",
    trusted=True,
)
