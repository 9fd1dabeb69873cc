"""Connections between process 0 of a job and the others: JSON records, one a line."""

from __future__ import annotations

import json
import socket
import time
from typing import Any, cast

from braces.cluster.host_addresses import normalize_host, set_tcp_options

MAX_RECORD_BYTES = 1 << 16
"""Maximum size of a record in bytes; a larger one is not a record of this protocol."""

Record = dict[str, Any]


class JsonConnection:
    """A connection that carries JSON records.

    Raises:
        OSError: If the other end is closed or the time limit is exceeded; from all methods.
        ValueError: If the received data is not a record.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._read = b""
        set_tcp_options(connection, idle_s=5, interval_s=2)

    def fileno(self) -> int:
        """Return the file descriptor of the connection."""
        return self.connection.fileno()

    def send(self, record: Record) -> None:
        """Send a record."""
        self.connection.settimeout(5.0)
        self.connection.sendall(json.dumps(record).encode() + b"\n")

    def receive(self, timeout_s: float) -> Record:
        """Wait for the next record."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._read:
            self.connection.settimeout(max(deadline - time.monotonic(), 0.001))
            self._read_more()
        return self._next_record()

    def received(self) -> Record | None:
        """Return the next record if it is complete; `None` if more data is to come."""
        self.connection.setblocking(False)
        try:
            self._read_more()
        except BlockingIOError:
            return None
        return self._next_record() if b"\n" in self._read else None

    def _read_more(self) -> None:
        more = self.connection.recv(MAX_RECORD_BYTES)
        if not more:
            raise ConnectionResetError("the other end closed the connection.")
        self._read += more
        if len(self._read) > MAX_RECORD_BYTES:
            raise ValueError("the record is too long.")

    def _next_record(self) -> Record:
        text, _, self._read = self._read.partition(b"\n")
        try:
            record = json.loads(text)
        except RecursionError:
            raise ValueError("the record is nested too deeply.") from None
        if not isinstance(record, dict):
            raise ValueError("the message is not a record.")
        return cast("Record", record)

    def hosts(self) -> tuple[str, str]:
        """Return the addresses of this end and of the other one, without ports."""
        ends = self.connection.getsockname(), self.connection.getpeername()
        here, there = (normalize_host(end[0]) for end in ends)
        return here, there

    def is_own_echo(self) -> bool:
        """Return whether the socket connected to itself (a local port without a listener)."""
        return self.connection.getsockname() == self.connection.getpeername()

    def has_ended(self) -> bool:
        """Return whether the other end closed the connection, with nothing left to read."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def read_number(record: Record, name: str) -> int:
    """Return an integer field of a record.

    Raises:
        ValueError: If the field is missing or not an integer.
    """
    value = record.get(name)
    if type(value) is not int:
        raise ValueError(f"expected an integer `{name}`, got {value!r:.40}.")
    return value
