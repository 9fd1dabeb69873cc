"""Rules of the gradients that are operators of the core themselves.

    convolution_backward(g, x, w, ...)   the gradients of convolution(x, w, ...), with `g` there

Each is the gradient of the rule of its forward operator, so nothing is said twice.
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
    """The gradients of a function at arrays, those that are wanted."""
    inputs = [None if x is None else ops.identity(x) for x in given]
    asked = [x for x, want in zip(inputs, wanted, strict=True) if want and x is not None]
    left = iter(gradients([function(*inputs)], asked, [grad]) if asked else ())
    return [
        next(left) if want and x is not None else None
        for x, want in zip(inputs, wanted, strict=True)
    ]


def of_first(rule: Callable[..., Any]) -> Callable[..., Var]:
    """The gradient of a rule of one array, which stands after the gradient of its output."""

    def computed(grad: Var, x: Var, *options: Any) -> Var:
        def forward(x: Var) -> Var:
            return rule(x, *options)

        (found,) = pulled(forward, [x], [True], grad)
        return ops.zeros_like(x) if found is None else found

    return computed


def of_convolution(
    grad: Var, x: Var, w: Var, biases: Sequence[Size] | None, *options: Any
) -> list[Var | None]:
    """The gradients of input, weight and bias."""
    *rest, wanted = options

    def forward(x: Var, w: Var) -> Var:
        return convolution(x, w, None, *rest)

    of_bias = ops.sum(grad, axis=(0, *range(2, grad.ndim))) if wanted[2] else None
    return [*pulled(forward, [x, w], wanted[:2], grad), of_bias]


def of_embedding(
    grad: Var, ids: Var, count: Size, padding: int = -1, by_count: bool = False
) -> Var:
    """The gradient of a table of rows; that of padding is zero."""
    kept = ops.expand_dims(in_dtype(ops.not_equal(ids, padding), grad.dtype), axis=-1)
    at = in_dtype(ids, INT64)
    if by_count:
        times = ops.scatter_nd_add(filled((count,), 0, dtype=INT64), ops.ones_like(at), [at])
        often = in_dtype(ops.take(times, at, axis=0), grad.dtype)
        kept = kept / ops.expand_dims(often, axis=-1)
    table = filled((count, grad.shape[-1]), 0, dtype=grad.dtype)
    return ops.scatter_nd_add(table, grad * kept, [at])


def of_layer_norm(
    grad: Var, x: Var, shape: Sequence[Size], mean: Var, deviation: Var, scale: Var | None,
    shift: Var | None, wanted: Sequence[bool],
) -> list[Var | None]:  # fmt: skip
    """The gradients of input, scale and shift."""
    front, last = tuple(range(x.ndim - len(shape))), tuple(range(x.ndim - len(shape), x.ndim))
    standard = (x - mean) * deviation
    scaled = grad if scale is None else grad * scale
    return [
        _of_standard(scaled, standard, deviation, last) if wanted[0] else None,
        ops.sum(grad * standard, axis=front) if wanted[1] else None,
        ops.sum(grad, axis=front) if wanted[2] else None,
    ]


def _of_standard(grad: Var, standard: Var, deviation: Var, axes: Sequence[int]) -> Var:
    """The gradient of numbers less their mean, times the inverse of their deviation."""
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
    whole, others = ops.reshape(standard, x.shape), (0, *range(2, x.ndim))
    made = _of_standard(apart(scaled), standard, deviation, [2]) if wanted[0] else None
    return [
        None if made is None else ops.reshape(made, x.shape),
        ops.sum(grad * whole, axis=others) if wanted[1] else None,
        ops.sum(grad, axis=others) if wanted[2] else None,
    ]


def of_max_pool(grad: Var, x: Var, *options: Any) -> Var:
    """The gradient of a pool; where the largest were is found again."""
    return of_first(max_pool(2))(grad, x, *options[:-1])


def of_adaptive(grad: Var, x: Var) -> Var:
    """The gradient of a mean to the size of what it gave."""

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
