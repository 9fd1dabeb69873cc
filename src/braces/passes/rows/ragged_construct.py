"""Batch axis of a ragged step: its operands with batch axis become parameters of the branch.

Captures may have the batch axis too, as the sequences of an attention step. If it is not the
first axis, it is moved to the front outside of the loop, and back inside the step.

    c: f32[b,s,4] = moveaxis(x=encoded) {source=[1], destination=[0]}
    … partition(masks=active, rows=[p, c]) … (valid, p: f32[b,4], r: f32[b,s,4]) {
        encoded: f32[s,b,4] = moveaxis(x=r) {source=[0], destination=[1]}
        …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.ir.views import LoopView, StackedOutputView
from braces.ir.walk import rename_op
from braces.ops.control.batch_axis.fixed_batch import find_captured_row_axes
from braces.ops.control.construct.build import LoopCarry, ScannedInput
from braces.ops.control.partition.random import number_draws, row_numbers


@dataclass(frozen=True)
class RaggedLoop:
    """Ragged loop under construction: its steps are active for part of the batch.

    Attributes:
        program: The program under construction.
        outer: The block that will contain the loop.
        loop: The loop, without memories and slices.
        memories: Its memories.
        slices: Its slices.
        lengths: Number of steps of each batch element.
        stop: Name of the stop condition in the body; it is read after the step.
        numbers: Numbers of the batch elements, if blocks inside need them.
    """

    program: Builder
    outer: SymbolTable
    loop: LoopView
    memories: Sequence[LoopCarry]
    slices: Sequence[ScannedInput]
    lengths: Var | None = None
    stop: str | None = None
    numbers: Var | None = None

    @property
    def step_params(self) -> list[str]:
        """Parameters of the step except the index: memories and slices."""
        return [
            *(param_source.param for param_source in self.memories),
            *(param_source.param for param_source in self.slices),
        ]

    @property
    def results(self) -> list[str]:
        """Results of the step except the stop condition."""
        rows = (row.result for row in self.loop.rows)
        return [*(memory.next for memory in self.memories), *rows]

    def around(self, body: SymbolTable, results: Sequence[str]) -> LoopView:
        """Return the loop with another body, whose stacked outputs are `results`."""
        rows = zip(self.loop.rows, results, strict=True)
        return replace(
            self.loop,
            content=body.freeze(),
            rows=tuple(StackedOutputView(result, row.stacked) for row, result in rows),
        )


@dataclass
class RaggedStep:
    """A step with its batch axis.

    Attributes:
        rows: The batch size.
        operands: Operands with batch axis, captures included, by their names outside.
        params: The same operands, by their names inside.
        results: Results with batch axis.
        stop: The stop condition, per batch element or for the whole batch.
    """

    rows: Size
    operands: list[str]
    params: list[str]
    results: list[str]
    stop: str | None

    @property
    def named(self) -> bool:
        """True if the batch size is a named dimension: equal sizes are then the batch axis."""
        return isinstance(self.rows, Dim) and self.rows.name is not None


def pass_captures_by_element(
    steps: RaggedLoop, body: SymbolTable, inner: SymbolTable, total: Size
) -> RaggedStep:
    """Turn captures with batch axis into parameters.

    As captures they would be read in full by the gradient of the step. It would then multiply
    values of inactive elements, possibly infinite, by 0.

    Args:
        steps: The loop.
        body: Its body, in which the step is the block of a branch.
        inner: That block.
        total: The batch size.
    """
    rows, results, stop = inner.unifier.resolve(total), steps.results, steps.stop
    own = _batch_params(steps, inner, rows)
    step = RaggedStep(rows, own, own, results, stop)
    batch_axes = _batch_axes(inner, step.rows, [*results, *([stop] if stop else [])])
    if not step.named and batch_axes:
        batch_axes = find_captured_row_axes(steps.outer, batch_axes, _batch_sources(steps))
    axes = {
        name: axis_list[0]
        for name, axis_list in batch_axes.items()
        if 0 in axis_list or len(axis_list) == 1
    }
    batch_first = {
        name: _move_batch_first(steps, body, name, axis) for name, axis in axes.items()
    }
    params = {
        n: add_block_param(inner, f"{n}.rows", var.type) for n, var in batch_first.items()
    }
    ops, inner.ops = inner.ops, []
    context = {n: _move_batch_back(steps, inner, params[n], axis) for n, axis in axes.items()}
    inner.ops += [rename_op(op, context) for op in ops]
    return replace(
        step,
        operands=[*own, *(var.name for var in batch_first.values())],
        params=[*own, *params.values()],
        results=[context.get(n, n) for n in results],
        stop=context.get(stop, stop) if stop else None,
    )


def _batch_params(steps: RaggedLoop, inner: SymbolTable, rows: Size) -> list[str]:
    """Return the parameters with batch axis; other scanned inputs become captures."""
    for name in [cut.param for cut in steps.slices]:
        sizes = sizes_of(inner, name)
        if not sizes or inner.unifier.unify(sizes[0], rows) is None:
            inner.vars.pop(name)
            inner.params.remove(name)
    return [name for name in steps.step_params if name in inner.vars]


def _move_batch_first(steps: RaggedLoop, body: SymbolTable, name: str, axis: int) -> Var:
    """Return a capture with the batch axis in front: moved outside of the loop if possible."""
    table = body if name in body.vars else steps.outer
    var = visible_var(steps.program, table, name)
    with steps.program.building(table):
        return emit("moveaxis", var, source=(axis,), destination=(0,)) if axis else var


def _move_batch_back(steps: RaggedLoop, inner: SymbolTable, name: str, axis: int) -> str:
    """Move the batch axis of a parameter back to its original position."""
    with steps.program.building(inner):
        var = var_of(steps.program, inner, name)
        return emit("moveaxis", var, source=(0,), destination=(axis,)).name if axis else name


def number_random_draws(steps: RaggedLoop, inner: SymbolTable, step: RaggedStep) -> RaggedStep:
    """Make the random draws of a step depend on the numbers of its batch elements."""
    params_by_source = dict(zip(step.operands, step.params, strict=True))

    def numbers() -> Var:
        outer = steps.numbers
        if outer is None:
            outer = row_numbers(steps.program, steps.outer, step.rows)
        if outer.name not in params_by_source:
            params_by_source[outer.name] = add_block_param(inner, "number", outer.type)
        return var_of(steps.program, inner, params_by_source[outer.name])

    places = dict.fromkeys(step.params, (0,))
    number_draws(steps.program, inner, step.rows, places, cache(numbers))
    return replace(step, operands=[*params_by_source], params=[*params_by_source.values()])


def add_block_param(inner: SymbolTable, stem: str, type_: Type) -> str:
    """Add a parameter to a block."""
    return inner.add_param(inner.names.unique(stem), type_).name


def _batch_axes(
    inner: SymbolTable, total: Size, results: Sequence[str]
) -> dict[str, list[int]]:
    """Return the axes of captures that are as long as the batch."""
    read_names = [*(name for op in inner.ops for name in op.reads()), *results]
    captures = (name for name in dict.fromkeys(read_names) if name not in inner.vars)
    axes_by_name = {
        n: [i for i, s in enumerate(sizes_of(inner, n)) if s == total] for n in captures
    }
    return {name: axes for name, axes in axes_by_name.items() if axes}


def _batch_sources(steps: RaggedLoop) -> dict[str, int]:
    """Return the variables outside of the step with a batch axis, with that axis."""
    axes_by_name = {cut.source.name: 1 for cut in steps.slices}
    inits = [*(memory.init for memory in steps.memories), steps.lengths, steps.numbers]
    return axes_by_name | {init.name: 0 for init in inits if init is not None}


def sizes_of(table: SymbolTable, name: str) -> tuple[Size, ...]:
    """Return the shape of a visible variable; empty for a list."""
    type_ = table.type_of(name)
    return type_.shape if isinstance(type_, TensorType) else ()
