"""Feeds of a run: conversion to arrays of the declared types, and checks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import numpy as np

from braces.builder.builder import Builder
from braces.builder.program_argument import ProgramHolder, not_a_program
from braces.builder.scalar_promotion import try_cast
from braces.define.core.jax_settings import braces_jax_settings
from braces.dtypes import TensorType, is_float, is_integer, is_stored, short_name
from braces.errors import FeedError, ProgramError, array_fix, suggest
from braces.ir.records import ProgramDef, VarInfo
from braces.lazy import jnp
from braces.lower.xla.concrete_attributes import Sizes, bind_sizes
from braces.scope import Scope
from braces.scope.dlpack import FAILURES, as_numpy

PYTHON = (bool, int, float, complex, list, tuple, np.generic)


def checked_program(program: Any, call: str) -> ProgramDef:
    """Return the definition of a program; `call` is the right call, for the message.

    Raises:
        ProgramError: If the argument is not a program.
    """
    if isinstance(program, ProgramHolder):
        raise not_a_program("program", program, "")
    if not isinstance(program, Builder):
        raise ProgramError(f"expected a program, got {program!r:.80}.", fix=f"Write {call}.")
    return program.definition


def check_order(
    program: Any, scope: Any, call: str = "exe.run(prog, scope, feed=..., fetch=...)"
) -> None:
    """Refuse arguments other than a program and a scope; `call` is the right call.

    Raises:
        ProgramError: If an argument has a different type.
    """
    if isinstance(program, ProgramHolder):
        raise not_a_program("program", program, "")
    if not isinstance(program, Builder) or not isinstance(scope, Scope):
        raise ProgramError(
            "expected a program and a scope.",
            given=f"{type(program).__name__}, {type(scope).__name__}",
            fix=f"Write {call}.",
        )


def check_names(
    names: Iterable[str],
    needed: Mapping[str, VarInfo],
    declared: Mapping[str, VarInfo],
    fetched: Callable[[], Container[str]],
) -> None:
    """Refuse feeds that are missing or unknown.

    Args:
        names: The names that are fed.
        needed: The data that the run reads.
        declared: All data variables of the program.
        fetched: Returns the data that the fetches alone need.

    Raises:
        FeedError: If a feed is missing or unknown; the error names it and the declared data.
    """
    names = list(names)
    for name in names:
        if name not in declared:
            raise FeedError(f"unknown data `{name}`.", fix=suggest(str(name), declared))
    missing = [info for name, info in needed.items() if name not in names]
    if missing:
        shown = ", ".join(f"`{info.name}`: {info.type}" for info in missing)
        instead = _hint_evaluate(missing, fetched())
        raise FeedError(
            f"missing feeds: {shown}.",
            given=f"fed: {', '.join(names) or 'nothing'}",
            fix=f"Pass feed={{{missing[0].name!r}: array, …}}.{instead}",
        )


def _hint_evaluate(missing: Iterable[VarInfo], fetched: Container[str]) -> str:
    """Return a hint if only updates need the missing data."""
    if any(info.name in fetched for info in missing):
        return ""
    return (
        " Only updates need it: exe.evaluate(prog, scope, feed=..., fetch=...) computes the "
        "fetches without updates."
    )


def convert_feed(info: VarInfo, value: Any) -> Any:
    """Convert a fed value to an array of the declared dtype.

    Another dtype is converted if no relevant information is lost: floats are rounded to the
    declared float, integers must be in the range of the declared integers, bools become 0 and
    1. This holds for arrays of NumPy and JAX, numbers and lists. Integers written as numbers or
    lists may also stand for floats, if those are exact. An array of integers may not: it was
    probably meant for another name, or needs scaling.

    Raises:
        FeedError: If the value is not an array, or cannot be converted to the declared dtype:
            floats to integers, numbers to bools, complex to real numbers, an integer out of
            range, a number that would become infinite.
    """
    declared = info.type
    assert isinstance(declared, TensorType)
    written = isinstance(value, PYTHON)
    array = _convert_python(info, value) if written else _as_array(info, value)
    if array.dtype == declared.dtype:
        return array
    return _convert_array(info, declared, np.asarray(array), written)


def _convert_python(info: VarInfo, value: Any) -> Any:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise _unreadable_error(info, f"{value!r:.80}", error) from None


def _unreadable_error(info: VarInfo, shown: str, error: Exception) -> FeedError:
    return FeedError(
        f"cannot convert the feed `{info.name}` to {info.type}.",
        given=f"{shown} ({error})",
        fix=array_fix(error, "Feed a NumPy array of the declared dtype."),
    )


def _convert_array(info: VarInfo, declared: TensorType, array: Any, written: bool) -> Any:
    dtype = declared.dtype
    problem = _reason_not_convertible(array.dtype, dtype, written)
    result = None if problem else _convert_exactly(array, dtype)
    if result is None:
        why = problem or f"a value is not representable in {dtype}"
        raise FeedError(
            f"cannot convert the feed `{info.name}` to {declared}: {why}.",
            given=f"{info.name}: declared {declared}, fed {describe_array(array)}"
            f"{_extremes(array)}",
            fix=f"Convert it: array.astype({dtype.name!r}), or declare another dtype.",
        )
    return result


def _convert_exactly(array: Any, dtype: Any) -> Any:
    """Return the same numbers in another dtype, integers exactly, or `None`."""
    result = try_cast(array, dtype)
    if result is None or not (is_integer(array.dtype) and is_float(dtype)):
        return result
    back = try_cast(result, array.dtype)
    return result if back is not None and np.array_equal(back, array) else None


def _reason_not_convertible(dtype: Any, declared: Any, written: bool) -> str:
    """Return the reason why a dtype cannot be converted to another, or an empty text."""
    if is_stored(dtype) or is_stored(declared):
        return f"storage dtypes are not converted, got {dtype}"
    if dtype.kind not in "biu" and not is_float(dtype):
        return f"expected a numeric dtype, got {dtype}"
    if declared.kind == "b":
        return f"expected bools, got {dtype}"
    if is_integer(declared) and is_float(dtype):
        return f"expected integers, got {dtype}"
    if is_integer(dtype) and is_float(declared) and not written:
        return f"expected floats, got an array of {dtype}"
    if dtype.kind == "c" and declared.kind != "c":
        return f"expected real numbers, got {dtype}"
    return ""


def _extremes(array: Any) -> str:
    """Return the smallest and the largest number, if there are any."""
    if not array.size or array.dtype.kind not in "iuf":
        return ""
    return f", from {array.min()} to {array.max()}"


def _as_array(info: VarInfo, value: Any) -> Any:
    if isinstance(value, np.ma.MaskedArray):
        raise FeedError(
            f"masked arrays are unsupported: feed `{info.name}`.",
            given=f"{info.name}: declared {info.type}, fed {describe_array(value)}",
            fix="Feed array.filled(value), and the mask as separate data.",
        )
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if type(value).__module__.startswith("jax"):
            return value
        try:
            return np.asarray(as_numpy(value))
        except FAILURES as error:
            array = _import_device_array(value)
            if array is None:
                raise _unreadable_error(info, type(value).__name__, error) from None
            return array
    raise FeedError(
        f"expected an array for the feed `{info.name}`, got {type(value).__name__}.",
        given=f"{type(value).__name__}: {value!r:.60}",
        fix=f"Feed a NumPy array of type {info.type}.",
    )


def _import_device_array(value: Any) -> Any:
    """Import an array on an accelerator without a copy; return `None` if JAX cannot."""
    try:
        with braces_jax_settings():
            return jnp.from_dlpack(value)
    except FAILURES:
        return None


def check_shape(info: VarInfo, value: Any, sizes: Sizes) -> None:
    """Bind the named dimensions of a feed.

    Raises:
        FeedError: If the shape differs from the declared one, or contradicts another feed.
    """
    problem = bind_sizes(info.type, value.shape, sizes)
    if problem:
        raise FeedError(
            f"shape mismatch of the feed `{info.name}`: {problem}.",
            given=f"{info.name}: declared {info.type}, fed {describe_array(value)}",
            fix="Reshape it, or declare another shape with br.data.",
        )


def describe_array(value: Any) -> str:
    """Return a short text of the type of an array."""
    try:
        dtype = short_name(np.dtype(value.dtype))
    except KeyError:
        dtype = str(value.dtype)
    return f"{dtype}[{','.join(map(str, value.shape))}]"
