"""Inverse hyperbolic functions of complex numbers, by Kahan's formulas.

    arccosh(z) = arcsinh(Re(conj(a) b)) + 2i arctan(Im(a) / Re(b))
    a, b = sqrt(z - 1), sqrt(z + 1)

They are accurate near branch points (W. Kahan, *Branch Cuts for Complex Elementary Functions*,
1987). On branch cuts they have the values of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.jaxpr.core.custom_derivatives import extend_to_complex
from braces.jaxpr.core.equation import Equation, Rule, Value
from braces.jaxpr.rules.arithmetic import ARITHMETIC
from braces.lazy import jnp, lax

_np: Any = jnp
_lax: Any = lax


def _arcsinh(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the parts of the inverse of `sinh`; the first has the sign of `x`."""
    unit, size = np.ones((), x.dtype), _np.abs(x)
    below, above = _root(unit + y, size), _root(unit - y, size)
    real = _np.arcsinh((below * above).imag)
    return _with_sign(x, real), _np.arctan2(y, (_np.conj(below) * above).real)


def _arccosh(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the parts of the inverse of `cosh`; the second has the sign of `y`."""
    unit, size = np.ones((), x.dtype), _np.abs(y)
    below, above = _root(x - unit, size), _root(x + unit, size)
    half = _np.arctan2(below.imag, above.real)
    return _np.arcsinh((_np.conj(below) * above).real), _with_sign(y, half + half)


def _arctanh(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the parts of the inverse of `tanh`."""
    unit, size = np.ones((), x.dtype), _np.abs(x)
    quarter = np.asarray(0.25, x.dtype)
    ratio = size / quarter / ((unit - size) ** 2 + y * y)
    imag = _np.arctan2(y + y, (unit - x) * (unit + x) - y * y) / np.asarray(2, x.dtype)
    return _with_sign(x, quarter * _np.log1p(ratio)), imag


def _with_sign(x: Any, size: Any) -> Any:
    """Return a size with the sign of a number; zeros of both signs count as positive."""
    return _np.where(x < 0, -size, size)


def _root(x: Any, y: Any) -> Any:
    return _np.sqrt(_lax.complex(x, y))


def _of_any_numbers(name: str, parts: Callable[[Any, Any], tuple[Any, Any]]) -> Rule:
    """Extend the rule of a function to complex numbers."""

    def compute(z: Any) -> Any:
        return _lax.complex(*parts(z.real, z.imag))

    def of_complex(e: Equation, *values: Value) -> Sequence[Value]:
        return e.written(compute, *values)

    return extend_to_complex(ARITHMETIC[name], of_complex)


COMPLEX_ARCS: Mapping[str, Rule] = {
    "acosh": _of_any_numbers("acosh", _arccosh),
    "asinh": _of_any_numbers("asinh", _arcsinh),
    "atanh": _of_any_numbers("atanh", _arctanh),
}
