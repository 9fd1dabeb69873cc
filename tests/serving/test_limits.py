"""Limits, access and metrics: slow and large bodies, tokens, hosts, origins, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from braces.serving.http.application import InferenceApp
from tests.serving.asgi import ask, body, call, entry, run, wait_ready

X = np.ones((2, 3), np.float32)
INFER = "/v2/models/double/infer"
Make = Callable[..., InferenceApp]
TOKEN = "a-token-of-enough-characters"


def test_long_bodies_are_refused_whatever_their_header_claims(make: Make) -> None:
    app = make("double", max_body_bytes=1000)
    long = body(entry("x", X), more="x" * 2000)
    pieces = [long[i : i + 300] for i in range(0, len(long), 300)]
    for sent, headers in (
        (long, {"Content-Length": str(len(long))}),
        (long, {}),
        (pieces, {"Content-Length": "10"}),
        (b"", {"Content-Length": "9" * 17}),
    ):
        answer = ask(app, "POST", INFER, sent, headers)
        assert answer.status == 413, answer.body
        assert "1000 bytes" in answer.error
    assert ask(app, "POST", INFER, body(entry("x", X))).status == 200
    bad = ask(app, "POST", INFER, b"", {"Content-Length": "-3"})
    assert bad.status == 400


def test_a_body_that_stalls_is_refused_in_time(make: Make) -> None:
    app = make("double", body_timeout_s=0.05)
    answer = ask(app, "POST", INFER, body(entry("x", X))[:20], stall=True)
    assert answer.status == 408
    assert "0.05 s" in answer.error
    assert answer.headers["connection"] == "close"


def test_a_client_that_leaves_in_its_body_is_forgotten(make: Make) -> None:
    app = make("double")

    async def work() -> None:
        await wait_ready(app)
        gone = asyncio.Event()
        gone.set()
        answer = await call(app, "POST", INFER, b"{", leave=gone, stall=True)
        assert answer.status == 499
        batcher = app.engine.batcher(app.engine.find("double"))
        assert batcher.metrics.responses == {499: 1}

    run(work())


def blocked(app: InferenceApp) -> Any:
    """Keep the model busy until the returned event is set."""
    import threading
    from dataclasses import replace

    go, batcher = threading.Event(), app.engine.batcher(app.engine.find("double"))
    model = batcher.model

    def wait(feed: Any) -> Any:
        go.wait(10)
        return model.run(feed)

    batcher.model = replace(model, run=wait)
    return go


def test_a_request_takes_at_most_its_time(make: Make) -> None:
    app = make("double", timeout_s=0.05)

    async def work() -> None:
        await wait_ready(app)
        go = blocked(app)
        sent = body(entry("x", X))
        answers = await asyncio.gather(*(call(app, "POST", INFER, sent) for _ in range(6)))
        assert [answer.status for answer in answers] == [504] * 6
        assert "0.05 s" in answers[0].error
        go.set()
        assert (await call(app, "POST", INFER, sent)).status == 200

    run(work())


def test_clients_that_leave_the_queue_and_a_full_queue(make: Make) -> None:
    app = make("double", max_queue=2, max_batch=1)

    async def work() -> None:
        await wait_ready(app)
        go, gone, sent = blocked(app), asyncio.Event(), body(entry("x", X))
        running = asyncio.ensure_future(call(app, "POST", INFER, sent))
        await asyncio.sleep(0.02)
        leaving = [
            asyncio.ensure_future(call(app, "POST", INFER, sent, leave=gone)) for _ in range(2)
        ]
        await asyncio.sleep(0.02)
        refused = await call(app, "POST", INFER, sent)
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        gone.set()
        assert [answer.status for answer in await asyncio.gather(*leaving)] == [499, 499]
        go.set()
        assert (await running).status == 200

    run(work())


def test_requests_at_a_time_are_limited_but_health_answers(make: Make) -> None:
    app = make("double", max_requests=1)

    async def work() -> None:
        await wait_ready(app)
        go, sent = blocked(app), body(entry("x", X))
        running = asyncio.ensure_future(call(app, "POST", INFER, sent))
        await asyncio.sleep(0.02)
        refused = await call(app, "POST", INFER, sent)
        assert refused.status == 503
        assert "too many requests" in refused.error
        assert (await call(app, "GET", "/v2/health/live")).status == 200
        go.set()
        assert (await running).status == 200

    run(work())


def test_a_token_is_required_except_for_health(make: Make) -> None:
    app = make("double", token=TOKEN)
    for header in (None, "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xff"):
        headers = {} if header is None else {"Authorization": header}
        answer = ask(app, "POST", INFER, body(entry("x", X)), headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert ask(app, "GET", "/metrics", headers=headers).status == 401
    good = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(app, "POST", INFER, body(entry("x", X)), good).status == 200
    assert ask(app, "GET", "/v2/health/ready").status == 200


def test_other_hosts_and_origins_are_refused(make: Make) -> None:
    app = make("double", hosts=("localhost", "[::1]"))
    for host, status in (("localhost:80", 200), ("[::1]:80", 200), ("evil.example", 403)):
        assert ask(app, "GET", "/v2", headers={"Host": host}).status == status
    for origin, status in (
        ("http://localhost", 200),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ):
        headers = {"Origin": origin}
        assert ask(app, "POST", INFER, body(entry("x", X)), headers).status == status


def test_long_headers_are_refused(make: Make) -> None:
    app = make("double")
    assert ask(app, "GET", "/v2", headers={"X": "x" * 20_000}).status == 431
    assert ask(app, "GET", "/v2?" + "q" * 20_000).status == 431


def test_requests_before_the_models_are_compiled_are_refused(make: Make) -> None:
    app = make("double")

    async def work() -> None:
        compiling = asyncio.Event()
        app.engine._examples = lambda model: iter(())  # type: ignore[method-assign]
        app.engine._compile_all = lambda: None  # type: ignore[method-assign]
        del compiling
        assert (await call(app, "GET", "/v2/health/ready")).status == 503
        assert (await call(app, "GET", "/v2/health/live")).status == 200
        assert (await call(app, "GET", "/v2/models/double/ready")).status == 503
        answer = await call(app, "POST", INFER, body(entry("x", X)))
        assert answer.status == 503
        assert "compiled" in answer.error

    run(work())


SAMPLE = re.compile(r'[a-z_]+(\{([a-z]+="[^"]*",?)*\})? [0-9.e+-]+')


def test_metrics_have_the_text_format(make: Make) -> None:
    app = make("double")
    assert ask(app, "POST", INFER, body(entry("x", X))).status == 200
    assert ask(app, "POST", INFER, b"{").status == 400
    answer = ask(app, "GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    samples = [line for line in lines if not line.startswith("# ")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    found = dict(line.rsplit(" ", 1) for line in samples)
    labels = 'model="double",version="1"'
    assert found[f'braces_responses_total{{{labels},status="200"}}'] == "1"
    assert found[f'braces_responses_total{{{labels},status="400"}}'] == "1"
    assert found[f"braces_elements_total{{{labels}}}"] == "2"
    assert found[f"braces_request_seconds_count{{{labels}}}"] == "2"
    assert found[f'braces_request_seconds_bucket{{{labels},le="+Inf"}}'] == "2"
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    bare = {
        re.sub(r"_(bucket|sum|count)$", "", line.split("{")[0].split()[0]) for line in samples
    }
    assert bare == typed


def test_the_access_log_is_json_and_off_by_default(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "braces.access"):
        ask(make("double"), "GET", "/v2")
        assert not [r for r in caplog.records if r.name == "braces.access"]
        ask(make("double", access_log=True), "GET", "/v2/models/none\n")
    (record,) = [r for r in caplog.records if r.name == "braces.access"]
    line = json.loads(record.getMessage())
    assert (line["method"], line["status"], line["path"]) == ("GET", 404, "/v2/models/none\n")
    assert "\n" not in record.getMessage()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_batch": 0}, "invalid `max_batch`: 0"),
        ({"max_batch": 2.5}, "invalid `max_batch`"),
        ({"wait_ms": -1.0}, "invalid `wait_ms`"),
        ({"wait_ms": float("nan")}, "invalid `wait_ms`"),
        ({"timeout_s": 0}, "invalid `timeout_s`"),
        ({"max_queue": True}, "invalid `max_queue`"),
        ({"token": "short"}, "shorter than 16"),
        ({"token": "with a space and more"}, "characters that a header"),
        ({"sizes": {"t": ()}}, "sizes['t']"),
    ],
)
def test_options_out_of_range_are_errors(make: Make, options: Any, text: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(text)):
        make("double", **options)


def test_sizes_that_are_not_listed_are_refused(tmp_path: Any) -> None:
    with br.Program() as prog:
        y = br.sum(br.data("x", ["n", "t"]), axis=1)
    br.save_model(tmp_path / "m.model", prog, br.Scope(), ["x"], {"y": y})
    app = br.create_inference_app(tmp_path / "m.model", max_batch=2, sizes={"t": (4, 8)})
    for width, status in ((4, 200), (8, 200), (5, 400)):
        sent = body(entry("x", np.ones((1, width), np.float32)))
        answer = ask(app, "POST", "/v2/models/m/infer", sent)
        assert answer.status == status
    assert "t=5" in answer.error
    app.close()


def test_a_loop_that_does_not_end_is_stopped(tmp_path: Any) -> None:
    with br.Program() as prog:
        x, loop = br.data("x", ["n"]), br.create_while()
        with loop.block() as block:
            value = block.add_memory(init=x)
            block.set_condition(br.all(value < 10.0))
            value.update(br.sin(value) + 0.01)
        y = loop.final(value)
    br.save_model(tmp_path / "m.model", prog, br.Scope(), ["x"], {"y": y})
    app = br.create_inference_app(tmp_path / "m.model", timeout_s=0.3, max_batch=2)

    async def work() -> None:
        await wait_ready(app)
        path = "/v2/models/m/infer"
        endless, short = (body(entry("x", np.float32([start]))) for start in (1.0, 11.0))
        assert (await call(app, "POST", path, endless)).status in (500, 504)
        await asyncio.sleep(0.3)
        answer = await call(app, "POST", path, short)
        assert answer.json["outputs"][0]["data"] == [11.0]

    run(work())
    app.close()


def test_a_busy_event_loop_does_not_make_a_body_late(make: Make) -> None:
    app = make("double", body_timeout_s=0.2)
    sent = body(entry("x", X))

    async def work() -> None:
        await wait_ready(app)
        pieces = iter([sent[:20], sent[20:]])

        async def receive() -> Any:
            await asyncio.sleep(0.1)
            piece = next(pieces)
            return {"type": "http.request", "body": piece, "more_body": piece != sent[20:]}

        from braces.serving.http.bodies import read_body

        request = type("Request", (), {"headers": {}, "receive": staticmethod(receive)})
        reading = asyncio.ensure_future(read_body(request, app.engine.settings))
        await asyncio.sleep(0.12)
        time.sleep(0.3)  # the second piece and the time limit are due together
        assert await reading == sent

    run(work())
