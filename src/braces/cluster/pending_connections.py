"""Connections to process 0 that have not sent their first record yet, read concurrently.

A silent connection does not delay the others: each has a few seconds for its first record, and
all are waited for together.
"""

from __future__ import annotations

import selectors
import socket
import time

from braces.cluster.json_connection import JsonConnection, Record

GREETING_S = 5.0
"""Seconds that a connection has for its first record."""
MAX_PENDING = 256
"""Maximum number of connections without a record; one more closes the oldest."""
_AGAIN_S = 0.05


class Reception:
    """Accepts connections and reads their first records.

    Args:
        listener: A listening socket; its owner closes it.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._until = dict[JsonConnection, float]()
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def next(self, deadline: float) -> tuple[JsonConnection, Record]:
        """Wait for the first record of any connection.

        Raises:
            TimeoutError: If no record arrives before the deadline.
        """
        while (now := time.monotonic()) < deadline:
            for line in [line for line, until in self._until.items() if until <= now]:
                self._end(line)
            moment = min([deadline, *self._until.values()])
            for key, _ in self._selector.select(max(moment - now, 0.001)):
                if key.fileobj is self._listener:
                    self._accept()
                elif (record := self._read_first_record(key.data)) is not None:
                    return key.data, record
        raise TimeoutError

    def close(self) -> None:
        """Close the connections that sent nothing."""
        for line in list(self._until):
            self._end(line)
        self._selector.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
            line = JsonConnection(connection)
        except BlockingIOError:  # the peer has left again
            return
        except OSError:  # the peer has left, or no file descriptors are left
            self._end_oldest()
            time.sleep(_AGAIN_S)
            return
        if len(self._until) >= MAX_PENDING:
            self._end_oldest()
        self._until[line] = time.monotonic() + GREETING_S
        self._selector.register(line, selectors.EVENT_READ, line)

    def _read_first_record(self, line: JsonConnection) -> Record | None:
        """Return the first record of a connection, which is then no longer tracked."""
        if line not in self._until:  # closed in favour of a simultaneous one
            return None
        try:
            record = line.received()
        except (OSError, ValueError):
            self._end(line)
            return None
        if record is not None:
            self._forget(line)
        return record

    def _end_oldest(self) -> None:
        if self._until:
            self._end(next(iter(self._until)))

    def _end(self, line: JsonConnection) -> None:
        self._forget(line)
        line.close()

    def _forget(self, line: JsonConnection) -> None:
        del self._until[line]
        self._selector.unregister(line)
