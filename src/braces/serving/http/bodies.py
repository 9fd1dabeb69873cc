"""Bodies of requests, within limits of size and time."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from braces.lazy import asyncio
from braces.serving.http.settings import ServingSettings
from braces.serving.protocol.refusal import RefusalError, invalid

_MOST_DIGITS = 18
_BUSY_S = 0.05
"""The delay of a timer from which the event loop counts as busy."""


class ClientGoneError(Exception):
    """The client closed the connection; an answer has no reader."""


async def read_body(request: Any, settings: ServingSettings) -> bytes:
    """Read the body of a request.

    The length that the header declares is not trusted: the bytes are counted.

    Raises:
        RefusalError: If the body is too long (413), too slow (408) or encoded (415).
        ClientGoneError: If the client disconnects.
    """
    headers = request.headers
    if headers.get("content-encoding", "identity") != "identity":
        raise RefusalError(415, "compressed bodies are not supported.")
    declared = parse_length(headers.get("content-length"), "Content-Length")
    if declared is not None and declared > settings.max_body_bytes:
        raise _too_long(settings)
    try:
        async with _time_limit(settings.body_timeout_s):
            return await _read(request.receive, settings)
    except TimeoutError:
        raise RefusalError(
            408,
            f"the body was incomplete after {settings.body_timeout_s:g} s.",
            {"Connection": "close"},
        ) from None


@asynccontextmanager
async def _time_limit(timeout_s: float) -> AsyncGenerator[None]:
    """Limit the time of a block; if the event loop was busy, bytes that arrived are read first.

    Raises:
        TimeoutError: If the block takes longer.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:

        def expire(due: float) -> None:
            nonlocal timer
            if loop.time() - due > _BUSY_S:
                timer = loop.call_later(_BUSY_S, expire, math.inf)
            else:
                limit.reschedule(loop.time())

        timer = loop.call_later(timeout_s, expire, loop.time() + timeout_s)
        try:
            yield
        finally:
            timer.cancel()


async def _read(receive: Any, settings: ServingSettings) -> bytes:
    parts, length = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        length += len(part)
        if length > settings.max_body_bytes:
            raise _too_long(settings)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(settings: ServingSettings) -> RefusalError:
    text = f"the body has more than {settings.max_body_bytes} bytes."
    return RefusalError(413, text, {"Connection": "close"})


def parse_length(text: str | None, name: str) -> int | None:
    """Parse the value of a header that is a length.

    Raises:
        RefusalError: If the text is not a decimal number.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise invalid(f"{name} is not a number.")
    return int(text)
