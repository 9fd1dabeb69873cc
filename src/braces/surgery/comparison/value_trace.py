"""Traces of runs: every value that a program computes, in the order of computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from braces.builder.builder import Builder
from braces.ir.records import Op
from braces.ir.views import LoopView, PartitionView, view_of
from braces.lower.interpret.interpreter import BlockEntry, BlockListener
from braces.runtime.executor import Executor
from braces.scope import Scope

Array: TypeAlias = np.ndarray[Any, Any]
Key: TypeAlias = tuple[str, str]
"""A value of a run: the path of its block with iterations, and its name."""
NEXT = "next value of "
"""The prefix of the results that are updates of variables."""


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
        cleared: The arrays that have numbers of other batch elements than those of their case,
            with zeros there. Such numbers do not reach any result.
        finer: Runs the same model with more inner values, as an import of it; `None` if there
            is no such run. An LSTM of ONNX is one operator, and a loop in its import.
    """

    system: str
    values: dict[Key, Array] = field(default_factory=dict[Key, Any])
    events: list[Event] = field(default_factory=list[Event])
    results: dict[str, Key] = field(default_factory=dict[str, Key])
    cleared: dict[Key, Array] = field(default_factory=dict[Key, Any])
    finer: Callable[[], Trace | None] | None = None

    def compared(self, key: Key) -> Array | None:
        """Return the array of a key for comparison; `None` for a list."""
        return self.cleared.get(key, self.values.get(key))

    def compared_values(self) -> Iterator[tuple[Key, Array]]:
        """Yield all arrays for comparison; those with numbers to clear in both forms."""
        yield from self.values.items()
        yield from self.cleared.items()


def trace_program(
    program: Builder,
    scope: Scope,
    feed: Mapping[str, Any],
    fetch: Sequence[str],
    seed: int | None,
) -> Trace:
    """Return the trace of a run by the interpreter; the scope is not changed."""
    executor, events = Executor(mode="interpret", passes=()), _Events(trace := Trace("Braces"))
    copied = copy_states(program, scope)
    executor.run(
        program,
        copied,
        feed,
        fetch=list(fetch),
        seed=seed,
        listeners=[events],
        keep_scopes=True,
    )
    for path, step_scope in executor.step_scopes.items():
        for name in step_scope.names():
            variable = step_scope.find_local_var(name)
            raw = variable.raw if variable is not None and variable.initialized else None
            if hasattr(raw, "shape"):
                trace.values[path, name] = np.asarray(raw)
    events.record()
    events.clear()
    updated = {f"{NEXT}{name}": value for name, value in program.updates.items()}
    names = {**{name: name for name in fetch}, **updated}
    trace.results = {name: ("", value) for name, value in names.items()}
    return trace


def copy_states(program: Builder, scope: Scope) -> Scope:
    """Return a new scope with the values of the program's variables."""
    copied = Scope()
    for info in program.persistable_infos:
        variable = scope.find_var(info.name)
        if variable is not None and variable.initialized:
            copied.var(info.name).put(variable.raw)
    return copied


class _Events(BlockListener):
    """Listener that records the operators and blocks of a run, and converts them to events.

    Attributes:
        trace: The trace.
        seen: The operators that ran, with the paths of their blocks.
        entries: The runs of inner blocks by path.
        places: The path without iterations, and the iterations, of each run of a block.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.seen: list[tuple[str, Op]] = []
        self.entries: dict[str, BlockEntry] = {}
        self.places: dict[str, tuple[str, tuple[int, ...]]] = {"": ("", ())}
        self._runs: dict[tuple[str, str], list[BlockEntry]] = {}

    def __call__(self, path: str, op: Op, values: Mapping[str, Any]) -> None:
        """Record an operator that has run."""
        self.seen.append((path, op))

    def enter(self, entry: BlockEntry) -> None:
        """Record a run of a block."""
        if entry.op is None:
            return
        self.entries[entry.path] = entry
        self._runs.setdefault((entry.outer, entry.op.name), []).append(entry)
        block, iteration = self.places[entry.outer]
        own = (entry.iteration,) if isinstance(view_of(entry.op), LoopView) else ()
        place = f"{block}/{entry.op.name}/{entry.label}".lstrip("/")
        self.places[entry.path] = place, iteration + own

    def record(self) -> None:
        """Add an event for each operator that ran."""
        for path, op in self.seen:
            block, iteration = self.places[path]
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

    def clear(self) -> None:
        """Add the values of batch elements that a case of a row-wise branch does not have.

        A loop with `lengths` computes every iteration for the whole batch, in such a case.
        """
        masks = dict[str, Array]()
        for path, op in self.seen:
            view = view_of(op) if op.bodies() else None
            if isinstance(view, PartitionView):
                masks |= self._masks(path, op, view)
        around = {path: self._around(path, masks) for path in self.entries}
        for key, value in self.trace.values.items():
            for mask in around.get(key[0], ()):
                if value.ndim and value.shape[0] == mask.size:
                    self.trace.cleared[key] = cleared(self.trace.cleared.get(key, value), mask)

    def _masks(self, path: str, op: Op, view: PartitionView) -> Iterator[tuple[str, Array]]:
        """Yield the path and the mask of each case that ran for other batch elements too."""
        for entry in self._runs.get((path, op.name), ()):
            valid = view.cases[list(op.bodies()).index(entry.label)].valid
            mask = self.trace.values.get((entry.path, valid))
            if mask is not None and not mask.all():
                yield entry.path, mask

    def _around(self, path: str, masks: Mapping[str, Array]) -> list[Array]:
        """Return the masks of a block and of those around it."""
        found_masks = list[Array]()
        while path and masks:
            found_masks += [masks[path]] if path in masks else []
            path = self.entries[path].outer
        return found_masks

    def key(self, path: str, name: str) -> Key:
        """Return the key of a name that is visible in a block."""
        here = path
        while (here, name) not in self.trace.values and here in self.entries:
            here = self.entries[here].outer
        return (here, name) if (here, name) in self.trace.values else (path, name)

    def _inner_results(self, path: str, op: Op) -> list[Key]:
        bodies = op.bodies()
        return [
            self.key(entry.path, name)
            for entry in self._runs.get((path, op.name), ())
            for name in bodies[entry.label].results
        ]


def cleared(value: Array, mask: Array) -> Array:
    """Return an array with zeros in the batch elements that a mask does not have."""
    return np.where(mask.reshape(-1, *[1] * (value.ndim - 1)), value, np.zeros_like(value))
