"""Type inference of blocks from the types of their captures and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Unifier
from braces.dtypes import Type
from braces.errors import BracesError, ShapeError
from braces.ir.records import Body, Op
from braces.ir.views import SwitchView, view_of
from braces.ir.walk import map_bodies
from braces.ops.control.core.block_op import BlockOp

_EVERY_CASE = (
    "Every case of a branch must fit. Pass a symbolic size if another case runs with this one. "
    "For an ONNX model with a known condition, "
    "br.from_onnx(model, constants={name: value}) keeps only the case that runs."
)


def infer_types(body: Body, known: Mapping[str, Type]) -> dict[str, Type]:
    """Infer the type of every variable of a block.

    Args:
        body: The block.
        known: The types of values that the block reads and does not compute.

    Raises:
        ShapeError: If the shapes are incompatible; the message names operator and source line.
    """
    types = dict(known)
    unifier = Unifier()
    for op in body.ops:
        try:
            types |= infer_op(op, types, unifier)
        except BracesError as error:
            raise error.located(op.describe()) from None
    return {name: type_ for name, type_ in types.items() if name in body.vars}


def infer_body(
    body: Body, params: Sequence[Type], outer: Mapping[str, Type], unifier: Unifier
) -> Body:
    """Return a block with the types of all its values inferred again, sub-blocks included.

    Args:
        body: The block.
        params: The types of its parameters.
        outer: The types of its captures.
        unifier: Substitution of unnamed dimensions; extended in place.

    Raises:
        BracesError: If the types are incompatible; the message names operator and source line.
    """
    types, ops = {**outer, **dict(zip(body.params, params, strict=True))}, list[Op]()
    for op in body.ops:
        try:
            ops.append(_with_inferred_blocks(op, types, unifier))
            types |= infer_op(ops[-1], types, unifier)
        except BracesError as error:
            raise error.located(op.describe()) from None
    infos = {name: info.with_(type=types[name]) for name, info in body.vars.items()}
    return body.with_(vars=infos, ops=tuple(ops))


def _with_inferred_blocks(op: Op, types: Mapping[str, Type], unifier: Unifier) -> Op:
    definition = OPS.get(op.type)
    if not isinstance(definition, BlockOp):
        return op
    input_types = {
        slot: tuple(types[name] for name in names) for slot, names in op.inputs.items()
    }
    interfaces = definition.interface(op, input_types)
    params = iter([interfaces[label].params for label in op.bodies()])
    try:
        return map_bodies(op, lambda body: infer_body(body, next(params), types, unifier))
    except ShapeError as error:
        if isinstance(view_of(op), SwitchView) and _EVERY_CASE not in (error.fix or ""):
            error.advise(_EVERY_CASE)
        raise
