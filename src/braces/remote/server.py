"""A worker: it listens, lets those in who hold the key, and runs what they send."""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from braces.errors import ProgramError, RemoteError
from braces.remote.addresses import parse_address, shown_address
from braces.remote.failures import as_record
from braces.remote.handshake import admit, key_of
from braces.remote.link import Link, end
from braces.remote.messages import ERROR, Message
from braces.remote.session import Session

MOST_CLIENTS = 64
MOST_STRANGERS = 16
"""Connections that have not shown the key yet; one more ends the oldest of them."""
_PAUSE_S = 0.05

LOGGER = logging.getLogger("braces")


class Server:
    """A worker that listens at an address of this machine: `braces worker`, in a program.

    Each client has a program, values and a thread of its own. What a client sends is verified
    and run; no code is taken, and nothing is kept when it leaves.

    Args:
        address: `HOST:PORT`; port 0 is one that is free.
        token: The key: who does not hold it is sent away before anything else is read.

    Attributes:
        address: Where it listens.

    Raises:
        ProgramError: The address is none, or the token too short.
        OSError: It cannot listen there.

    Example:
        >>> import secrets
        >>> with Server("127.0.0.1:0", secrets.token_urlsafe(32)) as server:
        ...     print(server.address.partition(":")[0])
        127.0.0.1
    """

    def __init__(self, address: str, token: str) -> None:
        self._key = key_of(token)
        host, port = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        self.address = shown_address(host, self._listener.getsockname()[1])
        self._closed = Event()
        self._lock = Lock()
        self._strangers = deque[socket.socket]()
        self._clients = set[socket.socket]()

    def serve(self) -> None:
        """Let clients in until `close` is called."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # who came has left again, say, or there are no more descriptors
                if self._closed.wait(_PAUSE_S):
                    return
                continue
            with self._lock:
                self._strangers.append(connection)
                if len(self._strangers) > MOST_STRANGERS:
                    end(self._strangers.popleft())
            Thread(target=self._meet, args=(connection,), daemon=True).start()

    def _meet(self, connection: socket.socket) -> None:
        """Serve a connection that has shown nothing yet."""
        try:
            if not admit(connection, self._key):
                LOGGER.warning("A connection was refused: it does not hold the token.")
                return
            with self._counted(connection):
                _serve(Link(connection))
        except (OSError, MemoryError, RemoteError):
            pass  # it left, was too slow, or sent what is no message
        finally:
            with self._lock:
                if connection in self._strangers:
                    self._strangers.remove(connection)
            end(connection)

    @contextmanager
    def _counted(self, connection: socket.socket) -> Generator[None]:
        """A stranger becomes a client, if there is room for one."""
        with self._lock:
            if connection in self._strangers:
                self._strangers.remove(connection)
            if len(self._clients) >= MOST_CLIENTS:
                raise RemoteError(f"A worker has {MOST_CLIENTS} clients at most.")
            self._clients.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._clients.discard(connection)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        self._closed.set()
        end(self._listener)
        with self._lock:
            for connection in (*self._strangers, *self._clients):
                end(connection)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(link: Link) -> None:
    """Answer one request after the other, until the client leaves."""
    session = Session()
    try:
        while True:
            _answer(link, session.answer(link.receive()))
    finally:
        session.close()
        link.close()


def _answer(link: Link, answer: Message) -> None:
    try:
        link.send(answer)
    except ProgramError as error:  # it is too large, and nothing of it was sent
        link.send(Message(ERROR, as_record(error)))
