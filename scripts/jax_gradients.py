"""Gradients of public functions of JAX: of simple calls, and at kinks, corners and poles."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import braces as br
from braces.errors import ProgramError
from jax_cases import Call, traceable


def call_with(function: Callable[..., Any], *arguments: Any) -> Call:
    """A function and its arguments."""
    return function, arguments


def gradient_outcome(call: Call, mode: str = "interpret") -> str:
    """The failure of the gradients of a call; empty if they equal JAX.

    Any result is right if JAX has none or gives NaN; refused calls are skipped.
    """
    function, arguments = call
    places = [at for at, a in enumerate(arguments) if np.asarray(a).dtype.kind == "f"]
    floats = [arguments[at] for at in places]

    def loss(*moving: Any) -> Any:
        given = list(arguments)
        for at, value in zip(places, moving, strict=True):
            given[at] = value
        return sum(map(_weighted, jax.tree.leaves(function(*given))), jnp.float32(0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            slope = jax.grad(loss, tuple(range(len(floats))))
            wanted = jax.jit(slope)(*floats)
            program, values = br.from_jax(loss, *floats)
        except (TypeError, ValueError, NotImplementedError, ProgramError):
            return ""  # JAX has no gradient of it, or Braces says why it cannot read it
        with program:
            given = [program.var(name) for name in program.feeds]
            grads = br.gradients(program.var(program.fetches[0]), given)
        scope = br.Scope()
        scope.update(values)
        feed = dict(zip(program.feeds, floats, strict=True))
        fetch = [g for g in grads if g is not None]
        found = iter(br.Executor(mode=mode).run(program, scope, feed=feed, fetch=fetch))
    pairs = zip(grads, floats, strict=True)
    made = [np.zeros_like(x) if g is None else next(found) for g, x in pairs]
    same = _all_near(made, wanted) or _all_near(made, slope(*floats))
    return "" if same else f"other gradients: {made} for {list(wanted)}"


def _all_near(made: list[Any], wanted: Any) -> bool:
    """Return whether gradients equal JAX, which rounds differently in compiled code."""
    return all(map(_near, made, map(np.asarray, wanted)))


def _weighted(result: Any) -> Any:
    """The sum of a result with a different weight per element; `None` for integers."""
    result = jnp.asarray(result)
    if not jnp.issubdtype(result.dtype, jnp.floating):
        return jnp.float32(0)
    weights = 0.3 + 0.1 * jnp.arange(result.size, dtype=result.dtype)
    return jnp.sum(result * weights.reshape(result.shape))


def _near(made: Any, wanted: Any) -> bool:
    known = ~np.isnan(wanted)
    return np.allclose(made[known], wanted[known], rtol=1e-3, atol=1e-4, equal_nan=True)


KINKS = np.array([0, 1, -1, 0.5, -0.5, 3, -3, 6, 2, 20, -20], "f")
CORNERS = np.array([(x, y) for x in (0, 1, -1, 2, -2.5) for y in (0, 1, -1, 2, -2.5)], "f")
_POWERS = (-3, -2, -1, 0, 1, 2, 3, 0.5, -0.5)
AT_KINKS: Mapping[tuple[str, str], tuple[Call, ...]] = {
    ("jax.numpy", "clip"): (call_with(lambda x: jnp.clip(x, -1.0, 1.0), KINKS),),
    ("jax.numpy", "power"): (
        *(call_with(lambda x, n=n: x**n, KINKS) for n in _POWERS),
        call_with(jnp.power, *CORNERS.T),
    ),
    ("jax.numpy", "abs"): (
        call_with(jnp.abs, KINKS),
        call_with(lambda x, y: jnp.abs(x + 1j * y), *CORNERS.T),
    ),
    ("jax.lax", "clamp"): (
        call_with(lambda x: lax.clamp(np.float32(-1), x, np.float32(1)), KINKS),
        call_with(lax.clamp, KINKS - KINKS - 1, KINKS, KINKS - KINKS + 1),
    ),
    ("jax.lax", "integer_pow"): tuple(
        call_with(lambda x, n=n: lax.integer_pow(x, n), KINKS) for n in (-3, -2, -1, 0, 1, 2)
    ),
}
"""Functions that are called otherwise at kinks."""


def calls_at_kinks(module: str, name: str) -> tuple[Call, ...]:
    """The calls of functions of numbers, or of pairs, at possible kinks and poles."""
    if (module, name) in AT_KINKS:
        return AT_KINKS[module, name]
    function = getattr(importlib.import_module(module), name)
    tried = (call_with(function, KINKS), call_with(function, *CORNERS.T))
    return tuple(call for call in tried if traceable(*call))
