"""Connections with limits on incomplete headers, which uvicorn does not have."""

from __future__ import annotations

from typing import Any

from braces.lazy import asyncio

HEADER_TIMEOUT_S = 10.0
"""The time limit of the headers of a request, from the first byte or the connection."""
LONGEST_INCOMPLETE = 65_536
"""The largest number of bytes of headers that are not complete."""


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
        _super(self).connection_made(transport)
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


def _super(protocol: _LimitedHeaders) -> Any:
    return super(_LimitedHeaders, protocol)
