"""Errors for kernels that read array values during tracing."""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

import numpy as np

from braces.errors import BracesError, OpDefinitionError
from braces.lazy import jax
from braces.notebook import line_text

_PACKAGE = str(Path(__file__).resolve().parents[2])
_DEMO = str(Path(_PACKAGE, "demo"))
Place: TypeAlias = tuple[str, int]
"""A file and a line."""


def value_read_error(
    op_type: str, kernel: Callable[..., Any], error: Exception
) -> OpDefinitionError | None:
    """Return the error for a kernel that converts an array to a number, bool or NumPy array.

    Kernels are traced: shapes of arrays are known, values are not.

    Args:
        op_type: The operator.
        kernel: The kernel that failed.
        error: The exception; for one of another kind, `None` is returned.
    """
    kinds = jax.errors
    if not isinstance(
        error,
        kinds.ConcretizationTypeError
        | kinds.TracerArrayConversionError
        | kinds.TracerIntegerConversionError,
    ):
        return None
    branches = isinstance(error, kinds.TracerBoolConversionError)
    use = "converts a traced array to bool" if branches else "reads a traced array"
    return OpDefinitionError(
        f"the kernel of {op_type} {use}; values of arrays are known only at run time.",
        given=innermost_line(error) or f"{kernel.__module__}:0",
        fix="Use jnp.where(condition, x, y) or jax.lax.cond in place of `if`, "
        "jax.lax.while_loop in place of `while`, and jax.numpy in place of NumPy; apply "
        "bool(), int() and float() to attributes only.",
    )


def innermost_line(error: Exception) -> str | None:
    """Return the innermost line of a traceback in user code, or else outside of JAX and NumPy.

    User code is outside of JAX, NumPy and Braces.
    """
    place = innermost_user_place(error) or next(_external_places(error), None)
    return None if place is None else _format_place(place)


def innermost_user_line(error: Exception) -> str | None:
    """Return the innermost line of a traceback in user code, if any."""
    place = innermost_user_place(error)
    return None if place is None else _format_place(place)


def innermost_user_place(error: Exception) -> Place | None:
    """Return the innermost file and line of a traceback in user code, if any."""
    places = _external_places(error)
    return next((place for place in places if not is_package_file(place[0])), None)


def _external_places(error: Exception) -> Iterator[Place]:
    """Yield files and lines of a traceback outside of JAX and NumPy, innermost first."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not is_in_packages(frame.f_code.co_filename, jax, np):
            yield frame.f_code.co_filename, line


def is_in_packages(file: str, *packages: ModuleType) -> bool:
    """Return whether a file is in the folder of one of these packages.

    Example:
        >>> is_in_packages(np.linalg.__file__, np), is_in_packages("<stdin>", np)
        (True, False)
        >>> is_in_packages(np.__path__[0] + "ro/__init__.py", np)
        False
    """
    folders = (str(Path(str(package.__file__)).parent) for package in packages)
    return file.startswith(tuple(folder + os.sep for folder in folders))


@functools.cache
def is_package_file(file: str) -> bool:
    """Return whether a source file belongs to this package; the demo counts as the user's.

    `contextlib` counts as ours, because it enters the context managers of this package.
    """
    is_ours = file.startswith(_PACKAGE) and not file.startswith(_DEMO)
    return is_ours or file == contextlib.__file__


def _format_place(place: Place) -> str:
    file, line = place
    text = linecache.getline(file, line).strip()
    return line_text(file, line) + (f": {text}" if text else "")


def shorten_traceback(error: BracesError) -> None:
    """Remove frames of this package between the current one and the innermost one.

    Frames of users stay: those of a step function that a loop calls, for example. The
    environment variable `BRACES_FULL_TRACEBACK=1` keeps all.
    """
    here = error.__traceback__
    if here is None or os.environ.get("BRACES_FULL_TRACEBACK") == "1":
        return
    inner: TracebackType | None = None
    for each in reversed(list(_entries(here.tb_next))):
        if inner is None or not is_package_file(each.tb_frame.f_code.co_filename):
            each.tb_next, inner = inner, each
    here.tb_next = inner


def _entries(entry: TracebackType | None) -> Iterator[TracebackType]:
    while entry is not None:
        yield entry
        entry = entry.tb_next
