"""Zero-copy exchange of arrays with other libraries: DLPack.

NumPy supports the protocol, but not for bfloat16. Such arrays are exchanged as uint16, with the
type code patched: one byte of the capsule (`code` of `DLDataType`).
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
"""Byte offset of the type code in a DLPack capsule, by the capsule's name."""
FAILURES = (BufferError, RuntimeError, TypeError, ValueError, AttributeError)
"""Errors of libraries that do not export an array, and of NumPy when it does not import one."""
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@runtime_checkable
class DLPackExporter(Protocol):
    """A DLPack exporter: arrays of PyTorch, JAX, CuPy and NumPy, for example."""

    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...


class _CapsuleExporter:
    """Exporter of an existing capsule, for `np.from_dlpack`."""

    def __init__(self, capsule: Any, device: Any) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Any:
        return self._device


def export_array(raw: Any, **options: Any) -> Any:
    """Export an array of NumPy or JAX as a DLPack capsule; `options` are the protocol's.

    Raises:
        BufferError: If DLPack does not support the array or the options.
    """
    if type(raw) is not np.ndarray or raw.dtype != _BFLOAT16:
        return raw.__dlpack__(**options)
    capsule: Any = raw.view(np.uint16).__dlpack__(**options)
    _type_code(capsule).value = _BFLOAT_CODE
    return capsule


def import_array(value: object) -> Array | None:
    """Import an array as a NumPy array that shares its memory; `None` for no DLPack exporter.

    Raises:
        BufferError: If the array is not exported, or is not on a CPU. Some libraries raise
            other built-in errors instead.
    """
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    return _import_array(value) if isinstance(value, DLPackExporter) else None


def _import_array(lender: DLPackExporter) -> Array:
    try:
        capsule = lender.__dlpack__(max_version=(1, 0))
    except TypeError:  # older libraries do not know `max_version`
        capsule = lender.__dlpack__()
    code, device = _type_code(capsule), lender.__dlpack_device__()
    if code.value != _BFLOAT_CODE:
        return np.from_dlpack(_CapsuleExporter(capsule, device))
    code.value = _UNSIGNED_CODE
    return np.from_dlpack(_CapsuleExporter(capsule, device)).view(_BFLOAT16)


def as_numpy(value: object) -> Any:
    """Convert an array of another library to NumPy without a copy; return others unchanged.

    Raises:
        TypeError: If the array is on another device, or cannot be read; the library gives the
            reason. It may raise another built-in error.
    """
    if isinstance(value, np.ndarray | np.generic) or not isinstance(value, DLPackExporter):
        return cast("Any", value)
    try:
        array = np.asarray(value)
    except TypeError as error:
        try:
            return _import_array(value)
        except FAILURES:
            raise error from None
    return _import_array(value) if array.dtype == object else array


def _type_code(capsule: object) -> ctypes.c_uint8:
    """Return the type code of a capsule, as a mutable reference into its memory."""
    name: bytes = _name_of(capsule)
    return ctypes.c_uint8.from_address(_address_of(capsule, name) + _CODE_AT[name])
