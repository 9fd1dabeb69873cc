"""A client of an ASGI application, without a network: bodies in pieces, and disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from braces.serving.http.application import InferenceApp
from braces.serving.protocol.tensor_spec import DATATYPES

T = TypeVar("T")


@dataclass
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert set(self.json) == {"error"}, self.body
        return self.json["error"]


async def call(
    app: Any,
    method: str,
    path: str,
    pieces: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    leave: asyncio.Event | None = None,
    stall: bool = False,
) -> Answer:
    """Send one request.

    Args:
        pieces: The body, or its pieces.
        leave: Set when the client disconnects; it stays connected by default.
        stall: Whether the body never ends.
    """
    pieces = [pieces] if isinstance(pieces, bytes) else [*pieces]
    messages = [
        {"type": "http.request", "body": piece, "more_body": stall or i + 1 < len(pieces)}
        for i, piece in enumerate(pieces)
    ]
    parts: list[dict[str, Any]] = []
    ended = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await (leave or ended).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        parts.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "scheme": "http",
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8000),
        "headers": [
            (k.lower().encode(), v.encode("latin-1"))
            for k, v in {"host": "localhost", **(headers or {})}.items()
        ],
    }
    await app(scope, receive, send)
    ended.set()
    head = parts[0] if parts else {"status": 0, "headers": []}
    answered = {k.decode().lower(): v.decode("latin-1") for k, v in head["headers"]}
    return Answer(head["status"], answered, b"".join(p.get("body", b"") for p in parts))


async def wait_ready(app: InferenceApp) -> None:
    """Wait until the models are compiled."""
    app.engine.start()
    while not app.engine.is_ready:
        assert not app.engine.failed, app.engine.failed
        await asyncio.sleep(0.005)


def ask(
    app: InferenceApp,
    method: str,
    path: str,
    pieces: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Answer:
    """Send one request once the models are compiled."""

    async def asked() -> Answer:
        await wait_ready(app)
        return await call(app, method, path, pieces, headers, **options)

    return asyncio.run(asked())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, with a time limit."""

    async def limited() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


def entry(name: str, array: np.ndarray[Any, Any], /, **changes: Any) -> dict[str, Any]:
    """Return the entry of an input in a request; changes of `None` remove a key."""
    made = {
        "name": name,
        "shape": list(array.shape),
        "datatype": DATATYPES[array.dtype],
        "data": array.ravel().tolist(),
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def body(*entries: dict[str, Any], **more: Any) -> bytes:
    """Return a request as JSON."""
    return json.dumps({"inputs": list(entries), **more}).encode()


def binary_body(
    arrays: Mapping[str, np.ndarray[Any, Any]], **more: Any
) -> tuple[bytes, dict[str, str]]:
    """Return a request with binary tensors, and its headers."""
    entries = [
        entry(name, array, data=None, parameters={"binary_data_size": array.nbytes})
        for name, array in arrays.items()
    ]
    head = body(*entries, **more)
    tail = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


def binary_outputs(answer: Answer) -> dict[str, np.ndarray[Any, Any]]:
    """Return the outputs of a response with binary tensors."""
    from braces.serving.protocol.tensor_spec import DTYPES

    length = int(answer.headers["inference-header-content-length"])
    at, outputs = length, {}
    for each in json.loads(answer.body[:length])["outputs"]:
        size: int = each["parameters"]["binary_data_size"]
        raw = np.frombuffer(answer.body[at : at + size], DTYPES[each["datatype"]])
        outputs[each["name"]] = raw.reshape(each["shape"])
        at += size
    assert at == len(answer.body)
    return outputs


def values(answer: Answer, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return the first output of a JSON response."""
    (out, *_) = answer.json["outputs"]
    assert out["shape"] == list(shape)
    return np.array(out["data"]).reshape(shape)
