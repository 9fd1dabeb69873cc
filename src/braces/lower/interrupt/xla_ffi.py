"""C interface of XLA's foreign function calls (`xla/ffi/api/c_api.h`), as far as needed.

A handler is a ctypes function, registered with XLA itself, because a JAX callback in a program
makes each run longer (docs/decisions, 0020). The structures are prefixes of those in the
header, which only grow at their ends. When XLA registers a handler, it passes a metadata
extension, which the handler fills with the version of the interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from braces.lazy import jax


class _Extension(ctypes.Structure):
    """XLA_FFI_Metadata_Extension."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    )


class _Version(ctypes.Structure):
    """XLA_FFI_Api_Version."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("major_version", ctypes.c_int),
        ("minor_version", ctypes.c_int),
    )


class _Metadata(ctypes.Structure):
    """XLA_FFI_Metadata."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("api_version", _Version))


class _Api(ctypes.Structure):
    """XLA_FFI_Api."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("api_version", _Version),
    )


class _Buffer(ctypes.Structure):
    """XLA_FFI_Buffer, of a 64-bit integer."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.POINTER(ctypes.c_int64)),
    )


class _Values(ctypes.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("values", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _Frame(ctypes.Structure):
    """XLA_FFI_CallFrame."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("ctx", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("args", _Values),
        ("rets", _Values),
    )


_HandlerType = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_handlers = list[Any]()
"""The registered handlers, which XLA keeps only pointers to."""


def register_handler(target: str, answer: Callable[..., int]) -> None:
    """Register a function of 64-bit integers, with one result, for CPU programs."""

    def handler(pointer: Any) -> None:
        frame = pointer.contents
        if frame.extension_start:
            metadata = _Metadata.from_address(frame.extension_start.contents.metadata)
            metadata.api_version.major_version = frame.api.contents.api_version.major_version
            metadata.api_version.minor_version = frame.api.contents.api_version.minor_version
            return
        numbers = [frame.args.values[i].contents.data[0] for i in range(frame.args.size)]
        frame.rets.values[0].contents.data[0] = answer(*numbers)

    _handlers.append(_HandlerType(handler))
    capsule = jax.ffi.pycapsule(ctypes.cast(_handlers[-1], ctypes.c_void_p))
    jax.ffi.register_ffi_target(target, capsule, platform="cpu")
