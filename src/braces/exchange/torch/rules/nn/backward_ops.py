"""Rules of backward operators.

    convolution_backward(g, x, w, ...)   the gradients of convolution(x, w, ...), with `g` there

Most of them differentiate the rule of the forward operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.common.rules.windows import adaptive
from braces.exchange.torch.rules.nn.conv_pool import avg_pool, convolution, max_pool
from braces.exchange.torch.rules.tensor.creation_random import fill_shape
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.rewriting import gradients
from braces.extend.types import INT64, Size


def pull_back(
    function: Callable[..., Var],
    operands: Sequence[Var | None],
    wanted: Sequence[bool],
    grad: Var,
) -> list[Var | None]:
    """Return the wanted gradients of a function at arrays."""
    inputs = [None if x is None else ops.identity(x) for x in operands]
    differentiated = [
        x for x, want in zip(inputs, wanted, strict=True) if want and x is not None
    ]
    remaining_grads = iter(
        gradients([function(*inputs)], differentiated, [grad]) if differentiated else ()
    )
    return [
        next(remaining_grads) if want and x is not None else None
        for x, want in zip(inputs, wanted, strict=True)
    ]


def unary_gradient(rule: Callable[..., Any]) -> Callable[..., Var]:
    """Return the gradient of a unary rule, as a rule of the output gradient and the array."""

    def apply_rule(grad: Var, x: Var, *options: Any) -> Var:
        def forward(x: Var) -> Var:
            return rule(x, *options)

        (grad_of_x,) = pull_back(forward, [x], [True], grad)
        return ops.zeros_like(x) if grad_of_x is None else grad_of_x

    return apply_rule


def convolution_gradient(
    grad: Var, x: Var, w: Var, biases: Sequence[Size] | None, *options: Any
) -> list[Var | None]:
    """The gradients of input, weight and bias."""
    *conv_options, wanted = options

    def forward(x: Var, w: Var) -> Var:
        return convolution(x, w, None, *conv_options)

    bias_grad = ops.sum(grad, axis=(0, *range(2, grad.ndim))) if wanted[2] else None
    return [*pull_back(forward, [x, w], wanted[:2], grad), bias_grad]


def embedding_gradient(
    grad: Var, ids: Var, count: Size, padding: int = -1, by_count: bool = False
) -> Var:
    """The gradient of an embedding table; that of the padding row is zero."""
    row_weights = ops.expand_dims(
        cast_to_dtype(ops.not_equal(ids, padding), grad.dtype), axis=-1
    )
    indices_ = cast_to_dtype(ids, INT64)
    if by_count:
        times = ops.scatter_nd_add(
            fill_shape((count,), 0, dtype=INT64), ops.ones_like(indices_), [indices_]
        )
        row_counts = cast_to_dtype(ops.take(times, indices_, axis=0), grad.dtype)
        row_weights = row_weights / ops.expand_dims(row_counts, axis=-1)
    table = fill_shape((count, grad.shape[-1]), 0, dtype=grad.dtype)
    return ops.scatter_nd_add(table, grad * row_weights, [indices_])


def layer_norm_gradient(
    grad: Var, x: Var, shape: Sequence[Size], mean: Var, deviation: Var, scale: Var | None,
    shift: Var | None, wanted: Sequence[bool],
) -> list[Var | None]:  # fmt: skip
    """The gradients of input, scale and shift."""
    front, last = tuple(range(x.ndim - len(shape))), tuple(range(x.ndim - len(shape), x.ndim))
    standard = (x - mean) * deviation
    scaled = grad if scale is None else grad * scale
    return [
        _standardization_gradient(scaled, standard, deviation, last) if wanted[0] else None,
        ops.sum(grad * standard, axis=front) if wanted[1] else None,
        ops.sum(grad, axis=front) if wanted[2] else None,
    ]


def _standardization_gradient(
    grad: Var, standard: Var, deviation: Var, axes: Sequence[int]
) -> Var:
    """Return the gradient of a standardization."""
    mean, product = (
        ops.mean(v, axis=tuple(axes), keepdims=True) for v in (grad, grad * standard)
    )
    return deviation * (grad - mean - standard * product)


def group_norm_gradient(
    grad: Var, x: Var, mean: Var, deviation: Var, scale: Var | None, n: Size, c: Size,
    space: Size, groups: int, wanted: Sequence[bool],
) -> list[Var | None]:  # fmt: skip
    """The gradients of input, scale and shift."""

    def split_groups(v: Var) -> Var:
        return ops.reshape(v, (n, groups, -1))

    scaled = grad if scale is None else grad * ops.reshape(scale, (-1, *[1] * (x.ndim - 2)))
    mean, deviation = (ops.expand_dims(v, axis=2) for v in (mean, deviation))
    standard = (split_groups(x) - mean) * deviation
    flat_standard, others = ops.reshape(standard, x.shape), (0, *range(2, x.ndim))
    input_grad = (
        _standardization_gradient(split_groups(scaled), standard, deviation, [2])
        if wanted[0]
        else None
    )
    return [
        None if input_grad is None else ops.reshape(input_grad, x.shape),
        ops.sum(grad * flat_standard, axis=others) if wanted[1] else None,
        ops.sum(grad, axis=others) if wanted[2] else None,
    ]


def max_pool_gradient(grad: Var, x: Var, *options: Any) -> Var:
    """The gradient of a max pool, which recomputes the indices."""
    return unary_gradient(max_pool(2))(grad, x, *options[:-1])


def adaptive_pool_gradient(grad: Var, x: Var) -> Var:
    """The gradient of adaptive average pooling."""

    def forward(x: Var) -> Var:
        return adaptive("mean", 2)(x, grad.shape[-2:])

    return unary_gradient(forward)(grad, x)


BACKWARD: Mapping[str, Callable[..., Any]] = {
    "_adaptive_avg_pool2d_backward": adaptive_pool_gradient,
    "avg_pool2d_backward": unary_gradient(avg_pool(2)),
    "convolution_backward": convolution_gradient,
    "embedding_dense_backward": embedding_gradient,
    "max_pool2d_with_indices_backward": max_pool_gradient,
    "native_group_norm_backward": group_norm_gradient,
    "native_layer_norm_backward": layer_norm_gradient,
}
