"""Interruptible loops: compiled loops that ask Python at intervals whether to continue.

The callback protocol with XLA FFI:

1. A loop without a known trip count runs in pieces: at the end of each piece it calls the FFI
   target `braces_goes_on` with its iteration, the number of the run's `Ticket` and its own
   number, all `int64`.
2. The handler (`_handler`) is a ctypes function registered with XLA itself through its C
   interface (`xla/ffi/api/c_api.h`), because any JAX callback in a program makes each run 50 µs
   longer; the structures below are prefixes of those there, which only grow at their ends.
3. When XLA registers the handler it passes a metadata extension, which the handler fills with
   the version of the interface; otherwise it reads the three numbers of the call frame.
4. `_answer_call` finds the ticket and asks its `Watch`, which raises errors of the time limit,
   Ctrl-C or cancellation and stores them.
5. The handler returns the iteration at which the next piece ends, or `STOPPED`; pieces are
   doubled or halved to take 10 to 100 ms, and the first one is so long that short loops never
   ask.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from math import prod
from time import monotonic
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from braces.define.decorator import OPS
from braces.dims import substitute
from braces.dtypes import TensorType
from braces.ir.records import Body, Op, VarInfo
from braces.lazy import jax, jnp, lax
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import Sizes

FFI_TARGET = "braces_goes_on"
SHORT_S, LONG_S = 0.01, 0.1
"""Pieces grow if they took less time than `SHORT_S`, and shrink above `LONG_S`."""

STOPPED = -1
"""The end of an interrupted loop, which is no iteration."""

_MOST_FIRST, _FIRST_WORK, _WORK_OF_AN_OP = 4096, 1 << 22, 256
_UNKNOWN = 64
_numbers = count(1)


# ---- at run time -----------------------------------------------------------------------------


class RunHandle:
    """Handle of a run, which the callback uses to find the watch.

    Attributes:
        array: Its number, on the device.
        watch: The watch of the current run of the thread that owns the ticket.
        last_s: The time of the last question, or of the start of the run.
        trips: The iterations in the last piece of each loop, by the number of the loop.
    """

    __slots__ = ("__weakref__", "array", "last_s", "trips", "watch")

    trips: dict[int, int]

    def __init__(self) -> None:
        number = next(_numbers)
        with jax.enable_x64(True):
            self.array = jax.device_put(np.int64(number))
        self.begin(CancellationToken())
        _tickets[number] = self

    def begin(self, watch: CancellationToken) -> None:
        """Start a run with this watch."""
        self.watch, self.last_s, self.trips = watch, monotonic(), {}


_tickets = WeakValueDictionary[int, RunHandle]()
_mine = threading.local()


def ticket() -> RunHandle:
    """Return the ticket of the calling thread."""
    try:
        return _mine.ticket
    except AttributeError:
        register_callback()
        _mine.ticket = RunHandle()
        return _mine.ticket


def _answer_call(trip: int, number: int, loop: int) -> int:
    """Return the iteration at which to ask again, or `STOPPED`."""
    run = _tickets[number]
    watch, trips, took_s = run.watch, run.trips, monotonic() - run.last_s
    goes_on = watch.goes_on()
    run.watch = watch  # a user's signal handler may have run a program meanwhile
    if not goes_on:
        watch.loop = loop
        return STOPPED
    piece = min(trips.get(loop, trip), trip)
    piece = 2 * piece if took_s < SHORT_S else max(1, piece // 2) if took_s > LONG_S else piece
    trips[loop], run.trips, run.last_s = piece, trips, monotonic()
    return trip + piece


# ---- in the lowered program ------------------------------------------------------------------


def repeat(
    check: Callable[[Any], Any],
    step: Callable[[Any], Any],
    carry: Any,
    ask: Callable[[Any], Any],
    first: int,
) -> tuple[Any, Any]:
    """Build a `while_loop` in pieces; return its carry and the end of its last piece.

    A piece that stopped before its end was the last one. So the outer loop does not evaluate
    the condition, which would be compiled twice.

    Args:
        check: The condition of the loop.
        step: One iteration.
        carry: The iteration, and anything.
        ask: Returns the iteration at which to ask again, given the current one.
        first: The iteration at which to ask first.
    """

    def within(loop_carry: Any) -> Any:
        return check(loop_carry[0]) & (loop_carry[0][0] < loop_carry[1])

    def piece(loop_carry: Any) -> Any:
        carry, _ = loop_carry
        end = lax.cond(
            carry[0] == 0, lambda: jnp.asarray(first, "int64"), lambda: ask(carry[0])
        )
        return lax.while_loop(
            within, lambda loop_carry: (step(loop_carry[0]), loop_carry[1]), (carry, end)
        )

    return lax.while_loop(
        lambda loop_carry: loop_carry[0][0] == loop_carry[1], piece, (carry, carry[0])
    )


def build_interruptible_scan(
    step: Callable[..., Any],
    carry: Any,
    xs: Any,
    length: int,
    reverse: bool,
    repeat: Callable[..., Any],
) -> Any:
    """Build a `lax.scan` with the loop `repeat`; the status of the run is a carry."""

    def cut(trip: Any) -> tuple[Any, Any]:
        at = length - 1 - trip if reverse else trip
        return at, jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, at, keepdims=False), xs)

    def one(loop_carry: Any) -> Any:
        trip, (values, rows), state = loop_carry
        at, slices = cut(trip)
        (values, state), outputs = step((values, state), slices)
        rows = jax.tree.map(
            lambda row, value: lax.dynamic_update_index_in_dim(row, value, at, 0), rows, outputs
        )
        return trip + 1, (values, rows), state

    def check(loop_carry: Any) -> Any:
        return (loop_carry[0] < length) & loop_carry[2].running

    zero = jnp.asarray(0, "int64")
    _, shapes = jax.eval_shape(step, carry, cut(zero)[1])
    rows = jax.tree.map(lambda row: jnp.zeros((length, *row.shape), row.dtype), shapes)
    _, (values, rows), state = repeat(check, one, (zero, (carry[0], rows), carry[1]))
    return (values, state), rows


def ask_next_end(trip: Any, ticket: Any, loop: int) -> Any:
    """Ask the callback for the iteration at which to ask again, or `STOPPED`."""
    call = jax.ffi.ffi_call(FFI_TARGET, jax.ShapeDtypeStruct((), np.int64))
    return call(trip, ticket, jnp.asarray(loop, "int64"))


def may_be_interruptible(body: Body) -> bool:
    """Return whether a block may contain interruptible loops."""
    return any(
        any(map(may_be_interruptible, bodies.values()))
        if OPS.get(op.type).transparent
        else bool(bodies)
        for op in body.ops
        if (bodies := op.bodies())
    )


# ---- length of the first piece ---------------------------------------------------------------


def first_iterations(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> int:
    """Return the iterations of the first piece, which takes some milliseconds."""
    work = sum(_estimate_block_work(body, infos, sizes) for body in op.bodies().values())
    return int(min(max(_FIRST_WORK // max(work, 1), 1), _MOST_FIRST))


def _estimate_block_work(body: Body, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """Estimate the multiplications of a block from its types."""
    infos = {**infos, **body.vars}
    return sum(_estimate_op_work(op, infos, sizes) for op in body.ops)


def _estimate_op_work(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """Estimate one operator: the root of its three largest sizes, exact for matmuls."""
    inner = sum(_estimate_block_work(body, infos, sizes) for body in op.bodies().values())
    names = (*op.reads(), *op.binds())
    counts = sorted(_count_elements(infos[name], sizes) for name in names if name in infos)
    return _WORK_OF_AN_OP + prod(counts[-3:]) ** 0.5 + inner * _UNKNOWN


def _count_elements(info: VarInfo, sizes: Sizes) -> float:
    if not isinstance(info.type, TensorType):
        return 1
    sizes_of_axes = (substitute(size, sizes) for size in info.type.shape)
    return float(prod(size if isinstance(size, int) else _UNKNOWN for size in sizes_of_axes))


# ---- C interface of XLA ----------------------------------------------------------------------


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


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
def _handler(pointer: Any) -> None:
    """Answer a call, or report the version of the interface at registration."""
    frame = pointer.contents
    if frame.extension_start:
        metadata = _Metadata.from_address(frame.extension_start.contents.metadata)
        metadata.api_version.major_version = frame.api.contents.api_version.major_version
        metadata.api_version.minor_version = frame.api.contents.api_version.minor_version
        return
    trip, number, loop = (frame.args.values[i].contents.data[0] for i in range(3))
    frame.rets.values[0].contents.data[0] = _answer_call(trip, number, loop)


@cache
def register_callback() -> None:
    """Register the callback for CPU programs, once for the process."""
    capsule = jax.ffi.pycapsule(ctypes.cast(_handler, ctypes.c_void_p))
    jax.ffi.register_ffi_target(FFI_TARGET, capsule, platform="cpu")
