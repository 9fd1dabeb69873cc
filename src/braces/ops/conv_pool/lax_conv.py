"""JAX primitives of convolution: the convolution, its input gradient and its kernel gradient.

A convolution is bilinear in input and kernel. Its inner product with a cotangent `out` is the
trilinear form

    sum(out * convolution(x, kernel)) = sum_{nikco} out[n, i, o] kernel[k, c, o] x[n, j, c]

with `j = i * strides + k * dilations`. The factor of each array in the form depends on the two
others: the factor of `out` is the convolution, those of `x` and `kernel` are its gradients. So
three primitives are closed under differentiation of any order. The algorithm of a primitive is
chosen at lowering, by platform; see `cpu_algorithms`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from braces.lazy import ad, extend, jax, mlir, tracing
from braces.ops.conv_pool.cpu_algorithms import ALGORITHMS, BY_XLA, ConvGeometry, Shape

PARTS = ("x", "kernel", "out")
"""The three arrays; a primitive takes two of them in this order."""


def convolution(x: Any, kernel: Any, windows: ConvGeometry) -> Any:
    """Compute a convolution.

        out[n, i, o] = sum_{c, k} kernel[k, c, o] * x[n, i * strides + k * dilations, c]

    with `x` dilated and padded.

    Args:
        x: number[n, *space, c].
        kernel: number[*window, c / groups, o]; of the dtype of `x`.
        windows: The geometry.

    Returns:
        number[n, *space, o].
    """
    operands = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, kernel))
    out = jax.eval_shape(functools.partial(BY_XLA["out"], windows=windows, shape=()), *operands)
    return bind_convolution("out", {"x": x, "kernel": kernel}, windows, out.shape)


def bind_convolution(
    part: str, arrays: Mapping[str, Any], windows: ConvGeometry, shape: Shape
) -> Any:
    """Compute the factor of one of the three arrays, of its shape, from the two others."""
    others = (arrays[name] for name in PARTS if name != part)
    return _primitive(part).bind(*others, windows=windows, shape=shape)


@functools.cache
def _primitive(part: str) -> Any:
    """Build the primitive of one of the three arrays on first use, since that imports JAX."""
    primitive = extend.Primitive(f"convolution_{part}")
    primitive.def_impl(jax.jit(primitive.bind, static_argnames=("windows", "shape")))
    primitive.def_abstract_eval(
        lambda operand, _, *, windows, shape: tracing.ShapedArray(shape, operand.dtype)
    )
    for platform, ways in ALGORITHMS.items():
        rule = mlir.lower_fun(ways[part], multiple_results=False)
        mlir.register_lowering(primitive, rule, platform=platform)
    first, second = (operand for operand in PARTS if operand != part)

    def to_first(
        grad: Any, operand: Any, other: Any, *, windows: ConvGeometry, shape: Shape
    ) -> Any:
        return bind_convolution(first, {part: grad, second: other}, windows, operand.aval.shape)

    def to_second(
        grad: Any, operand: Any, other: Any, *, windows: ConvGeometry, shape: Shape
    ) -> Any:
        return bind_convolution(second, {part: grad, first: operand}, windows, other.aval.shape)

    ad.defbilinear(primitive, to_first, to_second)
    return primitive
