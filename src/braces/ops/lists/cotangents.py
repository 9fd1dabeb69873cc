"""Arithmetic on cotangents and tangents, arrays or lists."""

from __future__ import annotations

from collections.abc import MutableMapping

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, tensor_type, visible_var
from braces.dtypes import FLOAT32, ListType, TensorType, Type, is_float
from braces.ops.common.rules import build_zeros
from braces.ops.control.core.residuals import find_filling_loop
from braces.ops.lists.list_to_array import append_filled, append_length
from braces.ops.lists.stack import append_add, append_zeros


def has_cotangent(type_: Type) -> bool:
    """Return whether values of this type have cotangents."""
    element = type_.element if isinstance(type_, ListType) else type_
    return is_float(element.dtype)


def add_cotangents(left: Var, right: Var) -> Var:
    """Return the sum of two cotangents, arrays or lists."""
    if isinstance(left.type, ListType):
        return append_add(left, right)
    return emit("add", left, right)


def zeros_like(var: Var) -> Var:
    """Return a zero cotangent or tangent of a variable."""
    return (
        append_zeros(var) if isinstance(var.type, ListType) else build_zeros(tensor_type(var))
    )


def zeros_like_variable(program: Builder, table: SymbolTable, name: str) -> Var:
    """Return zeros like a variable of a block; only the length of a list becomes a residual."""
    var = visible_var(program, table, name)
    if not isinstance(var.type, ListType):
        return build_zeros(var.type)
    history = find_filling_loop(table, name)
    if history is None and table.parent is None:
        return append_zeros(var)
    with program.building(table):
        length = append_length(var)
    return append_filled(length, var, history or table.names.unique("history"))


def accumulation_type(type_: Type) -> Type:
    """Return the accumulation type: float32 for 16 bits, where small summands vanish."""
    if isinstance(type_, TensorType) and is_float(type_.dtype) and type_.dtype.itemsize == 2:
        return TensorType(FLOAT32, type_.shape)
    return type_


def cast_cotangent(grad: Var, type_: Type) -> Var:
    """Cast a cotangent to the dtype of a type of its shape; lists stay as they are."""
    if isinstance(type_, ListType) or grad.dtype == type_.dtype:
        return grad
    return emit("cast", grad, dtype=type_.dtype)


def accumulate_cotangent(grads: MutableMapping[str, Var], name: str, grad: Var) -> None:
    """Accumulate into the cotangent of a variable."""
    grads[name] = add_cotangents(grads[name], grad) if name in grads else grad
