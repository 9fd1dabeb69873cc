"""Forward mode as a program.

`push_forward` walks the operators of one block in order and gives each output the tangent that
follows from those of the inputs. Operators that own blocks carry tangents through their bodies.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set

from braces.builder.program import Builder
from braces.builder.source import says_where
from braces.builder.table import SymbolTable
from braces.builder.var import Operand, Var, apply, as_var, shown, visible_var
from braces.define.decorator import OPS, OpDef
from braces.errors import GradientError
from braces.ir.records import Op, VarInfo
from braces.ir.walk import ancestors, producers
from braces.ops.control.base import BlockOp
from braces.ops.control.cotangents import differentiable, zeros_like
from braces.passes.backward import (
    AtOperator,
    OneOrMore,
    as_list,
    differentiable_vars,
    moving,
    open_blocks,
    reachable,
)
from braces.passes.verify import verified_at_end


class OpPushing(AtOperator):
    """An operator that owns blocks; `braces.ops.control.derivatives.Pushing`."""

    def __init__(self, program: Builder, host: SymbolTable, op: Op, tangents: dict[str, Var]):
        super().__init__(program, host, op)
        self._tangents = tangents

    @property
    def tangents(self) -> Mapping[str, Var]:
        """The tangents of all that moves before it."""
        return self._tangents

    def push(self, body: SymbolTable, tangents: Mapping[str, Var]) -> dict[str, Var]:
        """The tangents of all that moves in a block that is being built."""
        return push_forward(self.program, body, dict(tangents))

    def declare(self, name: str) -> str:
        """A new output: the tangent of this output."""
        made = self.host.names.unique(f"{name}_tangent")
        self.host.new_var(made, self.host.type_of(name))
        self._tangents[name] = self.var(made)
        return made


def push_forward(
    program: Builder,
    host: SymbolTable,
    tangents: dict[str, Var],
    needed: Container[str] | None = None,
) -> dict[str, Var]:
    """The tangents of all that moves in a block, which is the one being built.

    Where `needed` is given, operators that bind none of these names are passed over.
    """
    for op in list(host.ops):
        definition = OPS.get(op.type)
        if not any(name in tangents for name in moving(op, definition)):
            continue
        if needed is not None and not any(name in needed for name in op.binds()):
            continue
        with program.at(op.source):
            if isinstance(definition, BlockOp):
                definition.build_jvp(OpPushing(program, host, op, tangents))
            elif definition.differentiable:
                _push_plain(program, host, definition, op, tangents)
    in_order(host)
    return tangents


def _push_plain(
    program: Builder, host: SymbolTable, definition: OpDef, op: Op, tangents: dict[str, Var]
) -> None:
    outs = {
        slot: names
        for slot, names in op.outputs.items()
        if names and differentiable(host.type_of(names[0]))
    }
    if not outs:
        return
    values = {
        slot: tuple(visible_var(program, host, n) for n in ns) for slot, ns in op.inputs.items()
    }
    moves = {slot: _slot_tangents(given, tangents) for slot, given in values.items()}
    if definition.jvp_rule is not None:
        results = {
            slot: tuple(visible_var(program, host, n) for n in ns)
            for slot, ns in op.outputs.items()
        }
        found: Mapping[str, Sequence[Var]] = definition.jvp_rule(
            values | results, moves, op.attrs
        )
    else:
        derived = OPS.get(f"{definition.type}.jvp")
        operands = dict(values) | {s + derived.suffix: m for s, m in moves.items() if m}
        slots = [slot + derived.suffix for slot in outs]
        made = apply(derived, operands, op.attrs, wanted=slots)
        found = {slot.removesuffix(derived.suffix): vs for slot, vs in made.items()}
    for slot, names in outs.items():
        tangents.update(zip(names, found.get(slot, ()), strict=False))


def _slot_tangents(values: tuple[Var, ...], tangents: dict[str, Var]) -> tuple[Var, ...]:
    """The tangents of one slot: all of them, or none where nothing moves or can move."""
    if not any(var.name in tangents for var in values):
        return ()
    return tuple(
        tangents[var.name] if var.name in tangents else zeros_like(var) for var in values
    )


def in_order(host: SymbolTable) -> None:
    """Sort the operators of a block so that each comes after what it reads; stable.

    Raises:
        GradientError: A tangent depends on the loop, branch or block that it is pushed through.
    """
    made, done, order = producers(host.ops), set[int](), list[Op]()
    for start in host.ops:
        stack: list[tuple[Op, bool]] = [(start, False)]
        path: set[int] = set()
        while stack:
            op, visited = stack.pop()
            if visited:
                path.discard(id(op))
                if id(op) not in done:
                    done.add(id(op))
                    order.append(op)
                continue
            if id(op) in done:
                continue
            if id(op) in path:
                raise GradientError(
                    "A tangent depends on the loop, branch or block that it is pushed through.",
                    given=op.describe(),
                    fix="Compute the tangents from something else.",
                )
            path.add(id(op))
            stack.append((op, True))
            needed = [made[n] for n in op.reads() if n in made and id(made[n]) not in done]
            stack.extend((one, False) for one in reversed(needed))
    host.ops = order
    host.touch()


@says_where
def jvp(
    targets: OneOrMore[Var],
    inputs: OneOrMore[Var | VarInfo],
    tangents: OneOrMore[Operand],
) -> list[Var | None]:
    """The directional derivatives of targets, as new operators of the program.

        out[i] = sum over inputs x: (d targets[i] / dx) tangent of x

    Args:
        targets: Variables; a single one stands for a list of it.
        inputs: Variables that move.
        tangents: How they move: one variable of the same type for each input.

    Returns:
        One variable for each target; `None` where it does not depend on any input.

    Raises:
        GradientError: Numbers or types differ, or a variable is not of a float dtype.
    """
    asked, given, moved = as_list(targets), as_list(tangents), as_list(inputs)
    if len(moved) != len(given) or not asked:
        raise GradientError(f"There are {len(moved)} inputs and {len(given)} tangents.")
    ends, starts = differentiable_vars(asked), differentiable_vars(moved, asked)
    program = ends[0].program
    with verified_at_end(program) as host:
        ends, starts = list(map(shown, ends)), list(map(shown, starts))
        moves: dict[str, Var] = {}
        for var, tangent in zip(starts, given, strict=True):
            moves[var.name] = _check_tangent(var, as_var(tangent, var.dtype))
        needed = ancestors(host.ops, [target.name for target in ends])
        _check_inside(host, moves.keys(), needed)
        pushed = push_forward(program, host, moves, needed)
        return [pushed.get(target.name) for target in ends]


def _check_inside(host: SymbolTable, moves: Set[str], needed: Set[str]) -> None:
    """Refuse to move what an open block reads and does not compute: it stands before it."""
    moved = set(moves)
    for table in reversed(open_blocks(host)[1:]):
        moved = reachable(table, moved)
    outside = sorted((moved - moves) & needed)
    if outside:
        raise GradientError(
            f"`{outside[0]}` moves, and is computed outside of the block that is being built.",
            given=f"{outside[0]}: {host.type_of(outside[0])}",
            fix="Call br.jvp after the `with` of the block.",
        )


def _check_tangent(var: Var, tangent: Var) -> Var:
    if tangent.type != var.type:
        raise GradientError(
            f"The tangent of `{var.name}` has another type.",
            given=f"{var.name}: {var.type}   tangent: {tangent.type}",
            fix="A tangent has the dtype and shape of its variable.",
        )
    return tangent
