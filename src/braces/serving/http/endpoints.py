"""The addresses of the server.

GET  /                                         page to try a model by hand
GET  /v2                                       name, version, extensions
GET  /v2/health/live                           200 while the process answers
GET  /v2/health/ready                          200 once all models are compiled, else 503
GET  /v2/models                                names, versions and states
GET  /v2/models/NAME[/versions/V]              inputs and outputs
GET  /v2/models/NAME[/versions/V]/ready        200 once the model is compiled, else 503
POST /v2/models/NAME[/versions/V]/infer        compute outputs
POST /v2/models/NAME[/versions/V]/generate_stream   outputs of each iteration, as events
POST /v2/models/NAME[/versions/V]/generate     the same, in one response
GET  /metrics                                  for Prometheus
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from braces.lazy import asyncio, serve_routing as routing
from braces.serving.batching.batcher import Batcher
from braces.serving.http.answers import (
    CLIENT_GONE,
    answer_bytes,
    answer_json,
    answer_refusal,
    answer_status,
    answer_tensors,
)
from braces.serving.http.bodies import ClientGoneError, parse_length, read_body
from braces.serving.http.engine import Engine, refusal_of
from braces.serving.http.event_stream import EventStream
from braces.serving.http.generation import Generation, collect, write_events
from braces.serving.http.metrics_page import CONTENT_TYPE, write_metrics
from braces.serving.models.generation import describe_generation, find_generation
from braces.serving.models.served_model import Arrays, ServedModel
from braces.serving.page.page import HTML, make_page
from braces.serving.protocol.array_bodies import FORMATS, ONLY, pack_arrays, parse_arrays
from braces.serving.protocol.refusal import RefusalError
from braces.serving.protocol.requests import InferRequest, parse_request
from braces.serving.protocol.responses import (
    BINARY,
    JSON,
    JSON_LENGTH,
    check_outputs,
    write_response,
)

LOGGER = logging.getLogger("braces.serving")
FORM = "application/x-www-form-urlencoded"
"""The content type that curl and urllib send if none is given; such a body is read as JSON."""
EXTENSIONS = ("binary_tensor_data", "generate")
Endpoint = Callable[[Any], Awaitable[Any]]


class Endpoints:
    """The endpoints of the protocol.

    Args:
        engine: The models.
        active: Returns the number of requests in progress.
        version: The version of Braces.
    """

    def __init__(self, engine: Engine, active: Callable[[], int], version: str) -> None:
        self._engine = engine
        self._active = active
        self._version = version

    def routes(self) -> list[Any]:
        """Return the routes of the application."""
        model = "/v2/models/{name}"
        answers: dict[str, Endpoint] = {
            **({"/": self.page} if self._engine.settings.page else {}),
            "/v2": self.server,
            "/v2/health/live": self.live,
            "/v2/health/ready": self.ready,
            "/v2/models": self.models,
            "/metrics": self.metrics,
        }
        for path in (model, f"{model}/versions/{{version}}"):
            answers |= {path: self.model, f"{path}/ready": self.model_ready}
        posts: dict[str, Endpoint] = {}
        for path in (model, f"{model}/versions/{{version}}"):
            posts |= {
                f"{path}/infer": self.infer,
                f"{path}/generate_stream": self.generate_stream,
                f"{path}/generate": self.generate,
            }
        # `infer` first: it is the one whose time counts
        return [
            *(_route(path, answer, "POST") for path, answer in posts.items()),
            *(_route(path, answer, "GET") for path, answer in answers.items()),
        ]

    # ---- server ------------------------------------------------------------------------------

    async def server(self, request: Any) -> Any:
        """Answer with the name of the server and its extensions."""
        del request
        extensions = list(EXTENSIONS)
        return answer_json(
            {"name": "braces", "version": self._version, "extensions": extensions}
        )

    async def page(self, request: Any) -> Any:
        """Answer with the page to try a model by hand."""
        del request
        page = make_page()
        return answer_bytes(page.body, HTML, page.headers)

    async def live(self, request: Any) -> Any:
        """Answer that the process runs."""
        del request
        return answer_status(200)

    async def ready(self, request: Any) -> Any:
        """Answer whether all models are compiled."""
        del request
        return answer_status(200 if self._engine.is_ready else 503)

    async def metrics(self, request: Any) -> Any:
        """Answer with the metrics."""
        del request
        engine = self._engine
        text = write_metrics(engine.batchers(), engine.is_ready, self._active())
        return answer_bytes(text.encode(), CONTENT_TYPE)

    # ---- models ------------------------------------------------------------------------------

    async def models(self, request: Any) -> Any:
        """Answer with all models."""
        del request
        return answer_json([self._state(model) for model in self._engine.models()])

    def _state(self, model: ServedModel) -> dict[str, Any]:
        engine = self._engine
        failed = engine.failed.get((model.name, model.version), "")
        ready = engine.is_model_ready(model)
        state = "READY" if ready else "UNAVAILABLE" if failed else "LOADING"
        return {
            "name": model.name,
            "version": model.version,
            "state": state,
            "reason": failed.partition("\n")[0],
        }

    def _model(self, request: Any) -> ServedModel:
        path = request.path_params
        return self._engine.find(path["name"], path.get("version"))

    async def model(self, request: Any) -> Any:
        """Answer with the inputs and outputs of a model."""
        model = self._model(request)
        versions = [*self._engine.repository[model.name]]
        return answer_json(model.describe(versions) | describe_generation(model))

    async def model_ready(self, request: Any) -> Any:
        """Answer whether a model is compiled."""
        return answer_status(200 if self._engine.is_model_ready(self._model(request)) else 503)

    # ---- inference ---------------------------------------------------------------------------

    async def infer(self, request: Any) -> Any:
        """Answer with the outputs of a model."""
        started = perf_counter()
        model = self._model(request)
        batcher = self._engine.batcher(model)
        try:
            answer = await self._infer(request, model, batcher)
        except ClientGoneError:
            answer = answer_status(CLIENT_GONE)
        except RefusalError as refusal:
            answer = answer_refusal(refusal)
        batcher.metrics.count_response(answer.status_code, perf_counter() - started)
        return answer

    async def generate(self, request: Any) -> Any:
        """Answer with the outputs of all iterations of a generation."""
        started = perf_counter()
        model, generation = await self._generation(request)
        outputs = await collect(generation.iterations())
        generation.batcher.metrics.count_response(200, perf_counter() - started)
        return answer_json(_of_model(model) | outputs)

    async def generate_stream(self, request: Any) -> Any:
        """Answer with an event for each iteration of a generation."""
        model, generation = await self._generation(request)
        rows = generation.iterations()
        first = await anext(rows, None)  # so that its errors have a status
        timeout_s = self._engine.settings.timeout_s
        return EventStream(write_events(_of_model(model), first, rows), timeout_s)

    async def _generation(self, request: Any) -> tuple[ServedModel, Generation]:
        model = self._model(request)
        form = find_generation(model.signature)
        if form is None:
            raise RefusalError(
                400,
                f"model `{model.name}` does not generate: it lacks an input `steps`, or state.",
            )
        body = await read_body(request, self._engine.settings)
        return model, Generation(self._engine, model, form, body)

    async def _infer(self, request: Any, model: ServedModel, batcher: Batcher) -> Any:
        body = await read_body(request, self._engine.settings)
        content_type = _media_type(request.headers, "content-type") or JSON
        if content_type in FORMATS:
            asked = InferRequest(self._named_arrays(model, body, content_type))
        elif content_type in (JSON, BINARY, FORM):
            json_length = parse_length(request.headers.get(JSON_LENGTH), JSON_LENGTH)
            asked = parse_request(body, json_length)
        else:
            raise RefusalError(
                415,
                f"unsupported content type; expected {', '.join((JSON, BINARY, *FORMATS))}.",
            )
        check_outputs(asked, model.signature.outputs)
        self._engine.admit(model, asked.arrays)
        outputs = await self._outputs(request, batcher, asked.arrays)
        accepted = _media_type(request.headers, "accept")
        if content_type in FORMATS and accepted not in FORMATS:
            accepted = content_type
        if accepted in FORMATS:
            wanted = {name: outputs[name] for name in asked.outputs or outputs}
            return answer_bytes(pack_arrays(wanted, accepted), accepted)
        return answer_tensors(*write_response(asked, model.name, model.version, outputs))

    def _named_arrays(
        self, model: ServedModel, body: bytes, content_type: str
    ) -> Mapping[str, Any]:
        """Parse a body of arrays; the array without a name is the only input of the model."""
        arrays = parse_arrays(body, content_type, self._engine.settings.max_body_bytes)
        inputs = model.signature.inputs
        if [*arrays] == [ONLY]:
            if len(inputs) != 1:
                raise RefusalError(
                    415, f"the model has {len(inputs)} inputs; send a .npz body."
                )
            return {next(iter(inputs)): arrays[ONLY]}
        return arrays

    async def _outputs(self, request: Any, batcher: Batcher, feed: Arrays) -> Arrays:
        """Wait for the outputs; the request is dropped if the client leaves."""
        timeout_s = self._engine.settings.timeout_s
        done = batcher.submit(feed)
        timer = asyncio.get_running_loop().call_later(timeout_s, _expire, done, timeout_s)
        watcher = None
        if batcher.is_running:  # else the run starts before a client can leave
            watcher = asyncio.ensure_future(_watch(request.receive, done))
        try:
            return await done
        except (ClientGoneError, asyncio.CancelledError):
            raise
        except Exception as error:
            refusal = refusal_of(error)
            if refusal.status >= 500 and refusal is not error:
                LOGGER.error("model %s failed", batcher.model.name, exc_info=error)
            raise refusal from None
        finally:
            timer.cancel()
            if watcher is not None:
                watcher.cancel()


def _expire(done: asyncio.Future[Arrays], timeout_s: float) -> None:
    if not done.done():
        done.set_exception(RefusalError(504, f"no result within {timeout_s:g} s."))


async def _watch(receive: Any, done: asyncio.Future[Arrays]) -> None:
    """Drop a request once its client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not done.done():
        done.set_exception(ClientGoneError())


def _of_model(model: ServedModel) -> dict[str, Any]:
    return {"model_name": model.name, "model_version": model.version}


def _media_type(headers: Any, name: str) -> str:
    return headers.get(name, "").partition(";")[0].strip().lower()


def _route(path: str, answer: Endpoint, method: str) -> Any:
    """Return a route whose failures are answers of the protocol."""

    async def guarded(request: Any) -> Any:
        try:
            return await answer(request)
        except RefusalError as refusal:
            return answer_refusal(refusal)
        except ClientGoneError:
            return answer_status(CLIENT_GONE)
        except Exception:
            LOGGER.exception("%s %s failed", method, path)
            return answer_refusal(RefusalError(500, "internal error."))

    return routing.Route(path, guarded, methods=[method])
