"""Runs of programs in tests: one run in a new scope, and a comparison of both modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.program import Program
from braces.runtime.executor import Executor
from braces.scope import Scope
from braces.testing.tolerances import assert_allclose


def run(
    program: Program,
    feed: Mapping[str, Any] | None = None,
    fetch: Any = None,
    *,
    mode: str = "compile",
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
) -> Any:
    """Initialize a program in a new scope and run it once.

    Args:
        program: The program.
        feed: Arrays by the name of a data variable.
        fetch: Variables or names, as `Executor.run` takes them.
        mode: `compile` or `interpret`.
        seed: The seed of initial values and of random operators.
        values: Values of persistable variables by name, instead of their initial ones.

    Returns:
        The fetched arrays, as `Executor.run` returns them.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.data("x", [2]) * br.parameter("w", [2])
        >>> br.testing.run(prog, {"x": [1.0, 2.0]}, y, values={"w": [3.0, 4.0]})
        array([3., 8.], dtype=float32)
    """
    executor, scope = Executor(mode), initialized_scope(program, seed, values)
    return executor.run(program, scope, feed, fetch)


def initialized_scope(
    program: Program, seed: int = 0, values: Mapping[str, Any] | None = None
) -> Scope:
    """Return a new scope with the persistable variables of a program."""
    scope = Scope()
    if program.persistables:
        Executor("interpret").init(program, scope, seed)
    scope.update(values or {})
    return scope


def assert_modes_agree(
    program: Program,
    feed: Mapping[str, Any] | None = None,
    fetch: Any = None,
    *,
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Any:
    """Run a program compiled and interpreted and compare fetches and updates.

    Args:
        program: The program.
        feed: Arrays by the name of a data variable.
        fetch: Variables or names, as `Executor.run` takes them.
        seed: The seed of initial values and of random operators.
        values: Values of persistable variables by name, instead of their initial ones.
        rtol: The relative tolerance; see `assert_allclose`.
        atol: The absolute tolerance; see `assert_allclose`.

    Returns:
        The fetched arrays of the compiled run.

    Raises:
        AssertionError: If a fetch, or a persistable variable after the run, differs.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     loss = br.mean(br.square(br.fc(br.data("x", ["batch", 3]), 2)))
        ...     _ = br.optimizer.sgd(0.1).minimize(loss)
        >>> value = br.testing.assert_modes_agree(prog, {"x": [[1.0, 2.0, 3.0]]}, loss)
    """
    fetched, updated = _run_with_updates(program, feed, fetch, "compile", seed, values)
    interpreted = _run_with_updates(program, feed, fetch, "interpret", seed, values)
    assert_allclose({"fetch": fetched}, {"fetch": interpreted[0]}, rtol=rtol, atol=atol)
    assert_allclose({"scope": updated}, {"scope": interpreted[1]}, rtol=rtol, atol=atol)
    return fetched


def _run_with_updates(
    program: Program,
    feed: Mapping[str, Any] | None,
    fetch: Any,
    mode: str,
    seed: int,
    values: Mapping[str, Any] | None,
) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """Return the fetched arrays, and the persistable variables after the run."""
    scope = initialized_scope(program, seed, values)
    fetched = Executor(mode).run(program, scope, feed, fetch)
    return fetched, {name: scope.var(name).value for name in scope.names()}
