"""Arguments of a JAX function, leaf by leaf: their names and kinds.

    step(params={"layers": [{"w": array}]}, x=array)

    params.layers.0.w    an array in a container: a parameter of the program
    x                    an array by itself: data, fed in each run

Leaves that are not arrays, as functions or numbers in a module, are static.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.errors import ProgramError, UnknownNameError, suggest
from braces.exchange.common.model.names import clean_name
from braces.exchange.jax.declared_sizes import Axis, axes_of, shape_of
from braces.exchange.jax.module_scopes import ModuleCalls, scopes_of_calls
from braces.extend.operators import abstract_words, constant_array
from braces.extend.programs import DATA, PARAMETER, STATE
from braces.extend.types import TensorType, dtype_of, is_float
from braces.lazy import jax

_jax: Any = jax
KINDS = {"data": DATA, "parameter": PARAMETER, "state": STATE}
"""The kinds that a user may choose for an argument."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """An array among the arguments of a function.

    Attributes:
        name: Its name in the program.
        argument: The name of the argument that it belongs to.
        example: The array, or its abstract value.
        kind: Its kind in the program.
        axes: Its declared axes.
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
        """The value of the array."""
        return as_words(self.example)


@dataclass(frozen=True, eq=False)
class FlattenedArguments:
    """The flattened arguments of a function.

    Attributes:
        function: Maps the arrays alone to the arrays and numbers that the function returns.
        leaves: The arrays.
    """

    function: Callable[..., Any]
    leaves: Sequence[Leaf]


def is_array(value: Any) -> bool:
    """Return whether a leaf is an array, or the abstract value of one."""
    return isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _as_result(value: Any) -> Any:
    """Return a leaf of the result, or `None` if it is neither an array nor a number."""
    return value if is_array(value) or _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex)


def as_words(value: Any) -> np.ndarray[Any, Any]:
    """Return the value of an array; random keys become their words, `float0` is `False`."""
    if isinstance(value, jax.Array) and _jax.dtypes.issubdtype(
        value.dtype, _jax.dtypes.prng_key
    ):
        value = jax.random.key_data(value)
    return constant_array(value)


def flatten_arguments(
    function: Callable[..., Any],
    examples: Sequence[Any],
    sizes: Mapping[str, Any],
    kinds: Mapping[str, str],
    captured: Sequence[tuple[str, Any]] = (),
) -> FlattenedArguments:
    """Flatten a function and its arguments into arrays with names, kinds and types.

    A module that is called is a tree of arrays too, as in Equinox. Calls of modules among the
    arguments and the captured variables have named scopes. A number with a kind is an array of
    rank 0, with the dtype promotion of numbers.

    Raises:
        ProgramError: If a kind is unknown, or missing for an argument without a value.
        UnknownNameError: If `sizes` or `kinds` contain an unknown name.
        ShapeError: If sizes do not match the example.
    """
    names = argument_names(function, len(examples))
    check_arguments(kinds, names)
    _check_kinds(kinds)
    examples = [
        _jax.numpy.asarray(example) if name in kinds and _is_number(example) else example
        for name, example in zip(names, examples, strict=True)
    ]
    is_pytree = any(map(is_array, _jax.tree.leaves(function)))
    pytree = (function if is_pytree else None, list(examples))
    leaves, structure = _jax.tree.flatten(pytree)
    array_leaves = dict[int, Leaf]()
    for at, (path, example) in enumerate(leaves_of(pytree)):
        if is_array(example):
            argument, names_on_path = _split_path(path, names)
            name = clean_name(".".join(names_on_path), "value")
            alone = bool(argument) and is_array(examples[int(path[1])])
            array_leaves[at] = _leaf(name, argument, example, sizes.get(name), kinds, alone)
    _check_sizes(sizes, [leaf.name for leaf in array_leaves.values()])
    static = [None if at in array_leaves else leaf for at, leaf in enumerate(leaves)]

    def flat_function(*arrays: Any) -> Any:
        values_of_leaves = list(static)
        for at, array in zip(array_leaves, arrays, strict=True):
            values_of_leaves[at] = array
        rebuilt, values = _jax.tree.unflatten(structure, values_of_leaves)
        called = rebuilt if is_pytree else function
        calls = ModuleCalls()
        calls.collect(called, "")
        for name, value in [*zip(names, values, strict=False), *captured]:
            calls.collect(value, name)
        with scopes_of_calls(calls):
            result = called(*values)
        return _jax.tree.map(_as_result, result)

    return FlattenedArguments(flat_function, list(array_leaves.values()))


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the first arguments of a function.

    Example:
        >>> argument_names(lambda x, *more: x, 3)
        ['x', 'more_0', 'more_1']
    """
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        params = []
    names = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = next((p.name for p in params if p.kind is p.VAR_POSITIONAL), "argument")
    more = [f"{variadic}_{at}" for at in range(count - len(names))]
    return [*names[:count], *more]


def _split_path(path: tuple[str, ...], names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the argument of a path (empty for the function itself) and the path from there."""
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
    has_value = not isinstance(example, jax.ShapeDtypeStruct)
    axes = axes_of(name, example.shape, sizes)
    aval = abstract_words(jax.ShapeDtypeStruct(example.shape, canonical(example.dtype)))
    type_ = TensorType(dtype_of(aval.dtype), (*shape_of(axes), *aval.shape[len(axes) :]))
    declared_kind = kinds.get(argument)
    default_kind = PARAMETER if is_float(type_.dtype) else STATE
    kind = (
        KINDS[declared_kind]
        if declared_kind
        else (DATA if alone or not has_value else default_kind)
    )
    if kind != DATA and not has_value:
        raise ProgramError(
            f"{declared_kind} `{name}` has no initial value.",
            given=f"{name}: {type_}",
            fix="Pass an array as the example.",
        )
    return Leaf(name, argument, example, kind, axes, type_)


def canonical(dtype: Any) -> Any:
    """Return the dtype that JAX computes in under its current settings."""
    return _jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def leaves_of(tree: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Return the leaves of a tree, each with the fields, keys and indices of its path.

    A field `value` is left out if it is the only field: Flax `nnx` stores variables so.
    """
    flattened = _jax.tree_util.tree_flatten_with_path(tree)[0]
    paths = [tuple(map(entry_name, path)) for path, _ in flattened]
    children = Counter(path[:end] for path in paths for end in range(len(path)))
    value_key = _jax.tree_util.GetAttrKey("value")
    return [
        (named[:-1] if path[-1:] == (value_key,) and children[named[:-1]] == 1 else named, leaf)
        for named, (path, leaf) in zip(paths, flattened, strict=True)
    ]


def entry_name(entry: Any) -> str:
    """Return the name of an entry of a path: a field, a key or an index.

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
    """Raise an error for names that are not arguments of the function.

    Raises:
        UnknownNameError: If a name is not an argument.
    """
    for name in said:
        if name not in names:
            raise UnknownNameError(f"unknown argument `{name}`.", fix=suggest(name, names))


def _check_kinds(kinds: Mapping[str, str]) -> None:
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise ProgramError(
                f"unknown kind {kind!r:.40} of `{name}`.",
                fix=f"Pass one of {', '.join(KINDS)}.",
            )


def _check_sizes(sizes: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in sizes:
        if name not in names:
            raise UnknownNameError(f"unknown array `{name}`.", fix=suggest(name, names))
