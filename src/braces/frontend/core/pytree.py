"""Pytrees: nested tuples, lists and dicts of variables, as in `scan` and `cond`.

    tree := leaf | none | tuple | list | dict of trees

A leaf is any other value: a variable, a number, a NumPy array. A path in a tree is written as a
Python index expression: `carry["h"][0]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from braces.errors import ProgramError


def is_leaf(tree: Any) -> bool:
    """Return whether this is a leaf: neither a container nor `None`."""
    return not isinstance(tree, tuple | list | dict) and tree is not None


def children(tree: Any, path: str) -> list[tuple[str, Any]]:
    """Return the children of a container, each with its path."""
    return [(f"{path}[{_key(key)}]", tree[key]) for key in _keys(tree)]


def _key(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) else repr(key)


def leaves_with_paths(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return all leaves with their paths, from left to right."""
    if is_leaf(tree):
        return [(path, tree)]
    return [
        leaf
        for where, child in children(tree, path)
        for leaf in leaves_with_paths(child, where)
    ]


def tree_leaves(tree: Any) -> list[Any]:
    """Return all leaves, from left to right."""
    return [leaf for _, leaf in leaves_with_paths(tree)]


def tree_unflatten(tree: Any, new: Iterable[Any]) -> Any:
    """Return a tree of the same structure with new leaves.

    Example:
        >>> tree_unflatten({"a": 1, "b": (2, [3])}, "xyz")
        {'a': 'x', 'b': ('y', ['z'])}
    """
    return _rebuild(tree, iter(new))


def _rebuild(tree: Any, new: Iterator[Any]) -> Any:
    if is_leaf(tree):
        return next(new)
    if tree is None:
        return None
    new_children = {key: _rebuild(tree[key], new) for key in _keys(tree)}
    if isinstance(tree, dict):
        return new_children
    if isinstance(tree, list):
        return list(new_children.values())
    container = getattr(tree, "_make", tuple)  # a named tuple keeps its type
    return container(new_children.values())


def match_structure(
    wanted: Any, value: Any, path: str, want_name: str, give_name: str
) -> list[Any]:
    """Return the leaves of `value`, which must have the structure of `wanted`, in its order.

    Args:
        wanted: The expected structure.
        value: The tree to match.
        path: The user's name of the tree, as `carry`.
        want_name: The origin of `wanted`, as `init`.
        give_name: The origin of `value`, as `the body`.

    Raises:
        ProgramError: If the structures differ; the message names the path.
    """
    if _kind(wanted) != _kind(value) or _size(wanted) != _size(value):
        raise ProgramError(
            f"`{path}` is {_describe(wanted)} in {want_name}, but {give_name} returns "
            f"{_describe(value)}.",
            fix=f"Return the structure of {want_name}, with a variable or number for each.",
        )
    if is_leaf(wanted):
        return [value]
    matched = list[Any]()
    for key, (where, child) in zip(_keys(wanted), children(wanted, path), strict=True):
        matched += match_structure(child, value[key], where, want_name, give_name)
    return matched


def _kind(tree: Any) -> str:
    if is_leaf(tree):
        return "variable"
    return next((k.__name__ for k in (tuple, list, dict) if isinstance(tree, k)), "None")


def _keys(tree: Any) -> Iterable[Any]:
    return cast("dict[Any, Any]", tree) if isinstance(tree, dict) else range(len(tree or ()))


def _size(tree: Any) -> Any:
    """Return the set of keys, which must be equal in two containers of the same kind."""
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
