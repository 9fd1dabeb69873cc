"""What a function brings along: the arrays that it closes over, and what they are called."""

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
"""Functions in functions that are looked into."""
Identity: TypeAlias = "int | tuple[int, ...]"


def identity(array: Any) -> Identity:
    """What tells an array from others; views of NumPy's memory are one if they look alike."""
    found = getattr(array, "val", array)  # NumPy's, which JAX has wrapped
    if not isinstance(found, np.ndarray):
        return id(array)
    memory = cast("np.ndarray[Any, Any]", found)
    return memory.__array_interface__["data"][0], *memory.shape, *memory.strides


def names_of_arrays(function: Callable[..., Any]) -> dict[Identity, str]:
    """The arrays that a function can reach without its arguments: their names by identity.

    These are those in variables of the functions around it and of its module that it names, in
    its defaults, and of the object whose method it is; and so for functions among them.

    Example:
        >>> import numpy as np
        >>> params = {"w": np.ones(3)}
        >>> list(names_of_arrays(lambda x: x @ params["w"]).values())
        ['params.w']
    """
    found = dict[Identity, str]()
    _look(function, "", found, DEEPEST)
    return found


def _look(value: Any, name: str, found: dict[Identity, str], depth: int) -> None:
    for path, leaf in _leaves(value):
        called = ".".join(filter(None, (name, *path)))
        if is_array(leaf):
            found.setdefault(identity(leaf), called)
        elif depth and callable(leaf):
            for inner, one in _reached(leaf):
                _look(one, inner, found, depth - 1)


def _leaves(value: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves of a tree with their paths; none where it is no tree to JAX.

    So is a dict whose keys have no order, as a function of some library may name.
    """
    try:
        return leaves_of(value)
    except ValueError:
        return []


def _reached(function: Any) -> Iterator[tuple[str, Any]]:
    """The variables that a function names, and their values."""
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
    """An object as a tree: itself, or its fields where JAX does not know it."""
    leaves = _jax.tree.leaves(owner)
    alone = len(leaves) == 1 and leaves[0] is owner
    return getattr(owner, "__dict__", owner) if alone else owner
