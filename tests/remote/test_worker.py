"""Results of a worker equal those of a local executor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.dtypes import COMPUTED
from braces.extend.types import STORED
from tests.remote.workers import batches, connected, drawing, linear, ready, same, training

pytestmark = pytest.mark.unoptimized


def test_a_pruned_program_gives_what_it_gives_here(server: br.remote.Server, mode: str) -> None:
    program, y, scope = linear()
    with program:
        br.log(y)
    feed = {"x": [[1.0, 10.0]]}
    with connected(server, mode=mode) as one:
        one.load(br.prune(program, [y]), scope)
        same([one.run(feed, y)], [br.Executor(mode).run(program, scope, feed, y)])
        assert one.run(feed, {"a": "y"}) == {"a": np.float32(32.0)}
        assert one.run(feed, [y]) == [np.float32(32.0)]
        assert one.run(feed) == []


def test_a_plain_block_runs_with_the_values_of_a_scope(one: br.remote.Worker) -> None:
    with br.Program() as program:
        x = br.data("x", ["batch", 2])
        with br.block("enc"):
            h = br.tanh(x @ br.parameter("w", [2, 3]), name="h")
        br.sum(h)
    scope, feed = ready(program), {"x": np.ones((4, 2), np.float32)}
    one.load(program.blocks[1], scope)
    (name,) = program.blocks[1].desc.results
    assert set(one.values()) == {"enc/w"}
    same([one.run(feed, name)], [br.Executor().run(program, scope, feed, h)])


def test_a_block_learns_sizes_from_the_values_it_is_sent_with(one: br.remote.Worker) -> None:
    with br.Program() as program:
        br.multiply(br.data("x", ["n"]), br.data("y", ["n"]), name="z")
    scope = br.Scope()
    scope.var("y").set(np.array([1.0, 2.0], np.float32))
    one.load(program.block(0), scope)
    same([one.run({"x": [3.0, 4.0]}, "z")], [np.array([3.0, 8.0], np.float32)])
    with pytest.raises(br.FeedError, match="declared"):
        one.run({"x": [3.0]}, "z")


def test_inner_values_and_their_gradients_are_fetched(
    server: br.remote.Server, mode: str
) -> None:
    with br.Program() as program:
        x, rnn = br.data("x", ["t", 3]), br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(init=br.zeros([3]))
            h.update(br.tanh(h.pre(1) + step.add_input(x), name="act"))
        loss = br.sum(rnn.final(h) ** 2, name="loss")
    path, feed = "loop_0/body/act", {"x": np.linspace(-1, 1, 12).reshape(4, 3).astype("f")}
    fetch = [loss, path, br.grad_of(loss, path)]
    with connected(server, mode=mode) as one:
        one.load(program)
        same(one.run(feed, fetch), br.Executor(mode).run(program, br.Scope(), feed, fetch))
        named = one.run(feed, {"slope": br.grad_of("loss", path)})
        assert named["slope"].shape == (4, 3)
        with pytest.raises(br.UnknownNameError, match="lost"):
            one.run(feed, br.grad_of("lost", path))


def test_draws_are_those_of_runs_in_the_scope(one: br.remote.Worker) -> None:
    program, drawn, scope = drawing()
    one.load(program, scope)
    exe, (feed, *_) = br.Executor(), batches(3)
    for _ in range(3):
        same(one.run(feed, drawn), exe.run(program, scope, feed, drawn))
    same(one.run(feed, drawn, seed=5), exe.run(program, scope, feed, drawn, seed=5))
    with pytest.raises(br.FeedError):
        one.run({"x": [[1.0]]}, drawn)  # which does not count
    same(one.run(feed, drawn), exe.run(program, scope, feed, drawn))
    same(one.values().values(), scope.state_dict().values())


def test_training_elsewhere_is_training_here(one: br.remote.Worker) -> None:
    program, loss, scope = training()
    one.load(program, scope)
    exe, feed = br.Executor(), {"x": [[1.0, 2.0], [3.0, -1.0]], "y": [[1.0], [0.0]]}
    for _ in range(3):
        same([one.run(feed, loss)], [exe.run(program, scope, feed, loss)])
    other = br.Scope()
    other.update(one.values())
    assert other.names() == scope.names()
    same(other.state_dict().values(), scope.state_dict().values())


def test_what_happens_to_the_scope_or_a_feed_later_is_not_sent(one: br.remote.Worker) -> None:
    program, y, scope = linear()
    one.load(program, scope)
    scope.var("w").set(np.zeros((2, 1), np.float32))
    rows = np.ones((1, 2), np.float32)
    futures = []
    for number in range(20):
        rows[:] = number
        futures.append(one.submit({"x": rows}, y))
    assert [float(future.result()[0, 0]) for future in futures] == [5.0 * n for n in range(20)]


VALUES: list[Any] = [
    *(np.ones((2, 3)).astype(dtype) for dtype in [*COMPUTED.values(), *STORED.values()]),
    np.zeros((0, 4), np.float32),
    np.array(2.5),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
]


def test_every_dtype_and_shape_comes_back(one: br.remote.Worker) -> None:
    with br.Program() as program:
        for number, value in enumerate(VALUES):
            x = br.data(f"x{number}", value.shape, dtype=value.dtype)
            br.expand_dims(x, axis=0, name=f"y{number}")
    one.load(program)
    feed = {f"x{number}": value for number, value in enumerate(VALUES)}
    found = one.run(feed, [f"y{number}" for number in range(len(VALUES))])
    same(found, [value[None] for value in VALUES])
    assert np.dtype(ml_dtypes.bfloat16) in {value.dtype for value in found}
    found[0][:] = 0  # and may be written to


# ---- errors ----------------------------------------------------------------------------------


def told(run: Any) -> tuple[type[Exception], str]:
    with pytest.raises(br.BracesError) as caught:
        run()
    return caught.type, str(caught.value)


def failing() -> tuple[br.Program, dict[str, Any]]:
    with br.Program() as program:
        rows = br.take(br.data("x", [3]), br.data("i", ["n"], dtype="int32"), axis=0)
        br.log(rows, name="y")
        most, loop = br.data("n", [], dtype="int32"), br.create_while(max_trips=5)
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0))
            body.set_condition(count < most)
            count.update(count + 1)
        br.add(loop.final(count), 0, name="trips")
    return program, {"x": [1.0, -1.0, 2.0], "i": [0], "n": 2}


@pytest.mark.parametrize(
    ("feed", "fetch"),
    [
        ({"i": [7]}, "y"),
        ({"n": 50}, "trips"),
        ({"x": [1.0]}, "y"),
        ({"i": [0.5]}, "y"),
        ({"z": 1}, "y"),
        ({}, "nothing"),
    ],
)
def test_an_error_is_the_one_that_a_run_here_raises(
    one: br.remote.Worker, feed: dict[str, Any], fetch: str
) -> None:
    program, good = failing()
    one.load(program)
    scope, given = br.Scope(), {**good, **feed}
    kind, text = told(lambda: one.run(given, fetch))
    assert (kind, text) == told(lambda: br.Executor().run(program, scope, given, fetch))
    if feed.keys() & {"n"} or feed == {"i": [7]}:
        assert f"{__file__}:" in text  # the user's own line
    assert one.run(good, "trips") == 2


def test_data_that_is_missing_is_told_by_the_worker(one: br.remote.Worker) -> None:
    program, _ = failing()
    one.load(program)
    scope = br.Scope()
    here = told(lambda: br.Executor().run(program, scope, {}, "y"))
    assert told(lambda: one.run({}, "y")) == here


def test_a_worker_without_a_program_says_so(one: br.remote.Worker) -> None:
    with pytest.raises(br.ProgramError, match="no program"):
        one.run({}, "y")
    with pytest.raises(br.ProgramError, match="no program"):
        one.values()
    with pytest.raises(br.ProgramError, match="expected a program, got 'y = x'"):
        one.load("y = x")  # type: ignore[arg-type]


def test_values_that_are_missing_or_do_not_fit_are_not_sent(one: br.remote.Worker) -> None:
    program, _, scope = linear()
    with pytest.raises(br.UninitializedError):
        one.load(program)
    scope.var("w").set(np.zeros(3))
    with pytest.raises(br.ShapeError):
        one.load(program, scope)


def test_a_device_that_is_not_there_is_told_by_the_worker(server: br.remote.Server) -> None:
    program, _, scope = linear()
    with connected(server, device="tpu:7") as one, pytest.raises(br.DeviceError, match="tpu"):
        one.load(program, scope)


def test_a_run_takes_no_longer_than_it_may(one: br.remote.Worker) -> None:
    with br.Program() as program:
        most, loop = br.data("n", []), br.create_while()
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0.0))
            body.set_condition(count < most)
            count.update(count + 1.0)  # which has an end, at 2^24
        br.add(loop.final(count), 0.0, name="trips")
    one.load(program)
    with pytest.raises(br.RunError, match="timeout_s"):
        one.run({"n": 1e9}, "trips", timeout_s=0.5)
    assert one.run({"n": 0.0}, "trips") == 0.0


# ---- several clients, and the end ------------------------------------------------------------


def test_two_clients_at_a_time_know_nothing_of_each_other(server: br.remote.Server) -> None:
    program, y, scope = linear()
    with connected(server) as one, connected(server) as other:
        one.load(program, scope)
        scope.var("w").set(np.ones((2, 1), np.float32))
        other.load(program, scope)

        def runs(worker: br.remote.Worker) -> list[float]:
            return [float(worker.run({"x": [[n, n]]}, y)[0, 0]) for n in range(50)]

        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(runs, [one, other]))
    assert found == [[5.0 * n for n in range(50)], [2.0 * n for n in range(50)]]


def test_a_worker_that_was_closed_says_so(one: br.remote.Worker) -> None:
    program, y, scope = linear()
    one.load(program, scope)
    one.close()
    one.close()
    with pytest.raises(br.RemoteError, match="closed"):
        one.run({"x": [[1.0, 1.0]]}, y)
    assert "closed" in repr(one)
