"""Handles of runs: the run-time side of interruptible loops.

A compiled loop calls the FFI target `FFI_TARGET` at the end of each piece, with its iteration,
the number of the `RunHandle` of its run, and its own number. The handle has the cancellation
token of the run. Pieces are doubled or halved to take 10 to 100 ms.
"""

from __future__ import annotations

import threading
from functools import cache
from itertools import count
from time import monotonic
from weakref import WeakValueDictionary

import numpy as np

from braces.lazy import jax
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.interrupt.xla_ffi import register_handler

FFI_TARGET = "braces_goes_on"
SHORT_S, LONG_S = 0.01, 0.1
"""Pieces grow if they took less time than `SHORT_S`, and shrink above `LONG_S`."""

STOPPED = -1
"""The end of an interrupted loop, which is no iteration."""


class RunHandle:
    """Handle of the runs of one thread, by which the callback finds the cancellation token.

    Attributes:
        array: Its number, on the device.
        token: The cancellation token of the current run.
        last_s: The time of the last call, or of the start of the run.
        pieces: The iterations in the last piece of each loop, by the number of the loop.
    """

    __slots__ = ("__weakref__", "array", "last_s", "pieces", "token")

    pieces: dict[int, int]

    def __init__(self) -> None:
        number = next(_numbers)
        with jax.enable_x64(True):
            self.array = jax.device_put(np.int64(number))
        self.begin(CancellationToken())
        _handles[number] = self

    def begin(self, token: CancellationToken) -> None:
        """Start a run with this cancellation token."""
        self.token, self.last_s, self.pieces = token, monotonic(), {}


_numbers = count(1)
_handles = WeakValueDictionary[int, RunHandle]()
_own = threading.local()


def current_handle() -> RunHandle:
    """Return the handle of the calling thread."""
    try:
        return _own.handle
    except AttributeError:
        _register_callback()
        _own.handle = RunHandle()
        return _own.handle


@cache
def _register_callback() -> None:
    """Register the callback, once for the process."""
    register_handler(FFI_TARGET, _next_end)


def _next_end(iteration: int, number: int, loop: int) -> int:
    """Return the iteration at which the next piece ends, or `STOPPED`."""
    run = _handles[number]
    token, pieces, took_s = run.token, run.pieces, monotonic() - run.last_s
    goes_on = token.goes_on()
    run.token = token  # a user's signal handler may have run a program meanwhile
    if not goes_on:
        token.loop = loop
        return STOPPED
    piece = min(pieces.get(loop, iteration), iteration)
    piece = 2 * piece if took_s < SHORT_S else max(1, piece // 2) if took_s > LONG_S else piece
    pieces[loop], run.pieces, run.last_s = piece, pieces, monotonic()
    return iteration + piece
