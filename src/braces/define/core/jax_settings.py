"""Settings of JAX while Braces traces and computes: the same whatever a user has set.

JAX has global settings, which people turn on to examine their own functions. Kernels broadcast
operands of several ranks and mix dtypes by the rules of operators, runs need compiled code, and
a block that is traced keeps arrays longer than the trace.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from braces.lazy import jax

_jax: Any = jax


@contextmanager
def own_settings() -> Generator[None]:
    """Trace and compute with 64-bit numbers, standard promotion, and what `traceable` sets.

    Example:
        >>> import jax
        >>> with jax.numpy_rank_promotion("raise"), own_settings():
        ...     (jax.numpy.ones((2, 3)) + jax.numpy.ones(3)).dtype
        dtype('float64')
    """
    with ExitStack() as settings, traceable():
        settings.enter_context(_jax.enable_x64(True))
        settings.enter_context(_jax.numpy_dtype_promotion("standard"))
        settings.enter_context(_jax.numpy_rank_promotion("allow"))
        yield


@contextmanager
def traceable() -> Generator[None]:
    """Trace functions that are compiled in functions, and let tracers outlive their trace.

    Example:
        >>> import jax
        >>> with jax.disable_jit(), traceable():
        ...     jax.make_jaxpr(jax.jit(jax.numpy.sin))(1.0).jaxpr.eqns[0].primitive
        jit
    """
    with _jax.disable_jit(False), _jax.check_tracer_leaks(False):
        yield


def compiles_nothing() -> bool:
    """Return whether a user has set JAX to compile nothing."""
    return bool(_jax.config.jax_disable_jit)
