"""Monitor for clients that disconnect while a worker computes for them.

The thread of a client computes, so it does not notice a disconnect. One thread polls the
connections of all clients that wait for an answer. A waiting client sends nothing: a readable
connection has ended or violates the protocol.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread

POLL_S = 0.1
"""The polling interval; shorter runs are not monitored."""


class DisconnectMonitor:
    """Calls a function for each client that disconnects before it has its answer."""

    def __init__(self) -> None:
        self._waiting = dict[socket.socket, Callable[[], None]]()
        self._lock = Lock()
        self._some, self._closed = Event(), Event()
        self._thread: Thread | None = None

    @contextmanager
    def noticed(self, connection: socket.socket, leave: Callable[[], None]) -> Generator[None]:
        """Call `leave`, in another thread, if the connection ends within the block."""
        with self._lock:
            self._waiting[connection] = leave
            self._some.set()
            if self._thread is None:
                self._thread = Thread(target=self._look, name="braces-departures", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(connection, None)

    def close(self) -> None:
        """Poll a last time, and stop."""
        self._closed.set()
        self._some.set()
        for leave in self._departed():
            leave()

    def _look(self) -> None:
        while self._some.wait() and not self._closed.wait(POLL_S):
            for leave in self._departed():
                leave()

    def _departed(self) -> list[Callable[[], None]]:
        """Remove and return the callbacks of clients that disconnected."""
        with self._lock:
            if not self._waiting:
                self._some.clear()
            left = [connection for connection in self._waiting if is_readable(connection)]
            return [self._waiting.pop(connection) for connection in left]


def is_readable(connection: socket.socket) -> bool:
    """Return whether a connection has data or has ended, or is closed on this side."""
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(connection, selectors.EVENT_READ)
            return bool(selector.select(0))
    except (OSError, ValueError):  # it is closed on this side
        return True
