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
from braces.builder.var import Var
from braces.ir.records import VALUE, Attr, Derivation
from braces.passes.autodiff.backward_slice import backward_slice


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
    """Record a call that appends derivatives to a program, in place of calls within it.

    The cost follows from the operators that are differentiated and appended.
    """
    table, since = program.table, len(program.derivations)
    inner = program.current is not table
    before, count, updates = {*table.vars}, len(table.ops), {*program.updates}
    ends = [] if inner else _side_outputs(program, _names(targets))
    recording = DerivationRecording()
    yield recording
    added = [] if inner else [name for name in table.vars if name not in before]
    results = _names(recording.results)
    read = {*results, *(name for op in table.ops[count:] for name in op.reads())}
    unread = [n for n in added if n not in read and table.vars[n].kind == VALUE]
    record = Derivation(
        function,
        _names(targets),
        _names(recording.inputs),
        recording.every,
        _names(recording.seeds),
        results,
        {name: value for name, value in program.updates.items() if name not in updates},
        tuple([name for name in added if table.vars[name].persistable]),
        tuple(ends),
        tuple(unread),
        recording.optimizer,
        inner,
        live=recording.live,
    )
    program.derived(record, since)


def _side_outputs(program: Builder, targets: Iterable[str]) -> list[str]:
    """Return the outputs that nothing reads, beside others that targets depend on.

    All operators are searched only if some of them belong to an earlier derivative.
    """
    needed = backward_slice(program.table, targets)
    outputs = [names for op in needed if len(names := [*op.binds()]) > 1]
    if outputs and program.derivations:
        needed = program.table.ops
    read = {name for op in needed for name in op.reads()} if outputs else set[str]()
    return [name for names in outputs for name in names if name not in read]


def _names(variables: Iterable[Var | None]) -> tuple[str, ...]:
    return tuple("" if var is None else var.name for var in variables)
