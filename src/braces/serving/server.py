"""The server: a socket, uvicorn, start and shutdown."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from braces.cluster.host_addresses import is_loopback, join_address
from braces.errors import ProgramError, RunError
from braces.keywords import hint_keywords
from braces.lazy import serve_h11, serve_httptools, serve_uvicorn as uvicorn
from braces.lower.interrupt.deadline import join_threads
from braces.serving.http.application import InferenceApp
from braces.serving.http.connections import LONGEST_INCOMPLETE, limited_protocol
from braces.serving.http.settings import ServingSettings, make_settings
from braces.serving.models.model_files import GivenModels, load_models
from braces.web.server import listen, make_config, wait_started

LOCALHOST, DEFAULT_PORT = "127.0.0.1", 8000
DRAIN_S, START_S = 10.0, 20.0
KEEP_ALIVE_S = 75
_BACKLOG, _SWITCH_S = 2048, 0.0005


@hint_keywords
def create_inference_app(
    models: GivenModels,
    *,
    device: str | None = None,
    token: str | None = None,
    max_batch: int = ServingSettings.max_batch,
    wait_ms: float = ServingSettings.wait_ms,
    max_queue: int = ServingSettings.max_queue,
    max_requests: int = ServingSettings.max_requests,
    max_body_bytes: int = ServingSettings.max_body_bytes,
    body_timeout_s: float = ServingSettings.body_timeout_s,
    timeout_s: float = ServingSettings.timeout_s,
    max_tokens: int = ServingSettings.max_tokens,
    sizes: Mapping[str, Sequence[int]] | None = None,
    hosts: Sequence[str] | None = None,
    page: bool = True,
    access_log: bool = False,
) -> InferenceApp:
    """Create an ASGI application that serves models by the open inference protocol v2.

    It can be mounted in a Starlette or FastAPI application, or run by any ASGI server. The
    models are compiled from the first request on; `/v2/health/ready` answers 503 until then.

    Args:
        models: A model of `br.load_model`, the path of a model file or ONNX file, a folder of
            versions, a list of `"name=path"`, or a dict of models by name.
        device: The device of the executors.
        token: The token that clients need, in `Authorization: Bearer TOKEN`.
        max_batch: The largest batch size; 1 turns batching off.
        wait_ms: The time that an idle model waits for more requests.
        max_queue: The largest number of requests that wait for a model.
        max_requests: The largest number of requests at a time.
        max_body_bytes: The largest body of a request.
        body_timeout_s: The time limit of the body of a request.
        timeout_s: The time limit of a request, without its body.
        max_tokens: The largest number of iterations of a generation.
        sizes: By symbolic size that is not the batch axis: the sizes that are accepted, and
            compiled at the start.
        hosts: The names of this server that the `Host` header may have.
        page: Whether `/` answers with the page to try a model by hand.
        access_log: Whether the logger `"braces.access"` gets a line of JSON for each request.

    Raises:
        ProgramError: If an option is out of range, or a model cannot be served.
        FileFormatError: If a file is not a model.
        OSError: If a file cannot be read.

    Example:
        >>> import tempfile
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.softmax(br.data("x", ["n", 3]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_model(folder + "/m.safetensors", prog, br.Scope(), ["x"], {"y": y})
        ...     app = br.create_inference_app({"m": folder + "/m.safetensors"}, max_batch=8)
        >>> app.engine.find("m").describe(["1"])["inputs"]
        [{'name': 'x', 'datatype': 'FP32', 'shape': [-1, 3]}]
    """
    settings = make_settings(
        token=token,
        max_batch=max_batch,
        wait_ms=wait_ms,
        max_queue=max_queue,
        max_requests=max_requests,
        max_body_bytes=max_body_bytes,
        body_timeout_s=body_timeout_s,
        timeout_s=timeout_s,
        max_tokens=max_tokens,
        sizes=sizes,
        hosts=hosts,
        page=page,
        access_log=access_log,
    )
    return InferenceApp(load_models(models, device, timeout_s), settings)


@hint_keywords
def serve(
    models: GivenModels,
    *,
    host: str = LOCALHOST,
    port: int = DEFAULT_PORT,
    insecure: bool = False,
    device: str | None = None,
    token: str | None = None,
    max_batch: int = ServingSettings.max_batch,
    wait_ms: float = ServingSettings.wait_ms,
    max_queue: int = ServingSettings.max_queue,
    max_requests: int = ServingSettings.max_requests,
    max_body_bytes: int = ServingSettings.max_body_bytes,
    body_timeout_s: float = ServingSettings.body_timeout_s,
    timeout_s: float = ServingSettings.timeout_s,
    max_tokens: int = ServingSettings.max_tokens,
    sizes: Mapping[str, Sequence[int]] | None = None,
    hosts: Sequence[str] | None = None,
    page: bool = True,
    access_log: bool = False,
) -> InferenceServer:
    """Serve models over HTTP by the open inference protocol v2, in threads of this process.

    Args:
        models: As in `create_inference_app`.
        host: The address to listen at; by default this machine only.
        port: The port; 0 selects a free one.
        insecure: Whether other machines may connect without a token.
        device: The device of the executors.
        token: The token that clients need, in `Authorization: Bearer TOKEN`.
        max_batch: The largest batch size; 1 turns batching off.
        wait_ms: The time that an idle model waits for more requests.
        max_queue: The largest number of requests that wait for a model.
        max_requests: The largest number of requests at a time.
        max_body_bytes: The largest body of a request.
        body_timeout_s: The time limit of the body of a request.
        timeout_s: The time limit of a request, without its body.
        max_tokens: The largest number of iterations of a generation.
        sizes: By symbolic size that is not the batch axis: the sizes that are accepted, and
            compiled at the start.
        hosts: The names of this server that the `Host` header may have.
        page: Whether `/` answers with the page to try a model by hand.
        access_log: Whether the logger `"braces.access"` gets a line of JSON for each request.

    Returns:
        The running server, which is a context manager: `server.url`, `server.wait()` and
        `server.close()`.

    Raises:
        ProgramError: If the port is in use, an option is out of range, or other machines could
            connect without a token.
        FileFormatError: If a file is not a model.
        OSError: If a file cannot be read.

    Example:
        >>> import json, tempfile, urllib.request
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n"]) * 2.0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_model(folder + "/m.safetensors", prog, br.Scope(), ["x"], {"y": y})
        ...     model = br.load_model(folder + "/m.safetensors")
        >>> with br.serve(model, port=0, max_batch=1) as server:
        ...     entry = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        ...     data = json.dumps({"inputs": [entry]}).encode()
        ...     address = f"{server.wait_ready().url}/v2/models/model/infer"
        ...     with urllib.request.urlopen(address, data) as response:
        ...         print(json.load(response)["outputs"][0]["data"])
        [2.0, 4.0]
    """
    server = open_server(
        models,
        host,
        port,
        insecure,
        device,
        token=token,
        max_batch=max_batch,
        wait_ms=wait_ms,
        max_queue=max_queue,
        max_requests=max_requests,
        max_body_bytes=max_body_bytes,
        body_timeout_s=body_timeout_s,
        timeout_s=timeout_s,
        max_tokens=max_tokens,
        sizes=sizes,
        hosts=hosts,
        page=page,
        access_log=access_log,
    )
    server.start()
    return server


def open_server(
    models: GivenModels,
    host: str,
    port: int,
    insecure: bool,
    device: str | None = None,
    **options: Any,
) -> InferenceServer:
    """Load models, and listen; the server does not answer yet."""
    token: str | None = options.get("token")
    if options.get("hosts") is None:
        options["hosts"] = _host_names(host, token)
    _check_exposure(host, token, insecure)
    app = create_inference_app(models, device=device, **options)
    return InferenceServer(app, listen(host, port, _BACKLOG))


def _host_names(host: str, token: str | None) -> tuple[str, ...]:
    """Return the names in `Host` of a server for this machine only, against DNS rebinding."""
    if token is not None or not is_loopback(host):
        return ()
    return ("localhost", "127.0.0.1", "[::1]", host)


def _check_exposure(host: str, token: str | None, insecure: bool) -> None:
    if token is None and not insecure and not is_loopback(host):
        raise ProgramError(
            f"missing token: other machines can connect to {host}.",
            fix="Pass a token (--token-file), or insecure=True (--insecure).",
        )


class InferenceServer:
    """A server of models.

    Args:
        app: The application.
        listener: The socket.

    Attributes:
        app: The application.
        url: The address of the server.

    Example:
        >>> import braces as br, tempfile, urllib.request
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n", 2]) * 2.0
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     br.save_model(folder + "/m.model", prog, br.Scope(), ["x"], {"y": y})
        ...     with br.serve(folder + "/m.model", port=0) as server:
        ...         address = server.wait_ready().url + "/v2/health/ready"
        ...         with urllib.request.urlopen(address) as response:
        ...             print(response.status)
        200
    """

    def __init__(self, app: InferenceApp, listener: socket.socket) -> None:
        self.app = app
        self._socket = listener
        host, port = listener.getsockname()[:2]
        self.url = f"http://{join_address(host, port)}"
        try:
            self._uvicorn = _make_uvicorn(app)
        except BaseException:
            listener.close()
            raise
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Answer requests in a thread."""
        self._thread = threading.Thread(target=self.run, name="braces-serve", daemon=True)
        self._thread.start()
        wait_started(self._uvicorn, self._thread, START_S)

    def run(self) -> None:
        """Answer requests in this thread, until SIGINT, SIGTERM or `close`."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, _SWITCH_S))  # a run returns to a busy event loop
        with _ended_by_signals(self._uvicorn):
            try:
                with self._socket:
                    self._uvicorn.run(sockets=[self._socket])
            finally:
                sys.setswitchinterval(interval)
                self.app.close()
                self.app.engine.join(DRAIN_S)

    def wait_ready(self, timeout_s: float = 600.0) -> Self:
        """Wait until all models are compiled, and return the server.

        Raises:
            RunError: If a model could not be compiled, or the time is over.
        """
        engine, end = self.app.engine, monotonic() + timeout_s
        while not engine.is_ready:
            for (name, version), error in engine.failed.items():
                raise RunError(f"model {name}/{version} could not be compiled: {error}")
            if monotonic() > end:
                raise RunError(f"the models are not compiled after {timeout_s:g} s.")
            sleep(0.01)
        return self

    def wait(self) -> None:
        """Wait until the server ends; Ctrl-C ends it."""
        try:
            while self._thread is not None and self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """Answer the requests in progress, and end."""
        self._uvicorn.should_exit = True
        if self._thread is not None:
            join_threads([self._thread], DRAIN_S + 2.0)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<InferenceServer: {self.url}, {len(self.app.engine.repository)} models>"


def _make_uvicorn(app: InferenceApp) -> Any:
    config = make_config(
        uvicorn,
        app,
        log_level="error",
        http=_protocol(),
        loop="auto",
        lifespan="on",
        limit_concurrency=2 * app.engine.settings.max_requests + 64,
        h11_max_incomplete_event_size=LONGEST_INCOMPLETE,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(DRAIN_S),
        backlog=_BACKLOG,
    )
    return _server_class()(config)


def _protocol() -> type[Any]:
    if find_spec("httptools") is not None:
        return limited_protocol(serve_httptools.HttpToolsProtocol)
    return limited_protocol(serve_h11.H11Protocol)


def _server_class() -> type[Any]:
    class QuietServer(uvicorn.Server):
        """A server of uvicorn that leaves signals to its caller."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    return QuietServer


@contextmanager
def _ended_by_signals(server: Any) -> Generator[None]:
    """End a server by SIGINT and SIGTERM, if this is the main thread.

    A second signal ends it without waiting for requests. Neither raises an exception in the
    block, so the threads of the models are joined: a run aborts an interpreter that exits.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, server.handle_exit) for each in handled}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
