"""Common parts of reverse and forward mode: block operators, dependence, and arguments."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias, TypeVar, cast

from braces.builder.builder import Builder, current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, expose, named_var, visible_var
from braces.define.decorator import OPS, OpDef
from braces.errors import GradientError
from braces.ir.records import DATA, VALUE, Body, Op, VarInfo
from braces.ops.control.core.block_op import BlockOp
from braces.ops.lists.cotangents import has_cotangent
from braces.passes.autodiff.backward_slice import backward_slice
from braces.passes.autodiff.recording import DerivationRecording, record_derivation
from braces.passes.cleanup.dead_code import eliminate
from braces.passes.verifier.program import verified_at_end

Named: TypeAlias = str | Var | VarInfo
"""A variable, its name or its declaration; all are accepted."""
T = TypeVar("T")
OneOrMore: TypeAlias = T | Sequence[T]


class OpContext:
    """An operator that owns blocks; see `differentiation.AutodiffContext`."""

    def __init__(self, program: Builder, host: SymbolTable, op: Op) -> None:
        self._program = program
        self._host = host
        self._op = op
        self._before: list[Op] = []

    @property
    def program(self) -> Builder:
        """The program under construction."""
        return self._program

    @property
    def host(self) -> SymbolTable:
        """The block of the operator."""
        return self._host

    @property
    def op(self) -> Op:
        """The operator, in its current form."""
        return self._op

    def var(self, name: str) -> Var:
        """Return the handle of a variable that the operator reads or binds."""
        return visible_var(self._program, self._host, name)

    def reachable(self, body: Body, names: Set[str]) -> set[str]:
        """Return all values that depend on these names of a block."""
        return reachable(body, names)

    def eliminate(self, body: Body, results: Sequence[str]) -> Body:
        """Return a block after dead code elimination for these results."""
        return eliminate(body, results)

    def replace(self, op: Op) -> None:
        """Replace the operator by another one, which is `op` from then on.

        Operators that it needs are inserted before it.
        """
        self._host.replace(self._op, *self._before, op)
        self._op, self._before = op, []


def dependence_operands(op: Op, definition: OpDef) -> Iterator[str]:
    """Yield the values that outputs depend on: inputs, and other outputs if transparent."""
    yield from op.reads()
    if definition.transparent:
        yield from op.binds()


def reachable(block: SymbolTable | Body, wanted: Iterable[str]) -> set[str]:
    """Return the variables that depend on `wanted` through differentiable operators."""
    return reachable_through(block.ops, block.vars, wanted)


def reachable_through(
    ops: Iterable[Op], infos: Mapping[str, VarInfo], wanted: Iterable[str]
) -> set[str]:
    """Return `reachable` for only some operators of a block."""
    active = set(wanted)
    for op in ops:
        definition = OPS.get(op.type)
        if not definition.differentiable or active.isdisjoint(
            dependence_operands(op, definition)
        ):
            continue
        own_blocks = isinstance(definition, BlockOp)
        dependent_names = (
            definition.reached(op, active, reachable) if own_blocks else op.binds()
        )
        active.update(name for name in dependent_names if has_cotangent(infos[name].type))
    return active


def is_differentiable_path(table: SymbolTable, name: str, *, data: bool = True) -> bool:
    """Return whether a visible variable depends on a differentiable variable.

    That is data, if `data` is true, trainable parameters, and the parameters of blocks.
    """
    return DifferentiablePaths(data=data).reach(table, name)


class DifferentiablePaths:
    """`is_differentiable_path` for many variables of a program that grows.

    Results are kept, so that each operator is visited once.

    Args:
        data: Whether data is differentiable.
    """

    def __init__(self, *, data: bool = True) -> None:
        self._data = data
        self._known = dict[tuple[SymbolTable, str], tuple[VarInfo, bool]]()

    def reach(self, table: SymbolTable, name: str) -> bool:
        """Return whether a visible variable depends on a differentiable variable."""
        owner = table.table_of(name)
        assert owner is not None
        info = owner.vars[name]
        if info.kind != VALUE:
            counts = info.trainable or not info.persistable
            is_data = info.kind == DATA
            return has_cotangent(info.type) and counts and (self._data or not is_data)
        if not self._is_known(owner, name):
            self._visit(owner, name)
        return self._known[owner, name][1]

    def _is_known(self, owner: SymbolTable, name: str) -> bool:
        """Return whether a result is known; a rollback may have bound the name to another."""
        info, _ = self._known.get((owner, name), (None, False))
        return info is not None and info is owner.vars.get(name)

    def _visit(self, owner: SymbolTable, name: str) -> None:
        """Find the results of the operators that compute a variable."""
        ops = backward_slice(owner, [name], partial(self._is_known, owner))
        bound_names = {bound for op in ops for bound in op.binds()}
        free = {read for op in ops for read in op.reads()} - bound_names
        starts = {read for read in free if self.reach(owner, read)}
        reached = reachable_through(ops, owner.vars, starts)
        for bound in bound_names:
            self._known[owner, bound] = owner.vars[bound], bound in reached


def open_blocks(host: SymbolTable) -> list[SymbolTable]:
    """Return a block and its enclosing blocks as long as they are plain, innermost first."""
    tables = [host]
    while tables[-1].block and (parent := tables[-1].parent) is not None:
        tables.append(parent)
    return tables


# ---- arguments -------------------------------------------------------------------------------


def as_list(argument: OneOrMore[T]) -> list[T]:
    """Return a list of several values, or of a single one."""
    is_sequence = isinstance(argument, list | tuple)
    return list(cast("Sequence[T]", argument)) if is_sequence else [cast("T", argument)]


@contextmanager
def derivative_block(
    function: str, targets: Sequence[object], inputs: Sequence[object]
) -> Generator[tuple[SymbolTable, list[Var], list[Var], DerivationRecording]]:
    """Yield the block in which derivatives are built, and its views of targets and inputs.

    New operators are verified at the end, and the call is recorded.

    Raises:
        GradientError: If an argument is not a variable, or not of a float dtype.
    """
    ends, starts = differentiable_vars(targets), differentiable_vars(inputs, targets)
    program = ends[0].program
    with verified_at_end(program) as host:
        ends, starts = list(map(expose, ends)), list(map(expose, starts))
        for var in (*ends, *starts):
            check_visible(program, var)
        with record_derivation(program, function, ends) as recording:
            recording.inputs = starts
            yield host, ends, starts, recording


def differentiable_vars(
    arguments: Sequence[object], beside: Sequence[object] = ()
) -> list[Var]:
    """Return the arguments as variables; names and declarations are looked up.

    The program of the lookup is that of the first variable among all arguments, or the current
    one.

    Raises:
        GradientError: If an argument is not a variable, or not of a float dtype.
        UnknownNameError: If a variable does not exist.
    """
    programs = (var.program for var in (*arguments, *beside) if isinstance(var, Var))
    program = next(programs, None) or current_program()
    return [_check_differentiable(_resolve_name(program, argument)) for argument in arguments]


def _resolve_name(program: Builder, argument: object) -> object:
    if isinstance(argument, str | VarInfo):
        return named_var(program, argument if isinstance(argument, str) else argument.name)
    return argument


def _check_differentiable(var: object) -> Var:
    if not isinstance(var, Var):
        raise GradientError(f"expected a variable of a program, got {var!r:.80}.")
    if not has_cotangent(var.type):
        raise GradientError(
            f"`{var.name}` is not differentiable: its dtype is not a float.",
            given=f"{var.name}: {var.type}",
            fix="For a continuous value, use br.cast(x, 'float32') before the computation.",
        )
    return var.read()
