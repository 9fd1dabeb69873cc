"""An authenticated connection of a client and a worker."""

from __future__ import annotations

import socket

from braces.cluster.host_addresses import set_tcp_options
from braces.errors import FileFormatError, ProgramError
from braces.remote.protocol.messages import (
    LENGTH_BYTES,
    Message,
    frame_length,
    pack_message,
    unpack_message,
)

LONGEST_S = 1e6
"""The longest timeout; sockets reject much longer ones."""
_LARGEST_PORT = 0xFFFF


def parse_address(address: str) -> tuple[str, int]:
    """Parse the address of a worker to host and port.

    Raises:
        ProgramError: If the address is invalid.

    Example:
        >>> parse_address("[::1]:7000")
        ('::1', 7000)
    """
    host, colon, port = str(address).strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    good = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _LARGEST_PORT
    if not colon or not bare or not good or (":" in bare and bare == host):
        raise ProgramError(
            f"invalid address {address!r:.80}.", fix="Use HOST:PORT, such as 127.0.0.1:7000."
        )
    return bare, int(port)


class Link:
    """Sends and receives messages.

    Args:
        connection: A connected socket, after the handshake.
        stall_s: The longest time without progress within a message; `None` for the `timeout_s`
            of `ask` alone.
    """

    def __init__(self, connection: socket.socket, stall_s: float | None = None) -> None:
        self._socket = connection
        self._stall_s = stall_s
        self._reader = connection.makefile("rb")
        set_tcp_options(connection, idle_s=20, interval_s=10)  # within a minute

    def ask(self, message: Message, timeout_s: float | None = None) -> Message:
        """Send a request, and wait for its answer.

        Raises:
            ProgramError: If the request is too large; nothing was sent.
            OSError: If the connection breaks, or no answer arrives in time.
        """
        self._socket.settimeout(None if timeout_s is None else min(timeout_s, LONGEST_S))
        self.send(message)
        return self.receive()

    def send(self, message: Message) -> None:
        """Send a message.

        Raises:
            ProgramError: If the message is too large.
            OSError: If the connection broke.
        """
        for piece in pack_message(message):
            self._send(memoryview(piece))

    def _send(self, piece: memoryview) -> None:
        """Send a piece; the time limit of the socket applies to each partial send."""
        while piece:
            piece = piece[self._socket.send(piece) :]

    def receive(self) -> Message:
        """Return the next message.

        Raises:
            OSError: If the connection breaks or is closed, or the data is not a message, so
                that the start of the next one is unknown.
        """
        if self._stall_s is not None:
            self._await_message()
        try:
            return unpack_message(self._exactly(frame_length(self._exactly(LENGTH_BYTES))))
        except FileFormatError as error:
            raise ConnectionError(error.what) from None

    def _await_message(self) -> None:
        """Wait for the first byte of a message without a time limit."""
        self._socket.settimeout(None)
        self._reader.peek(1)
        self._socket.settimeout(self._stall_s)

    def _exactly(self, count: int) -> bytes:
        data = self._reader.read(count)
        if len(data) < count:
            raise ConnectionError("the other side closed the connection.")
        return data

    def close(self) -> None:
        """Close the connection; waiting threads get an error."""
        close_socket(self._socket)
        self._reader.close()


def close_socket(connection: socket.socket) -> None:
    """Close a connection, and wake threads that wait for it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it was closed already
        pass
    finally:
        connection.close()
