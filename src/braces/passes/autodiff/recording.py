"""Records of derivatives, by which a program can be differentiated again.

    loss: f32[] = mean(x=h)              gradients: targets loss, inputs w, results w_grad
    w_grad: f32[4] = …

`prog.rewrite` takes the derived part away, rewrites the rest, and repeats the calls.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.ir.records import VALUE, Attr, Derivation

INNER = "/inner"
"""Suffix of the functions that were called in an inner block."""


@dataclass
class DerivationRecording:
    """A call while it runs; the caller sets the attributes.

    Attributes:
        inputs: The variables to differentiate by.
        every: Whether these are all trainable parameters.
        seeds: The given cotangents or tangents; `None` for the default.
        results: The derivatives.
        optimizer: The stored form of the optimizer.
        live: The optimizer.
    """

    inputs: Sequence[Var] = ()
    every: bool = False
    seeds: Sequence[Var | None] = ()
    results: Sequence[Var | None] = ()
    optimizer: Attr = None
    live: Any = None


@contextmanager
def record_derivation(
    program: Builder, function: str, targets: Sequence[Var]
) -> Generator[DerivationRecording]:
    """Record a call that appends derivatives to a program, in place of calls within it."""
    table, since = program.table, len(program.derivations)
    inner = program.current is not table
    before = set[str]() if inner else {*table.vars}
    updates, ends = set(program.updates), () if inner else unread(table)
    recording = DerivationRecording()
    yield recording
    added = () if inner else tuple(name for name in table.vars if name not in before)
    results = _names(recording.results)
    record = Derivation(
        function + INNER * inner,
        _names(targets),
        _names(recording.inputs),
        recording.every,
        _names(recording.seeds),
        results,
        {name: value for name, value in program.updates.items() if name not in updates},
        tuple(name for name in added if table.vars[name].persistable),
        ends,
        () if inner else _among(added, {*unread(table)} - {*results}),
        recording.optimizer,
        recording.live,
    )
    program.derived(record, since)


def unread(table: SymbolTable) -> tuple[str, ...]:
    """Return the variables of a block that operators of it bind, and none reads."""
    read = {name for op in table.ops for name in op.reads()}
    return tuple(
        name for name, info in table.vars.items() if info.kind == VALUE and name not in read
    )


def _among(names: Iterable[str], wanted: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in wanted)


def _names(variables: Iterable[Var | None]) -> tuple[str, ...]:
    return tuple("" if var is None else var.name for var in variables)
