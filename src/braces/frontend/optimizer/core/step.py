"""Training steps: states of optimizers, and the operators that update them.

The `update` of all transformations is traced once, for all parameters together, and so is the
`init` of each. The state of a transformation becomes persistable variables (`state.py`), whose
initial values are operators of the startup program. The step itself is one plain block with the
optimizer's name; its outputs are the next values:

    adam/add_3: f32[4], … = block() captures [adam/mu/fc1.w, …] as adam
      body {
        adam/multiply_0: f32[4] = multiply(x=adam/constant_0, y=adam/mu/fc1.w)
        …
      }

Arithmetic on 16-bit floats is done in 32 bits, and rounded to the dtype of the state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from braces.builder.builder import Builder
from braces.builder.var import Var, expose
from braces.dtypes import DType
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import block
from braces.frontend.optimizer.core.objective import Objective
from braces.frontend.optimizer.core.state import (
    OptimizerState,
    Tree,
    describe_parts,
    unwrap_keys,
)
from braces.frontend.optimizer.core.transforms import Transform, leading_transform
from braces.jaxpr.trace import trace
from braces.lazy import jax, jnp, optax
from braces.ops.common.half_precision import widen_half


def append_step(
    program: Builder,
    parts: Sequence[Transform],
    dtype: DType,
    pairs: Mapping[Var, Var],
    loss: Var | None,
) -> dict[Var, Var]:
    """Append a training step, and make every run commit it.

    Args:
        program: The program to extend.
        parts: The transformations, in the order in which gradients pass through them.
        dtype: The dtype of learning rate variables.
        pairs: Each parameter and its gradient.
        loss: The loss, for transformations that read it.

    Returns:
        Each parameter and its next value.
    """
    params = {param.name: param for param in pairs}
    grads = {param.name: grad for param, grad in pairs.items()}
    needed = [part for part in parts if any(map(part.holds, pairs))]
    optimizer_states = [OptimizerState(program, part, dtype, params) for part in needed]
    states = [optimizer_state.states for optimizer_state in optimizer_states]
    objective = None if loss is None else Objective.of(loss, pairs)
    with block(_step_name(optimizer_states)):
        arguments = (
            [optimizer_state.rates() for optimizer_state in optimizer_states],
            states,
            params,
            grads,
            loss,
        )
        traced = trace(
            describe_parts(needed),
            _update_function(optimizer_states, params, objective),
            *arguments,
        )
        next_states_list, next_params = traced.build(*arguments)
        for updated, next_states in zip(optimizer_states, next_states_list, strict=True):
            updated.move(next_states)
        for name, value in next_params.items():
            program.update(name, value.name)
    return {param: expose(next_params[param.name]) for param in pairs}


def _step_name(optimizer_states: Sequence[OptimizerState]) -> str:
    """Return the name of the whole step."""
    first = leading_transform([state.part for state in optimizer_states])
    return next(
        leaf.own_name
        for state in optimizer_states
        for leaf in state.leaves
        if leaf.part is first
    )


def _update_function(
    optimizer_states: Sequence[OptimizerState],
    param_vars: Mapping[str, Var],
    objective: Objective | None,
) -> Callable[..., Tree]:
    """Return the step as a function of JAX."""
    value_fn = None if objective is None else objective.function()

    def update(rates: Tree, states: Tree, params: Tree, grads: Tree, loss: Any) -> Tree:
        wide, updates = _widen(params), _widen(grads)
        new_states = list[Tree]()
        for optimizer_state, rate, state in zip(optimizer_states, rates, states, strict=True):
            tx = optimizer_state.part.transformation(optimizer_state.rated(rate), param_vars)
            extra = {"value": loss, "grad": _widen(grads), "value_fn": value_fn}
            extra = _accepted_arguments(tx, extra if objective is not None else {})
            with _explain_missing_loss(objective):
                updates, new_state = tx.update(
                    updates, optimizer_state.keyed(_widen(state)), wide, **extra
                )
            new_states.append(_cast_like(unwrap_keys(new_state), state))
        return new_states, _cast_like(
            optax.apply_updates(wide, _cast_like(updates, wide)), params
        )

    return update


@contextmanager
def _explain_missing_loss(objective: Objective | None) -> Generator[None]:
    """Explain a missing loss argument: `minimize` provides it."""
    try:
        yield
    except TypeError as error:
        if objective is not None or "keyword-only" not in str(error):
            raise
        raise ProgramError(
            f"the transformation requires the loss: {error!s:.200}",
            fix="Use minimize(loss) instead of apply_gradients.",
        ) from error


def _accepted_arguments(tx: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra arguments that a transformation accepts."""
    if not isinstance(tx, optax.GradientTransformationExtraArgs):
        return {}
    accepted = inspect.signature(tx.update).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        return dict(extra)
    return {name: value for name, value in extra.items() if name in accepted}


def _widen(tree: Tree) -> Tree:
    return jax.tree.map(widen_half, tree)


def _cast_like(tree: Tree, template: Tree) -> Tree:
    """Cast a tree of arrays to the dtypes of another of the same shapes."""
    numpy: Any = jnp  # its type annotations are incomplete

    def like(value: Any, other: Any) -> Any:
        array = numpy.asarray(value)
        if array.shape != other.shape:
            raise ShapeError(
                "the transformation changes the shape of an update or of its state.",
                given=f"before: {other.shape}   after: {array.shape}",
            )
        return array.astype(other.dtype)

    trees: Any = jax.tree  # its type annotations are incomplete
    before, after = trees.structure(template), trees.structure(tree)
    if before != after:
        raise ProgramError(
            "the transformation changes the tree structure of its state.",
            given=f"before: {before}   after: {after}",
            fix="Return the same tree structure from `init` and `update`.",
        )
    return jax.tree.map(like, tree, template)
