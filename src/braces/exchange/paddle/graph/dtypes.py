"""Convert dtypes of Paddle."""

from __future__ import annotations

from collections.abc import Mapping

from braces.errors import DTypeError
from braces.extend.types import DType, dtype_of

_NAMES: Mapping[int, str] = {
    0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64",
    19: "int64", 20: "uint8", 21: "int8", 22: "bfloat16", 23: "complex64", 24: "complex128",
    32: "float8_e4m3fn", 33: "float8_e5m2",
}  # fmt: skip
"""Dtypes by the codes in files; 19 is that of sizes."""


def dtype_named(code: int) -> DType:
    """Return the dtype of a dtype code of Paddle.

    Raises:
        DTypeError: If Braces has no corresponding dtype, as for strings.
    """
    if code not in _NAMES:
        raise DTypeError(f"unsupported Paddle dtype code {code}.")
    return dtype_of(_NAMES[code])
