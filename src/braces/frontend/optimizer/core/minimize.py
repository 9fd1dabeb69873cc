"""Optimizers applied to a loss or to gradients: the next values of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from braces.builder.builder import Builder, current_program
from braces.builder.source_line import user_source, warn_user, with_user_line
from braces.builder.var import Var, declared_var, var_of
from braces.dtypes import FLOAT32, FLOAT64
from braces.errors import GradientError, ProgramError
from braces.frontend.optimizer.core.loss_scale import LossScale
from braces.frontend.optimizer.core.recorded_call import RecordedCall
from braces.frontend.optimizer.core.step import append_step
from braces.frontend.optimizer.core.stored_call import stored_call
from braces.frontend.optimizer.core.transforms import Transform
from braces.hints.objects import Hinted
from braces.ir.records import PARAMETER, VarInfo
from braces.notebook import TextView
from braces.ops.lists.cotangents import has_cotangent
from braces.passes.autodiff.common import Named, differentiable_vars
from braces.passes.autodiff.recording import record_derivation
from braces.passes.autodiff.reverse_mode import append_backward
from braces.passes.autodiff.value_sources import value_sources
from braces.passes.verifier.program import verified_at_end


@dataclass(frozen=True, eq=False, repr=False)
class Optimizer(RecordedCall, Hinted, TextView):
    """An update rule for parameters, created by functions of `br.optimizer`.

    It holds no state and may serve several programs.

    Attributes:
        parts: The transformations, in the order in which gradients pass through them.
        scaling: The loss scaling, if any.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     loss = br.mean(br.square(br.parameter("w", [2], init=1.0)))
        ...     _ = br.optimizer.sgd(0.25).minimize(loss)
        >>> exe = br.Executor()
        >>> scope = exe.init(prog)
        >>> _ = exe.run(prog, scope)
        >>> scope["w"].tolist()
        [0.75, 0.75]
    """

    parts: tuple[Transform, ...]
    scaling: LossScale | None = None

    def __repr__(self) -> str:
        names = (leaf.name for part in self.parts for leaf in part.leaves())
        return f"<Optimizer {', '.join(names)}>"

    @with_user_line
    def minimize(
        self, loss: Named, parameters: Iterable[Named] | None = None
    ) -> dict[Var, Var]:
        """Update the parameters along the negative gradient of the loss in every run.

        The loss becomes one of the program's `results`, which a saved model's `train` fetches.
        The step is a block with the optimizer's name. Inside a plain block, the step is a part
        of it: each further call takes another step from the parameters after the previous one.
        The loss of such a call is that of the parameters at the beginning of the run.

        Args:
            loss: A scalar.
            parameters: The parameters to update, or their names; all trainable ones by default.

        Returns:
            Each updated parameter and its gradient before any clipping.

        Warns:
            BracesWarning: If the loss reads trainable parameters through operators without a
                gradient only, as in `br.sign(w)`: these parameters stay as they are. There is
                no warning for parameters behind `br.stop_gradient`.

        Raises:
            GradientError: If the loss is not a float scalar, or depends on none of the
                parameters.
            ProgramError: If a parameter is frozen, or has an optimizer already.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     w = br.parameter("w", [2], init=1.0)
            ...     pairs = br.optimizer.momentum(0.1).minimize(br.sum(w * w))
            >>> list(prog.updates)
            ['momentum/trace/w', 'w']
        """
        (loss,) = differentiable_vars([loss])
        program = loss.program
        _check_outside(program)
        with (
            program.transaction(),
            program.building(program.current),
            record_derivation(program, "minimize", [loss]) as recording,
        ):
            selected = self._moving(program, parameters)
            pairs = self._gradients(loss, selected)
            if not pairs:
                raise _unreachable_error(loss, selected)
            self._apply(pairs, loss)
            program.give(loss.name)
            recording.every = parameters is None
            recording.inputs = list(pairs) if selected is None else selected
            recording.results = [pairs.get(param) for param in recording.inputs]
            recording.optimizer, recording.live = stored_call(self), self
        _warn_of_missing_gradients(loss, selected, pairs)
        return pairs

    @with_user_line
    def apply_gradients(self, gradients: Mapping[Var, Var]) -> dict[Var, Var]:
        """Make every run update parameters, given their gradients.

        Args:
            gradients: Each parameter and its gradient, of the same type.

        Returns:
            Each parameter and the variable of its next value.

        Raises:
            ProgramError: If a key is not a trainable parameter or has an optimizer already, or
                this chain lacks a learning rate.
        """
        refuse_scaling("apply_gradients", self, "Use minimize(loss), which scales the loss.")
        return self._apply(
            {declared_var(current_program(), p): g for p, g in gradients.items()}
        )

    def _gradients(self, loss: Var, selected: list[Var] | None) -> dict[Var, Var]:
        if self.scaling is None:
            return append_backward(loss, selected)
        scaled = self.scaling.begin(loss)
        pairs = append_backward(scaled.loss, selected)
        return scaled.unscaled(pairs) if pairs else pairs

    def _apply(self, gradients: Mapping[Var, Var], loss: Var | None = None) -> dict[Var, Var]:
        program = _program_of(list(gradients))
        for param, grad in gradients.items():
            _check_pair(program, param, grad)
        gradients = {p: g for p, g in gradients.items() if not self._holds_still(p)}
        for param in gradients:
            self._check_rate(param)
        wide = any(param.dtype == FLOAT64 for param in gradients)
        with verified_at_end(program), program.at(user_source()):
            dtype = FLOAT64 if wide else FLOAT32
            return append_step(program, self.parts, dtype, gradients, loss)

    def _moving(self, program: Builder, parameters: Iterable[Named] | None) -> list[Var] | None:
        """Return the selected parameters that this optimizer may update; `None` for all."""
        selected = None if parameters is None else _selected_params(program, parameters)
        if not any(leaf.stays for part in self.parts for leaf in part.leaves()):
            return selected
        candidates = _trainable_params(program) if selected is None else selected
        return [param for param in candidates if not self._holds_still(param)]

    def _holds_still(self, param: Var) -> bool:
        return any(part.holds_still(param) for part in self.parts)

    def _check_rate(self, param: Var) -> None:
        rates = sum(part.rates_of(param) for part in self.parts)
        if rates > 1 or not any(part.descends(param) for part in self.parts):
            names = [leaf.name for part in self.parts for leaf in part.leaves()]
            raise ProgramError(
                f"chain: expected exactly one learning rate, got {rates or 'none'}.",
                given=", ".join(names) or "an empty chain",
                fix="Use one optimizer, or br.optimizer.scale_by_learning_rate(0.1), in the "
                "chain.",
            )


def refuse_scaling(
    what: str,
    optimizer: Optimizer,
    fix: str = "Apply dynamic_loss_scale last, to the whole optimizer.",
) -> None:
    """Refuse an optimizer with loss scaling where it is unsupported or not outermost."""
    if optimizer.scaling is not None:
        raise ProgramError(f"{what} does not support an optimizer with loss scaling.", fix=fix)


def _program_of(params: list[Any]) -> Builder:
    for param in params:
        if not isinstance(param, Var):
            raise ProgramError(f"{param!r:.80} is not a parameter.", fix="Use br.parameter.")
    if not params:
        raise ProgramError("expected at least one gradient.", fix="Pass {parameter: gradient}.")
    program: Builder = params[0].program
    _check_outside(program)
    return program


def _check_outside(program: Builder) -> None:
    if not program.current.runs_once:
        raise ProgramError(
            "minimize is not supported in an inner block, which can run many times or never.",
            fix="Call minimize outside the `with` blocks of loops and branches.",
        )


def _check_pair(program: Builder, param: Var, grad: Any) -> None:
    _check_parameter(program, param)
    if not isinstance(grad, Var) or grad.type != param.type:
        raise GradientError(
            f"the gradient of `{param.name}` must have the type of the parameter.",
            given=f"{param.name}: {param.type}   gradient: {grad!r:.80}",
            fix="Pass a variable with the dtype and shape of the parameter.",
        )
    if param.name in program.updates:
        raise ProgramError(
            f"`{param.name}` already has an update: `{program.updates[param.name]}`.",
            fix="Minimize the sum of the losses, or give each loss its own parameters with "
            "minimize(loss, parameters=[...]).",
        )


def _check_parameter(program: Builder, param: Var) -> None:
    if param.program is not program:
        raise ProgramError(f"`{param.name}` is a variable of another program.")
    if param.info.kind != PARAMETER:
        raise ProgramError(
            f"`{param.name}` is not a parameter.",
            given=f"{param.name}: {param.type}",
            fix="Create it with br.parameter.",
        )
    if not param.info.trainable:
        raise ProgramError(
            f"`{param.name}` is not trainable.",
            fix="Leave it out, or create it with trainable=True.",
        )


def _trainable_params(program: Builder) -> list[Var]:
    names = [info.name for info in program.table.vars.values() if info.trainable]
    return [var_of(program, program.table, name) for name in names]


def _selected_params(program: Builder, parameters: Named | Iterable[Named]) -> list[Var]:
    is_single = isinstance(parameters, Var | str | VarInfo)
    selected = [parameters] if is_single else list(parameters)
    params = [p if isinstance(p, Var) else _find_param(program, p) for p in selected]
    for param in params:
        _check_parameter(program, param)
    return list(dict.fromkeys(params))


def _find_param(program: Builder, key: str | VarInfo) -> Var:
    name = key if isinstance(key, str) else key.name
    return var_of(program, program.table, program.table.get_var(name).name)


def _unreachable_error(loss: Var, selected: list[Var] | None) -> GradientError:
    names = [
        var.name for var in (_trainable_params(loss.program) if selected is None else selected)
    ]
    return GradientError(
        f"`{loss.name}` does not depend on a trainable parameter.",
        given=f"{loss.name}: {loss.type}   parameters: {', '.join(names) or 'none'}",
        fix="Create parameters with br.parameter(..., trainable=True), and compute the loss "
        "from them without stop_gradient and integer operators.",
    )


def _warn_of_missing_gradients(
    loss: Var, selected: list[Var] | None, pairs: Mapping[Var, Var]
) -> None:
    """Warn of parameters that the loss reads, but only through operators without a gradient."""
    program, updated = loss.program, {param.name for param in pairs}
    candidates = _trainable_params(program) if selected is None else selected
    missing = [
        param.name
        for param in candidates
        if param.name not in updated and has_cotangent(param.type)
    ]
    if not missing:
        return
    ops = [op for table in program.current.chain() for op in table.ops]
    read = value_sources(ops, [loss.name])
    if names := ", ".join(f"`{name}`" for name in missing if name in read):
        warn_user(
            f"no gradient for {names}: `{loss.name}` reads them through operators without a "
            "gradient only, such as sign, round, argmax or comparisons, so they are not "
            "updated. Use br.custom_gradient for a surrogate gradient, or br.stop_gradient "
            "if they should have none."
        )
