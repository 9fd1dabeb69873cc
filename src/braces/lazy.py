"""JAX, optax and rich, imported on first use.

Programs are data: reading, printing, checking and pruning them needs no arithmetic. A module
that computes writes `from braces.lazy import jnp`; the library itself is imported when the
first attribute is looked up, so that `import braces` and the read-only commands stay light.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class LazyModule(ModuleType):
    """A module that is imported when its first attribute is looked up."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import jax
    import jax.core as tracing
    import jax.extend.core as extend
    import jax.extend.random as keys
    import jax.numpy as jnp
    import optax
    from jax import lax
    from jax.experimental.compilation_cache import compilation_cache
    from jax.interpreters import ad, mlir
    from rich import console, table as rich_table, text as rich_text
else:
    jax = LazyModule("jax")
    jnp = LazyModule("jax.numpy")
    lax = LazyModule("jax.lax")
    optax = LazyModule("optax")
    tracing = LazyModule("jax.core")
    extend = LazyModule("jax.extend.core")
    keys = LazyModule("jax.extend.random")
    ad = LazyModule("jax.interpreters.ad")
    mlir = LazyModule("jax.interpreters.mlir")
    compilation_cache = LazyModule("jax.experimental.compilation_cache.compilation_cache")
    console = LazyModule("rich.console")
    rich_table = LazyModule("rich.table")
    rich_text = LazyModule("rich.text")

__all__ = [
    "ad", "compilation_cache", "console", "extend", "jax", "jnp", "keys", "lax", "mlir",
    "optax", "rich_table", "rich_text", "tracing",
]  # fmt: skip
