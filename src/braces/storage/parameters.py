"""The variables of a scope as one safetensors file.

Such a file holds named arrays and nothing else: other libraries read it, and their files can be
loaded. Model files and checkpoints can be loaded too; their other contents are ignored.
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
from braces.keywords import hint_keywords
from braces.scope import Loaded, Scope
from braces.scope.state_matching import differences, join_lines, type_of
from braces.scope.values import copy_value
from braces.storage.tensor_file import RESERVED, Array, open_tensors, write_tensors

FORMAT = "braces.parameters"


@hint_keywords
def save_parameters(
    scope: Scope, path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> None:
    """Write variables of a scope to a safetensors file atomically.

    Args:
        scope: The scope of the variables.
        path: The file; an existing one is replaced.
        names: The variables, of this scope or its ancestors. By default all initialized
            variables of this scope itself, including the state of optimizers and of random
            numbers.

    Raises:
        UnknownNameError: If a variable does not exist.
        UninitializedError: If a variable of `names` has no value.
        ProgramError: If a file cannot store a variable of this name.
        DTypeError: If a variable holds a list, not an array.
        DeviceError: If other processes have shards of a value.
        OSError: If the folder is missing, full, or not writable.

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
    check_scope("save_parameters(scope, path)", scope)
    write_tensors(path, host_arrays(scope, names), FORMAT)


@hint_keywords
def load_parameters(
    scope: Scope,
    path: str | os.PathLike[str],
    names: Iterable[str] | None = None,
    *,
    strict: bool = False,
) -> Loaded:
    """Set variables of a scope from a safetensors file; on failure the scope is unchanged.

    Args:
        scope: The scope whose own variables are set.
        path: A safetensors file of any library.
        names: The variables; by default all of the file.
        strict: Whether the scope must have exactly these variables, with values of these types.

    Returns:
        The names that were set, those that only the scope has, and those that were new to it.

    Raises:
        FileFormatError: If the file is damaged, truncated, or of a newer format; or, with
            `strict`, does not match the scope.
        UnknownNameError: If the file has no variable of a name in `names`.
        OSError: If the file does not exist, or it cannot be read.

    Example:
        >>> import braces as br, numpy as np, tempfile
        >>> trained, scope = br.Scope(), br.Scope()
        >>> trained.update({"w": np.ones(2), "b": np.zeros(1)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_parameters(trained, folder + "/p.safetensors")
        ...     _ = br.load_parameters(scope, folder + "/p.safetensors", ["w"])
        >>> scope.names(), scope["w"].tolist()
        (['w'], [1.0, 1.0])
    """
    check_scope("load_parameters(scope, path)", scope)
    with open_tensors(path) as file:
        stored = file.variables
        selected = tuple(stored) if names is None else _check_in_file(names, stored)
        scope_types = {name: type_of(scope.var(name).raw) for name in names_with_value(scope)}
        if strict:
            _check_same(scope_types, {name: stored[name] for name in selected})
        put_arrays(scope, {name: file.read(name) for name in selected})
    missing = tuple(name for name in scope_types if name not in selected)
    return Loaded(
        selected, missing, tuple(name for name in selected if name not in scope_types)
    )


# ---- between scopes and arrays ---------------------------------------------------------------


def check_scope(call: str, scope: Any) -> None:
    """Refuse an argument that is not a scope, such as a path in its place.

    Args:
        call: The function with its arguments, for the message.
        scope: The argument.

    Raises:
        DTypeError: If the argument is not a scope.
    """
    if not isinstance(scope, Scope):
        raise DTypeError(
            f"expected a br.Scope for `scope`, got {type(scope).__name__}.",
            given=f"scope: {scope!r:.80}",
            fix=f"Call br.{call}.",
        )


def names_with_value(scope: Scope) -> list[str]:
    """Return the initialized names of this scope itself."""
    variables = ((name, scope.find_local_var(name)) for name in scope.names())
    return [
        name for name, variable in variables if variable is not None and variable.initialized
    ]


def host_arrays(
    scope: Scope, names: Iterable[str] | None = None, *, copy: bool = False
) -> dict[str, Array]:
    """Return the values of variables on the host, checked for storage.

    Args:
        scope: The scope.
        names: The variables; by default all initialized ones of this scope itself.
        copy: Whether they must survive the next run, which may reuse the buffers of values.
    """
    raws = stored_values(scope, names)
    for name, raw in raws.items():
        refuse_sharded(name, raw)
    return {name: copy_value(raw) if copy else np.asarray(raw) for name, raw in raws.items()}


def refuse_sharded(name: str, raw: Any) -> None:
    """Raise an error for a value with shards in other processes.

    Raises:
        DeviceError: If this process does not have all shards of the value.
    """
    is_complete = getattr(raw, "is_fully_addressable", True) or raw.is_fully_replicated
    if not is_complete:
        raise DeviceError(
            f"`{name}` is sharded over several processes, but one file holds whole arrays.",
            given=f"{name}: {list(raw.shape)}, {raw.sharding}",
            fix="Save with br.Checkpoint in all processes; restore in one process, and write "
            "the file there.",
        )


def stored_values(scope: Scope, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the values of variables in place, checked for storage; see `host_arrays`.

    Raises:
        DTypeError: If a value is a list.
    """
    selected = names_with_value(scope) if names is None else _listed(names)
    raws = {check_variable_name(name): scope.get_var(name).raw for name in selected}
    for name, raw in raws.items():
        if isinstance(raw, list | tuple):
            raise DTypeError(
                f"cannot store the list `{name}`: files hold arrays.",
                given=f"{name}: a list of {len(raw)} arrays",  # pyright: ignore[reportUnknownArgumentType]
                fix="Exclude it: pass the variables to save as names=[…].",
            )
    return raws


def check_variable_name(name: str) -> str:
    """Return `name` if a file can hold a variable of that name.

    Raises:
        ProgramError: If a file cannot store a variable of this name.
    """
    if check_name(name).startswith(RESERVED):
        raise ProgramError(
            f"reserved variable name `{name}`.",
            fix=f"Use a name that does not begin with {RESERVED}.",
        )
    return name


def put_arrays(scope: Scope, arrays: Mapping[str, Any]) -> None:
    """Set variables of this scope itself, which takes ownership of the arrays."""
    for name, array in arrays.items():
        scope.var(name).put(array)


def _listed(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([names] if isinstance(names, str) else names))


def _check_in_file(names: Iterable[str], stored: Mapping[str, Any]) -> tuple[str, ...]:
    selected = tuple(_listed(names))
    for name in selected:
        if name not in stored:
            raise UnknownNameError(
                f"unknown variable `{name}` of the file.", fix=suggest(name, stored)
            )
    return selected


def _check_same(scope_types: Mapping[str, Any], stored: Mapping[str, TensorType]) -> None:
    differing = differences(scope_types, stored, "the file")
    if differing:
        raise FileFormatError(
            f"the file and the scope differ in {len(differing)} variables.",
            given=join_lines(differing),
            fix="Initialize the scope for the program of this file, or load with strict=False.",
        )
