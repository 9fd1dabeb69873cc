"""Repeated compilation without the caches of JAX and Braces."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import braces as br

ENABLED = "jax_enable_compilation_cache"


@contextmanager
def nothing_kept() -> Generator[None]:
    """Disable the caches of compiled code of JAX and Braces inside the context."""
    before = jax.config.jax_enable_compilation_cache
    jax.config.update(ENABLED, False)
    reset_cache()  # JAX looks at the setting once
    try:
        yield
    finally:
        jax.config.update(ENABLED, before)
        reset_cache()


def program_anew(
    build: Callable[[], tuple[br.Program, Any]], values: Mapping[str, Any], feed: Any
) -> Callable[[], None]:
    """Build a program and its fetches, and compile it, each time again.

    Args:
        build: The function that builds both.
        values: Of parameters; whatever else there is has its first value. They are set once,
            before anything is measured.
        feed: An example.
    """
    prog, _ = build()
    scope = br.Scope()
    br.Executor().init(prog, scope)
    for name, value in values.items():
        scope.var(name).set(value)

    def run() -> None:
        prog, fetch = build()
        with nothing_kept():
            br.Executor().compile(prog, scope, feed=feed, fetch=fetch)

    return run


def function_anew(make: Callable[[], Any], *given: Any) -> Callable[[], None]:
    """Trace, lower and compile a jitted function that is new to JAX."""

    def run() -> None:
        with nothing_kept():
            make().lower(*given).compile()

    return run
