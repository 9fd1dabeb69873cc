"""Compiled code that is kept for later: not at all, or in a folder that one measurement has."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

ENABLED = "jax_enable_compilation_cache"


@contextmanager
def nothing_kept() -> Generator[None]:
    """Inside, JAX and Braces neither keep what XLA compiles nor read what was kept."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update(ENABLED, False)
    reset_cache()  # JAX looks at the setting once
    try:
        yield
    finally:
        jax.config.update(ENABLED, before)
        reset_cache()
