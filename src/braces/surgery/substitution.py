"""Substitution of new values for outputs of an operator, under the old names."""

from __future__ import annotations

from collections.abc import Sequence

from braces.builder.append import call
from braces.builder.var import Var
from braces.dtypes import TensorType, Type
from braces.errors import BracesError, DTypeError, ShapeError
from braces.ir.records import IDENTITY
from braces.passes.core.rewrite import InsertionPoint

RETYPE = ", or pass retype=True to infer the types of later operators again."
"""The remedy of an edit for a value of another type."""


def substitute(point: InsertionPoint, olds: Sequence[str], news: Sequence[Var]) -> None:
    """Give new values the names of the outputs of the current operator that they replace.

    Values that were not built for this place pass through an identity.
    """
    names: dict[str, str] = {}
    with point.building():
        for old, value in zip(olds, news, strict=True):
            if value.name in names or not point.is_built(value.name):
                value = call(IDENTITY, value)
            names[value.name] = old
    point.keep_names(names)


def old_type(point: InsertionPoint, name: str) -> Type:
    """Return the type of a visible variable, with known sizes."""
    return point.info(name).type.map_sizes(point.table.unifier.resolve)


def type_error(name: str, old: Type, new: Var, label: str, remedy: str = RETYPE) -> BracesError:
    """Return the error for a value of another type than the one that it replaces.

    Args:
        name: The name of the old value.
        old: Its type.
        new: The new value.
        label: The change, for the message.
        remedy: The end of the fix, after "Return a value of the same dtype and shape".
    """
    dtypes = {t.dtype for t in (old, new.type) if isinstance(t, TensorType)}
    kind = DTypeError if len(dtypes) > 1 else ShapeError
    return kind(
        f"the replacement of `{name}`: expected {old}, got {new.type}.",
        at=label,
        given=f"{name}: {old}   {new.name}: {new.type}",
        fix=f"Return a value of the same dtype and shape{remedy}",
    )
