"""A step of optimizers: what they keep, and the operators that move it.

The `update` of all transformations is traced once, for all parameters together, and so is the
`init` of each. What a transformation keeps becomes persistable variables (`kept.py`), whose
first values are operators of the startup program. The step itself is one plain block, called as
they are, whose outputs are the next values:

    adam/add_3: f32[4], … = block() captures [adam/mu/fc1.w, …] as adam
      body {
        adam/multiply_0: f32[4] = multiply(x=adam/constant_0, y=adam/mu/fc1.w)
        …
      }

16-bit floats are computed with in 32 bits, and rounded where they are kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from braces.builder.builder import Builder
from braces.builder.var import Var, shown
from braces.dtypes import DType
from braces.errors import ProgramError, ShapeError
from braces.frontend.control.block import block
from braces.frontend.optimizer.core.objective import Objective
from braces.frontend.optimizer.core.state import Kept, Tree, called, plain
from braces.frontend.optimizer.core.transforms import Part, leading
from braces.jaxpr.trace import trace
from braces.lazy import jax, jnp, optax
from braces.ops.common.half_precision import widened


def append_step(
    program: Builder,
    parts: Sequence[Part],
    dtype: DType,
    pairs: Mapping[Var, Var],
    loss: Var | None,
) -> dict[Var, Var]:
    """Append a step, and make every run commit it.

    Args:
        program: What it is appended to.
        parts: In the order in which gradients pass through them.
        dtype: Of learning rates that are kept.
        pairs: Each parameter to its gradient.
        loss: What is minimized, for transformations that ask for it.

    Returns:
        Each parameter to its next value.
    """
    params = {param.name: param for param in pairs}
    grads = {param.name: grad for param, grad in pairs.items()}
    needed = [part for part in parts if any(map(part.holds, pairs))]
    kept = [Kept(program, part, dtype, params) for part in needed]
    states = [one.states for one in kept]
    objective = None if loss is None else Objective.of(loss, pairs)
    with block(_named(kept)):
        arguments = [one.rates() for one in kept], states, params, grads, loss
        traced = trace(called(needed), _update(kept, params, objective), *arguments)
        after, moved = traced.build(*arguments)
        for one_part, next_states in zip(kept, after, strict=True):
            one_part.move(next_states)
        for name, value in moved.items():
            program.update(name, value.name)
    return {param: shown(moved[param.name]) for param in pairs}


def _named(kept: Sequence[Kept]) -> str:
    """What the whole step is called."""
    first = leading([one.part for one in kept])
    return next(leaf.own_name for one in kept for leaf in one.leaves if leaf.part is first)


def _update(
    kept: Sequence[Kept], given: Mapping[str, Var], objective: Objective | None
) -> Callable[..., Tree]:
    """The step as a function of JAX."""
    value_fn = None if objective is None else objective.function()

    def update(rates: Tree, states: Tree, params: Tree, grads: Tree, loss: Any) -> Tree:
        wide, updates = _wide(params), _wide(grads)
        after = list[Tree]()
        for one, rate, state in zip(kept, rates, states, strict=True):
            made = one.part.transformation(one.rated(rate), given)
            told = {"value": loss, "grad": _wide(grads), "value_fn": value_fn}
            told = _asked(made, told if objective is not None else {})
            with _telling(objective):
                updates, moved = made.update(updates, one.keyed(_wide(state)), wide, **told)
            after.append(_like(plain(moved), state))
        return after, _like(optax.apply_updates(wide, _like(updates, wide)), params)

    return update


@contextmanager
def _telling(objective: Objective | None) -> Generator[None]:
    """Say of what asks for a loss where there is none that `minimize` has one."""
    try:
        yield
    except TypeError as error:
        if objective is not None or "keyword-only" not in str(error):
            raise
        raise ProgramError(
            f"A transformation asks for the loss: {error!s:.200}",
            fix="Build it by minimize(loss), which knows the loss, not by apply_gradients.",
        ) from error


def _asked(made: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """What a transformation wants to know beside gradients and parameters."""
    if not isinstance(made, optax.GradientTransformationExtraArgs):
        return {}
    takes = inspect.signature(made.update).parameters
    if any(one.kind is one.VAR_KEYWORD for one in takes.values()):
        return dict(told)
    return {name: value for name, value in told.items() if name in takes}


def _wide(tree: Tree) -> Tree:
    return jax.tree.map(widened, tree)


def _like(tree: Tree, wanted: Tree) -> Tree:
    """A tree of arrays in the dtypes of another; their shapes are the same."""
    numpy: Any = jnp  # its own types are not all known

    def like(given: Any, other: Any) -> Any:
        array = numpy.asarray(given)
        if array.shape != other.shape:
            raise ShapeError(
                "A transformation changes the shape of what it is given or keeps.",
                given=f"{other.shape} becomes {array.shape}",
            )
        return array.astype(other.dtype)

    trees: Any = jax.tree  # its own types are not all known
    before, after = trees.structure(wanted), trees.structure(tree)
    if before != after:
        raise ProgramError(
            "A transformation keeps something else after a step than before.",
            given=f"{before} becomes {after}",
            fix="Its `init` gives all that it keeps, and its `update` the same tree.",
        )
    return jax.tree.map(like, tree, wanted)
