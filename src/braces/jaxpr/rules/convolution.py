"""Rules of convolutions and padding.

x dilated, then padded, then cropped     JAX does this in one primitive
conv2d(x, weight)                        with operators it is a sequence
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from braces.builder.append import emit
from braces.builder.scalar_promotion import number_of
from braces.builder.var import Var
from braces.dims import Size
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import in_dtype
from braces.jaxpr.rules.shape import reshape_to

LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
Edges = Sequence[tuple[Any, Any, int]]


# ---- padding ---------------------------------------------------------------------------------


def pad(e: Equation, x: Value, value: Value) -> Var:
    """Padding around an array and between its elements; negative widths crop."""
    constant_fill = value if not isinstance(value, Var) else None
    if constant_fill is None or np.imag(constant_fill):
        return _pad_with_variable(e, e.lift(x), e.lift(value))
    return pad_with_number(e, e.lift(x), e.params["padding_config"], constant_fill[()])


def _pad_with_variable(e: Equation, x: Var, value: Var) -> Var:
    """Pad with a variable, by a mask of the padding."""
    config, zero = e.params["padding_config"], np.zeros((), x.dtype)
    body = pad_with_number(e, x, config, zero[()])
    margin = pad_with_number(e, emit("zeros_like", x), config, np.ones((), x.dtype)[()])
    return emit("where", emit("not_equal", margin, 0), value, body)


def pad_with_number(e: Equation, x: Var, config: Edges, value: Any) -> Var:
    """Pad an array around and between its elements with a real number."""
    value = np.real(value)
    for axis, (_, _, holes) in enumerate(config):
        if holes:
            x = _dilate(x, axis, holes, value)
    edges = [tuple(e.sizes(edge[:2])) for edge in config]
    widths = tuple(tuple(_at_least_0(side) for side in edge) for edge in edges)
    if any(side != 0 for edge in widths for side in edge):
        x = emit("pad", x, widths=widths, value=number_of(value))
    crops = [[_cropped(side) for side in edge] for edge in edges]
    if not any(map(any, crops)):
        return x
    return x[tuple(slice(before, -after or None) for before, after in crops)]


def _at_least_0(size: Size) -> Size:
    return max(size, 0) if isinstance(size, int) else size


def _cropped(size: Size) -> int:
    return max(-size, 0) if isinstance(size, int) else 0


def _dilate(x: Var, axis: int, holes: int, value: Any) -> Var:
    """Dilate an axis, with `holes` fill values between elements."""
    with_gap_axis = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    widths = tuple((0, holes if at == axis + 1 else 0) for at in range(len(with_gap_axis)))
    padded_gaps = emit(
        "pad", reshape_to(x, with_gap_axis), widths=widths, value=number_of(value)
    )
    size = x.shape[axis] * (holes + 1)
    merged = reshape_to(padded_gaps, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
    full_slice = slice(None)
    return merged[
        tuple(slice(None, -holes) if at == axis else full_slice for at in range(x.ndim))
    ]


# ---- convolutions ----------------------------------------------------------------------------


def convolution(e: Equation, x: Value, weight: Value) -> Value:
    """A convolution over one, two or three axes; others are refused."""
    if e.dtype.kind in "iu" and 0 not in e.shape:
        return e.written(partial(_convolve_integers, e), x, weight)[0]
    return _convolve(e, x, weight)


def _convolve_integers(e: Equation, x: Any, weight: Any) -> Any:
    """Convolve integers by sums of float64 that are exact, and wrap around as integers do.

    Larger integers than those of 16 bits are convolved by their digits to base 2^16.
    """
    params = {**e.params, "preferred_element_type": np.dtype(np.float64)}

    def convolve(*arrays: Any) -> Any:
        return e.eqn.primitive.bind(*(a.astype(np.float64) for a in arrays), **params)

    if max(x.dtype.itemsize, weight.dtype.itemsize) <= 2:
        return convolve(x, weight).astype(np.int64).astype(e.dtype)
    left, right = (_digits(array, e.dtype.itemsize // 2) for array in (x, weight))
    total = np.zeros((), np.uint64)
    for i, digit in enumerate(left):
        for j, other in enumerate(right[: len(right) - i]):
            product = convolve(digit, other).astype(np.uint64)
            total = total + (product << np.uint64(16 * (i + j)))
    return total.astype(e.dtype)


def _digits(x: Any, count: int) -> list[Any]:
    """Return the digits of integers to base 2^16, the lowest first."""
    wide = x.astype(np.uint64)
    return [(wide >> np.uint64(16 * at)) & np.uint64(0xFFFF) for at in range(count)]


def _convolve(e: Equation, x: Value, weight: Value) -> Var:
    """A convolution of floats."""
    numbers, rank = e.params["dimension_numbers"], e.lift(x).ndim - 2
    if 0 in e.shape:
        return empty_of(e, x, weight)
    if rank > max(LAYOUTS):
        e.refuse(f"{rank} spatial axes")
    left = in_order(in_dtype(e.lift(x), e.dtype), numbers.lhs_spec)
    right = in_order(in_dtype(e.lift(weight), e.dtype), numbers.rhs_spec)
    left = _prepare_input(e, left)
    groups, batches = e.params["feature_group_count"], e.params["batch_group_count"]
    if batches > 1:
        left, groups = _batches_as_groups(left, batches), batches
    stride, dilation = (tuple(e.params[n]) for n in ("window_strides", "rhs_dilation"))
    if not rank:  # a product of matrices, as a convolution over one axis of size 1
        left, right = (reshape_to(array, (*array.shape, 1)) for array in (left, right))
        rank, stride, dilation = 1, (1,), (1,)
    output = emit(
        f"conv{rank}d",
        left,
        right,
        stride=stride,
        dilation=dilation,
        padding="valid",
        groups=groups,
        layout=LAYOUTS[rank],
    )
    if len(numbers.out_spec) < output.ndim:
        output = reshape_to(output, output.shape[:-1])
    return in_dtype(in_order(output, np.argsort(numbers.out_spec).tolist()), e.dtype)


def empty_of(e: Equation, *values: Value) -> Var:
    """Return an array without elements that depends on some values."""
    total = sum((emit("sum", e.lift(value)) for value in values), e.lift(np.zeros((), e.dtype)))
    return emit("broadcast_to", in_dtype(total, e.dtype), shape=e.shape)


def _prepare_input(e: Equation, x: Var) -> Var:
    """Return the input of a convolution after dilation and padding."""
    edges = zip(e.params["padding"], e.params["lhs_dilation"], strict=True)
    config = [(0, 0, 0)] * 2 + [(low, high, holes - 1) for (low, high), holes in edges]
    return pad_with_number(e, x, config, np.zeros((), x.dtype)[()])


def _batches_as_groups(x: Var, groups: int) -> Var:
    """Convert batch groups to channel groups."""
    batch, channels, *space = x.shape
    grouped = reshape_to(x, (groups, batch // groups, channels, *space))
    order = (1, 0, *range(2, grouped.ndim))
    reordered = emit("transpose", grouped, axes=order)
    return reshape_to(reordered, (batch // groups, groups * channels, *space))


def in_order(x: Var, order: Sequence[int]) -> Var:
    """Transpose to an order of axes."""
    same = list(order) == list(range(x.ndim))
    return x if same else emit("transpose", x, axes=tuple(map(int, order)))


CONVOLUTIONS: Mapping[str, Rule] = {"conv_general_dilated": convolution, "pad": pad}
