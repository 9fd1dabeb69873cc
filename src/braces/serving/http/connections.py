"""Connections with limits on incomplete headers and joined writes, which uvicorn lacks."""

from __future__ import annotations

from typing import Any

from braces.lazy import asyncio

HEADER_TIMEOUT_S = 10.0
"""The time limit of the headers of a request, from the first byte or the connection."""
LONGEST_INCOMPLETE = 65_536
"""The largest number of bytes of headers that are not complete."""


_HEAD = b"HTTP/1.1 "


def limited_protocol(protocol: type[Any]) -> type[Any]:
    """Return a protocol class of uvicorn that closes connections with incomplete headers."""
    return type("LimitedProtocol", (_LimitedHeaders, protocol), {})


class _LimitedHeaders:
    """The part of a protocol that closes a connection if its headers take too long."""

    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: Any
    _header_timer: asyncio.TimerHandle | None = None
    _header_length = 0

    def connection_made(self, transport: Any) -> None:
        """Start the time of the first request."""
        _super(self).connection_made(JoinedWrites(transport, self.loop))
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        """Count bytes of incomplete headers."""
        _super(self).data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._headers_arrived()
            return
        self._header_length += len(data)
        if self._header_length > LONGEST_INCOMPLETE:
            self.transport.close()
        elif self._header_timer is None and not self.transport.is_closing():
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._headers_arrived()
        _super(self).connection_lost(exc)

    def _expect_headers(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _headers_arrived(self) -> None:
        self._header_length = 0
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class JoinedWrites:
    """A transport that sends the head of a response together with the first part of its body.

    uvicorn writes both apart, and the first write wakes the client for nothing. A head without
    a body in the same step of the event loop, such as that of a stream, is sent at its end.

    Args:
        transport: The transport.
        loop: Its event loop.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write bytes; the head of a response waits for the next write."""
        if not self._head and data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        elif self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection after all bytes are sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _super(protocol: _LimitedHeaders) -> Any:
    return super(_LimitedHeaders, protocol)
