"""Comparison of arrays, with tolerances that follow from the dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

TOLERANCES = {
    "float8_e5m2": (2.5e-1, 1e-2),
    "float8_e4m3fn": (1.3e-1, 1e-2),
    "bfloat16": (1.6e-2, 1e-5),
    "float16": (1e-3, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
"""The relative and absolute tolerance of each dtype, the coarsest first.

Those of 16 bits and more are the defaults of `torch.testing.assert_close`.
"""
EXACT = (0.0, 0.0)


def assert_allclose(
    actual: Any, desired: Any, *, rtol: float | None = None, atol: float | None = None
) -> None:
    """Compare arrays, or nested lists, tuples and dicts of arrays.

        |actual - desired| <= atol + rtol |desired|

    Shapes must be equal, but a desired value may be a scalar. NaN equals NaN. Integers and
    bools are compared exactly by default.

    Args:
        actual: The array that a test computed, or a nested structure of arrays.
        desired: The expected array, or the same structure of expected arrays.
        rtol: The relative tolerance. By default that of the coarser of both dtypes: 1.3e-6 for
            float32, 1e-7 for float64, 1e-3 for float16, 1.6e-2 for bfloat16.
        atol: The absolute tolerance. By default 1e-5, and 1e-7 for float64.

    Raises:
        AssertionError: If values, shapes or structures differ. The message has the place in the
            structure and the largest differences.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> x = np.float32(1) / np.arange(1, 4, dtype="float32")
        >>> br.testing.assert_allclose({"h": [x]}, {"h": [[1.0, 0.5, 1 / 3]]})
        >>> br.testing.assert_allclose({"h": x}, {"h": [1.0, 0.5, 0.3]})
        Traceback (most recent call last):
            ...
        AssertionError: ...the value at ['h']...
    """
    _compare(actual, desired, rtol, atol, "")


def _compare(
    actual: Any, desired: Any, rtol: float | None, atol: float | None, place: str
) -> None:
    if isinstance(actual, Mapping):
        ours, theirs = cast("Mapping[Any, Any]", actual), cast("Mapping[Any, Any]", desired)
        if not isinstance(desired, Mapping) or ours.keys() != theirs.keys():
            raise AssertionError(f"{_named(place)} has the keys {list(ours)}, not {desired!r}.")
        for key, value in ours.items():
            _compare(value, theirs[key], rtol, atol, f"{place}[{key!r}]")
    elif _is_structure(actual):
        if not isinstance(desired, list | tuple) or len(actual) != len(cast("Any", desired)):
            raise AssertionError(f"{_named(place)} has {len(actual)} items, not {desired!r}.")
        for index, (value, other) in enumerate(zip(actual, cast("Any", desired), strict=True)):
            _compare(value, other, rtol, atol, f"{place}[{index}]")
    else:
        _compare_arrays(np.asarray(actual), desired, rtol, atol, _named(place))


def _is_structure(value: Any) -> bool:
    """Return whether a list or tuple holds arrays or structures."""
    if not isinstance(value, list | tuple):
        return False
    items = cast("Sequence[Any]", value)
    return any(isinstance(item, Mapping | np.ndarray | np.generic) for item in items) or any(
        map(_is_structure, items)
    )


def _named(place: str) -> str:
    return f"the value at {place}" if place else "the value"


def _compare_arrays(
    actual: np.ndarray[Any, Any],
    desired: Any,
    rtol: float | None,
    atol: float | None,
    name: str,
) -> None:
    wanted = np.asarray(desired)
    if wanted.ndim and actual.shape != wanted.shape:
        raise AssertionError(f"{name} has the shape {actual.shape}, not {wanted.shape}.")
    relative, absolute = tolerances_of(actual.dtype, wanted.dtype)
    rtol, atol = relative if rtol is None else rtol, absolute if atol is None else atol
    ours, theirs = _as_numpy_float(actual), _as_numpy_float(wanted)
    if rtol == atol == 0.0:
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    else:
        np.testing.assert_allclose(ours, theirs, rtol, atol, err_msg=name)


def tolerances_of(*dtypes: np.dtype[Any]) -> tuple[float, float]:
    """Return the relative and absolute tolerance of the coarsest of some dtypes.

    Example:
        >>> import numpy as np
        >>> tolerances_of(np.dtype("float32"), np.dtype("float64"))
        (1.3e-06, 1e-05)
    """
    names = {dtype.name for dtype in dtypes}
    return next((pair for name, pair in TOLERANCES.items() if name in names), EXACT)


def _as_numpy_float(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float32 in place of the narrow floats that are not NumPy's own."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array
