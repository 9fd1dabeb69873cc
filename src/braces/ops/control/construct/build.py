"""Putting a construct into the block that is being built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from braces.builder.append import apply, one
from braces.builder.builder import Builder, current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of, visible_var
from braces.dims import Size
from braces.dtypes import Type
from braces.ir.records import (
    ARGUMENT,
    BLOCK,
    CAPTURES,
    CUSTOM_GRADIENT,
    IDENTITY,
    Body,
    Op,
    VarInfo,
)
from braces.ir.views import (
    BlockView,
    CustomGradientView,
    LoopView,
    Memory,
    PartitionView,
    Slice,
    SwitchView,
)
from braces.ir.walk import all_bodies, rename_body

T = TypeVar("T")


@dataclass(frozen=True)
class Carried:
    """A memory of a loop that is not built yet.

    Attributes:
        init: What it starts with.
        param: The body's name of it before a trip.
        next: The body's name of it after a trip.
    """

    init: Var
    param: str
    next: str


@dataclass(frozen=True)
class Cut:
    """A slice of a loop that is not built yet.

    Attributes:
        source: What is cut.
        param: The body's name of one piece.
    """

    source: Var
    param: str


@dataclass(frozen=True)
class Looped:
    """What a loop gives.

    Attributes:
        finals: The last values of its memories.
        rows: What it collected.
        trips: How many there were.
    """

    finals: tuple[Var, ...]
    rows: tuple[Var, ...]
    trips: Var


def build_block(
    types: Sequence[Type],
    build: Callable[[list[Var]], Sequence[Var]],
    names: Sequence[str] = (),
) -> Body:
    """A block inside the current one: its parameters, and what is built from them.

    Args:
        types: Those of the parameters.
        build: From the parameters to the results, appending to the block.
        names: What the parameters are called; made up where none are said.
    """
    program = current_program()
    table = SymbolTable(parent=program.current)
    table.params = list(names or (table.names.unique("given") for _ in types))
    for name, type_ in zip(table.params, types, strict=True):
        table.vars[name] = VarInfo(name, type_, ARGUMENT)
    with program.building(table):
        made = build([var_of(program, table, name) for name in table.params])
    return close_block(table, lambda: made)


def close_block(table: SymbolTable, give: Callable[[], Sequence[Var]]) -> Body:
    """A block that is built, and what it gives; that may be built now, too."""
    with current_program().building(table):
        results = [v if v.name in table.vars else one(IDENTITY, v) for v in give()]
    return table.freeze(v.name for v in results)


def put_again(body: Body, given: Mapping[str, Var]) -> list[Var]:
    """Append the operators of a block to the one being built, under new names.

    What the block reads from outside is visible in it.

    Args:
        body: The block.
        given: What stands for its parameters, as far as they are read.

    Returns:
        Its results.
    """
    program = current_program()
    table = program.current
    inner = {n for sub, around in all_bodies(body) if around is not None for n in sub.vars}
    stand = {
        param: (one(IDENTITY, var) if var.name in inner else var).name
        for param, var in given.items()
    }
    infos = {name: info for name, info in body.vars.items() if name not in body.params}
    names = stand | {name: table.names.unique(name) for name in infos}
    here = rename_body(body.with_(params=(), vars=infos), names)
    for op in here.ops:
        called = names.get(op.name) or table.names.unique(op.name)
        table.append(op.with_(name=called), [here.vars[name] for name in op.binds()])
    return [visible_var(program, table, name) for name in here.results]


def build_plain_block(name: str, build: Callable[[], T], recompute: bool = False) -> T:
    """Append a plain block, and what is built in it; what that gives can be read after it.

    Args:
        name: What it is called; there is a count where another block is called so.
        build: Appends to the block.
        recompute: Whether gradients run it again in place of keeping values.
    """
    program, outer = current_program(), current_program().current
    called = free_block_name(outer, name)
    table = SymbolTable(parent=outer, block=called)
    with program.building(table):
        made = build()
    if table.ops:
        append_plain_block(called, table.freeze(), recompute)
        table.closed = True
    return made


def append_plain_block(name: str, body: Body, recompute: bool) -> None:
    """Append a plain block that gives nothing yet."""
    apply(BLOCK, {}, BlockView.attributes(body, recompute), wanted=(), name=name)


def free_block_name(table: SymbolTable, chosen: str) -> str:
    """A name for a block of this table, with a count where another one is called so."""
    name = table.names.unique_block(chosen)
    while name in table.names.taken and table.find_op(name) is not None:
        name = table.names.unique_block(chosen)
    return name


def build_custom_gradient(
    values: Sequence[Var], inputs: Sequence[Var], gradient: Body
) -> tuple[Var, ...]:
    """Append what gives values another gradient; the values that have it.

    Raises:
        BracesError: The gradient does not fit.
    """
    operands = CustomGradientView.operands(values, inputs)
    return apply(CUSTOM_GRADIENT, operands, CustomGradientView.attributes(gradient))["out"]


def build_loop(
    loop: LoopView, memories: Sequence[Carried], slices: Sequence[Cut] = ()
) -> Looped:
    """Append a loop with these memories and slices.

    Raises:
        BracesError: Its blocks and inputs do not fit.
    """
    carried = (Memory(one.init.name, one.param, one.next) for one in memories)
    cut = (Slice(one.source.name, one.param) for one in slices)
    view = replace(loop, memories=tuple(carried), slices=tuple(cut))
    inits, sources = [one.init for one in memories], [one.source for one in slices]
    operands = LoopView.operands(inits, sources)
    if view.count is not None:
        program = current_program()
        operands["count"] = [visible_var(program, program.current, view.count)]
    made = apply(view.origin.type, operands, view.attrs)
    built, var = _appended(made)
    view = LoopView.of(built)
    return Looped(
        tuple(var[memory.final] for memory in view.memories),
        tuple(var[row.stacked] for row in view.rows),
        var[view.trips],
    )


def build_loop_around(
    loop: LoopView, init: Sequence[Var], sliced: Sequence[Var] = ()
) -> Looped:
    """Append a loop whose body is complete, as `LoopView.around` makes one.

    Args:
        loop: The loop, whose memories and slices have no variables outside yet.
        init: What its memories start with, in order.
        sliced: What its slices cut, in order.

    Raises:
        BracesError: Its blocks and inputs do not fit.
    """
    memories = zip(init, loop.memories, strict=True)
    slices = zip(sliced, loop.slices, strict=True)
    return build_loop(
        loop,
        [Carried(value, memory.param, memory.next) for value, memory in memories],
        [Cut(value, part.param) for value, part in slices],
    )


def build_switch(index: Var, cases: Sequence[Body], total: bool) -> tuple[Var, ...]:
    """Append a switch with these cases; its outputs.

    Raises:
        BracesError: They do not fit together.
    """
    attrs = SwitchView.attributes(cases, total)
    op, var = _appended(apply("switch", SwitchView.operands(index), attrs))
    return tuple(var[out.name] for out in SwitchView.of(op).outputs)


def build_partition(
    masks: Sequence[Var],
    rows: Sequence[Var],
    cases: Sequence[Body],
    counts: Sequence[Size],
    compact: bool = True,
    sums: int = 0,
) -> tuple[Var, ...]:
    """Append a row-wise branch; its outputs: rows, and sums of the last so many results.

    Raises:
        BracesError: Cases, masks and rows do not fit together.
    """
    attrs = PartitionView.attributes(cases, counts, len(cases[-1].results) - sums, compact)
    op, var = _appended(apply("partition", PartitionView.operands(masks, rows), attrs))
    return tuple(var[out.name] for out in PartitionView.of(op).outputs)


def _appended(made: Mapping[str, Iterable[Var]]) -> tuple[Op, Mapping[str, Var]]:
    """The operator that was just appended, and its outputs by name."""
    found = {var.name: var for values in made.values() for var in values}
    table = next(iter(found.values())).table
    return table.ops[-1], found


def append_construct(program: Builder, op: Op) -> tuple[Op, Mapping[str, Var]]:
    """Append an operator that owns blocks and has no outputs yet.

    Its inputs are visible in the block that is being built.

    Returns:
        The operator with outputs, and their variables by name.

    Raises:
        BracesError: Its blocks and inputs do not fit.
    """
    operands = {
        slot: tuple(visible_var(program, program.current, name) for name in names)
        for slot, names in op.inputs.items()
        if slot != CAPTURES
    }
    with program.at(op.source):
        return _appended(apply(op.type, operands, op.attrs))
