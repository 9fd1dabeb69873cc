"""Arrays that a function closes over, and their names."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import numpy as np

from braces.exchange.jax.pytree_arguments import is_array, leaves_of
from braces.lazy import jax

_jax: Any = jax
DEEPEST = 4
"""The depth to which functions in functions are searched."""
Identity: TypeAlias = "int | tuple[int, ...]"


def array_identity(array: Any) -> Identity:
    """Return the identity of an array; views of the same NumPy memory and shape are equal."""
    unwrapped = getattr(array, "val", array)  # NumPy's, which JAX has wrapped
    if not isinstance(unwrapped, np.ndarray):
        return id(array)
    memory = cast("np.ndarray[Any, Any]", unwrapped)
    return memory.__array_interface__["data"][0], *memory.shape, *memory.strides


def names_of_arrays(function: Callable[..., Any]) -> dict[Identity, str]:
    """Return the names of arrays that a function reaches without its arguments, by identity.

    The search covers the variables of enclosing functions and of the module that the function
    names, its defaults, the object whose method it is, and recursively the functions among
    them.

    Example:
        >>> import numpy as np
        >>> params = {"w": np.ones(3)}
        >>> list(names_of_arrays(lambda x: x @ params["w"]).values())
        ['params.w']
    """
    names = dict[Identity, str]()
    _collect_names(function, "", names, DEEPEST)
    return names


def _collect_names(
    value: Any, name: str, names_by_identity: dict[Identity, str], depth: int
) -> None:
    for path, leaf in _leaves(value):
        path_name = ".".join(filter(None, (name, *path)))
        if is_array(leaf):
            names_by_identity.setdefault(array_identity(leaf), path_name)
        elif depth and callable(leaf):
            for inner, inner_value in captured_variables(leaf):
                _collect_names(inner_value, inner, names_by_identity, depth - 1)


def _leaves(value: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Return the leaves of a tree with their paths; none if JAX cannot flatten it.

    An example is a dict with unorderable keys in a library.
    """
    try:
        return leaves_of(value)
    except ValueError:
        return []


def captured_variables(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function names, and their values; empty names for its own."""
    if isinstance(function, functools.partial):
        partial = cast("functools.partial[Any]", function)
        yield "", partial.func
        yield "", partial.args
        yield from partial.keywords.items()
        return
    if inspect.ismethod(function):
        yield "", _fields(function.__self__)
        yield "", function.__func__
        return
    inner: Any = inspect.unwrap(function)
    if inspect.isfunction(inner):
        names = inspect.getclosurevars(inner)
        yield from names.nonlocals.items()
        yield from ((n, v) for n, v in names.globals.items() if not inspect.ismodule(v))
        yield "", inner.__defaults__
        yield "", inner.__kwdefaults__
    elif inner is not function:  # a module that JAX has wrapped, as by vmap
        yield "", _fields(inner)


def _fields(owner: Any) -> Any:
    """Return an object as a tree: itself, or its fields if JAX does not know its type."""
    leaves = _jax.tree.leaves(owner)
    alone = len(leaves) == 1 and leaves[0] is owner
    return getattr(owner, "__dict__", owner) if alone else owner
