"""Endpoints of workers: how a client connects, and reconnects after a loss."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from threading import Event
from time import monotonic
from typing import Protocol

from braces.errors import RemoteError
from braces.remote.protocol.connection import Link, close_socket, parse_address
from braces.remote.protocol.handshake import NoRoomError, introduce, key_of
from braces.remote.protocol.messages import Message
from braces.remote.serving.local_process import Process

FIRST_WAIT_S, LONGEST_WAIT_S = 0.05, 2.0
"""The first and the longest delay between connection attempts; delays double."""


class Connection(Protocol):
    """A connection that answers requests: a socket, or an actor."""

    def ask(self, message: Message, timeout_s: float | None = None) -> Message:
        """Send a request, and wait for its answer."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Endpoint(Protocol):
    """The endpoint of a worker."""

    @property
    def address(self) -> str:
        """The address in errors, and for other clients."""
        ...

    def open(self, closed: Event) -> Connection:
        """Connect to the worker; restart one that is gone, if the endpoint can.

        Raises:
            RemoteError: If the worker cannot be reached, or rejects the client.
        """
        ...

    def describe_end(self) -> str:
        """Return a description of how the worker ended."""
        ...

    def close(self) -> None:
        """End a process that was started."""
        ...


class LocalEndpoint:
    """A local process that is started, and restarted."""

    def __init__(self, env: Mapping[str, str] | None, timeout_s: float) -> None:
        self._env = env
        self._timeout_s = timeout_s
        self.process: Process | None = None

    @property
    def address(self) -> str:
        """The address of the current process."""
        return "" if self.process is None else self.process.address

    def open(self, closed: Event) -> Link:
        """Start a process, and connect to it."""
        self.close()
        self.process = Process(self._env)
        key = key_of(self.process.token)
        return connect_to_worker(self.process.address, key, self._timeout_s, closed)

    def describe_end(self) -> str:
        """Return how the process ended."""
        return "closed the connection" if self.process is None else self.process.describe_end()

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.end()


class RemoteEndpoint:
    """A worker that was started elsewhere."""

    def __init__(self, address: str, token: str, timeout_s: float) -> None:
        parse_address(address)
        self.address = address
        self._key = key_of(token)
        self._timeout_s = timeout_s

    def open(self, closed: Event) -> Link:
        """Connect, with retries until the time limit."""
        return connect_to_worker(self.address, self._key, self._timeout_s, closed)

    def describe_end(self) -> str:
        """Return a generic description, because nothing is known."""
        return "closed the connection"

    def close(self) -> None:
        """Do nothing: the worker serves others."""


def connect_to_worker(address: str, key: bytes, timeout_s: float, closed: Event) -> Link:
    """Connect to a worker that may not listen yet.

    Raises:
        RemoteError: If the worker rejects the client, no process listens there within the time
            limit, or `closed` is set.
    """
    until, wait_s = monotonic() + timeout_s, FIRST_WAIT_S
    while True:
        try:
            return _connect_once(address, key, until)
        except OSError as error:
            if monotonic() + wait_s > until or closed.wait(wait_s):
                raise _unreached_error(address, error, timeout_s) from None
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _unreached_error(address: str, error: OSError, timeout_s: float) -> RemoteError:
    given = f"timeout_s={timeout_s:g}"
    if isinstance(error, NoRoomError):
        return RemoteError(
            f"the worker at {address} refuses this client: {error}.",
            given=given,
            fix="Close workers that are not needed (worker.close()), or start one more.",
        )
    return RemoteError(
        f"no worker answers at {address}: {error.strerror or error}.",
        given=given,
        fix="Start one: braces worker --listen HOST:PORT --token-file FILE",
    )


def _connect_once(address: str, key: bytes, until: float) -> Link:
    left_s = max(until - monotonic(), FIRST_WAIT_S)
    connection = socket.create_connection(parse_address(address), left_s)
    try:
        introduce(connection, key, address)
        return Link(connection)
    except BaseException:
        close_socket(connection)
        raise
