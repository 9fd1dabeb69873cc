"""Arrays of other libraries, taken over and handed out without a copy: DLPack.

NumPy knows the protocol but not bfloat16, whose arrays it neither hands out nor takes. They go
as arrays of 16 bits, in whose description the one byte that says which kind of number it is
(`code` of `DLDataType`) is another then.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from braces.dtypes import SHORT_NAMES

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_BFLOAT16 = SHORT_NAMES["bf16"]
_UNSIGNED_CODE, _BFLOAT_CODE = 1, 4
_CODE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
"""Where the description of an array has the kind of its numbers, by the name of its form."""
FAILURES = (BufferError, RuntimeError, TypeError, ValueError, AttributeError)
"""What libraries raise where they do not lend an array, or NumPy does not take it."""
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@runtime_checkable
class Lender(Protocol):
    """What lends its memory, as arrays of PyTorch, JAX, CuPy and NumPy do."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class _Lent:
    """An array that was lent already, for NumPy to take."""

    def __init__(self, capsule: Any, device: Any) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return self._device


def lend(raw: Any, **options: Any) -> Any:
    """What the protocol hands out of an array of NumPy or JAX; `options` are the protocol's.

    Raises:
        BufferError: The protocol has no such array, or not as it was asked for.
    """
    if type(raw) is not np.ndarray or raw.dtype != _BFLOAT16:
        return raw.__dlpack__(**options)
    capsule: Any = raw.view(np.uint16).__dlpack__(**options)
    _code(capsule).value = _BFLOAT_CODE
    return capsule


def borrowed(given: object) -> Array | None:
    """An array of NumPy in the memory of another library's; of what lends none, `None`.

    Raises:
        BufferError: It is not lent, or lies on another device than a CPU. Some libraries raise
            other errors of Python's for that.
    """
    if isinstance(given, np.ndarray):
        return cast("Array", given)
    return _borrowed(given) if isinstance(given, Lender) else None


def _borrowed(lender: Lender) -> Array:
    try:
        capsule = lender.__dlpack__(max_version=(1, 0))
    except TypeError:  # older libraries know no versions
        capsule = lender.__dlpack__()
    code, device = _code(capsule), lender.__dlpack_device__()
    if code.value != _BFLOAT_CODE:
        return np.from_dlpack(_Lent(capsule, device))
    code.value = _UNSIGNED_CODE
    return np.from_dlpack(_Lent(capsule, device)).view(_BFLOAT16)


def readable(given: object) -> Any:
    """What NumPy reads of an array of another library, without a copy; all else as it is.

    Raises:
        TypeError: It lies on another device, or cannot be read; the library says why. It may
            raise another error of Python's.
    """
    if isinstance(given, np.ndarray | np.generic) or not isinstance(given, Lender):
        return cast("Any", given)
    try:
        array = np.asarray(given)
    except TypeError as error:
        try:
            return _borrowed(given)
        except FAILURES:
            raise error from None
    return _borrowed(given) if array.dtype == object else array


def _code(capsule: object) -> ctypes.c_uint8:
    """The kind of the numbers of an array that is lent."""
    name: bytes = _name_of(capsule)
    return ctypes.c_uint8.from_address(_address_of(capsule, name) + _CODE_AT[name])
