"""Compiling again what was compiled before: nothing is kept, by JAX or by Braces."""

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
    """Inside, JAX and Braces neither keep what XLA compiles nor read what was kept."""
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
    """Building a program and what is fetched of it, and compiling it, each time anew.

    Args:
        build: Makes both.
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
    """Tracing, lowering and compiling a new jitted function, which JAX has not seen yet."""

    def run() -> None:
        with nothing_kept():
            make().lower(*given).compile()

    return run
