"""What optimizers are made of: steps, what they keep, and how a program gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from braces.dtypes import FLOAT32, FLOAT64, DType
from braces.errors import (
    DTypeError,
    DuplicateNameError,
    GradientError,
    ProgramError,
    ShapeError,
)
from braces.frontend.schedule import Schedule
from braces.frontend.variables import persistable
from braces.ir.program import Program
from braces.ir.records import PARAMETER, STATE
from braces.ops.build import Var, apply, one, var_of
from braces.ops.define import OPS
from braces.ops.source import says_where
from braces.ops.transformation import Transformation
from braces.passes.backward import append_backward, check_differentiable
from braces.passes.verify import verified_at_end

LearningRate: TypeAlias = "float | Var | Callable[[Var], Var]"
"""A number, a scalar variable, or a schedule: from the count of steps to a scalar variable."""
Mask: TypeAlias = "Callable[[Var], bool] | None"
"""Which parameters it is for; all where there is none."""


# ---- what is kept ----------------------------------------------------------------------------


class Kept:
    """The persistable variables of one optimizer in a program.

    Attributes:
        name: The first part of their names.
    """

    def __init__(self, program: Program, name: str, dtype: DType) -> None:
        self.program = program
        self.name = name
        self.dtype = dtype

    def new(
        self, role: str, shape: Iterable[Any] = (), init: float = 0.0, dtype: object = "int32"
    ) -> Var:
        """A new persistable variable."""
        name = f"{self.name}/{role}"
        sizes = [size for size in shape if isinstance(size, int)]
        return persistable(name, sizes, init, dtype, kind=STATE, trainable=False)

    def count(self) -> Var:
        """The steps done; made where it is not there."""
        name, table = f"{self.name}/count", self.program.table
        found = table.find_var(name)
        return self.new("count") if found is None else var_of(self.program, table, name)

    def move(self, state: Var, after: Var) -> None:
        """Give a variable its value after the run."""
        self.program.update(state.name, after.name)

    def close(self) -> None:
        """Count the step, if somebody reads the count and nobody has moved it."""
        name = f"{self.name}/count"
        if self.program.table.find_var(name) and name not in self.program.updates:
            self.move(self.count(), one("next_count", self.count()))


# ---- steps of optimizers ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Step:
    """One operator of an optimizer.

    Attributes:
        op: Its type.
        attrs: Its attributes.
        initial: First values of its state, where they are not 0.
        mask: Which parameters it is for.
    """

    op: str
    attrs: Mapping[str, Any]
    initial: Mapping[str, float]
    mask: Mask = None

    def build(self, kept: Kept, params: list[Var], updates: list[Var]) -> list[Var]:
        """Append it for the parameters that it is for; the others' updates stay."""
        chosen = [i for i, param in enumerate(params) if self.mask is None or self.mask(param)]
        if not chosen:
            return updates
        made = self._build(kept, [params[i] for i in chosen], [updates[i] for i in chosen])
        moved = dict(zip(chosen, made, strict=True))
        return [moved.get(i, update) for i, update in enumerate(updates)]

    def _build(self, kept: Kept, params: list[Var], updates: list[Var]) -> tuple[Var, ...]:
        definition = OPS.get(self.op)
        assert isinstance(definition, Transformation)
        state = {
            slot.name: self._keep(kept, slot.name, params) if slot.many else [kept.count()]
            for slot in definition.state
        }
        given = {"grads": updates, "params": params if definition.input("params") else []}
        made = apply(self.op, given | state, self.attrs)
        for slot, before in state.items():
            for variable, after in zip(before, made[f"next_{slot}"], strict=True):
                kept.move(variable, after)
        return made["updates"]

    def _keep(self, kept: Kept, role: str, params: list[Var]) -> list[Var]:
        first = self.initial.get(role, 0.0)
        return [kept.new(f"{role}/{p.name}", p.shape, first, p.dtype) for p in params]


@dataclass(frozen=True, eq=False)
class Rate:
    """The step that descends: times the learning rate, times -1."""

    rate: LearningRate

    def build(self, kept: Kept, params: list[Var], updates: list[Var]) -> list[Var]:
        """Append it."""
        del params
        given = {"learning_rate": [self._value(kept)], "grads": updates}
        return list(apply("scale_by_learning_rate", given)["updates"])

    def _value(self, kept: Kept) -> Var:
        if isinstance(self.rate, Var):
            return _scalar(self.rate)
        if not callable(self.rate):
            return kept.new("learning_rate", (), self.rate, kept.dtype)
        count = kept.count()
        if isinstance(self.rate, Schedule):
            value = self.rate(count, kept.dtype)
        else:
            value = _scalar(self.rate(count))
        if value.dtype != kept.dtype:
            value = one("cast", value, dtype=kept.dtype)
        kept.move(kept.new("learning_rate", dtype=kept.dtype), value)
        return value


def _scalar(value: Any) -> Var:
    if not isinstance(value, Var):
        raise DTypeError(
            f"{value!r:.80} is not a learning rate.",
            fix="A schedule takes the count of steps and returns a scalar variable.",
        )
    if value.shape:
        raise ShapeError(
            "A learning rate is one number.",
            given=f"{value.name}: {value.type}",
            fix="Reduce it.",
        )
    return value


@dataclass(frozen=True, eq=False)
class Part:
    """What keeps its state under one name.

    Attributes:
        name: The first part of the names.
        chosen: Whether the user chose it.
        steps: In order.
    """

    name: str
    chosen: bool
    steps: tuple[Step | Rate, ...]

    def build(
        self, program: Program, dtype: DType, params: list[Var], updates: list[Var]
    ) -> list[Var]:
        """Append its steps; gives the updates that leave it."""
        kept = Kept(program, self._free_name(program), dtype)
        for step in self.steps:
            updates = step.build(kept, params, updates)
        kept.close()
        return updates

    def _free_name(self, program: Program) -> str:
        taken = {name.partition("/")[0] for name in program.table.vars if "/" in name}
        if self.chosen and self.name in taken:
            raise DuplicateNameError(
                f"There are variables called `{self.name}/…` already.",
                fix="Give each optimizer of a program another name.",
            )
        names = (f"{self.name}_{i}" if i else self.name for i in range(len(taken) + 1))
        return next(name for name in names if name not in taken)


# ---- optimizers ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Optimizer:
    """How parameters move, given their gradients; made by the functions of this module.

    It holds no state and may serve several programs.

    Attributes:
        parts: In the order in which gradients pass through them.
    """

    parts: tuple[Part, ...]

    @says_where
    def minimize(
        self, loss: Var, parameters: Iterable[Var | str] | None = None
    ) -> dict[Var, Var]:
        """Make every run of the loss's program move its parameters down the gradient.

        The loss becomes one of the program's `results`, which a saved model's `train` fetches.

        Args:
            loss: A scalar.
            parameters: Only these, or their names; all trainable ones by default.

        Returns:
            Each parameter that moves, to its gradient as it is before any clipping.

        Raises:
            GradientError: The loss is not a float scalar, or depends on none of the parameters.
            ProgramError: A parameter is frozen, or has an optimizer already.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     w = br.parameter("w", [2], init=1.0)
            ...     pairs = br.optimizer.momentum(0.1).minimize(br.sum(w * w))
            >>> list(prog.updates)
            ['momentum/trace/w', 'w']
        """
        check_differentiable(loss)
        program = loss.program
        _check_outside(program)
        with program.transaction(), program.building(program.table):
            chosen = None if parameters is None else _chosen(program, parameters)
            pairs = append_backward(loss, chosen)
            if not pairs:
                raise _unreachable(loss, chosen)
            self._apply(pairs)
            program.give(loss.name)
        return pairs

    @says_where
    def apply_gradients(self, gradients: Mapping[Var, Var]) -> dict[Var, Var]:
        """Make every run move parameters, given their gradients.

        Args:
            gradients: Each parameter to its gradient, of the same type.

        Returns:
            Each parameter, to the variable that holds its next value.

        Raises:
            ProgramError: A key is no trainable parameter or has an optimizer already, or this
                chain lacks a learning rate.
        """
        return self._apply(gradients)

    def _apply(self, gradients: Mapping[Var, Var]) -> dict[Var, Var]:
        params, grads = list(gradients), list(gradients.values())
        program = _program_of(params)
        self._check_rate()
        for param, grad in zip(params, grads, strict=True):
            _check_pair(program, param, grad)
        wide = any(param.dtype == FLOAT64 for param in params)
        with verified_at_end(program):
            updates = grads
            for part in self.parts:
                updates = part.build(program, FLOAT64 if wide else FLOAT32, params, updates)
            made = apply("apply_updates", {"params": params, "updates": updates})
            after = dict(zip(params, made["next_params"], strict=True))
            for param, value in after.items():
                program.update(param.name, value.name)
        return after

    def _check_rate(self) -> None:
        rates = sum(isinstance(step, Rate) for part in self.parts for step in part.steps)
        if rates != 1:
            raise ProgramError(
                f"This chain has {rates or 'no'} learning rate{'s' * (rates > 1)}.",
                given=", ".join(part.name for part in self.parts) or "nothing",
                fix="It needs just one to descend: that of an optimizer, or of "
                "br.optimizer.scale_by_learning_rate(0.1).",
            )


def _program_of(params: list[Any]) -> Program:
    for param in params:
        if not isinstance(param, Var):
            raise ProgramError(f"{param!r:.80} is not a parameter.", fix="Use br.parameter.")
    if not params:
        raise ProgramError("There is no gradient to apply.", fix="Give {parameter: gradient}.")
    program: Program = params[0].program
    _check_outside(program)
    return program


def _check_outside(program: Program) -> None:
    if program.current is not program.table:
        raise ProgramError(
            "An optimizer cannot be built in an inner block, which runs many times or never.",
            fix="Leave the `with` blocks of loops and branches first.",
        )


def _check_pair(program: Program, param: Var, grad: Any) -> None:
    _check_parameter(program, param)
    if not isinstance(grad, Var) or grad.type != param.type:
        raise GradientError(
            f"The gradient of `{param.name}` has another type.",
            given=f"{param.name}: {param.type}   gradient: {grad!r:.80}",
            fix="A gradient is a variable with the dtype and shape of its parameter.",
        )
    if param.name in program.updates:
        raise ProgramError(
            f"`{param.name}` has a next value already: `{program.updates[param.name]}`.",
            fix="A run moves a parameter once: minimize the sum of the losses, or share out the"
            " parameters with minimize(loss, parameters=[...]).",
        )


def _check_parameter(program: Program, param: Var) -> None:
    if param.program is not program:
        raise ProgramError(f"`{param.name}` belongs to another program.")
    if param.info.kind != PARAMETER:
        raise ProgramError(
            f"`{param.name}` is not a parameter, so no optimizer moves it.",
            given=f"{param.name}: {param.type}",
            fix="Make it with br.parameter.",
        )
    if not param.info.trainable:
        raise ProgramError(
            f"`{param.name}` is frozen.", fix="Leave it out, or make it with trainable=True."
        )


def _chosen(program: Program, parameters: Iterable[Var | str]) -> list[Var]:
    given = [parameters] if isinstance(parameters, Var | str) else list(parameters)
    found = [p if isinstance(p, Var) else _named(program, p) for p in given]
    for param in found:
        _check_parameter(program, param)
    return list(dict.fromkeys(found))


def _named(program: Program, name: str) -> Var:
    return var_of(program, program.table, program.table.get_var(name).name)


def _unreachable(loss: Var, chosen: list[Var] | None) -> GradientError:
    trainable = [info.name for info in loss.program.table.vars.values() if info.trainable]
    names = trainable if chosen is None else [var.name for var in chosen]
    return GradientError(
        f"`{loss.name}` depends on no parameter that may move.",
        given=f"{loss.name}: {loss.type}   parameters: {', '.join(names) or 'none'}",
        fix="Make parameters with br.parameter(..., trainable=True), and compute the loss from "
        "them without stop_gradient or integers in between.",
    )
