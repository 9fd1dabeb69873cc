"""Forward mode as a program (Jacobian-vector products).

`PushForward` walks the operators of one block in order, and computes the tangent of each output
from those of the inputs. Operators that own blocks propagate tangents through their bodies.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from functools import partial

from braces.builder.append import apply, as_var
from braces.builder.builder import Builder
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Operand, Var, visible_var
from braces.define.core.kernel_call import call_rule
from braces.define.decorator import OPS, OpDef
from braces.errors import GradientError
from braces.ir.records import Op, Slots
from braces.ir.walk import ancestors, producers, rename_slots
from braces.ops.control.core.block_op import BlockOp
from braces.ops.control.core.residuals import ResidualListTable
from braces.ops.lists.cotangents import add_cotangents, has_cotangent, zeros_like
from braces.passes.autodiff.common import (
    Named,
    OneOrMore,
    OpContext,
    as_list,
    dependence_operands,
    derivative_block,
    open_blocks,
)
from braces.passes.autodiff.reverse_mode import Backprop
from braces.passes.autodiff.written_derivatives import check_types


class OpJvpContext(OpContext):
    """An operator that owns blocks; see `differentiation.JvpContext`."""

    def __init__(self, push: PushForward, op: Op) -> None:
        super().__init__(push.program, push.host, op)
        self._push = push
        self._into = push.program.current
        self._is_separate = self._into is not push.host or not push.sources.isdisjoint(
            op.binds()
        )

    @property
    def tangents(self) -> Mapping[str, Var]:
        """Tangents of all values before the operator that have one."""
        return self._push.tangents

    @property
    def is_separate(self) -> bool:
        """True if the tangents require a separate operator."""
        return self._is_separate

    def jvp(self, body: SymbolTable, tangents: Mapping[str, Var]) -> dict[str, Var]:
        """Return the tangents of all values in a block under construction."""
        return PushForward(self.program, body, dict(tangents)).run()

    def vjp(
        self, body: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: cotangents of `wanted`, from those of its results."""
        return Backprop(self.program, body, dict(seeds), wanted, ResidualListTable()).run()

    def set_tangent(self, name: str, tangent: Var) -> None:
        """Set the tangent of an output."""
        self._push.tangents[name] = tangent

    def declare(self, name: str) -> str:
        """Declare a new output: the tangent of this output."""
        tangent_name = self._into.names.unique(f"{name}_tangent")
        self._into.new_var(tangent_name, self.host.type_of(name))
        self._push.tangents[name] = self.var(tangent_name)
        return tangent_name

    def widen(self, op: Op) -> None:
        """Replace the operator by the one with tangents, or append that separately."""
        if not self._is_separate:
            self.replace(op)
            return
        into = self._into
        names = {name: into.names.unique(name) for name in self.op.binds()}
        for name, new in names.items():
            into.new_var(new, self.host.type_of(name))
        new_name = into.names.unique(f"{op.name}_tangent")
        into.append(op.with_(name=new_name, outputs=rename_slots(op.outputs, names)))

    def var(self, name: str) -> Var:
        """Return the handle of a variable visible where tangents are built."""
        return visible_var(self.program, self._into, name)


class PushForward:
    """Forward mode over one block; tangents are built in the program's current block.

    That is the block itself, or one inside of it. A tangent may depend on the outputs of an
    operator with blocks. Then that operator cannot return dependent tangents, and a second
    operator does.

    Attributes:
        tangents: The initial tangents, and then those of all dependent values.
        sources: The names of the block that the initial tangents depend on.
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
        """Return the tangents of all dependent values.

        Operators that bind none of the names in `needed`, if not `None`, are skipped.
        """
        for op in list(self.host.ops):
            definition = OPS.get(op.type)
            if not any(name in self.tangents for name in dependence_operands(op, definition)):
                continue
            if needed is None or any(name in needed for name in op.binds()):
                with self.program.at(op.source):
                    self._step(op, definition)
        if self.program.current is self.host:
            sort_topologically(self.host)
        return self.tangents

    def _step(self, op: Op, definition: OpDef) -> None:
        initial = {name: self.tangents[name] for name in op.binds() if name in self.tangents}
        if isinstance(definition, BlockOp):
            definition.build_jvp(OpJvpContext(self, op))
        elif definition.differentiable:
            self._push_kernel(definition, op)
        if not definition.transparent:  # transparent operators add them inside
            for name, tangent in initial.items():
                if (computed := self.tangents[name]) is not tangent:
                    self.tangents[name] = add_cotangents(tangent, computed)

    def _vars(self, slots: Slots) -> dict[str, tuple[Var, ...]]:
        return {
            slot: tuple(visible_var(self.program, self.host, name) for name in names)
            for slot, names in slots.items()
        }

    def _push_kernel(self, definition: OpDef, op: Op) -> None:
        outs = {
            slot: names
            for slot, names in op.outputs.items()
            if names and has_cotangent(self.host.type_of(names[0]))
        }
        if not outs:
            return
        values = self._vars(op.inputs)
        moves = {slot: self._slot_tangents(slot_vars) for slot, slot_vars in values.items()}
        if definition.jvp_rule is not None:
            known = values | self._vars(op.outputs)
            arguments, at = [known, moves, op.attrs], op.describe()
            rule, read = definition.jvp_rule, partial(_read_tangents, op)
            new_tangents = call_rule(definition.type, "jvp", rule, arguments, {}, read, at)
            check_types(op, "jvp", rule, known, new_tangents)
        else:
            derived = OPS.get(f"{definition.type}.jvp")
            operands = dict(values) | {s + derived.suffix: m for s, m in moves.items() if m}
            slots = [slot + derived.suffix for slot in outs]
            results = apply(derived, operands, op.attrs, wanted=slots)
            new_tangents = {
                slot.removesuffix(derived.suffix): vs for slot, vs in results.items()
            }
        for slot, names in outs.items():
            if slot in new_tangents:
                self.tangents.update(zip(names, new_tangents[slot], strict=True))

    def _slot_tangents(self, values: tuple[Var, ...]) -> tuple[Var, ...]:
        """Return the tangents of one slot: all of them, or none if none is nonzero."""
        if not any(var.name in self.tangents for var in values):
            return ()
        return tuple(
            self.tangents[var.name] if var.name in self.tangents else zeros_like(var)
            for var in values
        )


def _read_tangents(op: Op, results: Mapping[str, Sequence[object]]) -> dict[str, list[Var]]:
    """Check that the result of a rule is tangents, one for each output of a slot."""
    return {
        slot: [_check_is_var(value) for _, value in zip(op.outputs[slot], values, strict=True)]
        for slot, values in results.items()
    }


def _check_is_var(value: object) -> Var:
    if not isinstance(value, Var):
        raise TypeError
    return value


def sort_topologically(host: SymbolTable) -> None:
    """Sort the operators of a block topologically; stable."""
    makers, done_ids, order = producers(host.ops), set[int](), list[Op]()
    for start in host.ops:
        stack: list[tuple[Op, bool]] = [(start, False)]
        while stack:
            op, ready = stack.pop()
            if id(op) in done_ids:
                continue
            if ready:
                done_ids.add(id(op))
                order.append(op)
                continue
            stack.append((op, True))
            needed = [
                makers[n] for n in op.reads() if n in makers and id(makers[n]) not in done_ids
            ]
            stack.extend((dependency, False) for dependency in reversed(needed))
    host.exchange(order)


@with_user_line
def jvp(
    targets: OneOrMore[Named],
    inputs: OneOrMore[Named],
    tangents: OneOrMore[Operand],
) -> list[Var | None]:
    """Return the directional derivatives of targets, as new operators of the program.

        out[i] = sum over inputs x: (d targets[i] / dx) tangent of x

    Args:
        targets: Variables, or their names; a single variable is a list of length 1.
        inputs: Variables to differentiate with respect to, or their names.
        tangents: The direction: one variable of the same type for each input.

    Returns:
        One variable for each target; `None` if it does not depend on any input.

    Raises:
        GradientError: If the numbers or types of variables and tangents differ, or the dtype of
            a variable is not a float dtype.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [2])
        ...     [tangent] = br.jvp([x**2], [x], [br.ones([2])])
        >>> br.Executor().run(prog, br.Scope(), {"x": [1.0, 3.0]}, [tangent])
        [array([2., 6.], dtype=float32)]
    """
    return build_jvp(as_list(targets), as_list(inputs), as_list(tangents))


def build_jvp(
    targets: Sequence[Named], inputs: Sequence[Named], tangents: Sequence[Operand]
) -> list[Var | None]:
    """Return the directional derivatives of targets; see `jvp`."""
    if len(inputs) != len(tangents) or not targets:
        raise GradientError(
            f"expected one tangent for each input, got {len(inputs)} inputs and "
            f"{len(tangents)} tangents."
        )
    with derivative_block("jvp", targets, inputs) as (host, ends, starts, recording):
        moves: dict[str, Var] = {}
        for var, tangent in zip(starts, tangents, strict=True):
            moves[var.name] = _check_tangent(var, as_var(tangent, var.dtype))
        recording.seeds = [moves[var.name] for var in starts]
        recording.results = build_jvp_from(host, ends, moves)
        return list(recording.results)


def build_jvp_from(
    host: SymbolTable, ends: Sequence[Var], moves: dict[str, Var]
) -> list[Var | None]:
    """Return the tangents of values visible in a block, built in the current block.

    That is the block itself, or one inside of it.
    """
    sources = ancestors(host.ops, [tangent.name for tangent in moves.values()])
    for table, needed in _tables_around(host, {target.name for target in ends}):
        moves = PushForward(ends[0].program, table, moves, sources).run(needed)
    return [moves.get(target.name) for target in ends]


def _tables_around(host: SymbolTable, wanted: set[str]) -> list[tuple[SymbolTable, set[str]]]:
    """Return the current block and its enclosing plain blocks, outermost first.

    Each has the names that are needed in it: targets and all values that they depend on.
    """
    tables = list[tuple[SymbolTable, set[str]]]()
    for table in open_blocks(host):
        wanted = ancestors(table.ops, wanted)
        tables.append((table, wanted))
    return tables[::-1]


def _check_tangent(var: Var, tangent: Var) -> Var:
    if tangent.type != var.type:
        raise GradientError(
            f"type mismatch between `{var.name}` and its tangent.",
            given=f"{var.name}: {var.type}   tangent: {tangent.type}",
            fix="Pass a tangent with the dtype and shape of its variable.",
        )
    return tangent
