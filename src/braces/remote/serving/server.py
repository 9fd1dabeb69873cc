"""The worker server: it listens, authenticates clients, and runs their programs."""

from __future__ import annotations

import logging
import socket
import struct
from collections import deque
from functools import partial
from threading import Event, Lock, Thread
from weakref import WeakSet

from braces.cluster.host_addresses import join_address
from braces.errors import ProgramError, RemoteError, as_record
from braces.lower.interrupt.deadline import join_threads
from braces.remote.protocol.connection import Link, close_socket, parse_address
from braces.remote.protocol.handshake import admit, key_of, welcome
from braces.remote.protocol.messages import ERROR, Message
from braces.remote.serving.disconnect_monitor import DisconnectMonitor
from braces.remote.serving.session import Session

MOST_CLIENTS = 64
MOST_UNAUTHENTICATED = 64
"""The largest number of unauthenticated connections; beyond it the oldest is closed."""
STALL_S = 60.0
"""The longest time without progress of a client within a message."""
STOP_S = 2.0
"""The longest wait for the threads of clients when the server is closed."""
_PAUSE_S = 0.05

LOGGER = logging.getLogger("braces")


class Server:
    """A worker that listens at an address of this machine: `braces worker` as an object.

    Each client has a program, values and a separate thread. Programs of clients are verified
    and run; no code is accepted, and nothing is kept after a disconnect.

    Args:
        address: `HOST:PORT`; port 0 selects a free one.
        token: The key: a client without it is disconnected before anything else is read.

    Attributes:
        address: The address where it listens.

    Raises:
        ProgramError: If the address is invalid, or the token too short.
        OSError: If the server cannot listen at the address.

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
        self.address = join_address(host, self._listener.getsockname()[1])
        self._closed = Event()
        self._lock = Lock()
        self._strangers = deque[socket.socket]()
        self._clients = set[socket.socket]()
        self._threads = WeakSet[Thread]()
        self._sessions = set[Session]()
        self._departures = DisconnectMonitor()

    def __repr__(self) -> str:
        return f"<Server at {self.address}>"

    def serve(self) -> None:
        """Accept clients until `close` is called."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the client disconnected, or there are no more descriptors
                if self._closed.wait(_PAUSE_S):
                    return
                continue
            with self._lock:
                self._strangers.append(connection)
                if len(self._strangers) > MOST_UNAUTHENTICATED:
                    reset(self._strangers.popleft())
            try:
                self._start_thread(connection)
            except RuntimeError:  # the system has no more threads
                self._forget(connection)

    def _start_thread(self, connection: socket.socket) -> None:
        thread = Thread(
            target=self._meet, args=(connection,), name="braces-client", daemon=True
        )
        thread.start()
        with self._lock:
            self._threads.add(thread)

    def _meet(self, connection: socket.socket) -> None:
        """Authenticate and serve a connection."""
        client = _shown_peer(connection)
        try:
            if not admit(connection, self._key):
                LOGGER.warning("%s was refused: it does not have the token.", client)
            elif not self._count(connection):
                reason = f"it has {MOST_CLIENTS} clients, which is the maximum"
                LOGGER.warning("%s was refused: %s.", client, reason)
                welcome(connection, reason)
            else:
                welcome(connection)
                self._serve(connection, client)
        except TimeoutError:
            LOGGER.warning("%s was too slow; its connection was closed.", client)
        except (OSError, MemoryError, RemoteError):
            pass  # it disconnected, or sent an invalid message
        finally:
            self._forget(connection)

    def _count(self, connection: socket.socket) -> bool:
        """Register an authenticated client, if there is room."""
        with self._lock:
            if connection in self._strangers:
                self._strangers.remove(connection)
            if len(self._clients) >= MOST_CLIENTS:
                return False
            self._clients.add(connection)
            return True

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._clients.discard(connection)
            if connection in self._strangers:
                self._strangers.remove(connection)
        close_socket(connection)

    def _serve(self, connection: socket.socket, client: str) -> None:
        """Answer requests until the client disconnects."""
        link, session = Link(connection, STALL_S), Session()
        leave = partial(self._let_go, connection, client, session)
        try:
            with self._lock:
                self._sessions.add(session)
            while not session.cancelled.is_set():
                request = link.receive()
                with self._departures.noticed(connection, leave):
                    answer = session.answer(request)
                _answer(link, answer)
        finally:
            with self._lock:
                self._sessions.discard(session)
            session.close()
            link.close()

    def _let_go(self, connection: socket.socket, client: str, session: Session) -> None:
        """Free the slot of a client that disconnected during a run, and cancel the run."""
        session.cancelled.set()
        with self._lock:
            self._clients.discard(connection)
        LOGGER.warning("%s disconnected during a run, which is cancelled.", client)

    def close(self) -> None:
        """Stop listening, cancel all runs, and close all connections.

        Waits briefly for the threads of clients: the end of a process aborts in a daemon thread
        that releases arrays of JAX.
        """
        self._closed.set()
        close_socket(self._listener)
        with self._lock:
            for connection in (*self._strangers, *self._clients):
                close_socket(connection)
            for session in self._sessions:
                session.cancelled.set()
            threads = list(self._threads)
        self._departures.close()
        join_threads(threads, STOP_S)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reset(connection: socket.socket) -> None:
    """Reset a connection, so that the other side knows that nothing was answered."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)  # wake the reading thread
    except OSError:  # it had ended
        pass
    finally:
        connection.close()


def _shown_peer(connection: socket.socket) -> str:
    try:
        return f"A client at {join_address(*connection.getpeername()[:2])}"
    except OSError:
        return "A client"


def _answer(link: Link, answer: Message) -> None:
    try:
        link.send(answer)
    except ProgramError as error:  # it is too large, and nothing of it was sent
        link.send(Message(ERROR, as_record(error)))
