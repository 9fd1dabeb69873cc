"""Server-sent events whose source stops as soon as the client leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from braces.lazy import asyncio
from braces.serving.http.answers import CLIENT_GONE

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx passes each event on at once
    "x-content-type-options": "nosniff",
}


class EventStream:
    """A response of events.

    Args:
        events: The events as bytes.
        send_timeout_s: The time limit for the client to read an event.
    """

    def __init__(self, events: AsyncGenerator[bytes], send_timeout_s: float) -> None:
        self._events = events
        self._send_timeout_s = send_timeout_s
        self.status_code = 200

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events until they end, or the client leaves."""
        del scope
        headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sender = asyncio.ensure_future(self._send_all(send))
        watcher = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sender, watcher), return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                sender.result()
            else:
                self.status_code = CLIENT_GONE
        finally:
            watcher.cancel()
            sender.cancel()
            await asyncio.gather(sender, watcher, return_exceptions=True)

    async def _send_all(self, send: Any) -> None:
        async with aclosing(self._events) as events:
            async for event in events:
                await self._send(send, event, True)
        await self._send(send, b"", False)

    async def _send(self, send: Any, body: bytes, more: bool) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise asyncio.CancelledError from None


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
