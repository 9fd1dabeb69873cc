"""Dynamic batching: joined requests, padding, failures, the queue and clients that leave."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.dtypes import FLOAT32
from braces.serving.batching import quick_sizes
from braces.serving.batching.batcher import Batcher
from braces.serving.batching.quick_sizes import QuickSizes
from braces.serving.http.application import InferenceApp
from braces.serving.models.served_model import ServedModel, Signature, serve_model
from braces.serving.protocol.refusal import RefusalError
from braces.serving.protocol.tensor_spec import TensorSpec
from braces.storage.model import NamedProgram
from tests.serving.asgi import body, call, entry, run, values, wait_ready

Array = np.ndarray[Any, Any]
SPECS = {name: TensorSpec(name, FLOAT32, ("n", "k")) for name in "xy"}
JOINED = Signature(
    {"x": SPECS["x"]}, {"y": SPECS["y"]}, frozenset("x"), frozenset("y"), rows="n"
)


class Model:
    """A model that waits for `go`, and notes its inputs; a negative input fails."""

    def __init__(self, signature: Signature = JOINED, is_open: bool = True) -> None:
        self.feeds: list[Array] = []
        self.go = threading.Event()
        if is_open:
            self.go.set()
        self.served = ServedModel("m", "1", "test", signature, self.run, lambda _: None)

    def run(self, feed: Any) -> Any:
        self.go.wait(10)
        self.feeds.append(feed["x"])
        if (feed["x"] < 0).any():
            raise br.FeedError("negative")
        return {"y": feed["x"] * 2}


def rows(*numbers: float, width: int = 1) -> dict[str, Array]:
    return {"x": np.repeat(np.float32(numbers)[:, None], width, axis=1)}


async def busy_batcher(model: Model, **options: Any) -> tuple[Batcher, Any]:
    """Return a batcher whose model runs a first request."""
    settings = {"sizes": (1, 2, 4), "wait_s": 0.0, "most_waiting": 10} | options
    batcher = Batcher(model.served, **settings)
    first = batcher.submit(rows(9))
    while not batcher.is_running:
        await asyncio.sleep(0.001)
    return batcher, first


def test_the_next_batch_gathers_while_one_runs() -> None:
    model = Model(is_open=False)

    async def work() -> list[Any]:
        batcher, first = await busy_batcher(model)
        others = [batcher.submit(rows(i)) for i in range(3)]
        model.go.set()
        outputs = await asyncio.gather(first, *others)
        batcher.close()
        assert batcher.metrics.elements == 4
        assert batcher.metrics.padded == 1
        return outputs

    outputs = run(work())
    assert [out["y"].tolist() for out in outputs] == [[[18.0]], [[0.0]], [[2.0]], [[4.0]]]
    assert [feed.ravel().tolist() for feed in model.feeds] == [[9], [0, 1, 2, 2]]


def test_requests_of_other_shapes_are_not_joined() -> None:
    model = Model(is_open=False)

    async def work() -> None:
        batcher, first = await busy_batcher(model)
        mixed = [batcher.submit(rows(i, width=1 + i % 2)) for i in range(4)]
        model.go.set()
        outputs = await asyncio.gather(first, *mixed)
        assert [out["y"].shape for out in outputs[1:]] == [(1, 1), (1, 2), (1, 1), (1, 2)]
        batcher.close()

    run(work())
    assert [feed[:, 0].tolist() for feed in model.feeds] == [[9], [0, 2], [1, 3]]


def test_large_requests_are_split_and_small_ones_fill_up() -> None:
    model = Model(is_open=False)

    async def work() -> None:
        batcher, first = await busy_batcher(model)
        large, small = batcher.submit(rows(*range(9))), batcher.submit(rows(1, 2, 3))
        model.go.set()
        await first
        assert (await large)["y"].ravel().tolist() == [2.0 * i for i in range(9)]
        assert (await small)["y"].ravel().tolist() == [2.0, 4.0, 6.0]
        batcher.close()

    run(work())
    assert [len(feed) for feed in model.feeds] == [1, 4, 4, 1, 4]


def test_quick_runs_take_place_in_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_sizes, "QUICK_S", 1.0)
    spec = TensorSpec("x", FLOAT32, ("n", 1))
    signature = replace(JOINED, inputs={"x": spec})
    threads: list[int] = []
    model = Model(signature)

    def noted(feed: Any) -> Any:
        threads.append(threading.get_ident())
        return model.run(feed)

    served = replace(model.served, run=noted, is_steady=True)

    async def work() -> None:
        batcher = Batcher(served, (1, 2, 4), 0.0, 100)
        for number in (1.0, 2.0):
            assert (await batcher.submit(rows(number)))["y"].tolist() == [[2 * number]]
        many = [batcher.submit(rows(*range(i))) for i in (3, 1, 3, 2, 0, 9)]
        many[1].cancel()
        outputs = await asyncio.gather(*many, return_exceptions=True)
        sizes = [len(out["y"]) for out in outputs if isinstance(out, dict)]
        assert sizes == [3, 3, 2, 0, 9]
        assert batcher.waiting == 0
        failing = [batcher.submit(rows(-1)), batcher.submit(rows(1))]
        failed, fine = await asyncio.gather(*failing, return_exceptions=True)
        assert isinstance(failed, br.FeedError)
        assert isinstance(fine, dict)
        batcher.close()

    run(work())
    here = threading.get_ident()
    assert threads[0] != here
    assert threads[1] == here


def test_slow_and_unsteady_runs_take_place_in_the_thread() -> None:
    times = QuickSizes()
    for seconds, is_quick in ((0.0001, True), (0.1, False), (0.00005, True), (0.0001, True)):
        times.add(4, seconds)
        assert times.is_quick(4) is is_quick
    assert not times.is_quick(2)
    for seconds in (0.00005, 0.1):  # one slow run may be another process
        times.add(8, seconds)
    assert times.is_quick(8)
    times.add(8, 0.1)
    assert not times.is_quick(8)


def test_programs_with_loops_are_not_steady(make: Callable[..., InferenceApp]) -> None:
    app = make("double")
    assert app.engine.find("double").is_steady
    with br.Program() as prog:
        x = br.data("x", ["n"])
        y = br.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (0, x))[1]
    entry = NamedProgram(prog, ("x",), {"y": y.name})
    model = br.Model({"predict": entry}, br.Scope(), br.Executor())
    assert not serve_model(model, "m", "1", "test").is_steady


def test_an_empty_batch_runs_alone() -> None:
    model = Model()

    async def work() -> None:
        batcher = Batcher(model.served, (1, 2, 4), 0.0, 10)
        assert (await batcher.submit({"x": np.zeros((0, 1), np.float32)}))["y"].shape == (0, 1)
        batcher.close()

    run(work())


def test_an_invalid_request_does_not_spoil_its_batch() -> None:
    model = Model(is_open=False)

    async def work() -> list[Any]:
        batcher, first = await busy_batcher(model)
        others = [batcher.submit(rows(i)) for i in (1, -1, 3)]
        model.go.set()
        outcomes = await asyncio.gather(first, *others, return_exceptions=True)
        assert batcher.metrics.repeated == 1
        batcher.close()
        return outcomes

    outcomes = run(work())
    assert isinstance(outcomes[2], br.FeedError)
    assert [out["y"].item() for out in (*outcomes[:2], outcomes[3])] == [18.0, 2.0, 6.0]


def test_a_full_queue_refuses_with_retry_after() -> None:
    model = Model(is_open=False)

    async def work() -> None:
        batcher, first = await busy_batcher(model, most_waiting=2)
        others = [batcher.submit(rows(i)) for i in range(2)]
        with pytest.raises(RefusalError) as caught:
            batcher.submit(rows(3))
        assert caught.value.status == 503
        assert caught.value.headers["Retry-After"] == "1"
        assert batcher.metrics.refused == 1
        model.go.set()
        await asyncio.gather(first, *others)
        assert (await batcher.submit(rows(3)))["y"].item() == 6.0
        batcher.close()

    run(work())


def test_a_request_whose_client_left_is_not_computed() -> None:
    model = Model(is_open=False)

    async def work() -> None:
        batcher, first = await busy_batcher(model)
        others = [batcher.submit(rows(i)) for i in range(3)]
        others[1].cancel()
        model.go.set()
        await asyncio.gather(first, others[0], others[2])
        assert batcher.metrics.dropped == 1
        batcher.close()

    run(work())
    assert model.feeds[1].ravel().tolist() == [0, 2]


def test_an_idle_model_waits_for_more_requests_at_most_wait_s() -> None:
    model = Model()

    async def work() -> None:
        batcher = Batcher(model.served, (1, 2, 4), 0.05, 10)
        first = batcher.submit(rows(1))
        await asyncio.sleep(0.005)
        second = batcher.submit(rows(2))
        await asyncio.gather(first, second)
        full = [batcher.submit(rows(i)) for i in range(4)]
        async with asyncio.timeout(0.04):  # a full batch does not wait
            await asyncio.gather(*full)
        batcher.close()

    run(work())
    assert [len(feed) for feed in model.feeds] == [2, 4]


def test_a_shutdown_finishes_the_batch_and_refuses_the_queue() -> None:
    model = Model(is_open=False)

    async def work() -> None:
        batcher, first = await busy_batcher(model)
        waiting = batcher.submit(rows(1))
        batcher.close()
        model.go.set()
        assert (await first)["y"].item() == 18.0
        for later in (waiting, None):
            with pytest.raises(RefusalError) as caught:
                await (later or batcher.submit(rows(2)))
            assert caught.value.status == 503

    run(work())


def test_models_whose_elements_depend_on_each_other_are_not_joined(
    make: Callable[..., InferenceApp], caplog: pytest.LogCaptureFixture
) -> None:
    app, x = make("centered"), np.float32([[1, 2, 3], [3, 4, 5]])
    sent = [body(entry("x", x + i)) for i in range(6)]

    async def work() -> list[Any]:
        with caplog.at_level(logging.INFO, "braces.serving"):
            await wait_ready(app)
        path = "/v2/models/centered/infer"
        return await asyncio.gather(*(call(app, "POST", path, each) for each in sent))

    for answer in run(work()):
        np.testing.assert_allclose(values(answer, (2, 3)), x - x.mean(0), atol=1e-5)
    assert any("mean mixes batch elements" in line for line in caplog.messages)


def test_joined_requests_get_their_own_elements(make: Callable[..., InferenceApp]) -> None:
    app = make("double", "picked", wait_ms=5.0)
    table = np.float32([4, 5, 6, 7])

    async def work() -> None:
        await wait_ready(app)
        counts = [1 + i % 5 for i in range(24)]
        xs = [np.full((count, 3), i, np.float32) for i, count in enumerate(counts)]
        answers = await asyncio.gather(
            *(call(app, "POST", "/v2/models/double/infer", body(entry("x", x))) for x in xs)
        )
        for answer, x in zip(answers, xs, strict=True):
            np.testing.assert_array_equal(values(answer, x.shape), 2 * x)
        sent = [
            body(entry("index", np.int32([i % 5])), entry("table", table + i // 5))
            for i in range(20)
        ]
        path = "/v2/models/picked/infer"
        answers = await asyncio.gather(*(call(app, "POST", path, each) for each in sent))
        for i, answer in enumerate(answers):
            if i % 5 == 4:
                assert answer.status == 400
                continue
            found = {out["name"]: out["data"] for out in answer.json["outputs"]}
            assert found == {"y": [table[i % 5] + i // 5], "sum": [22.0 + 4 * (i // 5)]}

    run(work())


def test_the_end_waits_for_the_batch_that_runs(make: Callable[..., InferenceApp]) -> None:
    app = make("double")

    async def work() -> None:
        await wait_ready(app)

    run(work())
    threads = [batcher.thread for batcher in app.engine.batchers().values()]
    assert all(thread.is_alive() for thread in threads)
    app.close()
    app.engine.join(10.0)
    assert not any(thread.is_alive() for thread in threads)
