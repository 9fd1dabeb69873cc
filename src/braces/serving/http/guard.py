"""Access to the server: host, origin, token, number of requests; and the access log."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from secrets import compare_digest
from time import perf_counter, time
from typing import Any
from urllib.parse import urlsplit

from braces.serving.http.answers import answer_refusal
from braces.serving.http.settings import ServingSettings
from braces.serving.protocol.refusal import RefusalError, busy

Scope = dict[str, Any]
Handler = Callable[[Scope, Any, Any], Awaitable[None]]
ACCESS_LOGGER = logging.getLogger("braces.access")
OPEN_PATHS = ("/", "/v2/health/live", "/v2/health/ready")
"""Paths that need no token: the page, which has no data, and the probes of orchestrators."""
LONGEST_HEADERS = 16_384
"""The largest number of bytes of the headers and the query together."""


class AccessGuard:
    """Refuses requests before the application sees them.

    Args:
        app: The application.
        settings: The limits.

    Attributes:
        active: The number of requests in progress.
    """

    def __init__(self, app: Handler, settings: ServingSettings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = {host.lower() for host in settings.hosts}
        token = settings.token
        self._token = None if token is None else f"Bearer {token}".encode()
        self.active = 0

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})
            return
        if self._settings.access_log:
            send = _logged(scope, send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await answer_refusal(refusal)(scope, receive, send)
            return
        self.active += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.active -= 1

    def _refusal(self, scope: Scope) -> RefusalError | None:
        """Return why a request is refused."""
        headers = dict[bytes, bytes](scope["headers"])
        length = sum(len(name) + len(value) for name, value in scope["headers"])
        if length + len(scope["query_string"]) + len(scope["path"]) > LONGEST_HEADERS:
            return RefusalError(431, "the headers are too long.", {"Connection": "close"})
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts and _without_port(host) not in self._hosts:
            return RefusalError(403, "unknown host.")
        origin = headers.get(b"origin")
        if origin is not None and not _is_same(origin.decode("latin-1"), host):
            return RefusalError(403, "the request comes from another origin.")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path not in OPEN_PATHS and not self._has_token(headers):
            return RefusalError(401, "missing or wrong token.", {"WWW-Authenticate": "Bearer"})
        if self.active >= self._settings.max_requests and path not in OPEN_PATHS:
            return busy("too many requests at a time.")
        return None

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        header = headers.get(b"authorization", b"")
        return self._token is None or compare_digest(header, self._token)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host
    except ValueError:
        return False


def _logged(scope: Scope, send: Any) -> Any:
    """Return a `send` that logs the request once its response is sent."""
    started, status, length = perf_counter(), 0, 0

    async def send_logged(message: Any) -> None:
        nonlocal status, length
        if message["type"] == "http.response.start":
            status = message["status"]
        length += len(message.get("body", b""))
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            record = {
                "time": round(time(), 3),
                "client": (scope.get("client") or ("",))[0],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "bytes": length,
                "ms": round(1000 * (perf_counter() - started), 3),
            }
            ACCESS_LOGGER.info("%s", json.dumps(record))

    return send_logged
