"""Forward mode as a program.

`PushForward` walks the operators of one block in order and gives each output the tangent that
follows from those of the inputs. Operators that own blocks carry tangents through their bodies.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from functools import partial

from braces.builder.append import apply, as_var
from braces.builder.builder import Builder
from braces.builder.source_line import says_where
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Operand, Var, visible_var
from braces.define.core.kernel_call import ask
from braces.define.decorator import OPS, OpDef
from braces.errors import GradientError
from braces.ir.records import Op, Slots
from braces.ir.walk import ancestors, producers, rename_slots
from braces.ops.control.core.block_op import BlockOp
from braces.ops.control.core.residuals import Lists
from braces.ops.lists.cotangents import add, differentiable, zeros_like
from braces.passes.autodiff.common import (
    AtOperator,
    Named,
    OneOrMore,
    as_list,
    derived_beside,
    moving,
    open_blocks,
)
from braces.passes.autodiff.reverse_mode import Backprop


class OpPushing(AtOperator):
    """An operator that owns blocks; `braces.ops.control.core.differentiation.Pushing`."""

    def __init__(self, push: PushForward, op: Op) -> None:
        super().__init__(push.program, push.host, op)
        self._push = push
        self._into = push.program.current
        self._apart = self._into is not push.host or not push.sources.isdisjoint(op.binds())

    @property
    def tangents(self) -> Mapping[str, Var]:
        """The tangents of all that moves before it."""
        return self._push.tangents

    @property
    def apart(self) -> bool:
        """Whether the tangents belong into an operator of their own."""
        return self._apart

    def push(self, body: SymbolTable, tangents: Mapping[str, Var]) -> dict[str, Var]:
        """The tangents of all that moves in a block that is being built."""
        return PushForward(self.program, body, dict(tangents)).run()

    def pull(
        self, body: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: cotangents of `wanted`, from those of its results."""
        return Backprop(self.program, body, dict(seeds), wanted, Lists()).run()

    def give(self, name: str, tangent: Var) -> None:
        """Say the tangent of an output."""
        self._push.tangents[name] = tangent

    def declare(self, name: str) -> str:
        """A new output: the tangent of this output."""
        made = self._into.names.unique(f"{name}_tangent")
        self._into.new_var(made, self.host.type_of(name))
        self._push.tangents[name] = self.var(made)
        return made

    def widen(self, op: Op) -> None:
        """Put the operator with tangents in the place of this one, or apart beside it."""
        if not self._apart:
            self.replace(op)
            return
        into = self._into
        names = {name: into.names.unique(name) for name in self.op.binds()}
        for name, new in names.items():
            into.new_var(new, self.host.type_of(name))
        again = into.names.unique(f"{op.name}_tangent")
        into.append(op.with_(name=again, outputs=rename_slots(op.outputs, names)))

    def var(self, name: str) -> Var:
        """The handle of a variable that is visible where tangents are built."""
        return visible_var(self.program, self._into, name)


class PushForward:
    """Forward mode over one block, building into the program's current block.

    That is the block itself, or one inside of it. A tangent may be computed from what an
    operator with blocks binds: then the operator cannot give tangents that follow from it, and
    one more operator does.

    Attributes:
        tangents: Those that are given, and then of all that moves.
        sources: The names of the block that the given tangents are computed from.
    """

    def __init__(
        self,
        program: Builder,
        host: SymbolTable,
        tangents: dict[str, Var],
        sources: Set[str] = frozenset(),
    ) -> None:
        self.program = program
        self.host = host
        self.tangents = tangents
        self.sources = sources

    def run(self, needed: Container[str] | None = None) -> dict[str, Var]:
        """The tangents of all that moves.

        Where `needed` is given, operators that bind none of these names are passed over.
        """
        for op in list(self.host.ops):
            definition = OPS.get(op.type)
            if not any(name in self.tangents for name in moving(op, definition)):
                continue
            if needed is None or any(name in needed for name in op.binds()):
                with self.program.at(op.source):
                    self._step(op, definition)
        if self.program.current is self.host:
            in_order(self.host)
        return self.tangents

    def _step(self, op: Op, definition: OpDef) -> None:
        given = {name: self.tangents[name] for name in op.binds() if name in self.tangents}
        if isinstance(definition, BlockOp):
            definition.build_jvp(OpPushing(self, op))
        elif definition.differentiable:
            self._push_plain(definition, op)
        if not definition.transparent:  # else it adds them up inside
            for name, tangent in given.items():
                if (found := self.tangents[name]) is not tangent:
                    self.tangents[name] = add(tangent, found)

    def _vars(self, slots: Slots) -> dict[str, tuple[Var, ...]]:
        return {
            slot: tuple(visible_var(self.program, self.host, name) for name in names)
            for slot, names in slots.items()
        }

    def _push_plain(self, definition: OpDef, op: Op) -> None:
        outs = {
            slot: names
            for slot, names in op.outputs.items()
            if names and differentiable(self.host.type_of(names[0]))
        }
        if not outs:
            return
        values = self._vars(op.inputs)
        moves = {slot: self._of_slot(given) for slot, given in values.items()}
        if definition.jvp_rule is not None:
            known = values | self._vars(op.outputs)
            arguments, at = [known, moves, op.attrs], op.describe()
            rule, read = definition.jvp_rule, partial(_read_tangents, op)
            found = ask(definition.type, "jvp", rule, arguments, {}, read, at)
        else:
            derived = OPS.get(f"{definition.type}.jvp")
            operands = dict(values) | {s + derived.suffix: m for s, m in moves.items() if m}
            slots = [slot + derived.suffix for slot in outs]
            made = apply(derived, operands, op.attrs, wanted=slots)
            found = {slot.removesuffix(derived.suffix): vs for slot, vs in made.items()}
        for slot, names in outs.items():
            if slot in found:
                self.tangents.update(zip(names, found[slot], strict=True))

    def _of_slot(self, values: tuple[Var, ...]) -> tuple[Var, ...]:
        """The tangents of one slot: all of them, or none where nothing moves or can move."""
        if not any(var.name in self.tangents for var in values):
            return ()
        return tuple(
            self.tangents[var.name] if var.name in self.tangents else zeros_like(var)
            for var in values
        )


def _read_tangents(op: Op, found: Mapping[str, Sequence[object]]) -> dict[str, list[Var]]:
    """What a rule gives, which must be tangents, one for each output of a slot."""
    return {
        slot: [_tangent(one) for _, one in zip(op.outputs[slot], given, strict=True)]
        for slot, given in found.items()
    }


def _tangent(found: object) -> Var:
    if not isinstance(found, Var):
        raise TypeError
    return found


def in_order(host: SymbolTable) -> None:
    """Sort the operators of a block so that each comes after what it reads; stable."""
    made, done, order = producers(host.ops), set[int](), list[Op]()
    for start in host.ops:
        stack: list[tuple[Op, bool]] = [(start, False)]
        while stack:
            op, ready = stack.pop()
            if id(op) in done:
                continue
            if ready:
                done.add(id(op))
                order.append(op)
                continue
            stack.append((op, True))
            needed = [made[n] for n in op.reads() if n in made and id(made[n]) not in done]
            stack.extend((one, False) for one in reversed(needed))
    host.exchange(order)


@says_where
def jvp(
    targets: OneOrMore[Named],
    inputs: OneOrMore[Named],
    tangents: OneOrMore[Operand],
) -> list[Var | None]:
    """The directional derivatives of targets, as new operators of the program.

        out[i] = sum over inputs x: (d targets[i] / dx) tangent of x

    Args:
        targets: Variables, or their names; a single one stands for a list of it.
        inputs: Variables that move, or their names.
        tangents: How they move: one variable of the same type for each input.

    Returns:
        One variable for each target; `None` where it does not depend on any input.

    Raises:
        GradientError: Numbers or types differ, or a variable is not of a float dtype.
    """
    return pushed(as_list(targets), as_list(inputs), as_list(tangents))


def pushed(
    targets: Sequence[Named], inputs: Sequence[Named], given: Sequence[Operand]
) -> list[Var | None]:
    """The directional derivatives of targets where inputs move so; see `jvp`."""
    if len(inputs) != len(given) or not targets:
        raise GradientError(f"There are {len(inputs)} inputs and {len(given)} tangents.")
    with derived_beside(targets, inputs) as (host, ends, starts):
        moves: dict[str, Var] = {}
        for var, tangent in zip(starts, given, strict=True):
            moves[var.name] = _check_tangent(var, as_var(tangent, var.dtype))
        return pushed_from(host, ends, moves)


def pushed_from(
    host: SymbolTable, ends: Sequence[Var], moves: dict[str, Var]
) -> list[Var | None]:
    """The tangents of what a block sees, built in the block that is written.

    That is the block itself, or one inside of it.
    """
    sources = ancestors(host.ops, [tangent.name for tangent in moves.values()])
    for table, needed in _tables_around(host, {target.name for target in ends}):
        moves = PushForward(ends[0].program, table, moves, sources).run(needed)
    return [moves.get(target.name) for target in ends]


def _tables_around(host: SymbolTable, wanted: set[str]) -> list[tuple[SymbolTable, set[str]]]:
    """The block that is being built, and those that it is plainly part of, from the outside in.

    Each with what is wanted in it, and all that this is computed from.
    """
    found = list[tuple[SymbolTable, set[str]]]()
    for table in open_blocks(host):
        wanted = ancestors(table.ops, wanted)
        found.append((table, wanted))
    return found[::-1]


def _check_tangent(var: Var, tangent: Var) -> Var:
    if tangent.type != var.type:
        raise GradientError(
            f"The tangent of `{var.name}` has another type.",
            given=f"{var.name}: {var.type}   tangent: {tangent.type}",
            fix="A tangent has the dtype and shape of its variable.",
        )
    return tangent
