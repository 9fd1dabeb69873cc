"""Named scopes of equations as blocks: `jax.named_scope`, and the scopes of modules.

    with jax.named_scope("attention"):          attention = block() {
        y = x @ w                                 attention/matmul_0 = matmul(x=x, y=w)
        z = jnp.tanh(y)                           attention/tanh_0 = tanh(x=attention/matmul_0)
                                                }

JAX records the names of the open scopes with each equation. Flax, Haiku and Equinox open one
for each module. Consecutive equations in one scope are a block. The transposed equations of a
scope are those of its gradient in JAX; their block is named `…_backward`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.builder.builder import current_program
from braces.ir.names import LONGEST_NAME

Path: TypeAlias = tuple[str, ...]
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


def scopes_of(
    equations: Sequence[Any], depth: int, path_of: Callable[[Any], Path] | None = None
) -> Iterator[NamedScope]:
    """Yield the scopes of equations in order.

    A single equation needs no block, and neither does a scope whose only content is another.

    Args:
        equations: Equations with the same first `depth` scopes.
        depth: The number of scopes around all of them.
        path_of: Returns the names of the scopes of an equation, outermost first; `scope_path`
            by default.
    """
    path_of = path_of or scope_path

    def name_at_depth(eqn: Any) -> str:
        path = path_of(eqn)
        return path[depth] if len(path) > depth else ""

    for name, group in itertools.groupby(equations, name_at_depth):
        inside = list(group)
        is_block = bool(name) and len(inside) > 1
        yield NamedScope(name if is_block else "", inside, common_depth(inside, path_of))


def is_short_here(name: str) -> bool:
    """Return whether a block of this name can be built in the current one."""
    prefix = current_program().current.names.prefix
    return len(prefix) + len(name) <= LONGEST_PREFIX


def common_depth(equations: Sequence[Any], path_of: Callable[[Any], Path] | None = None) -> int:
    """Return the number of scopes around all equations."""
    columns = zip(*map(path_of or scope_path, equations), strict=False)
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
