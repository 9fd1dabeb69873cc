"""Traces of runs: every value that a program computes, in the order of computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from braces.builder.builder import Builder
from braces.ir.paths import label_without_number
from braces.ir.records import Op
from braces.ir.views import LoopView, view_of
from braces.runtime.executor import Executor
from braces.scope import Scope

Key: TypeAlias = tuple[str, str]
"""A value of a run: the path of its block with iterations, and its name."""


@dataclass(frozen=True)
class Event:
    """One run of an operator.

    Attributes:
        path: The path of the operator, without iterations.
        iteration: The iteration of each loop around it, the outermost first.
        type: The type of the operator, in the terms of its system.
        source: The line that built it; empty if unknown.
        reads: The values that it reads.
        writes: The values that it computes.
        inner: The results of its blocks, for an operator that owns blocks.
        owner: Whether it owns blocks.
    """

    path: str
    iteration: tuple[int, ...]
    type: str
    source: str
    reads: tuple[Key, ...]
    writes: tuple[Key, ...]
    inner: tuple[Key, ...] = ()
    owner: bool = False


@dataclass
class Trace:
    """A run: its values, and the operators that computed them.

    Attributes:
        system: The system that ran it.
        values: The arrays by key; inputs and parameters too, lists not.
        events: The runs of operators, in order.
        results: The results by name.
    """

    system: str
    values: dict[Key, np.ndarray[Any, Any]] = field(default_factory=dict[Key, Any])
    events: list[Event] = field(default_factory=list[Event])
    results: dict[str, Key] = field(default_factory=dict[str, Key])


def trace_program(
    program: Builder,
    scope: Scope,
    feed: Mapping[str, Any],
    fetch: Sequence[str],
    seed: int | None,
) -> Trace:
    """Return the trace of a run by the interpreter; the scope is not changed."""
    executor, seen = Executor(mode="interpret", passes=()), list[tuple[str, Op]]()
    copied = _copied(program, scope)
    executor.run(
        program,
        copied,
        feed,
        fetch=list(fetch),
        seed=seed,
        listeners=[lambda path, op, values: seen.append((path, op))],
        keep_scopes=True,
    )
    trace = Trace("Braces")
    for path, step_scope in executor.step_scopes.items():
        for name in step_scope.names():
            variable = step_scope.find_local_var(name)
            raw = variable.raw if variable is not None and variable.initialized else None
            if hasattr(raw, "shape"):
                trace.values[path, name] = np.asarray(raw)
    _Events(trace, list(executor.step_scopes)).record(seen)
    updated = {f"next value of {name}": value for name, value in program.updates.items()}
    names = {**{name: name for name in fetch}, **updated}
    trace.results = {name: ("", value) for name, value in names.items()}
    return trace


def _copied(program: Builder, scope: Scope) -> Scope:
    """Return a new scope with the values of the program's variables."""
    copied = Scope()
    for info in program.persistable_infos:
        variable = scope.find_var(info.name)
        if variable is not None and variable.initialized:
            copied.var(info.name).put(variable.raw)
    return copied


class _Events:
    """Converts the operators that a listener saw to events."""

    def __init__(self, trace: Trace, paths: Sequence[str]) -> None:
        self.trace = trace
        self.parents = _parents(paths)
        self.inside: dict[str, list[str]] = {}
        for path, parent in self.parents.items():
            self.inside.setdefault(parent, []).append(path)

    def record(self, seen: Sequence[tuple[str, Op]]) -> None:
        places = self._places(seen)
        for path, op in seen:
            block, iteration = places.get(path, (path, ()))
            event = Event(
                f"{block}/{op.name}".lstrip("/"),
                iteration,
                op.type,
                str(op.source or ""),
                tuple(self.key(path, name) for name in op.reads()),
                tuple((path, name) for name in op.binds()),
                tuple(self._inner_results(path, op)),
                bool(op.bodies()),
            )
            self.trace.events.append(event)

    def key(self, path: str, name: str) -> Key:
        """Return the key of a name that is visible in a block."""
        here = path
        while (here, name) not in self.trace.values and here in self.parents:
            here = self.parents[here]
        return (here, name) if (here, name) in self.trace.values else (path, name)

    def _blocks(self, path: str, op: Op) -> list[tuple[str, str, int]]:
        """Return the path of each run of a block of an operator, with label and number."""
        head = f"{path}/{op.name}/".lstrip("/")
        runs = [inner for inner in self.inside.get(path, ()) if inner.startswith(head)]
        found_runs = list[tuple[str, str, int]]()
        for inner in runs:
            numbered = inner[len(head) :]
            label = label_without_number(numbered, op)
            if label in op.bodies():
                found_runs.append((inner, label, int(numbered[len(label) + 1 : -1] or 0)))
        return found_runs

    def _inner_results(self, path: str, op: Op) -> list[Key]:
        if not op.bodies():
            return []
        bodies = op.bodies()
        return [
            self.key(inner, name)
            for inner, label, _ in self._blocks(path, op)
            for name in bodies[label].results
        ]

    def _places(self, seen: Sequence[tuple[str, Op]]) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return the path without iterations, and the iterations, of each run of a block."""
        owners = {
            inner: (path, op, label, number)
            for path, op in seen
            if op.bodies()
            for inner, label, number in self._blocks(path, op)
        }
        places: dict[str, tuple[str, tuple[int, ...]]] = {"": ("", ())}
        for inner in sorted(owners, key=len):
            path, op, label, number = owners[inner]
            block, iteration = places.get(path, (path, ()))
            own = (number,) if isinstance(view_of(op), LoopView) else ()
            places[inner] = f"{block}/{op.name}/{label}".lstrip("/"), iteration + own
        return places


def _parents(paths: Sequence[str]) -> dict[str, str]:
    """Return the enclosing block of each run of a block."""
    known, parents = set(paths), dict[str, str]()
    for path in paths:
        if path:
            ends = (at for at in range(len(path) - 1, 0, -1) if path[at] == "/")
            parents[path] = next((path[:at] for at in ends if path[:at] in known), "")
    return parents
