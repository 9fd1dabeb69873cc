"""How a convolution and its derivatives are computed: by XLA's own way, or a CPU's.

XLA's CPU backend has a fast convolution for one order of axes: batch, space, features; the
window, features in, features out. At the top of a program it brings others into that order, in
the bodies of loops and branches it does not, and what is in another order takes 10 to 40 times
as long there. The derivatives that JAX has of its convolution are in other orders; those for a
CPU are convolutions in that order again.

Groups are slow there in any order, so a CPU computes them otherwise: few terms for each element
of the result by adding them up, many by one convolution after the other.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from braces.lazy import jax, jnp, lax

Shape: TypeAlias = tuple[int, ...]
Way: TypeAlias = Callable[..., Any]
"""From two of the three arrays, `windows` and the `shape` of the third to that."""

MOST_FEATURES, MOST_TERMS = 2, 50
"""Of a group, and for each element of the result: up to so many, a CPU adds up the quickest."""

PIECE_BYTES, LEAST_EXAMPLES = 2**18, 4
"""Of so much a CPU computes the derivative of a kernel at once: of all it takes up to 9 times
as long, since what all examples see is gathered in memory first."""


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

    strides: Shape
    pads: tuple[tuple[int, int], ...]
    spacings: Shape
    dilations: Shape
    groups: int


# ---- XLA's own way ---------------------------------------------------------------------------


def _by_xla(x: Any, kernel: Any, *, windows: Windows, shape: Shape = ()) -> Any:
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


def _x_by_xla(kernel: Any, out: Any, *, windows: Windows, shape: Shape) -> Any:
    def of_x(x: Any) -> Any:
        return _by_xla(x, kernel, windows=windows)

    (found,) = jax.linear_transpose(of_x, jax.ShapeDtypeStruct(shape, out.dtype))(out)
    return found


def _kernel_by_xla(x: Any, out: Any, *, windows: Windows, shape: Shape) -> Any:
    def of_kernel(kernel: Any) -> Any:
        return _by_xla(x, kernel, windows=windows)

    (found,) = jax.linear_transpose(of_kernel, jax.ShapeDtypeStruct(shape, out.dtype))(out)
    return found


# ---- on a CPU --------------------------------------------------------------------------------


def _on_cpu(x: Any, kernel: Any, *, windows: Windows, shape: Shape) -> Any:
    if windows.groups == 1 or 0 in (*x.shape, *kernel.shape, *shape):
        return _by_xla(x, kernel, windows=windows)
    if kernel.shape[-2] <= MOST_FEATURES and math.prod(kernel.shape[:-1]) <= MOST_TERMS:
        by_terms = functools.partial(_by_terms, kernel, windows, (1, *shape[1:]))
        return lax.map(by_terms, x)  # in a loop, where XLA does not compute terms once a use
    return _by_groups(x, kernel, windows)


def _by_terms(kernel: Any, windows: Windows, shape: Shape, example: Any) -> Any:
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


def _seen_at(place: Shape, x: Any, windows: Windows, shape: Shape) -> Any:
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


def _x_on_cpu(kernel: Any, out: Any, *, windows: Windows, shape: Shape) -> Any:
    """What each window gives is spread over what it read."""
    window = kernel.shape[:-2]
    if 0 in (*shape, *kernel.shape, *out.shape):
        return jnp.zeros(shape, out.dtype)
    pads = [
        (spanned - low - 1, read - written + low)
        for (low, _), spanned, read, written in zip(
            windows.pads,
            map(reach, window, windows.dilations),
            map(reach, shape[1:-1], windows.spacings),
            map(reach, out.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    turned = lax.rev(_exchanged(kernel, windows.groups), range(len(window)))
    spread = Windows(
        windows.spacings, tuple(pads), windows.strides, windows.dilations, windows.groups
    )
    return _on_cpu(out, turned, windows=spread, shape=shape)


def _kernel_on_cpu(x: Any, out: Any, *, windows: Windows, shape: Shape) -> Any:
    """The sum of what pieces of the batch give, each of which is in the cache all along."""
    if 0 in (*x.shape, *shape, *out.shape):
        return jnp.zeros(shape, out.dtype)
    of_piece = functools.partial(_kernel_of_piece, windows=windows, shape=shape)
    if not all(isinstance(size, int) for size in (*x.shape, *out.shape)):
        return of_piece(x, out)  # how many pieces there are is not known while it is exported
    most = max(LEAST_EXAMPLES, PIECE_BYTES * x.shape[0] // (x.nbytes + out.nbytes))
    even = (n for n in range(most, most // 2, -1) if x.shape[0] % n == 0)
    size = next(even, most)  # else what is left over is compiled, too
    count = x.shape[0] // size
    if count < 2 or x.dtype.itemsize < 4:  # half precision is added up in one go
        return of_piece(x, out)
    ends = count * size
    pieces = [a[:ends].reshape(count, size, *a.shape[1:]) for a in (x, out)]
    total, _ = lax.scan(
        lambda total, piece: (total + of_piece(*piece), None),
        jnp.zeros(shape, out.dtype),
        pieces,
    )
    return total if ends == x.shape[0] else total + of_piece(x[ends:], out[ends:])


def _kernel_of_piece(x: Any, out: Any, *, windows: Windows, shape: Shape) -> Any:
    """The input under the windows of what the result gives."""
    pads = [
        (low, spanned - read + written - low - 1)
        for (low, _), spanned, read, written in zip(
            windows.pads,
            map(reach, shape[:-2], windows.dilations),
            map(reach, x.shape[1:-1], windows.spacings),
            map(reach, out.shape[1:-1], windows.strides),
            strict=True,
        )
    ]
    across = Windows(
        windows.dilations, tuple(pads), windows.spacings, windows.strides, windows.groups
    )
    examples_last = _exchanged(jnp.moveaxis(x, 0, -2), windows.groups)
    given, kernel = jnp.moveaxis(examples_last, -2, 0), jnp.moveaxis(out, 0, -2)
    turned = (shape[-2], *shape[:-2], shape[-1])
    return jnp.moveaxis(_on_cpu(given, kernel, windows=across, shape=turned), 0, -2)


def reach(size: int, apart: int) -> int:
    """How many elements an axis spans that has its own so far apart."""
    return (size - 1) * apart + 1


def _exchanged(kernel: Any, groups: int) -> Any:
    """The features in and out exchanged, within each group."""
    *window, taken, given = kernel.shape
    swapped = jnp.swapaxes(_grouped(kernel, groups), -1, -3)
    return swapped.reshape(*window, given // groups, groups * taken)


# ---- which one -------------------------------------------------------------------------------

BY_XLA: Mapping[str, Way] = {"x": _x_by_xla, "kernel": _kernel_by_xla, "out": _by_xla}
ON_CPU: Mapping[str, Way] = {"x": _x_on_cpu, "kernel": _kernel_on_cpu, "out": _on_cpu}

WAYS: Mapping[str | None, Mapping[str, Way]] = {None: BY_XLA, "cpu": ON_CPU}
"""How each array is computed, by the platform that code is made for; `None` is any other."""
