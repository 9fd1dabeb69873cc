"""Steps that do not run for everybody: sequence lengths, and stopping early.

The step block becomes the one case of a branch inside the loop's body. Where it does not run,
memories stay as they are and outputs are zero; nothing of the step reaches a value or a
gradient.
With `lengths`, or where each row stops on its own, the branch is row-wise and keeps rows at
their places; where one condition stops all, it is a switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braces.builder.table import SymbolTable
from braces.builder.var import Var, one, tensor_type, var_of, visible_var
from braces.dims import Dim, Size
from braces.dtypes import BOOL, TensorType
from braces.errors import ShapeError
from braces.frontend.construct import LoopBlock
from braces.frontend.fixed_rows import captured_rows
from braces.ir.records import ARGUMENT, Body
from braces.ir.walk import rename_op
from braces.ops.control.building import Carried, build_partition, build_switch
from braces.ops.control.rows import blank_columns, follow_rows
from braces.ops.row_rules import ADVICE
from braces.ops.rules import zeros_of


class GuardedBlock(LoopBlock):
    """The block of one step, which may not run for everybody.

    Attributes:
        inputs: The variables that are cut into steps, each with its slice.
        lengths: How many steps each row has.
        stop: The condition of stopping, read after the step.
    """

    def __init__(self, kind: str, lengths: Var | None) -> None:
        super().__init__(kind)
        self.inputs: list[tuple[Var, Var]] = []
        self.lengths = lengths
        self.stop: Var | None = None


@dataclass
class Guarded:
    """A loop body around a step block.

    Attributes:
        table: The body, not yet frozen.
        memories: The step's memories, and those that were added.
        outputs: The results that are the step's outputs.
    """

    table: SymbolTable
    memories: list[Carried]
    outputs: list[str]


def guard(net: GuardedBlock, memories: Sequence[Carried]) -> Guarded:
    """Wrap a step block that is complete.

    Args:
        net: The step block.
        memories: Its memories.
    """
    stop, lengths = net.stop, net.lengths
    body = _outer_body(net, memories)
    if lengths is None and stop is not None and not stop.ndim:
        return _by_switch(net, body, stop, memories)
    return _by_rows(net, body, memories)


def _given(net: GuardedBlock, memories: Sequence[Carried]) -> list[str]:
    """What the step gets from the loop, the index aside."""
    return [*(memory.param for memory in memories), *(inner.name for _, inner in net.inputs)]


def _outer_body(net: GuardedBlock, memories: Sequence[Carried]) -> SymbolTable:
    """A table around the step's, with the same parameters."""
    body = SymbolTable(parent=net.outer)
    body.trip_index = net.step.name
    for name in (net.step.name, *_given(net, memories)):
        body.vars[name] = net.table.vars[name]
    net.table.parent = body
    net.table.vars.pop(net.step.name)
    return body


def _running(net: GuardedBlock, body: SymbolTable, shape: tuple[Size, ...]) -> tuple[Var, Var]:
    """A memory that says who goes on: its initial value and its parameter."""
    with net.program.building(net.outer):
        start = one("full", shape=shape, value=1.0, dtype=BOOL)
    name = body.names.unique("running")
    body.new_var(name, TensorType(BOOL, shape), ARGUMENT)
    return start, var_of(net.program, body, name)


def _by_switch(
    net: GuardedBlock, body: SymbolTable, stop: Var, memories: Sequence[Carried]
) -> Guarded:
    start, running = _running(net, body, ())
    inner = net.table
    for name in _given(net, memories):
        inner.vars.pop(name)
    inner.params = []
    nexts, outputs = (memory.next for memory in memories), (v.name for v in net.outputs)
    run = inner.freeze((*nexts, *outputs, stop.name))
    skip = SymbolTable(parent=body)
    with net.program.building(skip):
        zeros = [zeros_of(tensor_type(v)) for v in net.outputs]
        true = one("full", shape=(), value=1.0, dtype=BOOL)
    same = (memory.param for memory in memories)
    skipped = skip.freeze((*same, *(z.name for z in zeros), true.name))
    with net.program.building(body):
        index = one("cast", running, dtype="int32")
        *out, stopped = build_switch(index, (skipped, run), total=True)
        goes_on = running & ~stopped
    n = len(memories)
    kept = [replace(m, next=var.name) for m, var in zip(memories, out[:n], strict=True)]
    kept.append(Carried(start, running.name, goes_on.name))
    return Guarded(body, kept, [var.name for var in out[n:]])


def _by_rows(net: GuardedBlock, body: SymbolTable, memories: Sequence[Carried]) -> Guarded:
    total = _row_count(net)
    step = _by_row(net, total, memories)
    start: Var | None = None
    running: Var | None = None
    with net.program.building(body):
        active = _active(net, body)
        if net.stop is not None:
            start, running = _running(net, body, (total,))
            active = running if active is None else active & running
    assert active is not None
    case, n = _case(net, step), len(memories)
    with net.program.building(body):
        operands = [visible_var(net.program, body, name) for name in step.given]
        out = build_partition([active], operands, [case], [step.rows], compact=False)
        kept = [
            replace(memory, next=_kept(active, new, old).name)
            for memory, new, old in zip(memories, out[:n], operands[:n], strict=True)
        ]
        if start is not None and running is not None:
            kept.append(Carried(start, running.name, (running & ~out[-1]).name))
    return Guarded(body, kept, [v.name for v in out[n : n + len(net.outputs)]])


@dataclass
class _Step:
    """A step block and its rows.

    Attributes:
        rows: How many there are.
        given: What the block gets row by row, captures included, as it is called outside.
        params: The same, as it is called inside.
        results: What the block gives row by row.
        stop: The condition that it stops at, which may be one for all rows.
    """

    rows: Size
    given: list[str]
    params: list[str]
    results: list[str]
    stop: str | None

    @property
    def named(self) -> bool:
        """Whether the rows have a name, so that a size of that name is meant."""
        return isinstance(self.rows, Dim) and self.rows.name is not None


def _by_row(net: GuardedBlock, total: Size, memories: Sequence[Carried]) -> _Step:
    """Take captures that have a row for each row of the batch as parameters.

    As captures they would be whole in the gradient of the step, which meets rows of them that
    do not run: 0 times what may be infinite.
    """
    inner, own = net.table, _given(net, memories)
    given = [*(memory.next for memory in memories), *(v.name for v in net.outputs)]
    stop = net.stop.name if net.stop is not None else None
    step = _Step(inner.unifier.resolve(total), own, own, given, stop)
    leading = _leading(net, step.rows, [*given, *([stop] if stop else [])])
    if not step.named and leading:
        leading = captured_rows(net.outer, leading, _sources(net))
    context = {n: net.param(f"{n}.rows", inner.type_of(n)).name for n in leading}
    inner.ops = [rename_op(op, context) for op in inner.ops]
    return replace(
        step,
        given=[*own, *context],
        params=[*own, *context.values()],
        results=[context.get(n, n) for n in given],
        stop=context.get(stop, stop) if stop else None,
    )


def _leading(net: GuardedBlock, total: Size, results: Sequence[str]) -> list[str]:
    """The captures whose leading axis is as long as the batch."""
    inner = net.table
    read = [*(name for op in inner.ops for name in op.reads()), *results]
    return [
        name
        for name in dict.fromkeys(read)
        if name not in inner.vars
        and isinstance(type_ := inner.type_of(name), TensorType)
        and type_.shape[:1] == (total,)
    ]


def _sources(net: GuardedBlock) -> dict[str, int]:
    """What tells rows outside of the step: each variable with its axis of rows."""
    found = {outer.name: 1 for outer, _ in net.inputs}
    inits = [*(init for memory in net.memories for init in memory.inits), net.lengths]
    return found | {init.name: 0 for init in inits if init is not None}


def _case(net: GuardedBlock, step: _Step) -> Body:
    """The step block on its rows, which leaves those out that do not run."""
    inner, results = net.table, list(step.results)
    if step.stop is not None:
        results.append(_row_stop(net, step.stop, step.rows))
    valid = net.param("valid", TensorType(BOOL, (step.rows,))).name
    known = follow_rows(inner, step.rows, dict.fromkeys((valid, *step.params), (0,)))
    for i, name in enumerate(results):
        whats = known.get(name, ())
        _check_leads(net, name, whats, step)
        others = [axis for axis, what in enumerate(whats) if axis and what == "rows"]
        results[i] = blank_columns(net.program, inner, name, others, valid)
    names = (valid, *step.params)
    return Body(names, tuple(results), dict(inner.vars), tuple(inner.ops))


def _row_count(net: GuardedBlock) -> Size:
    if net.lengths is not None:
        return net.lengths.shape[0]
    assert net.stop is not None
    return net.stop.shape[0]


def _row_stop(net: GuardedBlock, name: str, rows: Size) -> str:
    """The condition of stopping, one entry a row."""
    stop = visible_var(net.program, net.table, name)
    if stop.ndim:
        return name
    with net.program.building(net.table):
        return one("broadcast_to", stop, shape=(rows,)).name


def _active(net: GuardedBlock, body: SymbolTable) -> Var | None:
    """Whose sequences have not ended at this step."""
    if net.lengths is None:
        return None
    step = var_of(net.program, body, net.step.name)
    return step < one("cast", net.lengths, dtype="int64")


def _kept(active: Var, new: Var, old: Var) -> Var:
    shape = (active.shape[0], *[1] * (new.ndim - 1))
    return one("where", one("reshape", active, shape=shape), new, old)


def _check_leads(net: GuardedBlock, name: str, whats: Sequence[str], step: _Step) -> None:
    found = net.table.type_of(name)
    shape = found.shape if isinstance(found, TensorType) else ()
    leads = bool(shape) and net.table.unifier.unify(shape[0], step.rows) is not None
    if not leads or not (step.named or whats[:1] in (("rows",), ("same",))):
        raise ShapeError(
            f"`{name}` does not lead with the rows of the batch.",
            given=f"{name}: {found}   rows: {step.rows}",
            fix="With lengths= or a stop for each row, memories and outputs have the batch as "
            "their leading axis." + ("" if step.named else f" {ADVICE}"),
        )
