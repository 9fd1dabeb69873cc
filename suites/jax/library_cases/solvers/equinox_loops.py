"""Loops and checks of Equinox."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp

from suites.jax.library_cases.case import Cases, LibraryCase

X, W = jnp.array([0.75, -1.5, 2.0]), jnp.array([0.3, 0.1, -0.2])


def while_loop(kind: str, **options: Any) -> Callable[..., Any]:
    """A loop with a condition on its carry."""

    def function(x: Any, w: Any) -> Any:
        def more(carry: Any) -> Any:
            return (carry[0] < 5) & (jnp.sum(carry[1] ** 2) < 50.0)

        def body(carry: Any) -> Any:
            return carry[0] + 1, jnp.sin(carry[1]) * w + x

        return eqxi.while_loop(more, body, (0, x), kind=kind, **options)[1]

    return function


def scan(kind: str) -> Callable[..., Any]:
    """A scan with a carry and stacked outputs."""

    def function(x: Any, w: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            return jnp.sin(carry) * w + row, carry.sum()

        return eqxi.scan(body, x, jnp.stack([x, w, x]), kind=kind)

    return function


def filled_buffer(kind: str) -> Callable[..., Any]:
    """A loop that fills a buffer."""

    def function(x: Any, w: Any) -> Any:
        def body(carry: Any) -> Any:
            at, value, buffer = carry
            return at + 1, jnp.sin(value) * w + x, buffer.at[at].set(value)

        start = (0, x, jnp.zeros((5, 3)))
        options: Any = {"kind": kind, "max_steps": 8, "buffers": lambda carry: carry[2]}
        return eqxi.while_loop(lambda carry: carry[0] < 4, body, start, **options)[1:]

    return function


def checked(x: Any) -> Any:
    """A check of a value."""
    return eqx.error_if(x, x.sum() > 100.0, "too large") * 2.0


def checked_rows(x: Any) -> Any:
    """A check under vmap."""
    return jax.vmap(lambda x: eqx.error_if(x, x > 100.0, "too large") * x)(x)


CASES: Cases = {
    "while lax": LibraryCase(while_loop("lax"), (X, W)),
    "while lax with max_steps": LibraryCase(while_loop("lax", max_steps=8), (X, W)),
    "while checkpointed": LibraryCase(while_loop("checkpointed", checkpoints=3), (X, W)),
    "while checkpointed with max_steps": LibraryCase(
        while_loop("checkpointed", max_steps=8), (X, W)
    ),
    "while bounded": LibraryCase(while_loop("bounded", max_steps=16), (X, W)),
    "scan lax": LibraryCase(scan("lax"), (X, W)),
    "scan checkpointed": LibraryCase(scan("checkpointed"), (X, W)),
    "scan bounded": LibraryCase(scan("bounded"), (X, W)),
    "buffer checkpointed": LibraryCase(filled_buffer("checkpointed"), (X, W)),
    "buffer bounded": LibraryCase(filled_buffer("bounded"), (X, W)),
    "error_if": LibraryCase(checked, (X,)),
    "error_if under vmap": LibraryCase(checked_rows, (X,)),
    "checkpoint": LibraryCase(eqx.filter_checkpoint(lambda x: jnp.sin(x) ** 2), (X,)),
    "noinline": LibraryCase(lambda x: eqxi.noinline(lambda x: jnp.sin(x) * x)(x), (X,)),
}
