"""The convolution that the operators compute with, and its derivatives.

A convolution is linear in its input and in its kernel. With one cotangent for each element of
its result it gives one number,

    sum(out * convolution(x, kernel)) = sum_{nikco} out[n, i, o] kernel[k, c, o] x[n, j, c]

with `j = i * strides + k * dilations`, and what stands beside one of the three arrays in that
sum is made of the two others: beside `out` the convolution, beside `x` and `kernel` its
cotangents. So each of the three is a derivative of the two others, of every order, and three
primitives are all there is. How one is computed is chosen where code is made for a machine, see
`convolution_ways`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from braces.lazy import ad, extend, jax, mlir, tracing
from braces.ops.conv_pool.cpu_algorithms import BY_XLA, WAYS, Shape, Windows

PARTS = ("x", "kernel", "out")
"""The three arrays, in the order in which what is made of two of them takes these."""


def convolution(x: Any, kernel: Any, windows: Windows) -> Any:
    """Sums of products over windows.

        out[n, i, o] = sum_{c, k} kernel[k, c, o] * x[n, i * strides + k * dilations, c]

    with `x` spaced and padded.

    Args:
        x: number[n, *space, c].
        kernel: number[*window, c / groups, o]; of the dtype of `x`.
        windows: Where they lie.

    Returns:
        number[n, *space, o].
    """
    given = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, kernel))
    found = jax.eval_shape(functools.partial(BY_XLA["out"], windows=windows, shape=()), *given)
    return made_of("out", {"x": x, "kernel": kernel}, windows, found.shape)


def made_of(part: str, given: Mapping[str, Any], windows: Windows, shape: Shape) -> Any:
    """What stands beside one of the three arrays, of its shape, from the two others."""
    others = (given[one] for one in PARTS if one != part)
    return _primitive(part).bind(*others, windows=windows, shape=shape)


@functools.cache
def _primitive(part: str) -> Any:
    """What makes one of the three arrays; on first use, since it takes JAX."""
    primitive = extend.Primitive(f"convolution_{part}")
    primitive.def_impl(jax.jit(primitive.bind, static_argnames=("windows", "shape")))
    primitive.def_abstract_eval(
        lambda one, _, *, windows, shape: tracing.ShapedArray(shape, one.dtype)
    )
    for platform, ways in WAYS.items():
        rule = mlir.lower_fun(ways[part], multiple_results=False)
        mlir.register_lowering(primitive, rule, platform=platform)
    first, second = (one for one in PARTS if one != part)

    def to_first(grad: Any, one: Any, other: Any, *, windows: Windows, shape: Shape) -> Any:
        return made_of(first, {part: grad, second: other}, windows, one.aval.shape)

    def to_second(grad: Any, one: Any, other: Any, *, windows: Windows, shape: Shape) -> Any:
        return made_of(second, {part: grad, first: one}, windows, other.aval.shape)

    ad.defbilinear(primitive, to_first, to_second)
    return primitive
