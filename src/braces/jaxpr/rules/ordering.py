"""Rules that order complex numbers, by their real and then their imaginary parts, and folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from braces.builder.append import emit
from braces.jaxpr.core.custom_derivatives import extend_to_complex
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import ARITHMETIC
from braces.lazy import extend, jax, jnp, lax

_jax: Any = jax
_np: Any = jnp
_lax: Any = lax


def _extreme(name: str, x: Any, y: Any) -> Any:
    """Return the larger or the smaller of two complex numbers."""
    compare = _np.less if name.endswith("min") else _np.greater
    same = x.real == y.real
    return _np.where(_np.where(same, compare(x.imag, y.imag), compare(x.real, y.real)), x, y)


def _reduced(name: str, axes: Sequence[int], x: Any) -> Any:
    """Return the extreme of complex numbers along axes."""
    reduce, worst = (_np.min, _np.inf) if name.endswith("min") else (_np.max, -_np.inf)
    real = reduce(x.real, axis=axes, keepdims=True)
    imag = reduce(_np.where(x.real == real, x.imag, worst), axis=axes)
    return _lax.complex(_np.squeeze(real, axes), imag)


def _accumulated(name: str, axis: int, reverse: bool, x: Any) -> Any:
    """Return the extremes of complex numbers so far, along an axis."""

    def step(so_far: Any, row: Any) -> tuple[Any, Any]:
        extreme = _extreme(name, so_far, row)
        return extreme, extreme

    rows = _np.moveaxis(x, axis, 0)
    first = rows[-1] if reverse else rows[0]
    return _np.moveaxis(_lax.scan(step, first, rows, reverse=reverse)[1], 0, axis)


def _written(name: str, e: Equation) -> Callable[..., Any]:
    """Return the function of an equation on complex numbers."""
    if name.startswith("reduce"):
        return partial(_reduced, name, tuple(e.params["axes"]))
    if name.startswith("cum"):
        return partial(_accumulated, name, e.params["axis"], e.params["reverse"])
    return partial(_extreme, name)


def _of_any_numbers(name: str) -> Rule:
    """Extend the rule of an extreme to complex numbers."""

    def of_complex(e: Equation, *values: Value) -> Value | Sequence[Value]:
        if name.startswith("cum") and 0 in e.shape:
            return e.lift(values[0])
        return e.written(_written(name, e), *values)

    return extend_to_complex(ARITHMETIC[name], of_complex)


def _direction(x: Any) -> Any:
    """Return the parts of complex numbers divided by their sizes; 0 stays 0."""
    size = _np.abs(x)
    parts = _lax.complex(x.real / size, x.imag / size)
    return _np.where(size == 0, x, parts)


def direction(e: Equation, *values: Value) -> Sequence[Value]:
    """The direction of complex numbers, which JAX calls their sign."""
    return e.written(_direction, *values)


# ---- folds -----------------------------------------------------------------------------------


def fold(e: Equation, *values: Value) -> list[Value]:
    """A reduction of arrays by a function, element after element."""
    count = len(values) // 2
    axes = tuple(e.params["dimensions"])
    combine = _jax.vmap(cast("Any", extend).jaxpr_as_fun(e.params["jaxpr"]))

    def step(so_far: Sequence[Any], row: Sequence[Any]) -> tuple[Any, None]:
        return combine(*so_far, *row), None

    def fold_arrays(*arrays: Any) -> Any:
        rest = [at for at in range(arrays[0].ndim) if at not in axes]
        sizes = [arrays[0].shape[at] for at in rest]
        rows = [_rows(x, (*axes, *rest), len(axes)) for x in arrays[:count]]
        init = [
            _np.broadcast_to(first, row.shape[1:])
            for first, row in zip(arrays[count:], rows, strict=True)
        ]
        return [x.reshape(sizes) for x in _lax.scan(step, init, rows)[0]]

    return e.written(fold_arrays, *values)


def _rows(x: Any, order: Sequence[int], count: int) -> Any:
    """Return an array of rank 2, with some axes first."""
    moved = _np.transpose(x, order)
    size = 1
    for length in moved.shape[:count]:
        size = size * length
    return moved.reshape(size, -1) if moved.size else moved.reshape(size, 0)


def shape_counters(e: Equation) -> list[Value]:
    """The positions of the elements of a shape, in two words."""
    size = 1
    for length in e.shape:
        size = size * length
    low = emit("reshape", emit("arange", stop=size), shape=e.shape)
    words = emit("cast", low, dtype="uint32")
    return [emit("zeros_like", words), words]


ORDERING: Mapping[str, Rule] = {
    **{
        name: _of_any_numbers(name)
        for name in ("max", "min", "reduce_max", "reduce_min", "cummax", "cummin")
    },
    "iota_2x32_shape": shape_counters,
    "reduce": fold,
    "sign": extend_to_complex(ARITHMETIC["sign"], direction),
}
