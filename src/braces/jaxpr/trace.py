"""Trace a JAX function: its inputs, its results, and its operators.

    def step(x):                        x: f32[b]
        return jnp.tanh(2.0 * x)        a: f32[] = constant(value=2.0)
                                        b: f32[b] = multiply(x=a, y=x)
                                        c: f32[b] = tanh(x=b)

The function is called once, with abstract arrays. It may be any function that JAX can
differentiate or compile. Its operations become part of the program, which does not call it
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from braces.builder.var import Var
from braces.define.core.jax_settings import braces_jax_settings
from braces.define.jax_types import JaxTypeConverter
from braces.dtypes import TensorType
from braces.jaxpr.convert import Importer
from braces.jaxpr.core.equation import ProgramImport, Value, eliminate_dead_equations
from braces.jaxpr.core.tracing import closed_jaxpr
from braces.lazy import jax


@dataclass(frozen=True, eq=False)
class TracedFunction:
    """A JAX function, traced for arguments of some types.

    Attributes:
        what: Its name, for messages.
        closed: The jaxpr, with captured arrays.
        shapes: Its results, as a tree of JAX shapes and dtypes.
        translation: The mapping between symbolic sizes of JAX and ours.
    """

    what: str
    closed: Any
    shapes: Any
    translation: JaxTypeConverter

    @property
    def leaves(self) -> list[tuple[tuple[str, ...], TensorType]]:
        """The results one by one: their path of fields and keys, and the type."""
        paths, _ = _library().tree_util.tree_flatten_with_path(self.shapes)
        return [(path_names(path), self.translation.type(shape)) for path, shape in paths]

    @cached_property
    def read(self) -> frozenset[int]:
        """The indices of argument leaves that the results depend on."""
        used, _ = eliminate_dead_equations(self.closed.jaxpr)
        return frozenset(i for i, v in enumerate(self.closed.jaxpr.invars) if v in used)

    def append(self, inputs: Sequence[Value], whole: ProgramImport) -> list[Var]:
        """Append its operators to a separate program.

        Args:
            inputs: Its arguments, leaf by leaf.
            whole: The program, and the treatment of arrays and problems.

        Returns:
            The results, leaf by leaf.
        """
        importer = Importer(self.what, self.translation, whole)
        results = importer.run(self.closed.jaxpr, self.closed.consts, inputs)
        return [importer.lift(value) for value in results]

    def build(self, *arguments: Any) -> Any:
        """Append its operators to the current block.

        Args:
            *arguments: Trees of variables, of the types for which it was traced; leaves that
                are not in `read` may be anything.

        Returns:
            The results, a tree of variables.

        Raises:
            ProgramError: If the function has unsupported equations.
        """
        importer = Importer(self.what, self.translation)
        argument_leaves = jax.tree.leaves(arguments)
        results = importer.run(self.closed.jaxpr, self.closed.consts, argument_leaves)
        return with_leaves(self.shapes, map(importer.lift, results))


def trace(what: str, function: Callable[..., Any], *arguments: Any) -> TracedFunction:
    """Trace a JAX function.

    It sees 64-bit numbers and JAX's own dtype promotion.

    Args:
        what: Its name, for messages.
        function: From trees of arrays to a tree of arrays.
        *arguments: Trees of variables, or of their types.

    Raises:
        ProgramError: If the function cannot be traced: it fails, or reads concrete values.
    """
    types = [
        leaf.type if isinstance(leaf, Var) else leaf for leaf in jax.tree.leaves(arguments)
    ]
    translation = JaxTypeConverter(types)
    structs = with_leaves(arguments, map(translation.struct, types))
    with braces_jax_settings():
        return trace_structs(what, function, structs, translation)


def trace_structs(
    what: str,
    function: Callable[..., Any],
    structs: Sequence[Any],
    translation: JaxTypeConverter,
) -> TracedFunction:
    """Trace a JAX function under JAX's current settings.

    Args:
        what: Its name, for messages.
        function: From trees of arrays to a tree of arrays.
        structs: Trees of JAX shapes and dtypes.
        translation: The mapping between symbolic sizes of JAX and ours.

    Raises:
        ProgramError: If the function cannot be traced: it fails, or reads concrete values.
    """
    closed, shapes = closed_jaxpr(what, function, structs)
    return TracedFunction(what, closed, shapes, translation)


def with_leaves(tree: Any, leaves: Iterable[Any]) -> Any:
    """Return a tree with the same structure and other leaves."""
    trees = _library().tree
    return trees.unflatten(trees.structure(tree), leaves)


def path_names(path: Iterable[Any]) -> tuple[str, ...]:
    """Return the names on a path through a tree; indices of sequences have none."""
    named = (getattr(step, "name", getattr(step, "key", None)) for step in path)
    return tuple(str(name) for name in named if name is not None)


def _library() -> Any:
    """Return JAX as `Any`, because its types are incomplete."""
    return jax
