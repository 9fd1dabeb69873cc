"""Lowerings of a convolution and its gradients: XLA's own, and algorithms for the CPU.

XLA's CPU backend has a fast convolution for one layout: batch, space, features for arrays;
window, input features, output features for kernels. XLA transposes other layouts at the top
level of a program, but not in the bodies of loops and branches, where they are much slower
(docs/decisions, 0038). JAX's gradients of its convolution use other layouts. The CPU gradients
here are convolutions in the fast layout again.

A window of one element is a product of features, and spatial axes of size 1 are dropped: XLA's
convolution takes up to 1.5 and 2.4 times as long.

Grouped convolutions are slow on the CPU in any layout. With few terms per output element, the
terms are added one by one; with many, a loop runs one convolution per group.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from braces.lazy import jax, jnp, lax

Shape: TypeAlias = tuple[int, ...]
Algorithm: TypeAlias = Callable[..., Any]
"""An algorithm: maps two of the three arrays, `windows` and the `shape` of the third to it."""

MOST_FEATURES, MOST_TERMS = 2, 50
"""Limits of adding term by term: input features per group, and terms per output element."""

PIECE_BYTES, LEAST_EXAMPLES = 2**18, 4
"""Size of a batch chunk for the CPU kernel gradient. The whole batch at once takes
longer, since the windows of all examples are gathered in memory first."""


@dataclass(frozen=True)
class ConvGeometry:
    """The geometry of a convolution; one entry for each spatial axis.

    Attributes:
        strides: The steps between windows.
        pads: Zeros before and after, as (low, high); negative ones crop.
        spacings: The input dilations: distances between input elements, with zeros between.
        dilations: The distances between the elements of a window.
        groups: The number of groups of features; each output feature reads one group.
    """

    strides: Shape
    pads: tuple[tuple[int, int], ...]
    spacings: Shape
    dilations: Shape
    groups: int


# ---- XLA's own way ---------------------------------------------------------------------------


def _convolve_by_xla(x: Any, kernel: Any, *, windows: ConvGeometry, shape: Shape = ()) -> Any:
    del shape
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


def _x_gradient_by_xla(kernel: Any, out: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    def of_x(x: Any) -> Any:
        return _convolve_by_xla(x, kernel, windows=windows)

    (x_grad,) = jax.linear_transpose(of_x, jax.ShapeDtypeStruct(shape, out.dtype))(out)
    return x_grad


def _kernel_gradient_by_xla(x: Any, out: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    def of_kernel(kernel: Any) -> Any:
        return _convolve_by_xla(x, kernel, windows=windows)

    (kernel_grad,) = jax.linear_transpose(of_kernel, jax.ShapeDtypeStruct(shape, out.dtype))(
        out
    )
    return kernel_grad


# ---- on a CPU --------------------------------------------------------------------------------


def _convolve_on_cpu(x: Any, kernel: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    if 0 in (*x.shape, *kernel.shape, *shape):
        return _convolve_by_xla(x, kernel, windows=windows)
    if windows.groups == 1:
        return _convolve_dense(x, kernel, windows)
    if kernel.shape[-2] <= MOST_FEATURES and math.prod(kernel.shape[:-1]) <= MOST_TERMS:
        by_terms = functools.partial(_convolve_by_terms, kernel, windows, (1, *shape[1:]))
        return lax.map(by_terms, x)  # in a loop, so that XLA does not recompute terms
    return _convolve_by_groups(x, kernel, windows)


def _convolve_dense(x: Any, kernel: Any, windows: ConvGeometry) -> Any:
    """Convolve as a product if the window has one element, else without axes of size 1."""
    if x.dtype.itemsize < 4:  # products in half precision may round otherwise
        return _convolve_by_xla(x, kernel, windows=windows)
    space = range(len(windows.strides))
    single = [kernel.shape[at] == 1 and windows.pads[at] == (0, 0) for at in space]
    unit = [single[at] and x.shape[1 + at] == 1 for at in space]
    steps = zip(windows.strides, windows.spacings, strict=True)
    whole = [is_unit or step == (1, 1) for is_unit, step in zip(unit, steps, strict=True)]
    if all(single) and all(whole):
        matrix = kernel.reshape(kernel.shape[-2:])
        return lax.dot_general(x, matrix, (((x.ndim - 1,), (0,)), ((), ())))
    return _convolve_without_axes([at for at in space if unit[at]], x, kernel, windows)


def _convolve_without_axes(
    axes: Sequence[int], x: Any, kernel: Any, windows: ConvGeometry
) -> Any:
    """Convolve without these spatial axes, whose sizes are 1 in `x` and in the kernel."""

    def others(entries: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(entry for at, entry in enumerate(entries) if at not in axes)

    fewer = ConvGeometry(
        others(windows.strides),
        others(windows.pads),
        others(windows.spacings),
        others(windows.dilations),
        windows.groups,
    )
    places = [at + 1 for at in axes]
    out = _convolve_by_xla(lax.squeeze(x, places), lax.squeeze(kernel, axes), windows=fewer)
    return lax.expand_dims(out, places)


def _convolve_by_terms(kernel: Any, windows: ConvGeometry, shape: Shape, example: Any) -> Any:
    """Convolve by adding term by term; half precision accumulates in float32."""
    x = example[None]
    wide = jnp.float32 if x.dtype.itemsize < 4 else x.dtype
    edges = [(*edge, s - 1) for edge, s in zip(windows.pads, windows.spacings, strict=True)]
    padded = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), *edges, (0, 0, 0)]).astype(wide)
    kernel = _split_groups(kernel, windows.groups).astype(wide)
    total = jnp.zeros((*shape[:-1], windows.groups, kernel.shape[-1]), wide)
    for place in itertools.product(*map(range, kernel.shape[:-3])):
        inputs = _split_groups(_inputs_at(place, padded, windows, shape), windows.groups)
        for feature in range(inputs.shape[-1]):
            total += inputs[..., feature, None] * kernel[(*place, feature)]
    return total.reshape(shape[1:]).astype(x.dtype)


def _inputs_at(place: Shape, x: Any, windows: ConvGeometry, shape: Shape) -> Any:
    """Return the inputs that one element of the window reads, over all windows."""
    first = [at * dilation for at, dilation in zip(place, windows.dilations, strict=True)]
    spans = map(dilated_span, shape[1:-1], windows.strides)
    last = [start + span for start, span in zip(first, spans, strict=True)]
    ends = (x.shape[0], *last, x.shape[-1])
    return lax.slice(x, (0, *first, 0), ends, (1, *windows.strides, 1))


def _convolve_by_groups(x: Any, kernel: Any, windows: ConvGeometry) -> Any:
    """Convolve in a loop over groups, each in the fast layout."""
    ungrouped = replace(windows, groups=1)
    pairs = [jnp.moveaxis(_split_groups(a, windows.groups), -2, 0) for a in (x, kernel)]
    results = lax.map(lambda pair: _convolve_by_xla(*pair, windows=ungrouped), pairs)
    return jnp.moveaxis(results, 0, -2).reshape(*results.shape[1:-1], -1)


def _split_groups(x: Any, groups: int) -> Any:
    """Split the last axis into group and feature within the group."""
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def _x_gradient_on_cpu(kernel: Any, out: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    """Input gradient: a convolution of the cotangent with the reversed kernel."""
    window = kernel.shape[:-2]
    if 0 in (*shape, *kernel.shape, *out.shape):
        return jnp.zeros(shape, out.dtype)
    pads = [
        (window_span - low - 1, x_span - out_span + low)
        for (low, _), window_span, x_span, out_span in zip(
            windows.pads,
            map(dilated_span, window, windows.dilations),
            map(dilated_span, shape[1:-1], windows.spacings),
            map(dilated_span, out.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    reversed_kernel = lax.rev(_swap_features(kernel, windows.groups), range(len(window)))
    transposed = ConvGeometry(
        windows.spacings, tuple(pads), windows.strides, windows.dilations, windows.groups
    )
    return _convolve_on_cpu(out, reversed_kernel, windows=transposed, shape=shape)


def _kernel_gradient_on_cpu(x: Any, out: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    """Kernel gradient: a sum over chunks of the batch, each of which fits the cache."""
    if 0 in (*x.shape, *shape, *out.shape):
        return jnp.zeros(shape, out.dtype)
    of_piece = functools.partial(_kernel_gradient_of_piece, windows=windows, shape=shape)
    if not all(isinstance(size, int) for size in (*x.shape, *out.shape)):
        return of_piece(x, out)  # the number of chunks is unknown during export
    most = max(LEAST_EXAMPLES, PIECE_BYTES * x.shape[0] // (x.nbytes + out.nbytes))
    even = (n for n in range(most, most // 2, -1) if x.shape[0] % n == 0)
    size = next(even, most)  # else the remainder is compiled as well
    count = x.shape[0] // size
    if count < 2 or x.dtype.itemsize < 4:  # half precision is accumulated at once
        return of_piece(x, out)
    ends = count * size
    pieces = [a[:ends].reshape(count, size, *a.shape[1:]) for a in (x, out)]
    total, _ = lax.scan(
        lambda total, piece: (total + of_piece(*piece), None),
        jnp.zeros(shape, out.dtype),
        pieces,
    )
    return total if ends == x.shape[0] else total + of_piece(x[ends:], out[ends:])


def _kernel_gradient_of_piece(x: Any, out: Any, *, windows: ConvGeometry, shape: Shape) -> Any:
    """Kernel gradient of a chunk: a convolution of the input with the cotangent as kernel."""
    pads = [
        (low, window_span - x_span + out_span - low - 1)
        for (low, _), window_span, x_span, out_span in zip(
            windows.pads,
            map(dilated_span, shape[:-2], windows.dilations),
            map(dilated_span, x.shape[1:-1], windows.spacings),
            map(dilated_span, out.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    across = ConvGeometry(
        windows.dilations, tuple(pads), windows.spacings, windows.strides, windows.groups
    )
    examples_last = _swap_features(jnp.moveaxis(x, 0, -2), windows.groups)
    features_first, kernel = jnp.moveaxis(examples_last, -2, 0), jnp.moveaxis(out, 0, -2)
    out_shape = (shape[-2], *shape[:-2], shape[-1])
    return jnp.moveaxis(
        _convolve_on_cpu(features_first, kernel, windows=across, shape=out_shape), 0, -2
    )


def dilated_span(size: int, apart: int) -> int:
    """Return the extent of `size` elements at distance `apart`."""
    return (size - 1) * apart + 1


def _swap_features(kernel: Any, groups: int) -> Any:
    """Exchange input and output features of a kernel within each group."""
    *window, inputs, outputs = kernel.shape
    swapped = jnp.swapaxes(_split_groups(kernel, groups), -1, -3)
    return swapped.reshape(*window, outputs // groups, groups * inputs)


# ---- dispatch by platform --------------------------------------------------------------------

BY_XLA: Mapping[str, Algorithm] = {
    "x": _x_gradient_by_xla,
    "kernel": _kernel_gradient_by_xla,
    "out": _convolve_by_xla,
}
ON_CPU: Mapping[str, Algorithm] = {
    "x": _x_gradient_on_cpu,
    "kernel": _kernel_gradient_on_cpu,
    "out": _convolve_on_cpu,
}

ALGORITHMS: Mapping[str | None, Mapping[str, Algorithm]] = {None: BY_XLA, "cpu": ON_CPU}
"""The algorithm for each array by target platform; `None` is any other platform."""
