"""A function of JAX, traced: what it needs, what it gives, and its operators.

    def step(x):                        x: f32[b]
        return jnp.tanh(2.0 * x)        a: f32[] = constant(value=2.0)
                                        b: f32[b] = multiply(x=a, y=x)
                                        c: f32[b] = tanh(x=b)

The function is called once, with arrays of which only types are known. So it may be anything
that JAX can differentiate or compile: all that it did to them is in the program, and nothing
of it is called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braces.builder.var import Var
from braces.define.core.jax_settings import own_settings
from braces.define.jax_types import Translation
from braces.dtypes import TensorType
from braces.jaxpr.convert import Importer
from braces.jaxpr.core.equation import Value, Whole, needed
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.lazy import jax


@dataclass(frozen=True, eq=False)
class Traced:
    """A function of JAX for arguments of some types.

    Attributes:
        what: What messages call it.
        closed: The jaxpr, with the arrays that the function brought along.
        shapes: What it gives, as a tree of shapes and dtypes of JAX.
        translation: Between JAX's symbolic sizes and ours.
    """

    what: str
    closed: Any
    shapes: Any
    translation: Translation

    @property
    def leaves(self) -> list[tuple[tuple[str, ...], TensorType]]:
        """What it gives, one by one: the fields and keys that lead there, and the type."""
        paths, _ = _library().tree_util.tree_flatten_with_path(self.shapes)
        return [(path_names(path), self.translation.type(shape)) for path, shape in paths]

    @cached_property
    def read(self) -> frozenset[int]:
        """Which of the leaves of its arguments its results follow from."""
        used, _ = needed(self.closed.jaxpr)
        return frozenset(i for i, v in enumerate(self.closed.jaxpr.invars) if v in used)

    def append(self, given: Sequence[Value], whole: Whole) -> list[Var]:
        """Append its operators to a program of its own.

        Args:
            given: Its arguments, leaf by leaf.
            whole: The program, and what becomes of arrays and problems.

        Returns:
            What the function gives, leaf by leaf.
        """
        importer = Importer(self.what, self.translation, whole)
        made = importer.run(self.closed.jaxpr, self.closed.consts, given)
        return [importer.lift(value) for value in made]

    def build(self, *arguments: Any) -> Any:
        """Append its operators to the current block.

        Args:
            *arguments: Trees of variables, of the types for which it was traced; what is not
                `read` may be anything.

        Returns:
            What the function gives, a tree of variables.

        Raises:
            ProgramError: It does what there is no operator for.
        """
        importer = Importer(self.what, self.translation)
        given = jax.tree.leaves(arguments)
        made = importer.run(self.closed.jaxpr, self.closed.consts, given)
        return with_leaves(self.shapes, map(importer.lift, made))


def trace(what: str, function: Callable[..., Any], *arguments: Any) -> Traced:
    """Trace a function of JAX.

    It sees 64-bit numbers and JAX's own promotion of dtypes.

    Args:
        what: What messages call it.
        function: From trees of arrays to a tree of arrays.
        *arguments: Trees of variables, or of their types.

    Raises:
        ProgramError: It cannot be traced: it fails, or asks for values.
    """
    types = [
        leaf.type if isinstance(leaf, Var) else leaf for leaf in jax.tree.leaves(arguments)
    ]
    translation = Translation(types)
    structs = with_leaves(arguments, map(translation.struct, types))
    with own_settings():
        return traced(what, function, structs, translation)


def traced(
    what: str, function: Callable[..., Any], structs: Sequence[Any], translation: Translation
) -> Traced:
    """Trace a function of JAX, as JAX is set.

    Args:
        what: What messages call it.
        function: From trees of arrays to a tree of arrays.
        structs: Trees of shapes and dtypes of JAX.
        translation: Between their symbolic sizes and ours.

    Raises:
        ProgramError: It cannot be traced: it fails, or asks for values.
    """
    closed, shapes = closed_jaxpr(what, function, structs)
    return Traced(what, closed, shapes, translation)


def with_leaves(tree: Any, leaves: Iterable[Any]) -> Any:
    """A tree of the same structure."""
    trees = _library().tree
    return trees.unflatten(trees.structure(tree), leaves)


def path_names(path: Iterable[Any]) -> tuple[str, ...]:
    """The names of a path through a tree; places in sequences have none."""
    named = (getattr(step, "name", getattr(step, "key", None)) for step in path)
    return tuple(str(name) for name in named if name is not None)


def _library() -> Any:
    """JAX, whose own types are not all known."""
    return jax
