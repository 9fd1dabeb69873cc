"""Steps that do not run for everybody: sequence lengths, and stopping early.

The step block becomes the one case of a branch inside the loop's body. Where it does not run,
memories stay as they are and outputs are zero; nothing of the step reaches a value or a
gradient.
With `lengths`, or where each row stops on its own, the branch is row-wise and keeps rows at
their places; where one condition stops all, it is a switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braces.dims import Dim, Size
from braces.dtypes import BOOL, TensorType
from braces.errors import ShapeError
from braces.ir.records import ARGUMENT, Body
from braces.ir.table import SymbolTable
from braces.ir.walk import rename_body
from braces.ops.build import Var, apply, one, tensor_type, var_of
from braces.ops.control.rows import mask_rows
from braces.ops.rules import zeros_of

if TYPE_CHECKING:
    from braces.frontend.rnn import StepNet


@dataclass
class Guarded:
    """A loop body around a step block.

    Attributes:
        table: The body, not yet frozen.
        inits: The initial values of the memories that were added.
        params: Their names.
        memories: The results that are the step's memories.
        added: The results that are the added memories.
        outputs: The results that are the step's outputs.
    """

    table: SymbolTable
    inits: list[Var]
    params: list[str]
    memories: list[str]
    added: list[str]
    outputs: list[str]


def guard(net: StepNet, params: Sequence[str], results: Sequence[str]) -> Guarded:
    """Wrap a step block that is complete.

    Args:
        net: The step block.
        params: The parameters that are its memories.
        results: The memories' next values.
    """
    stop, lengths = net.stop, net.rnn.lengths
    body = _outer_body(net, params)
    if lengths is None and stop is not None and not stop.ndim:
        return _by_switch(net, body, stop, params, results)
    return _by_rows(net, body, params, results)


def _outer_body(net: StepNet, params: Sequence[str]) -> SymbolTable:
    """A table around the step's, with the same parameters."""
    body = SymbolTable(parent=net.outer)
    body.trip_index = net.step.name
    for name in (net.step.name, *params, *(inner.name for _, inner in net.inputs)):
        body.vars[name] = net.table.vars[name]
    net.table.parent = body
    net.table.vars.pop(net.step.name)
    return body


def _var(net: StepNet, table: SymbolTable, name: str) -> Var:
    owner = table.table_of(name)
    assert owner is not None
    return var_of(net.program, owner, name)


def _running(net: StepNet, body: SymbolTable, shape: tuple[Size, ...]) -> tuple[Var, Var]:
    """A memory that says who goes on: its initial value and its parameter."""
    with net.program.building(net.outer):
        start = one("full", shape=shape, value=1.0, dtype=BOOL)
    name = body.names.unique("running")
    body.new_var(name, TensorType(BOOL, shape), ARGUMENT)
    return start, var_of(net.program, body, name)


def _by_switch(
    net: StepNet, body: SymbolTable, stop: Var, params: Sequence[str], results: Sequence[str]
) -> Guarded:
    start, running = _running(net, body, ())
    inner = net.table
    for name in (*params, *(slice_.name for _, slice_ in net.inputs)):
        inner.vars.pop(name)
    inner.params = []
    run = inner.freeze((*results, *(v.name for v in net.outputs), stop.name))
    skip = SymbolTable(parent=body)
    with net.program.building(skip):
        zeros = [zeros_of(tensor_type(v)) for v in net.outputs]
        true = one("full", shape=(), value=1.0, dtype=BOOL)
    skipped = skip.freeze((*params, *(z.name for z in zeros), true.name))
    with net.program.building(body):
        index = one("cast", running, dtype="int32")
        cases = {"cases": (skipped, run), "total": True}
        out = apply("switch", {"index": (index,)}, cases)["out"]
        goes_on = running & ~out[-1]
    names, n = [v.name for v in out[:-1]], len(results)
    return Guarded(body, [start], [running.name], names[:n], [goes_on.name], names[n:])


def _by_rows(
    net: StepNet, body: SymbolTable, params: Sequence[str], results: Sequence[str]
) -> Guarded:
    rows = _row_count(net)
    stop, start, running = _row_stop(net, rows), [], None
    with net.program.building(body):
        active = _active(net, body)
        if stop is not None:
            first, running = _running(net, body, (rows,))
            start = [first]
            active = running if active is None else active & running
    assert active is not None
    inner, slices = net.table, [slice_.name for _, slice_ in net.inputs]
    valid = net.param("valid", TensorType(BOOL, (rows,)))
    mask_rows(net.program, inner, rows, valid.name)
    given = [
        *results,
        *(v.name for v in net.outputs),
        *([stop.name] if stop is not None else []),
    ]
    for name in given:
        _check_leads(net, name, rows)
    context = _captured_rows(net, rows, given)
    names = (valid.name, *params, *slices, *context.values())
    case = Body(names, tuple(given), dict(inner.vars), tuple(inner.ops))
    case = rename_body(case, context)
    with net.program.building(body):
        operands = [_var(net, body, name) for name in (*params, *slices, *context)]
        attrs = {"cases": (case,), "counts": (rows,), "outs": len(given), "compact": False}
        out = apply("partition", {"masks": (active,), "rows": operands}, attrs)["out"]
        memories = [
            _kept(active, *pair) for pair in zip(out[: len(results)], operands, strict=False)
        ]
        added = [(running & ~out[-1]).name] if running is not None else []
    n = len(results)
    outputs = [v.name for v in out[n : n + len(net.outputs)]]
    named = [running.name] if running is not None else []
    return Guarded(body, start, named, [v.name for v in memories[:n]], added, outputs)


def _captured_rows(net: StepNet, rows: Size, results: Sequence[str]) -> dict[str, str]:
    """The captures that have a row of their own for each row of the batch, to parameters.

    As captures they would be whole in the gradient of the step, which meets rows of them that
    do not run: 0 times what may be infinite. A fixed number of rows does not tell captures.
    """
    inner, found = net.table, dict[str, str]()
    read = [name for op in inner.ops for name in op.reads()]
    for name in dict.fromkeys([*read, *results]):
        type_ = inner.type_of(name)
        leads = isinstance(type_, TensorType) and isinstance(rows, Dim) and type_.shape[:1]
        if leads == (rows,) and name not in inner.vars:
            found[name] = net.param(f"{name}.rows", type_).name
    return found


def _row_count(net: StepNet) -> Size:
    if net.rnn.lengths is not None:
        return net.rnn.lengths.shape[0]
    assert net.stop is not None
    return net.stop.shape[0]


def _row_stop(net: StepNet, rows: Size) -> Var | None:
    """The condition of stopping, one entry a row."""
    if net.stop is None or net.stop.ndim:
        return net.stop
    with net.program.building(net.table):
        return one("broadcast_to", net.stop, shape=(rows,))


def _active(net: StepNet, body: SymbolTable) -> Var | None:
    """Whose sequences have not ended at this step."""
    if net.rnn.lengths is None:
        return None
    step = var_of(net.program, body, net.step.name)
    return step < one("cast", net.rnn.lengths, dtype="int64")


def _kept(active: Var, new: Var, old: Var) -> Var:
    shape = (active.shape[0], *[1] * (new.ndim - 1))
    return one("where", one("reshape", active, shape=shape), new, old)


def _check_leads(net: StepNet, name: str, rows: Size) -> None:
    found = net.table.type_of(name)
    leading = found.shape[:1] if isinstance(found, TensorType) else ()
    if not leading or net.table.unifier.unify(leading[0], rows) is None:
        raise ShapeError(
            f"`{name}` does not lead with the rows of the batch.",
            given=f"{name}: {found}   rows: {rows}",
            fix="With lengths= or a stop for each row, memories and outputs have the batch as "
            "their leading axis.",
        )
