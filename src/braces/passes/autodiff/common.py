"""What reverse and forward mode share: operators with blocks, reach, and arguments."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TypeAlias, TypeVar, cast

from braces.builder.builder import Builder, current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, named_var, shown, visible_var
from braces.define.decorator import OPS, OpDef
from braces.errors import GradientError
from braces.ir.records import VALUE, Body, Op, VarInfo
from braces.ops.control.core.block_op import BlockOp
from braces.ops.lists.cotangents import differentiable
from braces.passes.cleanup.dead_code import eliminate
from braces.passes.verify.program import verified_at_end

Named: TypeAlias = "str | Var | VarInfo"
"""A variable, its name or its declaration, all of which stand for it."""
T = TypeVar("T")
OneOrMore: TypeAlias = T | Sequence[T]


class AtOperator:
    """An operator that owns blocks; `braces.ops.control.core.differentiation.Derivative`."""

    def __init__(self, program: Builder, host: SymbolTable, op: Op) -> None:
        self._program = program
        self._host = host
        self._op = op
        self._before: list[Op] = []

    @property
    def program(self) -> Builder:
        """The program that is built."""
        return self._program

    @property
    def host(self) -> SymbolTable:
        """The block that the operator stands in."""
        return self._host

    @property
    def op(self) -> Op:
        """The operator, as it stands there now."""
        return self._op

    def var(self, name: str) -> Var:
        """The handle of a variable that the operator reads or binds."""
        return visible_var(self._program, self._host, name)

    def reachable(self, body: Body, names: Set[str]) -> set[str]:
        """All that depends on these names of a block."""
        return reachable(body, names)

    def eliminate(self, body: Body, results: Sequence[str]) -> Body:
        """A block with only what these results need."""
        return eliminate(body, results)

    def replace(self, op: Op) -> None:
        """Put another operator in the place of this one, which is `op` from then on.

        Before it come those that it was made to need.
        """
        self._host.replace(self._op, *self._before, op)
        self._op, self._before = op, []


def moving(op: Op, definition: OpDef) -> Iterator[str]:
    """What moves outputs: inputs, and other outputs where one can see into the operator."""
    yield from op.reads()
    if definition.transparent:
        yield from op.binds()


def reachable(block: SymbolTable | Body, wanted: Iterable[str]) -> set[str]:
    """The variables that depend on `wanted` in a way that gradients follow."""
    return following(block.ops, block.vars, wanted)


def following(
    ops: Iterable[Op], infos: Mapping[str, VarInfo], wanted: Iterable[str]
) -> set[str]:
    """`reachable`, of a block of which only these operators concern."""
    active = set(wanted)
    for op in ops:
        definition = OPS.get(op.type)
        if not definition.differentiable or active.isdisjoint(moving(op, definition)):
            continue
        own_blocks = isinstance(definition, BlockOp)
        found = definition.reached(op, active, reachable) if own_blocks else op.binds()
        active.update(name for name in found if differentiable(infos[name].type))
    return active


def leading_to(table: SymbolTable, names: Iterable[str]) -> list[Op]:
    """The operators of a block that these names are computed from, in order.

    What stands before all of them is not looked at, so a gradient costs no more where much was
    built before.
    """

    def bound(names: Iterable[str]) -> Iterator[str]:
        return (n for n in names if n in table.vars and table.vars[n].kind == VALUE)

    missing, found = set(bound(names)), list[Op]()
    for op in reversed(table.ops):
        if not missing:
            break
        if not missing.isdisjoint(op.binds()):
            missing.difference_update(op.binds())
            missing.update(bound(op.reads()))
            found.append(op)
    return found[::-1]


def moves(table: SymbolTable, name: str) -> bool:
    """Whether gradients can be with respect to something that a visible variable follows from.

    That is data, trainable parameters, and what the owners of blocks bind.
    """
    owner = table.table_of(name)
    assert owner is not None
    info = owner.vars[name]
    if info.kind != VALUE:
        return differentiable(info.type) and (info.trainable or not info.persistable)
    ops = leading_to(owner, [name])
    made = {one for op in ops for one in op.binds()}
    read = {one for op in ops for one in op.reads()} - made
    return name in following(ops, owner.vars, {one for one in read if moves(owner, one)})


def open_blocks(host: SymbolTable) -> list[SymbolTable]:
    """A block, and those around it as long as they are plain; from the inside out."""
    tables = [host]
    while tables[-1].block and (parent := tables[-1].parent) is not None:
        tables.append(parent)
    return tables


# ---- what is given --------------------------------------------------------------------------


def as_list(given: OneOrMore[T]) -> list[T]:
    """A list of what is given, or of the one thing that is."""
    several = isinstance(given, list | tuple)
    return list(cast("Sequence[T]", given)) if several else [cast("T", given)]


@contextmanager
def derived_beside(
    targets: Sequence[object], inputs: Sequence[object]
) -> Generator[tuple[SymbolTable, list[Var], list[Var]]]:
    """Where derivatives are built: the block, and targets and inputs as they are seen there.

    What was built is verified at the end.

    Raises:
        GradientError: Something is no variable, or not of a float dtype.
    """
    ends, starts = differentiable_vars(targets), differentiable_vars(inputs, targets)
    program = ends[0].program
    with verified_at_end(program) as host:
        ends, starts = list(map(shown, ends)), list(map(shown, starts))
        for var in (*ends, *starts):
            check_visible(program, var)
        yield host, ends, starts


def differentiable_vars(given: Sequence[object], beside: Sequence[object] = ()) -> list[Var]:
    """What is given as variables; names and declarations stand for those of the program.

    That is the program of the first variable among all that is given, or the current one.

    Raises:
        GradientError: Something is no variable, or not of a float dtype.
        UnknownNameError: There is no variable of a name.
    """
    programs = (var.program for var in (*given, *beside) if isinstance(var, Var))
    program = next(programs, None) or current_program()
    return [_differentiable(_named(program, one)) for one in given]


def _named(program: Builder, given: object) -> object:
    if isinstance(given, str | VarInfo):
        return named_var(program, given if isinstance(given, str) else given.name)
    return given


def _differentiable(var: object) -> Var:
    if not isinstance(var, Var):
        raise GradientError(f"{var!r:.80} is not a variable of a program.")
    if not differentiable(var.type):
        raise GradientError(
            f"`{var.name}` has no gradient: its dtype is not a float.",
            given=f"{var.name}: {var.type}",
            fix="Use br.cast(x, 'float32') before the computation, if it should be continuous.",
        )
    return var.read()
