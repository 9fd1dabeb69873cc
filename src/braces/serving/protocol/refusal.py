"""Refused requests: an HTTP status and a message for the client."""

from __future__ import annotations

from collections.abc import Mapping


class RefusalError(Exception):
    """A request that is answered with an error.

    Args:
        status: The HTTP status.
        message: The text of `{"error": …}`.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = dict(headers or {})


def invalid(message: str) -> RefusalError:
    """Return the error of an invalid request: status 400."""
    return RefusalError(400, message)


def busy(message: str, retry_after_s: int = 1) -> RefusalError:
    """Return the error of a server that cannot accept the request now: status 503."""
    return RefusalError(503, message, {"Retry-After": str(retry_after_s)})
