"""A call of a library: a function and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class LibraryCase:
    """A function with its arguments.

    Attributes:
        function: From trees of arrays to a tree of arrays.
        arguments: Its arguments.
        tolerance: The relative tolerance of values.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    tolerance: float = 2e-4


Cases: TypeAlias = "dict[str, LibraryCase | Callable[[], LibraryCase]]"
"""Cases by name; one whose arguments take long to create is a function that returns it."""


def initialized(init: Callable[..., Any], *arguments: Any) -> Any:
    """Return the variables that `init` would create, with other values.

    Floats are drawn from a normal distribution, or its absolute value outside of `params`;
    integers are zero. Nothing is compiled, unlike by a call of `init`.

    Args:
        init: A function of the arguments that returns a tree of arrays.
        *arguments: Its arguments.
    """
    random = np.random.default_rng(0)

    def draw(path: Any, shape: Any) -> Any:
        if not jnp.issubdtype(shape.dtype, jnp.floating):
            return jnp.asarray(np.zeros(shape.shape, shape.dtype))
        drawn = 0.4 * random.normal(size=shape.shape)
        is_parameter = getattr(path[0], "key", "") == "params"
        value = drawn if is_parameter else np.abs(drawn) + 0.1
        return jnp.asarray(np.asarray(value, shape.dtype))

    shapes = jax.eval_shape(init, *arguments)
    return jax.tree_util.tree_map_with_path(draw, shapes)
