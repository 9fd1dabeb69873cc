"""The last operators of a training step: times the learning rate, add, count.

updates = -learning_rate * grads,   next_params = params + updates,   count + 1
"""

from __future__ import annotations

from braces.dtypes import TensorType, is_float, is_integer
from braces.errors import DTypeError, ShapeError
from braces.lazy import jax, optax
from braces.ops.define import OPS, Slot, Tensor, op
from braces.ops.inference import Context
from braces.ops.transformation import PARAMS, UPDATES, Grouped, Tensors, check_grouped, like


@op(
    outputs=("updates",),
    separable=True,
    function=False,
    examples=(
        "learning_rate=f32[] grads=f32[2,3] grads=f32[]",
        "learning_rate=f32[] grads=f32[b,4]",
        "learning_rate=f32[] grads=bf16[4] grads=f64[3]",
    ),
)
def scale_by_learning_rate(learning_rate: Tensor, *grads: Tensor) -> list[Tensor]:
    """Descend: the last factor of an update.

        u = -learning_rate * g

    Inputs:
        learning_rate: f[]. How far; an input, so that it changes without compiling anew.
        grads: f[*shape]. For each parameter the update so far.

    Outputs:
        updates: f[*shape]. For each parameter its update, of the type of `grads`.
    """
    with jax.numpy_dtype_promotion("standard"):
        step = optax.scale_by_learning_rate(learning_rate)
        updates, _ = step.update(list(grads), step.init(list(grads)))
    return like(updates, list(grads))


@scale_by_learning_rate.infer
def infer_scale_by_learning_rate(
    context: Context, learning_rate: TensorType, *grads: TensorType
) -> list[TensorType]:
    """The types of the updates so far; the learning rate is one float."""
    if not is_float(learning_rate.dtype):
        raise DTypeError(f"A learning rate is a float, not {learning_rate}.")
    if learning_rate.rank:
        raise ShapeError(f"A learning rate is one number, not {learning_rate}.")
    check_grouped(context, {"grads": list(grads)})
    return list(grads)


def _apply_updates(params: Tensors, updates: Tensors) -> Tensors:
    with jax.numpy_dtype_promotion("standard"):
        return like(optax.apply_updates(params, updates), params)


def _infer_apply_updates(
    context: Context, params: list[TensorType], updates: list[TensorType]
) -> list[TensorType]:
    check_grouped(context, {"params": params, "updates": updates})
    return params


apply_updates = Grouped(
    "apply_updates",
    (PARAMS, UPDATES),
    (),
    (Slot("next_params", many=True),),
    _apply_updates,
    """The parameters after a step.

    next_params = params + updates

Inputs:
    params: f[*shape]. The parameters.
    updates: f[*shape]. Their updates, in the same order.

Outputs:
    next_params: f[*shape]. The parameters that the next run begins with.""",
    infer_rule=_infer_apply_updates,
    separable=True,
    function=False,
    examples=(
        "params=f32[2,3] params=f32[] updates=f32[2,3] updates=f32[]",
        "params=f32[b,4] updates=f32[b,4]",
        "params=bf16[4] params=f64[3] updates=bf16[4] updates=f64[3]",
    ),
)
OPS.add(apply_updates)


@op(function=False, differentiable=False, examples=("count=i32[]", "count=i64[b]"))
def next_count(count: Tensor) -> Tensor:
    """One more step; the largest integer stays.

        out = count + 1

    Inputs:
        count: i[*shape]. Steps done.

    Outputs:
        out: i[*shape]. Steps done after this one.
    """
    return optax.safe_increment(count)


@next_count.infer
def infer_next_count(context: Context, count: TensorType) -> TensorType:
    """The type of the count."""
    del context
    if not is_integer(count.dtype):
        raise DTypeError(f"Steps are counted with integers, not {count}.")
    return count
