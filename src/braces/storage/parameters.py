"""The variables of a scope as one safetensors file.

Such a file holds arrays and their names, nothing else: other libraries read it, and what they
wrote can be loaded. Files of models and checkpoints can be loaded too; what they hold beside
variables is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from braces.dtypes import TensorType
from braces.errors import (
    DeviceError,
    DTypeError,
    FileFormatError,
    ProgramError,
    UnknownNameError,
    suggest,
)
from braces.ir.names import check_name
from braces.scope import Loaded, Scope
from braces.scope.state_matching import differences, listed, type_of
from braces.scope.values import copied
from braces.storage.tensor_file import RESERVED, Array, open_tensors, write_tensors

FORMAT = "braces.parameters"


def save_parameters(
    scope: Scope, path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> None:
    """Write variables of a scope to a safetensors file, at once or not at all.

    Args:
        scope: Where the variables are.
        path: The file; what was there before is replaced.
        names: Which variables, of this scope or its ancestors. All that have a value in this
            very scope unless said, so the state of optimizers and of random numbers as well.

    Raises:
        UnknownNameError: There is no variable of such a name.
        UninitializedError: A variable of `names` has no value.
        ProgramError: A file cannot hold a variable of this name.
        DTypeError: A variable holds a list, not an array.
        DeviceError: Other processes have parts of a value.
        OSError: The folder is missing, full, or must not be written to.

    Example:
        >>> import tempfile
        >>> import braces as br
        >>> scope, other = br.Scope(), br.Scope()
        >>> scope.var("w").set([1.0, 2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_parameters(scope, folder + "/w.safetensors")
        ...     load_parameters(other, folder + "/w.safetensors")
        Loaded(names=('w',), missing=(), extra=('w',))
        >>> other.var("w").value
        array([1., 2.], dtype=float32)
    """
    write_tensors(path, host_arrays(scope, names), FORMAT)


def load_parameters(
    scope: Scope,
    path: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    *,
    strict: bool = False,
) -> Loaded:
    """Set variables of a scope from a safetensors file; where that fails, the scope stays.

    Args:
        scope: Where the variables are set: in this very scope.
        path: A safetensors file of any library.
        names: Which variables; all that the file has unless said.
        strict: Whether the scope must have just these variables, with values of these types.

    Returns:
        The names that were set, those that only the scope has, and those that were new to it.

    Raises:
        FileFormatError: The file is damaged, cut short, or of a newer format; or, where
            `strict`, it does not fit the scope.
        UnknownNameError: The file has no variable of a name in `names`.
        OSError: There is no such file, or it must not be read.
    """
    with open_tensors(path) as file:
        stored = file.variables
        wanted = tuple(stored) if names is None else _among(names, stored)
        held = {name: type_of(scope.var(name).raw) for name in initialized(scope)}
        if strict:
            _check_same(held, {name: stored[name] for name in wanted})
        put_arrays(scope, {name: file.read(name) for name in wanted})
    missing = tuple(name for name in held if name not in wanted)
    return Loaded(wanted, missing, tuple(name for name in wanted if name not in held))


# ---- between scopes and arrays ---------------------------------------------------------------


def initialized(scope: Scope) -> list[str]:
    """The names in this very scope that have a value."""
    found = ((name, scope.find_local_var(name)) for name in scope.names())
    return [name for name, variable in found if variable is not None and variable.initialized]


def host_arrays(
    scope: Scope, names: Iterable[str] | None = None, *, copy: bool = False
) -> dict[str, Array]:
    """The values of variables, checked to be fit for a file.

    Args:
        scope: Where they are.
        names: Which ones; all that have a value in this very scope unless said.
        copy: Whether they must survive a next run, which may reuse the memory of a value.
    """
    raws = stored_values(scope, names)
    for name, raw in raws.items():
        refuse_elsewhere(name, raw)
    return {name: copied(raw) if copy else np.asarray(raw) for name, raw in raws.items()}


def refuse_elsewhere(name: str, raw: Any) -> None:
    """Refuse a value of which other processes have parts.

    Raises:
        DeviceError: This process does not have all of it.
    """
    here = getattr(raw, "is_fully_addressable", True) or raw.is_fully_replicated
    if not here:
        raise DeviceError(
            f"Other processes have parts of `{name}`, and one file holds the whole.",
            given=f"{name}: {list(raw.shape)}, {raw.sharding}",
            fix="Let all processes save with br.Checkpoint; one process can then restore it, "
            "and write this file.",
        )


def stored_values(scope: Scope, names: Iterable[str] | None = None) -> dict[str, Any]:
    """The values of variables where they lie, checked to be fit for a file; see `host_arrays`.

    Raises:
        DTypeError: One is a list.
    """
    wanted = initialized(scope) if names is None else _listed(names)
    raws = {check_stored_name(name): scope.get_var(name).raw for name in wanted}
    for name, raw in raws.items():
        if isinstance(raw, list | tuple):
            raise DTypeError(
                f"Variable `{name}` holds a list, and a file holds arrays.",
                given=f"{name}: a list of {len(raw)} arrays",  # pyright: ignore[reportUnknownArgumentType]
                fix="Leave it out: name the variables to save with names=[…].",
            )
    return raws


def check_stored_name(name: str) -> str:
    """`name`, if a variable in a file may be called so.

    Raises:
        ProgramError: It may not.
    """
    if check_name(name).startswith(RESERVED):
        raise ProgramError(
            f"A variable in a file cannot be called `{name}`.",
            fix=f"Names that begin with {RESERVED} belong to the format; use another.",
        )
    return name


def put_arrays(scope: Scope, arrays: Mapping[str, Any]) -> None:
    """Set variables of this very scope, which takes the arrays over."""
    for name, array in arrays.items():
        scope.var(name).put(array)


def _listed(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([names] if isinstance(names, str) else names))


def _among(names: Iterable[str], stored: Mapping[str, Any]) -> tuple[str, ...]:
    wanted = tuple(_listed(names))
    for name in wanted:
        if name not in stored:
            raise UnknownNameError(f"The file has no `{name}`.", fix=suggest(name, stored))
    return wanted


def _check_same(held: Mapping[str, Any], stored: Mapping[str, TensorType]) -> None:
    differing = differences(held, stored, "the file")
    if differing:
        raise FileFormatError(
            f"The file and the scope differ in {len(differing)} variables.",
            given=listed(differing),
            fix="Initialize the scope for the program of this file, or load with strict=False.",
        )
