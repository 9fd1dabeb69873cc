"""Rules of arrays of arrays, which are lists: written and read at places that a run tells.

Paddle begins one by writing to it, wherever that is; until then nothing says what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.builder.var import Var, tensor_type
from braces.dims import product
from braces.dtypes import INT64
from braces.exchange.common.rules.elementwise import in_dtype, scalar
from braces.exchange.common.values.constants import Known
from braces.exchange.paddle.graph.environment import Names
from braces.exchange.paddle.graph.node import Node, Results, Rule
from braces.exchange.paddle.graph.program_desc import ARRAYS
from braces.frontend.control import lists
from braces.frontend.core import functions as ops


def begun(names: Names, name: str) -> bool:
    """Whether a name stands for something by now."""
    return names.find(name) is not None


def unwritten(names: Names, name: str) -> bool:
    """Whether a name is an array of arrays to which nothing was written yet."""
    said = names.declared(name)
    return not begun(names, name) and said is not None and said.kind == ARRAYS


def place(node: Node) -> Var:
    """The place that an operator is told."""
    return in_dtype(scalar(node.var("I")), INT64)


def write(node: Node) -> Results:
    """An array put at a place, which may be just behind the last one."""
    (name,), x = node.made("Out"), node.var("X")
    held = node.runner.lift(node.names.value(name)) if begun(node.names, name) else None
    if held is None:
        type_ = tensor_type(x)
        held = lists.create_list(type_.shape, type_.dtype)
    return {"Out": lists.list_write(held, place(node), x)}


def read(node: Node) -> Results:
    """The array at a place."""
    return {"Out": lists.list_get(node.var("X"), place(node))}


def length(node: Node) -> Results:
    """How many arrays there are."""
    (name,) = node.given("X")
    if unwritten(node.names, name):
        return {"Out": Known.of(np.zeros(1, INT64))}
    return {"Out": ops.reshape(lists.list_length(node.var("X")), (1,))}


def joined(node: Node) -> Results:
    """All arrays as one: beside each other, or one after the other, along an axis."""
    rows = lists.list_stack(node.var("X"))
    count, *shape = rows.shape
    beside = bool(node.attr("use_stack", False))
    axis = node.axis("axis", len(shape) + beside, 0)
    made = ops.moveaxis(rows, 0, axis) if axis else rows
    if beside:
        return {"Out": made}
    whole = product((count, shape[axis]))
    return {"Out": ops.reshape(made, (*shape[:axis], whole, *shape[axis + 1 :]))}


def taken(node: Node) -> Var:
    """One of the arrays, as a slice says it.

    Raises:
        ProgramError: It says more than one.
    """
    if not node.attr("decrease_axis"):
        node.refuse("takes several arrays of an array of arrays", "Stack them before.")
    (start,) = node.places("starts", "Starts")
    return lists.list_get(node.var("Input"), start)


LISTS: Mapping[str, Rule] = {
    "lod_array_length": length,
    "read_from_array": read,
    "tensor_array_to_tensor": joined,
    "write_to_array": write,
}
