"""The rows of a step that does not run for everybody: what has them, and how it gets them.

Captures have them, too, as what a step looks back at. Where they are not in front, they are put
there outside of the loop, and back in the step.

    c: f32[b,s,4] = moveaxis(x=encoded) {source=[1], destination=[0]}
    … partition(masks=active, rows=[p, c]) … (valid, p: f32[b,4], r: f32[b,s,4]) {
        encoded: f32[s,b,4] = moveaxis(x=r) {source=[0], destination=[1]}
        …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dims import Dim, Size
from braces.dtypes import TensorType, Type
from braces.ir.views import LoopView, Row
from braces.ir.walk import rename_op
from braces.ops.control.batch_axis.fixed_batch import captured_rows
from braces.ops.control.construct.build import Carried, Cut
from braces.ops.control.partition.random import number_draws, row_numbers


@dataclass(frozen=True)
class Steps:
    """A loop that is not built yet, and whose steps are not for everybody.

    Attributes:
        program: The program that is built.
        outer: The block that the loop is to stand in.
        loop: The loop, without memories and slices.
        memories: Its memories.
        slices: Its slices.
        lengths: How many steps each row has.
        stop: What the body calls the condition of stopping, which is read after the step.
        numbers: What tells the numbers of its rows, where blocks in it ask for that.
    """

    program: Builder
    outer: SymbolTable
    loop: LoopView
    memories: Sequence[Carried]
    slices: Sequence[Cut]
    lengths: Var | None = None
    stop: str | None = None
    numbers: Var | None = None

    @property
    def given(self) -> list[str]:
        """What the step gets from the loop, the index aside."""
        return [*(one.param for one in self.memories), *(one.param for one in self.slices)]

    @property
    def results(self) -> list[str]:
        """What the step gives, the condition of stopping aside."""
        rows = (row.result for row in self.loop.rows)
        return [*(memory.next for memory in self.memories), *rows]

    def around(self, body: SymbolTable, results: Sequence[str]) -> LoopView:
        """The loop with another body, of which these are the rows."""
        rows = zip(self.loop.rows, results, strict=True)
        return replace(
            self.loop,
            content=body.freeze(),
            rows=tuple(Row(result, row.stacked) for row, result in rows),
        )


@dataclass
class StepRows:
    """A step and its rows.

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


def by_row(steps: Steps, body: SymbolTable, inner: SymbolTable, total: Size) -> StepRows:
    """Take captures that have a row for each row of the batch as parameters.

    As captures they would be whole in the gradient of the step, which meets rows of them that
    do not run: 0 times what may be infinite.

    Args:
        steps: The loop.
        body: Its body, in which the step is the block of a branch.
        inner: That block.
        total: How many rows there are.
    """
    rows, given, stop = inner.unifier.resolve(total), steps.results, steps.stop
    own = _own(steps, inner, rows)
    step = StepRows(rows, own, own, given, stop)
    places = _places(inner, step.rows, [*given, *([stop] if stop else [])])
    if not step.named and places:
        places = captured_rows(steps.outer, places, _sources(steps))
    axes = {name: found[0] for name, found in places.items() if 0 in found or len(found) == 1}
    led = {name: _led(steps, body, name, axis) for name, axis in axes.items()}
    params = {n: param(inner, f"{n}.rows", var.type) for n, var in led.items()}
    ops, inner.ops = inner.ops, []
    context = {n: _as_it_was(steps, inner, params[n], axis) for n, axis in axes.items()}
    inner.ops += [rename_op(op, context) for op in ops]
    return replace(
        step,
        given=[*own, *(var.name for var in led.values())],
        params=[*own, *params.values()],
        results=[context.get(n, n) for n in given],
        stop=context.get(stop, stop) if stop else None,
    )


def _own(steps: Steps, inner: SymbolTable, rows: Size) -> list[str]:
    """What the step gets row by row; inputs that do not lead with rows are captures of it."""
    for name in [cut.param for cut in steps.slices]:
        sizes = sizes_of(inner, name)
        if not sizes or inner.unifier.unify(sizes[0], rows) is None:
            inner.vars.pop(name)
            inner.params.remove(name)
    return [name for name in steps.given if name in inner.vars]


def _led(steps: Steps, body: SymbolTable, name: str, axis: int) -> Var:
    """A capture with its rows in front: moved outside of the loop, unless it is an input."""
    table = body if name in body.vars else steps.outer
    var = visible_var(steps.program, table, name)
    with steps.program.building(table):
        return one("moveaxis", var, source=(axis,), destination=(0,)) if axis else var


def _as_it_was(steps: Steps, inner: SymbolTable, name: str, axis: int) -> str:
    """What the step reads, of which the rows were put in front."""
    with steps.program.building(inner):
        var = var_of(steps.program, inner, name)
        return one("moveaxis", var, source=(0,), destination=(axis,)).name if axis else name


def numbered(steps: Steps, inner: SymbolTable, step: StepRows) -> StepRows:
    """The step with what is drawn for rows following from their numbers."""
    found = dict(zip(step.given, step.params, strict=True))

    def numbers() -> Var:
        outer = steps.numbers
        if outer is None:
            outer = row_numbers(steps.program, steps.outer, step.rows)
        if outer.name not in found:
            found[outer.name] = param(inner, "number", outer.type)
        return var_of(steps.program, inner, found[outer.name])

    places = dict.fromkeys(step.params, (0,))
    number_draws(steps.program, inner, step.rows, places, cache(numbers))
    return replace(step, given=[*found], params=[*found.values()])


def param(inner: SymbolTable, stem: str, type_: Type) -> str:
    """A new parameter of a block."""
    return inner.add_param(inner.names.unique(stem), type_).name


def _places(inner: SymbolTable, total: Size, results: Sequence[str]) -> dict[str, list[int]]:
    """The axes of captures that are as long as the batch."""
    read = [*(name for op in inner.ops for name in op.reads()), *results]
    captures = (name for name in dict.fromkeys(read) if name not in inner.vars)
    found = {n: [i for i, s in enumerate(sizes_of(inner, n)) if s == total] for n in captures}
    return {name: axes for name, axes in found.items() if axes}


def _sources(steps: Steps) -> dict[str, int]:
    """What tells rows outside of the step: each variable with its axis of rows."""
    found = {cut.source.name: 1 for cut in steps.slices}
    inits = [*(memory.init for memory in steps.memories), steps.lengths, steps.numbers]
    return found | {init.name: 0 for init in inits if init is not None}


def sizes_of(table: SymbolTable, name: str) -> tuple[Size, ...]:
    """The sizes of something visible; of a list none."""
    found = table.type_of(name)
    return found.shape if isinstance(found, TensorType) else ()
