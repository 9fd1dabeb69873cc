"""Trace JAX functions to jaxprs, and report untraceable functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braces.define.core.tracer_guard import innermost_user_line
from braces.errors import BracesError, ProgramError
from braces.lazy import jax

_jax: Any = jax
_FIX = (
    "The function is traced once with abstract arrays (shapes and dtypes only). Compute with "
    "jax.numpy, and branch with jnp.where or jax.lax.cond."
)


def closed_jaxpr(
    what: str, function: Callable[..., Any], structs: Sequence[Any]
) -> tuple[Any, Any]:
    """Trace a function for abstract arrays; return the jaxpr and the tree of results.

    Args:
        what: The name of the function, for messages.
        function: From trees of arrays to a tree of arrays.
        structs: Trees of JAX shapes and dtypes.

    Raises:
        ProgramError: If the function cannot be traced: it fails, or reads concrete values.
    """
    try:
        with _jax.disable_jit(False):
            return _jax.make_jaxpr(function, return_shape=True)(*structs)
    except BracesError:
        raise
    except Exception as error:
        raise _untraceable(what, error) from None


def _untraceable(what: str, error: Exception) -> ProgramError:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    line = innermost_user_line(error)
    called_wrongly = line is None and isinstance(error, TypeError)
    return ProgramError(
        f"{what} cannot be traced: {reason:.200}",
        given=line,
        fix="Pass all required arguments." if called_wrongly else _FIX,
    )
