"""Nested tuples, lists and dicts of variables, as the functional constructs take and give them.

    tree := leaf | none | tuple | list | dict of trees

A leaf is whatever is not one of the others: a variable, a number, a NumPy array. A place in a
tree is written as Python would index it: `carry["h"][0]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from braces.errors import ProgramError


def is_leaf(tree: Any) -> bool:
    """Whether this is no container."""
    return not isinstance(tree, tuple | list | dict) and tree is not None


def children(tree: Any, path: str) -> list[tuple[str, Any]]:
    """What a container holds, each with its path."""
    return [(f"{path}[{_key(key)}]", tree[key]) for key in _keys(tree)]


def _key(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) else repr(key)


def leaves(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """All leaves with their paths, from left to right."""
    if is_leaf(tree):
        return [(path, tree)]
    return [leaf for where, child in children(tree, path) for leaf in leaves(child, where)]


def values(tree: Any) -> list[Any]:
    """All leaves, from left to right."""
    return [leaf for _, leaf in leaves(tree)]


def rebuild(tree: Any, new: Iterable[Any]) -> Any:
    """A tree of the same structure with other leaves.

    Example:
        >>> rebuild({"a": 1, "b": (2, [3])}, "xyz")
        {'a': 'x', 'b': ('y', ['z'])}
    """
    return _rebuild(tree, iter(new))


def _rebuild(tree: Any, new: Iterator[Any]) -> Any:
    if is_leaf(tree):
        return next(new)
    if tree is None:
        return None
    made = {key: _rebuild(tree[key], new) for key in _keys(tree)}
    if isinstance(tree, dict):
        return made
    if isinstance(tree, list):
        return list(made.values())
    named = getattr(tree, "_make", tuple)  # a named tuple keeps its type
    return named(made.values())


def match(wanted: Any, given: Any, path: str, want_name: str, give_name: str) -> list[Any]:
    """The leaves of `given` in the order of those of `wanted`, whose structure it must have.

    Args:
        wanted: The structure.
        given: What should have it.
        path: What a user calls it, as `carry`.
        want_name: Where `wanted` comes from, as `init`.
        give_name: Where `given` comes from, as `the body`.

    Raises:
        ProgramError: They differ; the message says where.
    """
    if _kind(wanted) != _kind(given) or _size(wanted) != _size(given):
        raise ProgramError(
            f"`{path}` is {_describe(wanted)} in {want_name}, but {give_name} returns "
            f"{_describe(given)}.",
            fix=f"Return the structure of {want_name}, with a variable or number for each.",
        )
    if is_leaf(wanted):
        return [given]
    found = list[Any]()
    for key, (where, child) in zip(_keys(wanted), children(wanted, path), strict=True):
        found += match(child, given[key], where, want_name, give_name)
    return found


def _kind(tree: Any) -> str:
    if is_leaf(tree):
        return "variable"
    return next((k.__name__ for k in (tuple, list, dict) if isinstance(tree, k)), "None")


def _keys(tree: Any) -> Iterable[Any]:
    return cast("dict[Any, Any]", tree) if isinstance(tree, dict) else range(len(tree or ()))


def _size(tree: Any) -> Any:
    """What two containers of one kind must have in common: their keys."""
    return None if is_leaf(tree) else set(_keys(tree))


def _describe(tree: Any) -> str:
    kind = _kind(tree)
    if kind == "None":
        return kind
    if kind == "variable":
        return f"a variable ({tree.type})" if hasattr(tree, "type") else f"{tree!r:.40}"
    if kind == "dict":
        return f"a dict with {', '.join(map(_key, tree)) or 'nothing'}"
    return f"a {kind} of {len(tree)}"
