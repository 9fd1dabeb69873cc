"""The ASGI application: routes behind the guard."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any

from braces.lazy import serve_applications as applications, serve_exceptions as exceptions
from braces.serving.http.answers import answer_refusal
from braces.serving.http.endpoints import Endpoints
from braces.serving.http.engine import Engine
from braces.serving.http.guard import AccessGuard, Scope
from braces.serving.http.settings import ServingSettings
from braces.serving.models.model_files import Repository
from braces.serving.protocol.refusal import RefusalError

ADDRESSES = "/v2, /v2/models/NAME, /v2/models/NAME/infer, /v2/health/ready or /metrics"


class InferenceApp:
    """An ASGI application that answers the open inference protocol.

    The models are compiled from the first request on, or from the start of the server if it
    runs the application's lifespan.

    Args:
        repository: The models by name and version.
        settings: The limits.

    Attributes:
        engine: The models with their queues.

    Example:
        >>> import braces as br, tempfile
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n", 2]) * 2.0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_model(folder + "/m.model", prog, br.Scope(), ["x"], {"y": y})
        ...     app = br.create_inference_app({"double": folder + "/m.model"})
        >>> app.engine.find("double").signature.rows
        'n'
        >>> app.close()
    """

    def __init__(self, repository: Repository, settings: ServingSettings) -> None:
        self.engine = Engine(repository, settings)
        endpoints = Endpoints(self.engine, lambda: self._guard.active, _version())
        app = applications.Starlette(
            routes=endpoints.routes(),
            lifespan=self._lifespan,
            exception_handlers={exceptions.HTTPException: _answer_http_error},
        )
        self._guard = AccessGuard(app, settings)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request."""
        self.engine.start()
        await self._guard(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncGenerator[None]:
        del app
        try:
            yield
        finally:
            self.engine.close()

    def close(self) -> None:
        """Refuse requests that wait, and end the threads; for servers without a lifespan."""
        self.engine.close()


async def _answer_http_error(request: Any, error: Any) -> Any:
    """Answer a wrong path or method in the form of the protocol."""
    allowed = ", ".join(dict(error.headers or {}).values()) or "another"  # its header `Allow`
    texts = {
        404: f"no such address; expected {ADDRESSES}.",
        405: f"the method {request.method[:16]} is not allowed here; use {allowed}.",
    }
    text = texts.get(error.status_code, str(error.detail))
    return answer_refusal(RefusalError(error.status_code, text, error.headers))


def _version() -> str:
    try:
        return metadata.version("braces")
    except metadata.PackageNotFoundError:
        return "0"
