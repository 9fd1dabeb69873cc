"""Rules of tensor arrays, which are lists with run-time indices.

Paddle creates a tensor array by a write anywhere; until then its element type is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype, scalar
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.environment import BlockScope
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.exchange.paddle.graph.program_desc import ARRAYS
from braces.extend import functions as ops, lists
from braces.extend.building import Var, tensor_type
from braces.extend.types import INT64, product


def has_value(names: BlockScope, name: str) -> bool:
    """Return whether a name has a value."""
    return names.find(name) is not None


def is_unwritten_array(names: BlockScope, name: str) -> bool:
    """Return whether a name is a tensor array without any write yet."""
    declaration = names.declared(name)
    return not has_value(names, name) and declaration is not None and declaration.kind == ARRAYS


def index_operand(node: PaddleOp) -> Var:
    """Return the index operand."""
    return cast_to_dtype(scalar(node.var("I")), INT64)


def write(node: PaddleOp) -> Results:
    """Write an element; the index may be the length, which appends."""
    (name,), x = node.output_names("Out"), node.var("X")
    xs = node.runner.lift(node.names.value(name)) if has_value(node.names, name) else None
    if xs is None:
        type_ = tensor_type(x)
        xs = lists.create(type_.shape, type_.dtype)
    return {"Out": lists.write(xs, index_operand(node), x)}


def read(node: PaddleOp) -> Results:
    """Read an element."""
    return {"Out": lists.get(node.var("X"), index_operand(node))}


def length(node: PaddleOp) -> Results:
    """The length of a tensor array."""
    (name,) = node.input_names("X")
    if is_unwritten_array(node.names, name):
        return {"Out": Constant.of(np.zeros(1, INT64))}
    return {"Out": ops.reshape(lists.length(node.var("X")), (1,))}


def tensor_array_to_tensor(node: PaddleOp) -> Results:
    """Stack or concatenate a tensor array along an axis."""
    rows = lists.stack(node.var("X"))
    count, *shape = rows.shape
    is_stack = bool(node.attr("use_stack", False))
    axis = node.axis("axis", len(shape) + is_stack, 0)
    reordered = ops.moveaxis(rows, 0, axis) if axis else rows
    if is_stack:
        return {"Out": reordered}
    axis_size = product((count, shape[axis]))
    return {"Out": ops.reshape(reordered, (*shape[:axis], axis_size, *shape[axis + 1 :]))}


def slice_element(node: PaddleOp) -> Var:
    """Return one element by a slice.

    Raises:
        ProgramError: If the slice selects more than one element.
    """
    if not node.attr("decrease_axis"):
        node.refuse(
            "unsupported slice of several elements of a tensor array", "Stack them first."
        )
    (start,) = node.places("starts", "Starts")
    return lists.get(node.var("Input"), start)


LISTS: Mapping[str, Rule] = {
    "lod_array_length": length,
    "read_from_array": read,
    "tensor_array_to_tensor": tensor_array_to_tensor,
    "write_to_array": write,
}
