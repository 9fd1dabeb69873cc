"""One run of a program, or of a function of variables, in a new scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import braces as br


def run(mode: str, program: br.Program, fetch: Any, **feed: Any) -> Any:
    """Initialize a program, feed it by keyword, and return its fetches."""
    return br.testing.run(program, feed, fetch, mode=mode)


def run_fetches(
    program: br.Program,
    feed: Mapping[str, Any],
    mode: str = "compile",
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Return the declared fetches of a program, such as an imported one."""
    fetches = list(program.fetches)
    return br.testing.run(program, feed, fetches, mode=mode, seed=seed, values=values)


def run_function(mode: str, build: Callable[..., Any], *arrays: Any) -> Any:
    """Build a function of data variables and return what it computes of arrays."""
    with br.Program() as program:
        inputs = [br.data(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
        out = build(*inputs)
    feed = {var.name: array for var, array in zip(inputs, arrays, strict=True)}
    return br.testing.run(program, feed, out, mode=mode)
