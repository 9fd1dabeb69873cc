"""What a kernel must not ask for: values, which only a run has."""

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


def reads_values(
    op_type: str, kernel: Callable[..., Any], error: Exception
) -> OpDefinitionError | None:
    """The error for a kernel that turns an array into a number, a bool or a NumPy array.

    Kernels are traced: they compute with arrays whose shapes are known, and not their values.

    Args:
        op_type: The operator.
        kernel: What failed.
        error: How it failed; `None` is returned where it is of another kind.
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
    use = "asks whether a value is true" if branches else "needs the value of an array"
    return OpDefinitionError(
        f"The kernel of {op_type} {use}, which only a run knows.",
        given=innermost_line(error) or f"{kernel.__module__}:0",
        fix="Choose with jnp.where(condition, x, y) or jax.lax.cond, repeat with "
        "jax.lax.while_loop, compute with jax.numpy; Python's `if`, `while`, bool(), int() and "
        "float() take attributes, which are plain values.",
    )


def innermost_line(error: Exception) -> str | None:
    """The innermost line that an error passed and that the user wrote, or nearest to that.

    It is outside of JAX, NumPy and Braces; where there is none, outside of JAX and NumPy.
    """
    places = _places(error)
    return _shown((_users(places) or places)[-1]) if places else None


def users_line(error: Exception) -> str | None:
    """The innermost line that an error passed and that the user wrote, where there is one."""
    places = _users(_places(error))
    return _shown(places[-1]) if places else None


def _places(error: Exception) -> list[tuple[str, int]]:
    """The files and lines outside of JAX and NumPy that an error passed."""
    return [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not in_packages(frame.f_code.co_filename, jax, np)
    ]


def in_packages(file: str, *packages: ModuleType) -> bool:
    """Return whether a file lies in the folder of one of some packages.

    Example:
        >>> in_packages(np.linalg.__file__, np), in_packages("<stdin>", np)
        (True, False)
        >>> in_packages(np.__path__[0] + "ro/__init__.py", np)
        False
    """
    folders = (str(Path(str(package.__file__)).parent) for package in packages)
    return file.startswith(tuple(folder + os.sep for folder in folders))


def _users(places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    ours = str(Path(__file__).parents[1])
    return [place for place in places if not place[0].startswith(ours)]


def _shown(place: tuple[str, int]) -> str:
    file, line = place
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text}" if text else "")
