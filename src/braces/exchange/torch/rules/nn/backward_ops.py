"""Rules of backward operators.

    convolution_backward(g, x, w, ...)   the gradients of convolution(x, w, ...), with `g` there

Most of them differentiate the rule of the forward operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import INT64
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.common.rules.windows import adaptive
from braces.exchange.torch.rules.nn.conv_pool import avg_pool, convolution, max_pool
from braces.exchange.torch.rules.tensor.creation_random import filled
from braces.frontend.core import functions as ops
from braces.passes.autodiff.reverse_mode import gradients


def pulled(
    function: Callable[..., Var], given: Sequence[Var | None], wanted: Sequence[bool], grad: Var
) -> list[Var | None]:
    """Return the wanted gradients of a function at arrays."""
    inputs = [None if x is None else ops.identity(x) for x in given]
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


def of_first(rule: Callable[..., Any]) -> Callable[..., Var]:
    """Return the gradient of a unary rule, as a rule of the output gradient and the array."""

    def apply_rule(grad: Var, x: Var, *options: Any) -> Var:
        def forward(x: Var) -> Var:
            return rule(x, *options)

        (grad_of_x,) = pulled(forward, [x], [True], grad)
        return ops.zeros_like(x) if grad_of_x is None else grad_of_x

    return apply_rule


def of_convolution(
    grad: Var, x: Var, w: Var, biases: Sequence[Size] | None, *options: Any
) -> list[Var | None]:
    """The gradients of input, weight and bias."""
    *conv_options, wanted = options

    def forward(x: Var, w: Var) -> Var:
        return convolution(x, w, None, *conv_options)

    bias_grad = ops.sum(grad, axis=(0, *range(2, grad.ndim))) if wanted[2] else None
    return [*pulled(forward, [x, w], wanted[:2], grad), bias_grad]


def of_embedding(
    grad: Var, ids: Var, count: Size, padding: int = -1, by_count: bool = False
) -> Var:
    """The gradient of an embedding table; that of the padding row is zero."""
    row_weights = ops.expand_dims(in_dtype(ops.not_equal(ids, padding), grad.dtype), axis=-1)
    indices_ = in_dtype(ids, INT64)
    if by_count:
        times = ops.scatter_nd_add(
            filled((count,), 0, dtype=INT64), ops.ones_like(indices_), [indices_]
        )
        row_counts = in_dtype(ops.take(times, indices_, axis=0), grad.dtype)
        row_weights = row_weights / ops.expand_dims(row_counts, axis=-1)
    table = filled((count, grad.shape[-1]), 0, dtype=grad.dtype)
    return ops.scatter_nd_add(table, grad * row_weights, [indices_])


def of_layer_norm(
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


def of_group_norm(
    grad: Var, x: Var, mean: Var, deviation: Var, scale: Var | None, n: Size, c: Size,
    space: Size, groups: int, wanted: Sequence[bool],
) -> list[Var | None]:  # fmt: skip
    """The gradients of input, scale and shift."""

    def apart(v: Var) -> Var:
        return ops.reshape(v, (n, groups, -1))

    scaled = grad if scale is None else grad * ops.reshape(scale, (-1, *[1] * (x.ndim - 2)))
    mean, deviation = (ops.expand_dims(v, axis=2) for v in (mean, deviation))
    standard = (apart(x) - mean) * deviation
    flat_standard, others = ops.reshape(standard, x.shape), (0, *range(2, x.ndim))
    input_grad = (
        _standardization_gradient(apart(scaled), standard, deviation, [2])
        if wanted[0]
        else None
    )
    return [
        None if input_grad is None else ops.reshape(input_grad, x.shape),
        ops.sum(grad * flat_standard, axis=others) if wanted[1] else None,
        ops.sum(grad, axis=others) if wanted[2] else None,
    ]


def of_max_pool(grad: Var, x: Var, *options: Any) -> Var:
    """The gradient of a max pool, which recomputes the indices."""
    return of_first(max_pool(2))(grad, x, *options[:-1])


def of_adaptive(grad: Var, x: Var) -> Var:
    """The gradient of adaptive average pooling."""

    def forward(x: Var) -> Var:
        return adaptive("mean", 2)(x, grad.shape[-2:])

    return of_first(forward)(grad, x)


BACKWARD: Mapping[str, Callable[..., Any]] = {
    "_adaptive_avg_pool2d_backward": of_adaptive,
    "avg_pool2d_backward": of_first(avg_pool(2)),
    "convolution_backward": of_convolution,
    "embedding_dense_backward": of_embedding,
    "max_pool2d_with_indices_backward": of_max_pool,
    "native_group_norm_backward": of_group_norm,
    "native_layer_norm_backward": of_layer_norm,
}
