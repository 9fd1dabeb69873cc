"""Bodies of requests, within limits of size and time."""

from __future__ import annotations

import asyncio
from typing import Any

from braces.serving.http.settings import ServingSettings
from braces.serving.protocol.refusal import RefusalError, invalid

_MOST_DIGITS = 18


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
        async with asyncio.timeout(settings.body_timeout_s):
            return await _read(request.receive, settings)
    except TimeoutError:
        raise RefusalError(
            408,
            f"the body was incomplete after {settings.body_timeout_s:g} s.",
            {"Connection": "close"},
        ) from None


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
