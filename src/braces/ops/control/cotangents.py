"""What gradients and directional derivatives of blocks do with cotangents and tangents."""

from __future__ import annotations

from collections.abc import MutableMapping

from braces.builder.append import one
from braces.builder.var import Var, tensor_type
from braces.dtypes import ListType, Type, is_float
from braces.ops.lists import add_lists, zero_list
from braces.ops.rules import zeros_of


def differentiable(type_: Type) -> bool:
    """Whether cotangents of this type exist."""
    element = type_.element if isinstance(type_, ListType) else type_
    return is_float(element.dtype)


def add(left: Var, right: Var) -> Var:
    """The sum of two cotangents, arrays or lists."""
    if isinstance(left.type, ListType):
        return add_lists(left, right)
    return one("add", left, right)


def zeros_like(var: Var) -> Var:
    """The cotangent of what is not used, and the tangent of what does not move."""
    return zero_list(var) if isinstance(var.type, ListType) else zeros_of(tensor_type(var))


def collect(grads: MutableMapping[str, Var], name: str, grad: Var) -> None:
    """Add to the cotangent of a variable."""
    grads[name] = add(grads[name], grad) if name in grads else grad
