"""Types, inferred anew from what a block reads."""

from __future__ import annotations

from collections.abc import Mapping

from braces.dims import Unifier
from braces.dtypes import Type
from braces.errors import BracesError
from braces.ir.records import Body
from braces.ops.inference import infer_op


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
