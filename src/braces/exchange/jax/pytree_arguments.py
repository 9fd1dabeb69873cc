"""What a function of JAX is given, leaf by leaf: what each is called, and what becomes of it.

    step(params={"layers": [{"w": array}]}, x=array)

    params.layers.0.w    an array in a container: a parameter of the program
    x                    an array by itself: data, which each run feeds

What is no array, as a function or a number in a module, is a part of the function.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.dtypes import TensorType, dtype_of, is_float
from braces.errors import ProgramError, UnknownNameError, suggest
from braces.exchange.common.model.names import cleaned
from braces.exchange.jax.declared_sizes import Axis, axes_of, shape_of
from braces.ir.records import DATA, PARAMETER, STATE
from braces.jaxpr.core.equation import in_words
from braces.lazy import jax

_jax: Any = jax
KINDS = {"data": DATA, "parameter": PARAMETER, "state": STATE}
"""What a user may say that an argument becomes."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array that a function is given.

    Attributes:
        name: What it is called in the program.
        argument: The name of the argument that it belongs to.
        example: The array, or what is known of it.
        kind: What becomes of it.
        axes: What is known of its sizes.
        type: Its type in the program.
    """

    name: str
    argument: str
    example: Any
    kind: str
    axes: Sequence[Axis]
    type: TensorType

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """Its value."""
        return as_words(self.example)


@dataclass(frozen=True, eq=False)
class Arguments:
    """What a function is given, taken apart.

    Attributes:
        function: From the arrays alone to the arrays and numbers that the function gives.
        leaves: The arrays.
    """

    function: Callable[..., Any]
    leaves: Sequence[Leaf]


def is_array(value: Any) -> bool:
    """Whether a leaf is an array, or what is known of one."""
    return isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _result(value: Any) -> Any:
    """A leaf of what a function gives; nothing where it is no array and no number."""
    kept = is_array(value) or isinstance(value, bool | int | float | complex)
    return value if kept else None


def as_words(value: Any) -> np.ndarray[Any, Any]:
    """The value of an array; keys of random numbers are the words that they are made of."""
    if isinstance(value, jax.Array) and _jax.dtypes.issubdtype(
        value.dtype, _jax.dtypes.prng_key
    ):
        value = jax.random.key_data(value)
    return np.asarray(value)


def taken_apart(
    function: Callable[..., Any],
    examples: Sequence[Any],
    sizes: Mapping[str, Any],
    kinds: Mapping[str, str],
) -> Arguments:
    """The arrays of a function and of its arguments, with names, kinds and types.

    A module that is called is a tree of arrays too, as those of Equinox are.

    Raises:
        ProgramError: A kind is none, or an argument that has no value is to keep one.
        UnknownNameError: `sizes` or `kinds` name what there is not.
        ShapeError: Sizes do not fit the example.
    """
    names = argument_names(function, len(examples))
    check_arguments(kinds, names)
    _check_kinds(kinds)
    itself = any(map(is_array, _jax.tree.leaves(function)))
    whole = (function if itself else None, list(examples))
    leaves, structure = _jax.tree.flatten(whole)
    found = dict[int, Leaf]()
    for at, (path, example) in enumerate(leaves_of(whole)):
        if is_array(example):
            argument, where = _within(path, names)
            name = cleaned(".".join(where), "value")
            alone = bool(argument) and is_array(examples[int(path[1])])
            found[at] = _leaf(name, argument, example, sizes.get(name), kinds, alone)
    _check_sizes(sizes, [leaf.name for leaf in found.values()])
    static = [None if at in found else leaf for at, leaf in enumerate(leaves)]

    def called(*arrays: Any) -> Any:
        given = list(static)
        for at, array in zip(found, arrays, strict=True):
            given[at] = array
        rebuilt, values = _jax.tree.unflatten(structure, given)
        made = (rebuilt if itself else function)(*values)
        return _jax.tree.map(_result, made)

    return Arguments(called, list(found.values()))


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """What a function calls the first of its arguments.

    Example:
        >>> argument_names(lambda x, *more: x, 3)
        ['x', 'more_0', 'more_1']
    """
    try:
        wanted = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        wanted = []
    names = [p.name for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in wanted if p.kind is p.VAR_POSITIONAL), "argument")
    more = [f"{rest}_{at}" for at in range(count - len(names))]
    return [*names[:count], *more]


def _within(path: tuple[str, ...], names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The argument that a path is of, none for the function itself, and what leads there."""
    if path[0] == "0":
        return "", path[1:]
    argument = names[int(path[1])]
    return argument, (argument, *path[2:])


def _leaf(
    name: str,
    argument: str,
    example: Any,
    sizes: Any,
    kinds: Mapping[str, str],
    alone: bool,
) -> Leaf:
    known = not isinstance(example, jax.ShapeDtypeStruct)
    axes = axes_of(name, example.shape, sizes)
    aval = in_words(jax.ShapeDtypeStruct(example.shape, canonical(example.dtype)))
    type_ = TensorType(dtype_of(aval.dtype), (*shape_of(axes), *aval.shape[len(axes) :]))
    said = kinds.get(argument)
    kept = PARAMETER if is_float(type_.dtype) else STATE
    kind = KINDS[said] if said else (DATA if alone or not known else kept)
    if kind != DATA and not known:
        raise ProgramError(
            f"`{name}` is to be a {said}, and has no value.",
            given=f"{name}: {type_}",
            fix="Give an array as the example.",
        )
    return Leaf(name, argument, example, kind, axes, type_)


def canonical(dtype: Any) -> Any:
    """The dtype that JAX computes in, as it is set."""
    return _jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def leaves_of(tree: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The leaves of a tree, each with the fields, keys and places that lead to it.

    A field `value` of what has no other is left out: so Flax's `nnx` keeps its variables.
    """
    found = _jax.tree_util.tree_flatten_with_path(tree)[0]
    paths = [tuple(map(entry_name, path)) for path, _ in found]
    inside = Counter(path[:end] for path in paths for end in range(len(path)))
    held = _jax.tree_util.GetAttrKey("value")
    return [
        (named[:-1] if path[-1:] == (held,) and inside[named[:-1]] == 1 else named, leaf)
        for named, (path, leaf) in zip(paths, found, strict=True)
    ]


def entry_name(entry: Any) -> str:
    """An entry of a path through a tree: a field, a key or a place.

    Example:
        >>> import jax
        >>> entry_name(jax.tree_util.DictKey("w")), entry_name(jax.tree_util.SequenceKey(2))
        ('w', '2')
    """
    for attribute in ("name", "key", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def check_arguments(said: Iterable[str], names: Sequence[str]) -> None:
    """Refuse names that are no arguments of the function.

    Raises:
        UnknownNameError: One is none.
    """
    for name in said:
        if name not in names:
            raise UnknownNameError(
                f"The function has no argument `{name}`.", fix=suggest(name, names)
            )


def _check_kinds(kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ProgramError(
                f"`{name}` cannot become {kind!r:.40}.", fix=f"Say one of {', '.join(KINDS)}."
            )


def _check_sizes(sizes: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in sizes:
        if name not in names:
            raise UnknownNameError(
                f"The function is given no array `{name}`.", fix=suggest(name, names)
            )
