"""Ragged steps: steps that are active for part of the batch (sequence lengths, early stopping).

The body of a loop becomes the single case of a branch inside the loop's body. For inactive
elements, memories keep their values and outputs are zero; nothing of the step reaches a value
or a gradient. With `lengths`, or if each batch element stops on its own, the branch is
partitioned and keeps batch elements in place. If one condition stops all, it is a switch.

    final=[h: f32[b,4]], … = loop(init=x) {length=3} captures [w]
      body (t: i64[], p: f32[b,4]) {
        q: f32[b,4] = multiply(x=p, y=w)
        return q
      }

With the lengths `n`:

    final=[h: f32[b,4]], … = loop(init=x) {length=3} captures [n, w]
      body (t: i64[], p: f32[b,4]) {
        active: bool[b] = less(x=t, y=n)
        out=[r: f32[b,4]], … = partition(masks=active, rows=p) {compact=false, …} captures [w]
          cases [
            (valid: bool[b], p: f32[b,4]) {
              q: f32[b,4] = multiply(x=p, y=w)
              return q
            },
          ]
        column: bool[b,1] = reshape(x=active) {shape=[size(b), 1]}
        kept: f32[b,4] = where(condition=column, x=r, y=p)
        return kept
      }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from braces.builder.append import emit
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, tensor_type, var_of, visible_var
from braces.dims import Size
from braces.dtypes import BOOL, TensorType, is_integer
from braces.errors import ProgramError, ShapeError, UnknownNameError, suggest
from braces.ir.records import ARGUMENT, Body, Op, ProgramDef
from braces.ir.views import LoopView, StackedOutputView
from braces.ir.walk import all_bodies
from braces.ops.common.row_semantics import ADVICE
from braces.ops.common.rules import build_zeros
from braces.ops.control.batch_axis.axis_kinds import AxisKind
from braces.ops.control.batch_axis.masking import analyze_row_axes, zero_padding
from braces.ops.control.construct.build import (
    LoopCarry,
    ScannedInput,
    build_loop,
    build_partition,
    build_switch,
)
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops
from braces.passes.rows.ragged_construct import (
    RaggedLoop,
    RaggedStep,
    add_block_param,
    number_random_draws,
    pass_captures_by_element,
    sizes_of,
)

GuardedLoop = tuple[LoopView, list[LoopCarry]]
"""A loop without memories and slices, and its memories; there may be one more."""


def guard_steps(steps: RaggedLoop) -> GuardedLoop:
    """Return a loop whose steps run only for the active batch elements.

    Raises:
        ShapeError: If the first axis of a memory or output is not the batch axis.
        ProgramError: If an operator of the step that mixes batch elements does not support a
            mask.
    """
    body = SymbolTable(parent=steps.outer)
    body.trip_index = steps.loop.index
    content = steps.loop.content
    for name in (steps.loop.index, *steps.step_params):
        body.vars[name] = content.vars[name]
    inner = SymbolTable(parent=body).thaw(content)
    inner.vars.pop(steps.loop.index)
    if steps.lengths is None and steps.stop is not None and not sizes_of(inner, steps.stop):
        return _guard_by_switch(steps, body, inner, steps.stop)
    return _guard_by_partition(steps, body, inner)


def _add_running_memory(
    steps: RaggedLoop, body: SymbolTable, shape: tuple[Size, ...]
) -> tuple[Var, Var]:
    """Add a memory that marks running batch elements: its initial value and its parameter."""
    with steps.program.building(steps.outer):
        start = emit("full", shape=shape, value=1.0, dtype=BOOL)
    name = body.names.unique("running")
    body.new_var(name, TensorType(BOOL, shape), ARGUMENT)
    return start, var_of(steps.program, body, name)


def _guard_by_switch(
    steps: RaggedLoop, body: SymbolTable, inner: SymbolTable, stop: str
) -> GuardedLoop:
    start, running = _add_running_memory(steps, body, ())
    rows = [visible_var(steps.program, inner, row.result) for row in steps.loop.rows]
    for name in steps.step_params:
        inner.vars.pop(name)
    inner.params = []
    run = inner.freeze((*steps.results, stop))
    skip = SymbolTable(parent=body)
    with steps.program.building(skip):
        zeros = [build_zeros(tensor_type(row)) for row in rows]
        true = emit("full", shape=(), value=1.0, dtype=BOOL)
    memory_names = (memory.param for memory in steps.memories)
    skipped = skip.freeze((*memory_names, *(z.name for z in zeros), true.name))
    with steps.program.building(body):
        index = emit("cast", running, dtype="int32")
        *out, stopped = build_switch(index, (skipped, run), total=True)
        goes_on = running & ~stopped
    n = len(steps.memories)
    next_memories = [
        replace(m, next=var.name) for m, var in zip(steps.memories, out[:n], strict=True)
    ]
    next_memories.append(LoopCarry(start, running.name, goes_on.name))
    return steps.around(body, [var.name for var in out[n:]]), next_memories


def _guard_by_partition(
    steps: RaggedLoop, body: SymbolTable, inner: SymbolTable
) -> GuardedLoop:
    total = _row_count(steps, inner)
    step = pass_captures_by_element(steps, body, inner, total)
    start: Var | None = None
    running: Var | None = None
    with steps.program.building(body):
        active = _active_mask(steps, body)
        if steps.stop is not None:
            start, running = _add_running_memory(steps, body, (total,))
            active = running if active is None else active & running
    assert active is not None
    step = number_random_draws(steps, inner, step)
    case, n = _case(steps, inner, step), len(steps.memories)
    with steps.program.building(body):
        operands = [visible_var(steps.program, body, name) for name in step.operands]
        out = build_partition([active], operands, [case], [step.rows], compact=False)
        next_memories = [
            replace(memory, next=_select_active(active, new, old).name)
            for memory, new, old in zip(steps.memories, out[:n], operands[:n], strict=True)
        ]
        if start is not None and running is not None:
            next_memories.append(LoopCarry(start, running.name, (running & ~out[-1]).name))
    return steps.around(
        body, [v.name for v in out[n : n + len(steps.loop.rows)]]
    ), next_memories


def _case(steps: RaggedLoop, inner: SymbolTable, step: RaggedStep) -> Body:
    """Return the step as a case, which masks inactive batch elements."""
    results = list(step.results)
    if step.stop is not None:
        results.append(_stop_per_element(steps, inner, step.stop, step.rows))
    valid = add_block_param(inner, "valid", TensorType(BOOL, (step.rows,)))
    kinds_of = analyze_row_axes(inner, step.rows, dict.fromkeys((valid, *step.params), (0,)))
    for i, name in enumerate(results):
        kinds = kinds_of.get(name, ())
        _check_batch_first(inner, name, kinds, step)
        others = [axis for axis, kind in enumerate(kinds) if axis and kind is AxisKind.BATCH]
        results[i] = zero_padding(steps.program, inner, name, others, valid)
    names = (valid, *step.params)
    return Body(names, tuple(results), dict(inner.vars), tuple(inner.ops))


def _row_count(steps: RaggedLoop, inner: SymbolTable) -> Size:
    if steps.lengths is not None:
        return steps.lengths.shape[0]
    assert steps.stop is not None
    return sizes_of(inner, steps.stop)[0]


def _stop_per_element(steps: RaggedLoop, inner: SymbolTable, name: str, rows: Size) -> str:
    """Return the stop condition per batch element."""
    stop = visible_var(steps.program, inner, name)
    if stop.ndim:
        return name
    with steps.program.building(inner):
        return emit("broadcast_to", stop, shape=(rows,)).name


def _active_mask(steps: RaggedLoop, body: SymbolTable) -> Var | None:
    """Return the mask of batch elements whose sequences have not ended at this step."""
    if steps.lengths is None:
        return None
    step = var_of(steps.program, body, steps.loop.index)
    return step < emit("cast", steps.lengths, dtype="int64")


def _select_active(active: Var, new: Var, old: Var) -> Var:
    shape = (active.shape[0], *[1] * (new.ndim - 1))
    return emit("where", emit("reshape", active, shape=shape), new, old)


def _check_batch_first(
    inner: SymbolTable, name: str, kinds: Sequence[AxisKind], step: RaggedStep
) -> None:
    type_, shape = inner.type_of(name), sizes_of(inner, name)
    leads = bool(shape) and inner.unifier.unify(shape[0], step.rows) is not None
    if not leads or not (step.named or (kinds and kinds[0] is not AxisKind.OTHER)):
        raise ShapeError(
            f"the first axis of `{name}` is not the batch axis.",
            given=f"{name}: {type_}   batch size: {step.rows}",
            fix="With lengths= or a stop for each batch element, put the batch axis first in "
            "memories and outputs." + ("" if step.named else f" {ADVICE}"),
        )


# ---- the pass --------------------------------------------------------------------------------


@with_user_line
def ragged_steps(by: str, *loops: str) -> Pass:
    """Return a pass that gives loops sequence lengths, as `br.create_rnn(lengths=...)` does.

    A batch element is active while the iteration index is less than its length. After that, its
    memories keep their values and its outputs are zero. The pass is for programs without
    gradients yet, and for loops with a known trip count.

    Args:
        by: A variable around the loops: an integer vector with one entry per batch element.
        loops: The paths of the loops, as `loop_0/body/loop_1`; one or more.

    Raises:
        ProgramError: If no loop has this name.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, n = br.data("x", ["t", "b", 4]), br.data("n", ["b"], dtype="int32")
        ...     rnn = br.create_rnn()
        ...     with rnn.stepnet() as net:
        ...         h = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
        ...         h.update(br.tanh(h + net.add_input(x)))
        ...     last = rnn.final(h)
        >>> len(prog.blocks), len(br.passes.ragged_steps("n", "loop_0")(prog).blocks)
        (2, 3)
    """
    if not loops:
        raise ProgramError(
            f"missing loops for the lengths `{by}`.",
            fix='Pass the paths of loops: br.passes.ragged_steps("n", "loop_0").',
        )

    def rule(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
        if not view.counted:
            note(place.where(op), "not masked: iteration count is unknown", "missed")
            return op
        note(place.where(op), f"masked: iterations of a batch element are limited by `{by}`")
        with place.building():
            return _with_lengths(view, place, _check_lengths(place.var(by)))

    def run(program: ProgramDef) -> ProgramDef:
        var_names = {name for body, _ in all_bodies(program.main) for name in body.vars}
        if by not in var_names:
            raise UnknownNameError(f"unknown variable `{by}`.", fix=suggest(f"{by}", var_names))
        return rewrite_loops(program, loops, rule)

    return Pass(
        "ragged_steps",
        run,
        f"Limit the iterations of each batch element by the lengths `{by}`.",
        trusted=True,
    )


def _check_lengths(var: Var) -> Var:
    if not is_integer(var.dtype) or var.ndim != 1:
        raise ShapeError(
            f"expected an integer vector for the lengths, got {var.type}.",
            given=f"{var.name}: {var.type}",
        )
    return var


def _with_lengths(view: LoopView, place: InsertionPoint, by: Var) -> dict[str, str]:
    """Build a loop with lengths; return the new names of its outputs."""
    rows = tuple(StackedOutputView(row.result) for row in view.rows)
    origin = view.origin.with_(inputs={}, outputs={})
    loop = replace(view, memories=(), slices=(), rows=rows, trips="", origin=origin)
    memories = [LoopCarry(place.var(m.init), m.param, m.next) for m in view.memories]
    slices = [ScannedInput(place.var(cut.source), cut.param) for cut in view.slices]
    loop, memories = guard_steps(
        RaggedLoop(place.program, place.table, loop, memories, slices, by)
    )
    new_loop = build_loop(loop, memories, slices)
    bound = view.bound(new_loop.finals[: len(view.memories)], new_loop.rows, new_loop.trips)
    return {name: var.name for name, var in bound.items()}
