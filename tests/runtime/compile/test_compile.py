"""Code that is made ahead of time is the code that runs take."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import pytest

import braces as br

COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def compilations() -> Generator[list[str]]:
    """Grows by one for each computation that XLA is asked to compile."""
    found = list[str]()

    def note(event: str, _: float, **__: object) -> None:
        if event == COMPILED:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def step() -> tuple[br.Program, br.Var]:
    """A training step with a momentum."""
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        loss = br.mean(br.square(br.fc(x, 2, name="fc")))
        br.optimizer.sgd(0.1, momentum=0.9).minimize(loss)
    return prog, loss


def rows(number: int) -> dict[str, np.ndarray]:
    """A batch."""
    return {"x": np.full((number, 3), 0.5, "f4")}


def values(scope: br.Scope) -> dict[str, np.ndarray]:
    """Return the values of the scope."""
    return {name: scope.var(name).value for name in scope.names()}


def test_a_run_that_was_compiled_ahead_only_computes() -> None:
    prog, loss = step()
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    before = values(scope)
    with compilations() as ahead:
        exe.compile(prog, scope, feed=rows(4), fetch=[loss])
    after = values(scope)
    assert len(ahead) == 1
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    with compilations() as later:
        losses = [exe.run(prog, scope, feed=rows(4), fetch=[loss])[0] for _ in range(3)]
        exe.compile(prog, scope, feed=rows(4), fetch=[loss])
    assert not later
    assert losses[2] < losses[1] < losses[0]
    with compilations() as other:
        exe.run(prog, scope, feed=rows(5), fetch=[loss])
    assert len(other) == 1


def test_what_initialises_can_be_compiled_ahead() -> None:
    prog, _ = step()
    exe, scope = br.Executor(), br.Scope()
    exe.compile(prog.startup, scope, feed={"seed": 0})
    assert not any(variable.initialized for variable in map(scope.var, scope.names()))
    with compilations() as later:
        exe.init(prog, scope, seed=3)
    assert not later


def test_a_run_that_looks_for_nan_is_compiled_for_that() -> None:
    prog, loss = step()
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    exe.compile(prog, scope, rows(2), loss, check_nan=True)
    with compilations() as later:
        exe.run(prog, scope, rows(2), loss, check_nan=True)
    assert not later


def test_lists_and_histories_can_be_compiled_ahead() -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        loop = br.create_while()
        with loop.block() as body:
            v = body.add_memory(init=x)
            body.set_condition(v < 100.0)
            v.update(v * v)
        (slope,) = br.gradients([loop.final(v)], [x])
    exe, scope = br.Executor(), br.Scope()
    exe.compile(prog, scope, {"x": 0.0}, slope)
    with compilations() as later:
        assert exe.run(prog, scope, {"x": 3.0}, slope) == 8 * 3.0**7
    assert not later


def test_what_a_run_refuses_is_refused_ahead(mode: str) -> None:
    prog, loss = step()
    exe, scope = br.Executor(mode=mode), br.Scope()
    with pytest.raises(br.UninitializedError, match=r"exe\.init"):
        exe.compile(prog, scope, rows(2), loss)
    exe.init(prog, scope)
    before = values(scope)
    swapped: Any = (scope, prog)
    with pytest.raises(br.FeedError, match="`x`"):
        exe.compile(prog, scope, fetch=loss)
    with pytest.raises(br.FeedError, match="shape mismatch of the feed `x`"):
        exe.compile(prog, scope, {"x": np.ones((2, 4), "f4")}, loss)
    with pytest.raises(br.UnknownNameError, match="nothing"):
        exe.compile(prog, scope, rows(2), "nothing")
    with pytest.raises(br.ProgramError, match="expected a program and a scope"):
        exe.compile(*swapped)
    exe.compile(prog, scope, rows(2), loss)
    after = values(scope)
    assert all(np.array_equal(before[name], after[name]) for name in before)
