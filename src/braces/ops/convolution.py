"""The convolution that the operators compute with, whose derivatives are such convolutions.

XLA's CPU backend has a fast convolution for one order of axes: batch, space, features; the
window, features in, features out. At the top of a program it brings others into that order, in
the bodies of loops and branches it does not, and what is in another order takes 10 to 40 times
as long there. The derivatives that JAX has of its convolution are in other orders; those of
this one are in that order again, whatever is differentiated how often.

Groups are slow there in any order, so a CPU computes them otherwise: few terms for each element
of the result by adding them up, many by one convolution after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from braces.lazy import ad, extend, jax, jnp, lax, mlir, tracing

Numbers: TypeAlias = tuple[int, ...]

MOST_FEATURES, MOST_TERMS = 2, 50
"""Of a group, and for each element of the result: up to so many, adding up is the quickest."""


@dataclass(frozen=True)
class Windows:
    """Where windows lie; one number, or (low, high), for each spatial axis.

    Attributes:
        strides: How far windows lie apart.
        pads: Zeros before and after; negative ones cut off.
        spacings: How far the elements of the input lie apart, with zeros between.
        dilations: How far the elements of a window lie apart.
        groups: Features are cut into so many groups; each output feature sees one of them.
    """

    strides: Numbers
    pads: tuple[tuple[int, int], ...]
    spacings: Numbers
    dilations: Numbers
    groups: int


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
    return _primitive().bind(x, kernel, windows=windows)


@functools.cache
def _primitive() -> Any:
    """Made on first use, since it takes JAX."""
    primitive = extend.Primitive("convolution")
    primitive.def_impl(jax.jit(primitive.bind, static_argnames="windows"))
    primitive.def_abstract_eval(_result)
    mlir.register_lowering(primitive, mlir.lower_fun(_by_xla, multiple_results=False))
    on_cpu = mlir.lower_fun(_on_cpu, multiple_results=False)
    mlir.register_lowering(primitive, on_cpu, platform="cpu")
    ad.defbilinear(primitive, _to_input, _to_kernel)
    return primitive


def _result(x: Any, kernel: Any, *, windows: Windows) -> Any:
    given = (jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, kernel))
    found = jax.eval_shape(functools.partial(_by_xla, windows=windows), *given)
    return tracing.ShapedArray(found.shape, found.dtype)


# ---- ways to compute it ----------------------------------------------------------------------


def _by_xla(x: Any, kernel: Any, *, windows: Windows) -> Any:
    space = "DHW"[-len(windows.strides) :]
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=windows.strides,
        padding=windows.pads,
        lhs_dilation=windows.spacings,
        rhs_dilation=windows.dilations,
        dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
        feature_group_count=windows.groups,
    )


def _on_cpu(x: Any, kernel: Any, *, windows: Windows) -> Any:
    shape = _result(x, kernel, windows=windows).shape
    if windows.groups == 1 or 0 in (*x.shape, *kernel.shape, *shape):
        return _by_xla(x, kernel, windows=windows)
    if kernel.shape[-2] <= MOST_FEATURES and math.prod(kernel.shape[:-1]) <= MOST_TERMS:
        by_terms = functools.partial(_by_terms, kernel, windows, (1, *shape[1:]))
        return lax.map(by_terms, x)  # in a loop, where XLA does not compute terms once a use
    return _by_groups(x, kernel, windows)


def _by_terms(kernel: Any, windows: Windows, shape: Numbers, example: Any) -> Any:
    """Element by element of a window; half precision is added up in single."""
    x = example[None]
    wide = jnp.float32 if x.dtype.itemsize < 4 else x.dtype
    edges = [(*edge, s - 1) for edge, s in zip(windows.pads, windows.spacings, strict=True)]
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *edges, (0, 0, 0)]).astype(wide)
    kernel = _grouped(kernel, windows.groups).astype(wide)
    total = jnp.zeros((*shape[:-1], windows.groups, kernel.shape[-1]), wide)
    for place in itertools.product(*map(range, kernel.shape[:-3])):
        seen = _grouped(_seen_at(place, padded, windows, shape), windows.groups)
        for feature in range(seen.shape[-1]):
            total += seen[..., feature, None] * kernel[(*place, feature)]
    return total.reshape(shape[1:]).astype(x.dtype)


def _seen_at(place: Numbers, x: Any, windows: Windows, shape: Numbers) -> Any:
    """What one element of the window meets in all places of the window."""
    first = [at * dilation for at, dilation in zip(place, windows.dilations, strict=True)]
    spans = map(reach, shape[1:-1], windows.strides)
    last = [start + span for start, span in zip(first, spans, strict=True)]
    ends = (x.shape[0], *last, x.shape[-1])
    return lax.slice(x, (0, *first, 0), ends, (1, *windows.strides, 1))


def _by_groups(x: Any, kernel: Any, windows: Windows) -> Any:
    """One convolution in a loop over groups: each is in the order that is fast."""
    alone = replace(windows, groups=1)
    pairs = [jnp.moveaxis(_grouped(a, windows.groups), -2, 0) for a in (x, kernel)]
    found = lax.map(lambda pair: _by_xla(*pair, windows=alone), pairs)
    return jnp.moveaxis(found, 0, -2).reshape(*found.shape[1:-1], -1)


def _grouped(x: Any, groups: int) -> Any:
    """The last axis as two: group, and feature in it."""
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


# ---- derivatives -----------------------------------------------------------------------------


def _to_input(grad: Any, x: Any, kernel: Any, *, windows: Windows) -> Any:
    """The cotangent of the input: each window's is spread over what it read."""
    shape, window = x.aval.shape, kernel.shape[:-2]
    if 0 in (*shape, *kernel.shape, *grad.shape):
        return jnp.zeros(shape, grad.dtype)
    pads = [
        (spanned - low - 1, read - written + low)
        for (low, _), spanned, read, written in zip(
            windows.pads,
            map(reach, window, windows.dilations),
            map(reach, shape[1:-1], windows.spacings),
            map(reach, grad.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    turned = lax.rev(_exchanged(kernel, windows.groups), range(len(window)))
    spread = Windows(
        windows.spacings, tuple(pads), windows.strides, windows.dilations, windows.groups
    )
    return convolution(grad, turned, spread)


def _to_kernel(grad: Any, x: Any, kernel: Any, *, windows: Windows) -> Any:
    """The cotangent of the kernel: the input under the windows of the result's cotangent."""
    shape = kernel.aval.shape
    if 0 in (*x.shape, *shape, *grad.shape):
        return jnp.zeros(shape, grad.dtype)
    pads = [
        (low, spanned - read + written - low - 1)
        for (low, _), spanned, read, written in zip(
            windows.pads,
            map(reach, shape[:-2], windows.dilations),
            map(reach, x.shape[1:-1], windows.spacings),
            map(reach, grad.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    across = Windows(
        windows.dilations, tuple(pads), windows.spacings, windows.strides, windows.groups
    )
    examples_last = _exchanged(jnp.moveaxis(x, 0, -2), windows.groups)
    found = convolution(jnp.moveaxis(examples_last, -2, 0), jnp.moveaxis(grad, 0, -2), across)
    return jnp.moveaxis(found, 0, -2)


def reach(size: int, apart: int) -> int:
    """How many elements an axis spans that has its own so far apart."""
    return (size - 1) * apart + 1


def _exchanged(kernel: Any, groups: int) -> Any:
    """The features in and out exchanged, within each group."""
    *window, taken, given = kernel.shape
    swapped = jnp.swapaxes(_grouped(kernel, groups), -1, -3)
    return swapped.reshape(*window, given // groups, groups * taken)
