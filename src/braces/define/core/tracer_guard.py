"""Errors for kernels that read array values during tracing."""

from __future__ import annotations

import linecache
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from braces.errors import OpDefinitionError
from braces.lazy import jax


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
    places = _external_frames(error)
    return _format_frame((_user_frames(places) or places)[-1]) if places else None


def innermost_user_line(error: Exception) -> str | None:
    """Return the innermost line of a traceback in user code, if any."""
    places = _user_frames(_external_frames(error))
    return _format_frame(places[-1]) if places else None


def _external_frames(error: Exception) -> list[tuple[str, int]]:
    """Return files and lines of a traceback outside of JAX and NumPy."""
    return [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_in_packages(frame.f_code.co_filename, jax, np)
    ]


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


def _user_frames(places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    ours = str(Path(__file__).parents[2])
    return [place for place in places if not place[0].startswith(ours)]


def _format_frame(place: tuple[str, int]) -> str:
    file, line = place
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text}" if text else "")
