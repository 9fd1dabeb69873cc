"""JAX settings during tracing and computation, independent of the user's settings.

Users change global settings of JAX to debug their own functions. Kernels need their own: they
broadcast operands of several ranks and mix dtypes by the rules of operators. Runs need compiled
code. A traced block keeps arrays longer than the trace.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from braces.lazy import jax

_jax: Any = jax


@contextmanager
def braces_jax_settings() -> Generator[None]:
    """Use 64-bit numbers, standard dtype promotion, and the settings of `traceable`.

    Example:
        >>> import jax
        >>> with jax.numpy_rank_promotion("raise"), braces_jax_settings():
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
    """Allow tracing of jitted functions, and tracers that outlive their trace.

    Example:
        >>> import jax
        >>> with jax.disable_jit(), traceable():
        ...     jax.make_jaxpr(jax.jit(jax.numpy.sin))(1.0).jaxpr.eqns[0].primitive
        jit
    """
    with _jax.disable_jit(False), _jax.check_tracer_leaks(False):
        yield


def is_jit_disabled() -> bool:
    """Return whether a user has disabled compilation in JAX."""
    return bool(_jax.config.jax_disable_jit)
