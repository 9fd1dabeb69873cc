"""Generation in parts: the same tokens for all lengths of the parts, and an end in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.serving.http.application import InferenceApp
from tests.serving.asgi import Answer, ask, body, call, entry, run, wait_ready

STREAM, WHOLE = "/v2/models/m/generate_stream", "/v2/models/m/generate"


def decoder(path: Path, end: int | None = None) -> np.ndarray[Any, Any]:
    """Write a small recurrent decoder, and return 40 tokens of each of two first tokens."""
    with br.Program() as prog:
        table = br.parameter("table", [20, 8])
        token, hidden = br.data("token", ["n"], dtype="int32"), br.data("hidden", ["n", 8])

        def step(token: Any, hidden: Any) -> Any:
            both = br.fc(br.embedding(token, table), 8, name="in") + br.fc(hidden, 8, name="re")
            after = br.tanh(3.0 * both)
            best = br.cast(br.argmax(br.fc(after, 20, name="out"), axis=-1), "int32")
            more = () if end is None else (br.all(best != end),)
            return ({"tokens": best}, {"token": best, "hidden": after}, *more)

        fetches = br.decoding.generation_loop(step, {"token": token, "hidden": hidden})
    with br.Program() as start:
        prompt = br.data("prompt", ["n"], dtype="int32")
        zeros = br.matmul(
            br.reshape(br.cast(prompt, "float32") * 0.0, ["n", 1]), br.ones([1, 8])
        )
        first = {"token": prompt + 0, "hidden": zeros}
    exe = br.Executor()
    scope = exe.init(prog, seed=4)
    feeds = ["token", "hidden", "steps"]
    starts = {"start": (start, ["prompt"], first)}
    br.save_model(path, prog, scope, feeds, fetches, programs=starts)
    feed = {"token": [2, 5], "hidden": np.zeros((2, 8), "float32"), "steps": 40}
    return exe.run(prog, scope, feed, fetches)["tokens"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InferenceApp, Any]]:
    path = tmp_path_factory.mktemp("decoder") / "m.model"
    tokens = decoder(path)
    app = br.create_inference_app({"m": path}, max_tokens=500)
    yield app, tokens
    app.close()


def events(answer: Answer) -> list[dict[str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    parts = answer.body.decode().split("\n\n")
    assert parts.pop() == ""
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def asked(prompt: Any, **parameters: Any) -> bytes:
    return json.dumps({"prompt": prompt, "parameters": parameters}).encode()


@pytest.mark.parametrize("chunk", [1, 3, 8, 40, 64])
def test_all_lengths_of_parts_give_the_same_tokens(served: Any, chunk: int) -> None:
    app, tokens = served
    answer = ask(app, "POST", STREAM, asked(2, max_tokens=40, chunk=chunk))
    assert answer.status == 200
    found = events(answer)
    assert [each["tokens"] for each in found] == tokens[:1].T.tolist()
    assert [each["index"] for each in found] == [*range(40)]
    assert found[0]["model_name"] == "m"


def test_generate_answers_all_tokens_at_once(served: Any) -> None:
    app, tokens = served
    answer = ask(app, "POST", WHOLE, asked([2, 5], max_tokens=11))
    assert answer.json["tokens"] == tokens[:, :11].T.tolist()


def test_stop_ids_end_the_stream(served: Any) -> None:
    app, tokens = served
    last = int(tokens[0, 6])
    end = tokens[0].tolist().index(last)
    found = events(ask(app, "POST", STREAM, asked(2, max_tokens=40, stop=[last])))
    assert [each["tokens"] for each in found] == tokens[:1, : end + 1].T.tolist()


def test_a_loop_that_ends_by_itself_ends_the_stream(tmp_path: Path) -> None:
    end = int(decoder(tmp_path / "m.model")[0, 9])
    tokens = decoder(tmp_path / "m.model", end)
    assert 1 < tokens.shape[1] <= 10
    app = br.create_inference_app({"m": tmp_path / "m.model"})
    for chunk in (3, tokens.shape[1], 1, 12):
        found = events(ask(app, "POST", STREAM, asked([2, 5], max_tokens=64, chunk=chunk)))
        assert [each["tokens"] for each in found] == tokens.T.tolist()
    app.close()


def test_state_can_be_sent_by_clients_of_a_model_without_start(
    served: Any, tmp_path: Path
) -> None:
    _, tokens = served
    decoder(tmp_path / "m.model")
    model = br.load_model(tmp_path / "m.model")
    del model.programs["start"]
    app = br.create_inference_app({"m": model})
    sent = {"token": [2], "hidden": [[0.0] * 8], "parameters": {"max_tokens": 5}}
    answer = ask(app, "POST", WHOLE, json.dumps(sent).encode())
    assert answer.json["tokens"] == tokens[:1, :5].T.tolist()
    app.close()


def test_infer_runs_the_same_program(served: Any) -> None:
    app, tokens = served
    sent = body(
        entry("token", np.int32([2])),
        entry("hidden", np.zeros((1, 8), np.float32)),
        entry("steps", np.int32(4)),
    )
    answer = ask(app, "POST", "/v2/models/m/infer", sent)
    assert answer.status == 200, answer.body
    found = {out["name"]: out["data"] for out in answer.json["outputs"]}
    assert found["tokens"] == tokens[0, :4].tolist()


BAD = {
    "no prompt": (b"{}", "missing input `prompt`"),
    "unknown": (b'{"prompt": 1, "q": 2}', "unknown input `q`"),
    "no tokens": (asked(1, max_tokens=0), "invalid `max_tokens`"),
    "many tokens": (asked(1, max_tokens=501), "from 1 to 500"),
    "chunk": (asked(1, chunk=10_000), "invalid `chunk`"),
    "stop": (asked(1, stop="no"), "`stop` is not a list"),
    "parameter": (asked(1, heat=1), "unknown parameter `heat`"),
    "text": (asked("one"), "not INT32"),
    "deep": (asked([[[1]]]), "deeper lists"),
    "ragged": (asked([1, [2]]), "different lengths"),
    "parameters": (b'{"prompt": 1, "parameters": 3}', "not an object"),
    "half": (b'{"prompt"', "not JSON"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("path", [STREAM, WHOLE])
def test_invalid_requests_are_refused_before_the_stream(
    served: Any, case: str, path: str
) -> None:
    sent, text = BAD[case]
    answer = ask(served[0], "POST", path, sent)
    assert answer.status == 400
    assert text in answer.error


def test_models_of_another_form_do_not_generate(make: Callable[..., InferenceApp]) -> None:
    answer = ask(make("double"), "POST", "/v2/models/double/generate_stream", b"{}")
    assert answer.status == 400
    assert "does not generate" in answer.error


def test_a_client_that_leaves_stops_the_generation(served: Any) -> None:
    app, _ = served

    async def leaving() -> int:
        await wait_ready(app)
        gone = asyncio.Event()
        before = app.engine.batcher(app.engine.find("m")).metrics.tokens
        stream = call(app, "POST", STREAM, asked(2, max_tokens=500, chunk=1), leave=gone)
        task = asyncio.ensure_future(stream)
        await asyncio.sleep(0.05)
        gone.set()
        await task
        await asyncio.sleep(0.05)
        after = app.engine.batcher(app.engine.find("m")).metrics.tokens
        await asyncio.sleep(0.1)
        assert app.engine.batcher(app.engine.find("m")).metrics.tokens == after
        return after - before

    assert run(leaving()) < 500
