"""Discrete Fourier transforms, along one axis or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from braces.define.axes.axis_map import (
    Attrs,
    AxisError,
    AxisMap,
    Types,
    normalize_axis,
    shape_of,
)
from braces.define.axes.axis_rules import mix_along_axis, resize_axis
from braces.define.axes.flop_count import comparisons_per_entry, count_per_element
from braces.define.decorator import Axes, Axis, Tensor, op
from braces.dims import Size, call
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.lazy import jnp
from braces.ops.common.rules import refuse
from braces.ops.elementwise.complex import as_complex, complex_dtype, part_dtype

NORMS = ("backward", "ortho", "forward")
SIGNALS = (
    "x=f32[2,8]",
    "x=c64[b,6]",
    "x=f64[5,b] n=4 axis=0",
    "x=f64[2,3] n=5 norm=ortho",
    "x=c128[2,t] n=3 norm=forward",
    "x=f32[0,4]",
)

# ---- rules -----------------------------------------------------------------------------------


def _size_along(types: Types, attrs: Attrs) -> tuple[int, Size]:
    """Return the transformed axis and its size."""
    shape = shape_of(types["x"][0])
    axis = normalize_axis(attrs["axis"], len(shape))
    return axis, shape[axis]


def _transform_length(attrs: Attrs, otherwise: Size) -> Any:
    """Return the transform length: attribute `n`, or `otherwise` if it is `None`."""
    n: Any = otherwise if attrs["n"] is None else attrs["n"]
    if isinstance(n, int) and n < 0:
        raise AxisError(f"negative n={n}.", fix="Use n=None, or a size of 0 or more.")
    return n


def fft_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `fft` and `ifft`: as many frequencies as samples."""
    axis, size = _size_along(types, attrs)
    return resize_axis(
        mix_along_axis(types, attrs), axis, "frequency", _transform_length(attrs, size)
    )


def rfft_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `rfft`: only the nonnegative frequencies."""
    axis, size = _size_along(types, attrs)
    count: Any = call("floordiv", _transform_length(attrs, size), 2) + 1
    return resize_axis(mix_along_axis(types, attrs), axis, "frequency", count)


def irfft_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `irfft`: `n` samples, or by default an even number of them."""
    axis, size = _size_along(types, attrs)
    count = _transform_length(attrs, call("max", 2 * (size - 1), 0))
    return resize_axis(mix_along_axis(types, attrs), axis, "time", count)


def along_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `fftn` and `ifftn`: all transformed axes are non-pointwise."""
    return mix_along_axis(types, {"axis": attrs["axes"]})


def _check_norm(what: str, norm: str) -> None:
    if norm not in NORMS:
        raise ProgramError(
            f"{what}: unknown norm={norm!r}.", fix=f"Use one of {', '.join(NORMS)}."
        )


def to_complex(what: str, x: DType, *, norm: str, **attrs: Any) -> DType:
    """Dtype rule: complex frequencies of any number."""
    del attrs
    refuse(what, x, "b")
    _check_norm(what, norm)
    return complex_dtype(x)


def of_reals(what: str, x: DType, **attrs: Any) -> DType:
    """Dtype rule: complex frequencies of real numbers."""
    refuse(what, x, "c")
    return to_complex(what, x, **attrs)


def to_real(what: str, x: DType, **attrs: Any) -> DType:
    """Dtype rule: real numbers of any frequencies."""
    return part_dtype(to_complex(what, x, **attrs))


def halvings(types: Types, attrs: Attrs) -> Size:
    """Cost per element: four operations for each level of the FFT, log2(n)."""
    _, size = _size_along(types, attrs)
    return 4 * comparisons_per_entry(_transform_length(attrs, size))


def halvings_of_half(types: Types, attrs: Attrs) -> Size:
    """Cost per output of `rfft`: that of `fft`, for half as many outputs."""
    return 2 * halvings(types, attrs)


def halvings_of_all(types: Types, attrs: Attrs) -> Size:
    """Cost per element along several axes: the sum of the costs per axis."""
    shape = shape_of(types["x"][0])
    axes: Any = range(len(shape)) if attrs["axes"] is None else attrs["axes"]
    transformed_axes = axes if isinstance(axes, tuple | range) else (axes,)
    return 4 * sum(comparisons_per_entry(shape[axis]) for axis in transformed_axes)


# ---- kernels ---------------------------------------------------------------------------------


def _along(
    function: Callable[..., Any], x: Any, n: int, axis: int, norm: str, count: int, dtype: DType
) -> Any:
    """Apply a transform along one axis; zeros if the input is empty."""
    if not x.size or not n:
        shape = list(x.shape)
        shape[axis] = count
        return jnp.zeros(shape, dtype)
    return function(x, n, axis, norm)


def _number(size: Size | None, otherwise: int) -> int:
    """Return a size as a number, for kernels, where no size is symbolic."""
    assert size is None or isinstance(size, int)
    return otherwise if size is None else size


@op(
    axes=fft_axes,
    dtypes=to_complex,
    operations=count_per_element("out", halvings),
    examples=SIGNALS,
)
def fft(x: Tensor, *, n: Size | None = None, axis: Axis = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along one axis.

        out[..., k, ...] = sum_j x[..., j, ...] * exp(-2 pi i j k / n)

    Inputs:
        x: number[*shape].

    Attributes:
        n: The transform length: the axis is cut or zero-padded to it; `None` is the size of
            the axis.
        axis: The axis of `x`.
        norm: The divisor of the sum: 1 ("backward"), sqrt(n) ("ortho") or n ("forward").

    Outputs:
        out: complex, with `n` on `axis`; complex128 of 64-bit floats.

    Raises:
        ShapeError: If the axis is out of range, or `n` is negative.
        DTypeError: If the dtype is bool.
        ProgramError: If `norm` is unknown.
    """
    n = _number(n, x.shape[axis])
    x = as_complex(x)
    return _along(jnp.fft.fft, x, n, axis, norm, n, x.dtype)


@op(
    axes=fft_axes,
    dtypes=to_complex,
    operations=count_per_element("out", halvings),
    examples=SIGNALS,
)
def ifft(
    x: Tensor, *, n: Size | None = None, axis: Axis = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `fft`.

        out[..., j, ...] = sum_k x[..., k, ...] * exp(2 pi i j k / n) / n

    Inputs:
        x: number[*shape].

    Attributes:
        n: The number of frequencies: the axis is cut or zero-padded to it; `None` is the size
            of the axis.
        axis: The axis of `x`.
        norm: The `norm` of the inverted `fft`: the sum is divided by n ("backward"), sqrt(n)
            ("ortho") or 1 ("forward").

    Outputs:
        out: complex, with `n` on `axis`; complex128 of 64-bit floats.

    Raises:
        ShapeError: If the axis is out of range, or `n` is negative.
        DTypeError: If the dtype is bool.
        ProgramError: If `norm` is unknown.
    """
    n = _number(n, x.shape[axis])
    x = as_complex(x)
    return _along(jnp.fft.ifft, x, n, axis, norm, n, x.dtype)


@op(
    axes=rfft_axes,
    dtypes=of_reals,
    operations=count_per_element("out", halvings_of_half),
    examples=(
        "x=f32[2,8]",
        "x=f32[b,7]",
        "x=f64[5,b] n=4 axis=0",
        "x=f64[2,3] n=5 norm=ortho",
        "x=f64[2,t]",
        "x=f32[0,4]",
    ),
)
def rfft(
    x: Tensor, *, n: Size | None = None, axis: Axis = -1, norm: str = "backward"
) -> Tensor:
    """The discrete Fourier transform of real numbers: the nonnegative frequencies.

        out[..., k, ...] = sum_j x[..., j, ...] * exp(-2 pi i j k / n) for k <= n / 2

    The negative frequencies are the conjugates of these.

    Inputs:
        x: number[*shape], real.

    Attributes:
        n: The transform length: the axis is cut or zero-padded to it; `None` is the size of
            the axis.
        axis: The axis of `x`.
        norm: The divisor of the sum: 1 ("backward"), sqrt(n) ("ortho") or n ("forward").

    Outputs:
        out: complex, with n // 2 + 1 on `axis`; complex128 of 64-bit floats.

    Raises:
        ShapeError: If the axis is out of range, or `n` is negative.
        DTypeError: If the dtype is bool or complex.
        ProgramError: If `norm` is unknown.
    """
    n = _number(n, x.shape[axis])
    dtype = complex_dtype(x.dtype)
    wide = x.astype(part_dtype(dtype))
    return _along(jnp.fft.rfft, wide, n, axis, norm, n // 2 + 1, dtype)


@op(
    axes=irfft_axes,
    dtypes=to_real,
    operations=count_per_element("out", halvings),
    examples=(
        "x=c64[2,5]",
        "x=c64[b,4] n=7",
        "x=c128[5,b] n=4 axis=0",
        "x=f64[2,3] n=5 norm=ortho",
        "x=f32[2,t]",
        "x=f32[0,4]",
    ),
)
def irfft(
    x: Tensor, *, n: Size | None = None, axis: Axis = -1, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfft`: real numbers from the nonnegative frequencies.

    The imaginary part of the first frequency is taken as zero; for even `n` that of the last
    too.

    Inputs:
        x: number[*shape].

    Attributes:
        n: The number of samples in the result; `None` is 2 * (size - 1). The axis is cut or
            zero-padded to n // 2 + 1 frequencies.
        axis: The axis of `x`.
        norm: The `norm` of the inverted `rfft`: the sum is divided by n ("backward"), sqrt(n)
            ("ortho") or 1 ("forward").

    Outputs:
        out: float, with `n` on `axis`; 64-bit floats of complex128.

    Raises:
        ShapeError: If the axis is out of range, or `n` is negative.
        DTypeError: If the dtype is bool.
        ProgramError: If `norm` is unknown.
    """
    n = _number(n, max(2 * (x.shape[axis] - 1), 0))
    x = as_complex(x)
    return _along(jnp.fft.irfft, x, n, axis, norm, n, part_dtype(x.dtype))


PLANES = (
    "x=f32[2,4,3]",
    "x=c64[b,4,2] axes=(1,2)",
    "x=f64[b,t] norm=ortho",
    "x=c128[4,2] axes=0 norm=forward",
    "x=f32[0,4]",
)


@op(
    axes=along_axes,
    dtypes=to_complex,
    operations=count_per_element("out", halvings_of_all),
    examples=PLANES,
)
def fftn(x: Tensor, *, axes: Axes = None, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along several axes: `fft` along each of them.

    Inputs:
        x: number[*shape].

    Attributes:
        axes: The axes of `x`; `None` is all of them.
        norm: The `norm` of `fft`, for each axis.

    Outputs:
        out: complex[*shape]; complex128 of 64-bit floats.

    Raises:
        ShapeError: If an axis is out of range or duplicate.
        DTypeError: If the dtype is bool.
        ProgramError: If `norm` is unknown.
    """
    return _along_all(jnp.fft.fftn, as_complex(x), axes, norm)


@op(
    axes=along_axes,
    dtypes=to_complex,
    operations=count_per_element("out", halvings_of_all),
    examples=PLANES,
)
def ifftn(x: Tensor, *, axes: Axes = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`.

    Inputs:
        x: number[*shape].

    Attributes:
        axes: The axes of `x`; `None` is all of them.
        norm: The `norm` of the inverted `fftn`.

    Outputs:
        out: complex[*shape]; complex128 of 64-bit floats.

    Raises:
        ShapeError: If an axis is out of range or duplicate.
        DTypeError: If the dtype is bool.
        ProgramError: If `norm` is unknown.
    """
    return _along_all(jnp.fft.ifftn, as_complex(x), axes, norm)


def _along_all(function: Callable[..., Any], x: Any, axes: Axes, norm: str) -> Any:
    """Apply a transform along several axes, possibly none."""
    chosen = (axes,) if isinstance(axes, int) else axes
    if not x.size or not x.ndim or chosen == ():
        return x
    return function(x, axes=chosen, norm=norm)
