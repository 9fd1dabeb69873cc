"""Reverse mode as a program (vector-Jacobian products).

`backprop` walks the operators of one block in reverse. Each definition computes the cotangents
of the inputs, which are accumulated per variable. Operators that own blocks call it recursively
for their bodies, so nesting needs nothing else.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TypeAlias

from braces.builder.append import apply, as_var, call, emit
from braces.builder.builder import Builder
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Operand, Var, tensor_type, visible_var
from braces.define.core.kernel_call import call_rule
from braces.define.decorator import OPS, OpDef, Slot
from braces.dtypes import ListType, TensorType
from braces.errors import GradientError
from braces.ir.records import IDENTITY, Op
from braces.ops.common.rules import AddInto, Backward, Cotangent, build_zeros
from braces.ops.control.core.block_op import BlockOp
from braces.ops.control.core.residuals import ResidualListTable
from braces.ops.lists.cotangents import (
    accumulate_cotangent,
    add_cotangents,
    has_cotangent,
    zeros_like_variable,
)
from braces.ops.lists.stack import EMPTY, list_attrs
from braces.passes.autodiff.backward_slice import backward_slice
from braces.passes.autodiff.common import (
    Named,
    OneOrMore,
    OpContext,
    as_list,
    derivative_block,
    differentiable_vars,
    open_blocks,
    reachable_through,
)
from braces.passes.autodiff.written_derivatives import (
    check_count,
    check_kernel,
    check_types,
)
from braces.passes.cleanup.loop_invariant_code_motion import hoist_all

Cotangents: TypeAlias = "Cotangent | Sequence[Cotangent]"
"""The cotangents of a slot, or a single one."""


_noted: ContextVar[dict[str, str] | None] = ContextVar("braces_noted_cotangents", default=None)


@contextmanager
def noting_cotangents(names: Iterable[str]) -> Generator[dict[str, str]]:
    """Note the cotangents of variables of any block, in derivatives built meanwhile.

    Args:
        names: The variables; their names are unique in the program.

    Yields:
        The variable of each cotangent in a block of the backward pass; empty if there is none.
    """
    noted = dict.fromkeys(names, "")
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


class OpVjpContext(OpContext):
    """An operator that owns blocks; see `differentiation.VjpContext`."""

    def __init__(self, backprop: Backprop, op: Op) -> None:
        super().__init__(backprop.program, backprop.host, op)
        self._backprop = backprop
        self._grads = {n: backprop.grads[n] for n in op.binds() if n in backprop.grads}

    @property
    def grads(self) -> Mapping[str, Var]:
        """The cotangents of its outputs."""
        return self._grads

    @property
    def lists(self) -> ResidualListTable:
        """The lists of residuals so far."""
        return self._backprop.lists

    def needs_grad(self, name: str) -> bool:
        """Return whether the cotangent of this input is needed."""
        return name in self._backprop.active and has_cotangent(self.host.type_of(name))

    def is_requested(self, name: str) -> bool:
        """Return whether the cotangent of this output is a result of the whole gradient."""
        return name in self._backprop.wanted

    def backprop(
        self, forward: SymbolTable, seeds: Mapping[str, Var], wanted: Set[str]
    ) -> dict[str, Var]:
        """Differentiate a block: cotangents of `wanted`, from those of its results."""
        return Backprop(self.program, forward, dict(seeds), wanted, self.lists).run()

    def zero_list(self, name: str) -> Var:
        """Return zeros with the length of a list."""
        return zeros_like_variable(self.program, self.host, name)

    def empty_list(self, element: TensorType, history: str, name: str = "") -> str:
        """Create an empty list for the next `replace`; return its name."""
        host = self.host
        info = host.new_var(name or host.names.unique("history"), ListType(element))
        attrs = OPS.get(EMPTY).bind_attrs(list_attrs(element, history))
        outputs, op_name = {"out": (info.name,)}, host.names.unique(EMPTY)
        self._before.append(Op(EMPTY, op_name, {}, outputs, attrs, self.op.source))
        return info.name

    def accumulate(self, name: str, grad: Var) -> None:
        """Add to the cotangent of an input."""
        self._backprop.accumulate(name, grad)

    def set_grad(self, name: str, grad: Var) -> None:
        """Set the total cotangent of an output that is a result."""
        self._backprop.grads[name] = grad


class Backprop:
    """Reverse mode over one block; cotangents are built in the program's current block."""

    def __init__(
        self,
        program: Builder,
        host: SymbolTable,
        grads: dict[str, Var],
        wanted: Set[str],
        lists: ResidualListTable,
    ) -> None:
        self.program = program
        self.host = host
        self.grads = grads
        self.wanted = wanted
        self.lists = lists
        self.ops = backward_slice(host, grads)
        self.active = reachable_through(self.ops, host.vars, wanted)

    def run(self) -> dict[str, Var]:
        """Return the cotangents of all variables that the walk reached."""
        for op in reversed(self.ops):
            if not self._is_active(op):
                continue
            with self.program.at(op.source):
                self._step(op)
        return self.grads

    def _is_active(self, op: Op) -> bool:
        bound = tuple(op.binds())
        return not (self.active.isdisjoint(bound) or self.grads.keys().isdisjoint(bound))

    def _step(self, op: Op) -> None:
        self._note(op)
        definition = OPS.get(op.type)
        if isinstance(definition, BlockOp):
            definition.build_gradient(OpVjpContext(self, op))
            return
        input_cotangents = (
            self._by_rule(definition, op)
            if definition.gradient_rule
            else self._by_kernel(definition, op)
        )
        for slot, cotangents in input_cotangents.items():
            names = op.inputs.get(slot, ())
            for name, cotangent in zip(names, as_list(cotangents), strict=True):
                self.accumulate(name, cotangent)

    def _note(self, op: Op) -> None:
        """Note the total cotangents of outputs, as variables of the current block."""
        noted = _noted.get() or {}
        for name in op.binds() if noted else ():
            if name in noted and name in self.grads:
                self.grads[name] = call(IDENTITY, self.grads[name])
                noted[name] = self.grads[name].name

    def accumulate(self, name: str, cotangent: Cotangent) -> None:
        """Add a cotangent to the sum of a variable."""
        if cotangent is None or name not in self.active:
            return
        so_far = self.grads.get(name)
        if isinstance(cotangent, AddInto):
            if so_far is None:
                so_far = zeros_like_variable(self.program, self.host, name)
            self.grads[name] = cotangent.into(so_far)
        else:
            self.grads[name] = (
                cotangent if so_far is None else add_cotangents(so_far, cotangent)
            )

    def _var(self, name: str) -> Var:
        return visible_var(self.program, self.host, name)

    def _slots(self, slots: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Var, ...]]:
        return {slot: tuple(map(self._var, names)) for slot, names in slots.items()}

    def _by_rule(self, definition: OpDef, op: Op) -> Mapping[str, Cotangents]:
        assert definition.gradient_rule is not None
        grads = {slot: tuple(self.grads.get(n) for n in ns) for slot, ns in op.outputs.items()}
        wanted = frozenset(n for n in op.reads() if n in self.active)
        view = Backward(
            self._slots(op.inputs),
            self._slots(op.outputs),
            grads,
            op.attrs,
            wanted,
            partial(zeros_like_variable, self.program, self.host),
        )
        rule, at = definition.gradient_rule, op.describe()
        read = partial(_read_cotangents, definition, op)
        grads = call_rule(definition.type, "gradient", rule, [view], {}, read, at)
        check_types(op, "gradient", rule, self._slots(op.inputs), grads)
        return grads

    def _by_kernel(self, definition: OpDef, op: Op) -> Mapping[str, Cotangents]:
        derived = OPS.get(f"{definition.type}.vjp")
        slots = [
            slot + derived.suffix
            for slot, names in op.inputs.items()
            if any(n in self.active for n in names) and derived.output(slot + derived.suffix)
        ]
        check_count(derived, op, self.active)
        if not slots:
            return {}
        variables = {**op.outputs, **op.inputs}
        operands = self._slots({s: n for s, n in variables.items() if derived.input(s)})
        for slot, names in op.outputs.items():
            grads = self._output_grads(derived.input(slot + derived.suffix), names)
            if grads:
                operands[slot + derived.suffix] = grads
        attrs = {
            n: v for n, v in op.attrs.items() if any(spec.name == n for spec in derived.attrs)
        }
        slots = check_kernel(derived, op, (operands, attrs), slots, self._slots(op.inputs))
        results = apply(derived, operands, attrs, wanted=slots) if slots else {}
        return {slot.removesuffix(derived.suffix): grads for slot, grads in results.items()}

    def _output_grads(self, slot: Slot | None, names: tuple[str, ...]) -> tuple[Var, ...]:
        """Return the cotangents of an input slot; zeros for missing ones if some exist."""
        missing = not any(n in self.grads for n in names)
        if slot is None or (missing and slot.optional):
            return ()
        return tuple(
            self.grads[n] if n in self.grads else build_zeros(tensor_type(self._var(n)))
            for n in names
        )


def _read_cotangents(
    definition: OpDef, op: Op, results: Mapping[str, object]
) -> dict[str, list[Cotangent]]:
    """Check that the result of a rule is cotangents, one for each input of a slot."""
    slots = ((definition.input_slots[slot].name, values) for slot, values in results.items())
    return {
        slot: [
            _check_is_cotangent(value)
            for _, value in zip(op.inputs.get(slot, ()), as_list(values), strict=True)
        ]
        for slot, values in slots
    }


def _check_is_cotangent(value: object) -> Cotangent:
    if not isinstance(value, Var | AddInto | None):
        raise TypeError
    return value


# ---- the public functions --------------------------------------------------------------------


@with_user_line
def gradients(
    targets: OneOrMore[Named],
    inputs: OneOrMore[Named],
    target_gradients: OneOrMore[Operand | None] = None,
) -> list[Var | None]:
    """Return the gradients of targets with respect to inputs, as new operators of the program.

        grads[i] = sum over targets y: (dy / d inputs[i])^T target_gradient of y

    Custom gradients (`br.custom_gradient`) are used where present.

    Args:
        targets: Variables, of any shape; a single variable is a list of length 1.
        inputs: Variables, differentiable and visible at the targets. A name or a declaration,
            as in `program.vars`, stands for its variable, here and there.
        target_gradients: One cotangent for each target, of its type; ones for `None`.

    Returns:
        One variable for each input; `None` if no target depends on it structurally. If a branch
        or loop that connects them did not run, the value is zero.

    Raises:
        GradientError: If the dtype of a target or input is not a float dtype, or the numbers or
            types of target gradients differ.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [3])
        ...     [x_grad] = br.gradients(br.sum(x**2), [x])
        >>> br.Executor().run(prog, br.Scope(), {"x": [1.0, 2.0, 3.0]}, [x_grad])
        [array([2., 4., 6.], dtype=float32)]
    """
    target_list = as_list(targets)
    cotangents = (
        [None] * len(target_list) if target_gradients is None else as_list(target_gradients)
    )
    return build_vjp(target_list, as_list(inputs), cotangents)


def build_vjp(
    targets: Sequence[Named], inputs: Sequence[Named], cotangents: Sequence[Operand | None]
) -> list[Var | None]:
    """Return the gradients of targets for given cotangents; see `gradients`."""
    if len(cotangents) != len(targets) or not targets:
        raise GradientError(
            f"expected one target gradient for each target, got {len(targets)} targets and "
            f"{len(cotangents)} target gradients.",
            fix="Pass one target gradient for each target, or omit them.",
        )
    with derivative_block("gradients", targets, inputs) as (host, ends, starts, recording):
        seeds = [
            _initial_cotangent(target, grad)
            for target, grad in zip(ends, cotangents, strict=True)
        ]
        grads = build_vjp_from(host, ends, starts, seeds)
        pairs = zip(cotangents, seeds, strict=True)
        recording.seeds = [None if grad is None else seed for grad, seed in pairs]
        recording.results = grads
        return grads


def build_vjp_from(
    host: SymbolTable, ends: Sequence[Var], starts: Sequence[Var], seeds: Sequence[Var]
) -> list[Var | None]:
    """Return the gradients of values visible in a block, built in the current block.

    That is the block itself, or one inside of it.
    """
    grads: dict[str, Var] = {}
    for target, seed in zip(ends, seeds, strict=True):
        accumulate_cotangent(grads, target.name, seed)
    wanted, lists = {var.name for var in starts}, ResidualListTable()
    for table, inside in _tables_around(ends[0].program, host, grads, wanted):
        grads = Backprop(ends[0].program, table, grads, inside, lists).run()
    return [grads.get(var.name) for var in starts]


def _tables_around(
    program: Builder, host: SymbolTable, ends: Iterable[str], wanted: set[str]
) -> list[tuple[SymbolTable, set[str]]]:
    """Return the current block and its enclosing plain blocks, innermost first.

    Each has the names whose cotangents are needed in it.
    """
    needed, slices = set(ends), list[tuple[SymbolTable, list[Op]]]()
    for table in open_blocks(host):
        hoist_all(program, table, backward_slice(table, needed))
        slices.append((table, backward_slice(table, needed)))
        needed.update(name for op in slices[-1][1] for name in op.reads())
    tables = list[tuple[SymbolTable, set[str]]]()
    for table, ops in reversed(slices):
        tables.append((table, wanted))
        if table is not host:
            wanted = reachable_through(ops, table.vars, wanted)
    return tables[::-1]


def _initial_cotangent(target: Var, grad: Operand | None) -> Var:
    if grad is None:
        return emit("full", shape=target.shape, value=1.0, dtype=target.dtype)
    if not isinstance(grad, Var):
        grad = as_var(grad, target.dtype)
    if grad.type != target.type:
        raise GradientError(
            f"type mismatch between `{target.name}` and its target gradient.",
            given=f"{target.name}: {target.type}   gradient: {grad.type}",
            fix="Pass a target gradient with the dtype and shape of its target.",
        )
    return grad


@with_user_line
def append_backward(loss: Named, parameters: Iterable[Named] | None = None) -> dict[Var, Var]:
    """Return the gradients of a scalar loss with respect to the trainable parameters.

    Args:
        loss: A scalar.
        parameters: Only these, or their names; all trainable parameters by default.

    Returns:
        Each parameter that the loss depends on, with its gradient.

    Raises:
        GradientError: If the loss is not a float scalar.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("w", [2], init=3.0)
        ...     pairs = br.append_backward(br.sum(w**2))
        >>> pairs
        {<Var w: f32[2]>: <Var multiply_1: f32[2]>}
    """
    (loss,) = differentiable_vars([loss])
    if loss.shape:
        raise GradientError(
            f"the loss must be a scalar, got rank {len(loss.shape)}.",
            given=f"{loss.name}: {loss.type}",
            fix="Reduce it with br.mean or br.sum.",
        )
    program = loss.program
    if parameters is None:
        parameters = [info for info in program.table.vars.values() if info.trainable]
    parameter_vars = differentiable_vars(list(parameters), [loss])
    grads = gradients([loss], parameter_vars)
    return {p: g for p, g in zip(parameter_vars, grads, strict=True) if g is not None}
