"""Named scopes of equations as blocks: `jax.named_scope`, and the calls of modules.

    with jax.named_scope("attention"):          attention = block() {
        y = x @ w                                 attention/matmul_0 = matmul(x=x, y=w)
        z = jnp.tanh(y)                           attention/tanh_0 = tanh(x=attention/matmul_0)
                                                }

JAX records the names of the open scopes with each equation. Flax, Haiku and Equinox open one
for each module. Consecutive equations in one scope are a block. The transposed equations of a
scope are those of its gradient in JAX; their block is named `…_backward`. `build_scopes` builds
the blocks for equations of JAX, and for the nodes of any other graph whose scopes are known.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self, TypeAlias

from braces.builder.builder import current_program
from braces.ir.names import LONGEST_NAME
from braces.ir.records import Source
from braces.ops.control.construct.build import build_plain_block

Path: TypeAlias = tuple[str, ...]
"""The names of scopes, outermost first. A name may end in `@` and the number of a call, which
keeps consecutive calls of one scope apart."""
LONGEST_PREFIX = LONGEST_NAME - 40
"""The length of the name of a block, with those of the blocks around it, which its values have
as a prefix."""


@dataclass(frozen=True)
class NamedScope:
    """Consecutive equations of one scope, or nodes of another graph.

    Attributes:
        name: The name of the scope; empty for equations that need no block.
        equations: The equations.
        depth: The number of scopes around these equations, this one included.
    """

    name: str
    equations: Sequence[Any]
    depth: int


class ScopeReader(Protocol):
    """Appends the operators of equations, or of nodes of another graph."""

    def path_of(self, equation: Any, /) -> Path:
        """Return the names of the scopes of an equation."""
        ...

    def source_of(self, equation: Any, /) -> Source | None:
        """Return the user's line of an equation."""
        ...

    def inner(self) -> Self:
        """Return the reader for a nested block."""
        ...

    def append_equations(self, equations: Sequence[Any], depth: int, /) -> None:
        """Append equations to the current block, which has `depth` scopes around it."""
        ...


def build_scopes(equations: Sequence[Any], depth: int, reader: ScopeReader) -> None:
    """Append equations; their scopes become plain blocks.

    Args:
        equations: Equations with the same first `depth` scopes.
        depth: The number of scopes around all of them that get no block here.
        reader: Appends equations.
    """
    for scope in scopes_of(equations, depth, reader.path_of):
        name = _name_here(scope.name)
        if not name:
            reader.append_equations(scope.equations, depth)
            continue
        build = partial(build_scopes, scope.equations, scope.depth, reader.inner())
        with current_program().at(reader.source_of(scope.equations[0])):
            build_plain_block(name, build)


def scopes_of(
    equations: Sequence[Any], depth: int, path_of: Callable[[Any], Path]
) -> Iterator[NamedScope]:
    """Yield the scopes of equations in order.

    A single equation needs no block, and neither does a scope whose only content is another.

    Args:
        equations: Equations with the same first `depth` scopes.
        depth: The number of scopes around all of them.
        path_of: Returns the names of the scopes of an equation.
    """

    def name_at_depth(eqn: Any) -> str:
        path = path_of(eqn)
        return path[depth] if len(path) > depth else ""

    for name, group in itertools.groupby(equations, name_at_depth):
        inside = list(group)
        block = name.partition("@")[0] if len(inside) > 1 else ""
        yield NamedScope(block, inside, common_depth(inside, path_of))


def _name_here(name: str) -> str:
    """Return the name of a block in the current one; empty if it would be too long."""
    prefix = current_program().current.names.prefix
    valid = f"_{name}" if name[:1].isdigit() and not prefix else name
    return valid if len(prefix) + len(valid) <= LONGEST_PREFIX else ""


def common_depth(equations: Sequence[Any], path_of: Callable[[Any], Path]) -> int:
    """Return the number of scopes around all equations."""
    columns = zip(*map(path_of, equations), strict=False)
    same = itertools.takewhile(lambda names: len(set(names)) == 1, columns)
    return sum(1 for _ in same)


def scope_path(eqn: Any) -> Path:
    """Return the names of the scopes of an equation, as names of blocks."""
    stack = eqn.source_info.name_stack.stack
    is_transform = [type(entry).__name__ == "Transform" for entry in stack]
    names = [
        block_name(entry.name)
        for entry, flag in zip(stack, is_transform, strict=True)
        if not flag
    ]
    transposed = any(
        flag and entry.name == "transpose"
        for entry, flag in zip(stack, is_transform, strict=True)
    )
    if names and transposed:
        names[0] += "_backward"
    return tuple(filter(None, names))


def block_name(name: str) -> str:
    """Return a name as that of a block; empty for lambdas and equations of `einsum`.

    Example:
        >>> block_name("layers.0"), block_name("<lambda>"), block_name("ij,jk->ik")
        ('layers_0', '', '')
    """
    is_name = not set(name) & set("<>,()")
    return re.sub(r"\W", "_", name, flags=re.ASCII) if is_name else ""
