"""Responses of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from braces.lazy import serve_responses as responses
from braces.serving.protocol.refusal import RefusalError
from braces.serving.protocol.responses import BINARY, JSON, JSON_LENGTH, dump

CLIENT_GONE = 499
"""The status of a request whose client disconnected, in metrics and logs."""
_HEADERS = {"X-Content-Type-Options": "nosniff"}


def answer_json(value: Any) -> Any:
    """Answer with a value as JSON."""
    return answer_bytes(dump(value), JSON)


def answer_bytes(
    body: bytes, content_type: str, headers: Mapping[str, str] | None = None
) -> Any:
    """Answer with bytes."""
    return responses.Response(
        body, media_type=content_type, headers={**_HEADERS, **(headers or {})}
    )


def answer_tensors(body: bytes, json_length: int | None) -> Any:
    """Answer with a response of the protocol, with or without binary tensors."""
    if json_length is None:
        return answer_bytes(body, JSON)
    return answer_bytes(body, BINARY, {JSON_LENGTH: str(json_length)})


def answer_status(status: int) -> Any:
    """Answer with a status and an empty body."""
    return responses.Response(status_code=status, headers=_HEADERS)


def answer_refusal(refusal: RefusalError) -> Any:
    """Answer with an error of the protocol."""
    body = dump({"error": refusal.message})
    headers = {**_HEADERS, **refusal.headers}
    return responses.Response(body, refusal.status, media_type=JSON, headers=headers)
