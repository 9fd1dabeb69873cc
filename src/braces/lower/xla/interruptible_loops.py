"""Compiled loops ask Python, now and then, whether to go on.

XLA computes without looking at the clock or at signals, so a loop whose trips only the data
knows runs in pieces: after each it calls `_answer`, which looks at the `Watch` of the run and
says how long the next piece may be. The first piece is so long that short loops never ask.

A callback of JAX would do, but any in a program makes each run 50 µs longer. So the handler is
registered with XLA itself, through the C interface that XLA has for this
(`xla/ffi/api/c_api.h`); the structures below are the beginnings of those there, which only ever
grow at their ends.
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
from braces.lower.interrupt.deadline import Watch
from braces.lower.xla.concrete_attributes import Sizes

TARGET = "braces_goes_on"
SHORT_S, LONG_S = 0.01, 0.1
"""Pieces grow where they took less time than this, and shrink where they took more."""

STOPPED = -1
"""Where a loop that was told to stop ends, which is at no trip."""

_MOST_FIRST, _FIRST_WORK, _WORK_OF_AN_OP = 4096, 1 << 22, 256
_UNKNOWN = 64
_numbers = count(1)


# ---- in the run ------------------------------------------------------------------------------


class Ticket:
    """What a run shows when it asks, so that its watch is found.

    Attributes:
        array: Its number, on the device.
        watch: Answers for the thread that has the ticket.
        last_s: When it was asked last, or the run began.
        trips: How many trips the last piece of each loop had, by the loop's number.
    """

    __slots__ = ("__weakref__", "array", "last_s", "trips", "watch")

    trips: dict[int, int]

    def __init__(self) -> None:
        number = next(_numbers)
        with jax.enable_x64(True):
            self.array = jax.device_put(np.int64(number))
        self.begin(Watch())
        _tickets[number] = self

    def begin(self, watch: Watch) -> None:
        """Let this watch answer from now on."""
        self.watch, self.last_s, self.trips = watch, monotonic(), {}


_tickets = WeakValueDictionary[int, Ticket]()
_mine = threading.local()


def ticket() -> Ticket:
    """The ticket of the calling thread."""
    try:
        return _mine.ticket
    except AttributeError:
        register()
        _mine.ticket = Ticket()
        return _mine.ticket


def _answer(trip: int, number: int, loop: int) -> int:
    """At which trip to ask again, after so many trips; `STOPPED` to stop."""
    found = _tickets[number]
    watch, trips, took_s = found.watch, found.trips, monotonic() - found.last_s
    goes_on = watch.goes_on()
    found.watch = watch  # a handler of the user's may have run something meanwhile
    if not goes_on:
        watch.loop = loop
        return STOPPED
    piece = min(trips.get(loop, trip), trip)
    piece = 2 * piece if took_s < SHORT_S else max(1, piece // 2) if took_s > LONG_S else piece
    trips[loop], found.trips, found.last_s = piece, trips, monotonic()
    return trip + piece


# ---- in the program --------------------------------------------------------------------------


def repeat(
    check: Callable[[Any], Any],
    step: Callable[[Any], Any],
    carry: Any,
    ask: Callable[[Any], Any],
    first: int,
) -> tuple[Any, Any]:
    """A `while_loop` in pieces, and where its last piece was to end.

    A piece that ended before its end was the last one. So the pieces need no look at whether
    the loop goes on, which would be compiled twice.

    Args:
        check: Whether the loop goes on.
        step: One trip.
        carry: The trip, and anything.
        ask: At which trip to ask again, at this trip.
        first: At which trip to ask first.
    """

    def within(whole: Any) -> Any:
        return check(whole[0]) & (whole[0][0] < whole[1])

    def piece(whole: Any) -> Any:
        carry, _ = whole
        end = lax.cond(
            carry[0] == 0, lambda: jnp.asarray(first, "int64"), lambda: ask(carry[0])
        )
        return lax.while_loop(within, lambda whole: (step(whole[0]), whole[1]), (carry, end))

    return lax.while_loop(lambda whole: whole[0][0] == whole[1], piece, (carry, carry[0]))


def scan(
    step: Callable[..., Any],
    carry: Any,
    xs: Any,
    length: int,
    reverse: bool,
    repeat: Callable[..., Any],
) -> Any:
    """A `lax.scan` as a loop that `repeat` makes; carried are anything and the run's state."""

    def cut(trip: Any) -> tuple[Any, Any]:
        at = length - 1 - trip if reverse else trip
        return at, jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, at, keepdims=False), xs)

    def one(whole: Any) -> Any:
        trip, (values, rows), state = whole
        at, slices = cut(trip)
        (values, state), made = step((values, state), slices)
        rows = jax.tree.map(
            lambda row, value: lax.dynamic_update_index_in_dim(row, value, at, 0), rows, made
        )
        return trip + 1, (values, rows), state

    def check(whole: Any) -> Any:
        return (whole[0] < length) & whole[2].running

    zero = jnp.asarray(0, "int64")
    _, shapes = jax.eval_shape(step, carry, cut(zero)[1])
    rows = jax.tree.map(lambda row: jnp.zeros((length, *row.shape), row.dtype), shapes)
    _, (values, rows), state = repeat(check, one, (zero, (carry[0], rows), carry[1]))
    return (values, state), rows


def next_end(trip: Any, ticket: Any, loop: int) -> Any:
    """Ask; at which trip to ask again, or `STOPPED`."""
    call = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct((), np.int64))
    return call(trip, ticket, jnp.asarray(loop, "int64"))


def may_ask(body: Body) -> bool:
    """Whether anything in a block may ask: what owns blocks, but for a brace that runs once."""
    return any(
        any(map(may_ask, bodies.values())) if OPS.get(op.type).transparent else bool(bodies)
        for op in body.ops
        if (bodies := op.bodies())
    )


# ---- how long the first piece is -------------------------------------------------------------


def first_trips(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> int:
    """The trips that a loop makes before it asks: some milliseconds of them."""
    work = sum(_work_of(body, infos, sizes) for body in op.bodies().values())
    return int(min(max(_FIRST_WORK // max(work, 1), 1), _MOST_FIRST))


def _work_of(body: Body, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """About how many multiplications a block takes, told from its types."""
    infos = {**infos, **body.vars}
    return sum(_work(op, infos, sizes) for op in body.ops)


def _work(op: Op, infos: Mapping[str, VarInfo], sizes: Sizes) -> float:
    """Of three arrays in a product, the root of all sizes: exact for matrices."""
    inner = sum(_work_of(body, infos, sizes) for body in op.bodies().values())
    names = (*op.reads(), *op.binds())
    counts = sorted(_size(infos[name], sizes) for name in names if name in infos)
    return _WORK_OF_AN_OP + prod(counts[-3:]) ** 0.5 + inner * _UNKNOWN


def _size(info: VarInfo, sizes: Sizes) -> float:
    if not isinstance(info.type, TensorType):
        return 1
    found = (substitute(size, sizes) for size in info.type.shape)
    return float(prod(size if isinstance(size, int) else _UNKNOWN for size in found))


# ---- XLA's interface -------------------------------------------------------------------------


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
    """Answer, or say for which version of the interface this is made."""
    frame = pointer.contents
    if frame.extension_start:
        metadata = _Metadata.from_address(frame.extension_start.contents.metadata)
        metadata.api_version.major_version = frame.api.contents.api_version.major_version
        metadata.api_version.minor_version = frame.api.contents.api_version.minor_version
        return
    trip, number, loop = (frame.args.values[i].contents.data[0] for i in range(3))
    frame.rets.values[0].contents.data[0] = _answer(trip, number, loop)


@cache
def register() -> None:
    """Let programs on a CPU ask, once for the process."""
    capsule = jax.ffi.pycapsule(ctypes.cast(_handler, ctypes.c_void_p))
    jax.ffi.register_ffi_target(TARGET, capsule, platform="cpu")
