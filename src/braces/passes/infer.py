"""Types, inferred anew from what a block reads."""

from __future__ import annotations

from collections.abc import Mapping

from braces.dims import Unifier
from braces.dtypes import Type
from braces.errors import BracesError
from braces.ir.records import CAPTURES, Body, Op
from braces.ops.define import OPS
from braces.ops.inference import Context, infer


def infer_types(body: Body, known: Mapping[str, Type]) -> dict[str, Type]:
    """The type of every variable of a block.

    Args:
        body: The block.
        known: The types of what the block reads and does not compute.

    Raises:
        ShapeError: Shapes do not fit; the message names operator and source line.
    """
    types = dict(known)
    unifier = Unifier()
    for op in body.ops:
        try:
            types |= infer_op(op, types, unifier)
        except BracesError as error:
            raise error.located(op.describe()) from None
    return {name: type_ for name, type_ in types.items() if name in body.vars}


def infer_op(op: Op, types: Mapping[str, Type], unifier: Unifier) -> dict[str, Type]:
    """The types of an operator's outputs, by name."""
    definition = OPS.get(op.type)
    given = {slot: tuple(types[n] for n in names) for slot, names in op.inputs.items()}
    outer = {n: types[n] for n in op.inputs.get(CAPTURES, ())}
    context = Context(definition.type, unifier)
    found = infer(definition, given, op.attrs, tuple(op.outputs), context, outer)
    return {
        name: type_
        for slot, names in op.outputs.items()
        for name, type_ in zip(names, found[slot], strict=True)
    }
