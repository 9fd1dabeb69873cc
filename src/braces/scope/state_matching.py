"""Matching of loaded values with the values of a scope, by name, dtype and shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from braces.dtypes import TensorType
from braces.errors import BracesError, DTypeError, ShapeError, UnknownNameError, did_you_mean
from braces.scope.values import is_list, type_text

MOST_SHOWN = 8


@dataclass(frozen=True)
class Loaded:
    """Result of `scope.load_state_dict` or `br.load_parameters`.

    Attributes:
        names: The variables that were set.
        missing: Variables of the scope with a value that were not loaded.
        extra: Loaded names that had no value in the scope.
    """

    names: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


def type_of(raw: Any) -> TensorType | None:
    """Return the type of a value; `None` for a list."""
    return None if is_list(raw) else TensorType(raw.dtype, tuple(raw.shape))


def differences(held: Mapping[str, Any], new: Mapping[str, Any], source: str) -> list[str]:
    """List the differences between the types of a scope and those of `source`, one per line."""
    return [
        f"{name}: {held.get(name, 'none')} in the scope, {new.get(name, 'none')} in {source}"
        for name in sorted(held.keys() | new.keys())
        if held.get(name) != new.get(name)
    ]


def join_lines(lines: list[str]) -> str:
    """Join the first few lines into one."""
    return "; ".join(lines[:MOST_SHOWN]) + ("; …" if len(lines) > MOST_SHOWN else "")


def array_in(name: str, held: Mapping[str, Any]) -> Any:
    """Return the array of this name.

    Raises:
        DTypeError: If the value is a list.
    """
    raw = held[name]
    if is_list(raw):
        message = f"expected an array in variable `{name}`, got a list."
        fix = "Erase it, or read `scope.var(name).value` of each variable."
        raise DTypeError(message, given=f"{name}: {type_text(raw)}", fix=fix)
    return raw


def match_states(held: Mapping[str, Any], values: Mapping[str, Any], strict: bool) -> Loaded:
    """Match loaded values with those of a scope.

    Raises:
        UnknownNameError: If a name is missing or extra, and `strict` is set.
        DTypeError: If the dtype of a value differs.
        ShapeError: If the shape of a value differs.
    """
    old = {name: type_of(raw) for name, raw in held.items()}
    new = {name: type_of(raw) for name, raw in values.items()}
    both = sorted(old.keys() & new.keys())
    missing, extra = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    if strict and (missing or extra):
        raise _misfit(UnknownNameError, old, new, _names_fix(extra, missing))
    scope_types, loaded_types = ({name: types[name] for name in both} for types in (old, new))
    wrong_dtypes = [name for name in both if _dtype(old[name]) != _dtype(new[name])]
    if wrong_dtypes:
        fix = f"Convert the array: array.astype({_dtype(old[wrong_dtypes[0]])!r})."
        raise _misfit(DTypeError, scope_types, loaded_types, fix)
    if scope_types != loaded_types:
        raise _misfit(
            ShapeError,
            scope_types,
            loaded_types,
            "Build the program that the values belong to.",
        )
    return Loaded(tuple(both), tuple(missing), tuple(extra))


def _dtype(type_: TensorType | None) -> str:
    return "list" if type_ is None else type_.dtype.name


def _misfit(
    kind: type[BracesError], old: Mapping[str, Any], new: Mapping[str, Any], fix: str
) -> BracesError:
    differing = differences(old, new, "the given values")
    message = f"the given values and the scope differ in {len(differing)} variables."
    return kind(message, given=join_lines(differing), fix=fix)


def _names_fix(extra: Sequence[str], missing: Sequence[str]) -> str:
    near = did_you_mean(extra[0], missing) if extra and missing else ""
    hint = f"`{extra[0]}`: {near} " if near else ""
    return hint + "Run exe.init first, or pass strict=False to set the common variables."
