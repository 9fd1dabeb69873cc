"""Attributes of operators, and values of constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from braces.builder.builder import Builder
from braces.define.core.kernel_call import call_rule
from braces.define.decorator import OPS, OpDef
from braces.dtypes import DType
from braces.errors import BracesError, DTypeError, ProgramError, ShapeError
from braces.ir.records import Attr, Literal, Op
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.edits.core.address import operators_at, paths_text
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.derived import refuse_derived
from braces.surgery.edits.core.walk import Action, EditWalk
from braces.surgery.handles import Handle

P = TypeVar("P", bound=Builder)


def set_attrs(
    program: P, at: Any, attrs: Mapping[str, Any], *, exact: bool = False
) -> EditResult[P]:
    """Set attributes of operators; see `Edits.set_attrs`."""
    handles = operators_at(program, at)
    label = f"set_attrs {paths_text(handles)}"
    refuse_derived(program, handles, label, exact)

    def action(op: Op, point: InsertionPoint) -> Op:
        try:
            return op.with_(attrs=_bound(op, attrs, point))
        except BracesError as error:
            error.at = f"{label}, {op.describe()}"
            raise

    return _changed(program, handles, action, label)


def _changed(program: P, handles: list[Handle], action: Action, label: str) -> EditResult[P]:
    """Return the change of operators whose types are inferred again."""
    addresses = [(handle.chain, handle.name) for handle in handles]
    walk = EditWalk(label, {address: action for address in addresses})
    return EditResult(walk.apply(program), label, operators=addresses)


def _bound(op: Op, attrs: Mapping[str, Any], point: InsertionPoint) -> dict[str, Attr]:
    """Return all attributes of an operator, some with other values.

    Raises:
        ProgramError: If an attribute is unknown, has another kind, or is a block.
    """
    definition = OPS.get(op.type)
    for name in attrs:
        if any(label.partition("[")[0] == name for label in op.bodies()):
            raise ProgramError(
                f"`{name}` of `{op.name}` is a block.",
                fix="Use replace_block, or edit the operators in it.",
            )
    if not attrs:
        raise ProgramError("no attribute is given.", fix="Pass one: axis=1.")
    bound = definition.bind_attrs({**op.attrs, **definition.coerced(attrs)})
    return bound if op.bodies() else {**bound, **_resolved(definition, op, bound, point)}


def _resolved(
    definition: OpDef, op: Op, attrs: dict[str, Attr], point: InsertionPoint
) -> Mapping[str, Attr]:
    """Return the attributes that depend on the types of operands."""
    if definition.resolve_rule is None:
        return {}
    types = {s: tuple(point.var(n).type for n in names) for s, names in op.inputs.items()}
    rule, operands = definition.resolve_rule, definition.arrange(types)
    return call_rule(definition.type, "resolved", rule, operands, attrs, definition.coerced)


# ---- constants -------------------------------------------------------------------------------


def set_constant(
    program: P, at: Any, value: Any, *, retype: bool = False, exact: bool = False
) -> EditResult[P]:
    """Set the value of constants; see `Edits.set_constant`."""
    handles = operators_at(program, at)
    label = f"set_constant {paths_text(handles)}"
    refuse_derived(program, handles, label, exact)
    for handle in handles:
        _converted(value, handle.attrs[_literal(handle, label)], label, retype)

    def action(op: Op, point: InsertionPoint) -> Op:
        del point
        ((name, old),) = ((n, v) for n, v in op.attrs.items() if isinstance(v, Literal))
        return op.with_(attrs={**op.attrs, name: _converted(value, old, label, retype)})

    return _changed(program, handles, action, label)


def _literal(handle: Handle, label: str) -> str:
    """Return the name of the attribute that holds the value of a constant.

    Raises:
        ProgramError: If the operator is not a constant.
    """
    names = [name for name, value in handle.attrs.items() if isinstance(value, Literal)]
    if len(names) != 1 or handle.inputs:
        raise ProgramError(
            f"expected a constant, got `{handle.path}` ({handle.type}).",
            at=label,
            fix="Set attributes by set_attrs, and initial values of parameters in the scope.",
        )
    return names[0]


def _converted(value: Any, old: Attr, label: str, retype: bool) -> Literal:
    """Return a value as a literal of the type of the old one.

    Raises:
        DTypeError: If its dtype differs.
        ShapeError: If its shape differs.
    """
    assert isinstance(old, Literal)
    array = np.asarray(value)
    types = f"old: {old}   new: {array.dtype}{list(array.shape)}"
    if not retype and array.shape != old.shape:
        raise ShapeError(
            f"expected a value of shape {list(old.shape)}, got {list(array.shape)}.",
            at=label,
            given=types,
            fix="Pass retype=True to infer the types of later operators again.",
        )
    dtype = old.dtype
    if isinstance(value, np.ndarray | np.generic) and array.dtype != dtype:
        if not retype:
            raise DTypeError(
                f"expected a value of dtype {dtype}, got {array.dtype}.",
                at=label,
                given=types,
                fix=f"Convert it: value.astype({dtype.name!r}), or pass retype=True.",
            )
        dtype = array.dtype
    return Literal.of(_as_dtype(array, dtype, label))


def _as_dtype(array: Any, dtype: DType, label: str) -> Any:
    if (array.dtype.kind == "f" and dtype.kind in "iub") or array.dtype.kind not in "biufcV":
        raise DTypeError(
            f"expected a value of dtype {dtype}, got {array.dtype}.",
            at=label,
            fix="Pass retype=True with an array of the new dtype.",
        )
    return array.astype(dtype)
