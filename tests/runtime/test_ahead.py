"""Feeds are made ready by a thread while runs compute."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import FeedError, ProgramError
from braces.runtime import prefetch
from braces.runtime.prefetch import end_producers

pytestmark = pytest.mark.unoptimized


def summing() -> tuple[br.Program, br.Var]:
    with br.Program() as prog:
        x, y = br.data("x", ["b", 2]), br.data("y", ["b"], dtype="float64")
        total = br.sum(x) + br.cast(br.sum(y), "float32")
    return prog, total


def batches(number: int) -> Iterator[dict[str, Any]]:
    for i in range(number):
        yield {"x": np.full((i + 1, 2), i, "float64"), "y": np.full(i + 1, 0.5)}


def reading() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "braces feeds"]


@pytest.mark.parametrize("ahead", [1, 5])
def test_runs_on_feeds_made_ahead_give_what_runs_on_the_batches_give(
    ahead: int, mode: str
) -> None:
    prog, total = summing()
    exe, scope = br.Executor(mode=mode), br.Scope()
    feeds = exe.feeds(prog, batches(3), ahead=ahead)
    ready = [exe.run(prog, scope, feed=feed, fetch=total) for feed in feeds]
    assert ready == [exe.run(prog, scope, feed=batch, fetch=total) for batch in batches(3)]
    assert list(feeds) == []
    feeds.close()
    assert not reading()


def test_feeds_have_the_declared_dtypes_and_64_bits_are_kept() -> None:
    prog, _ = summing()
    with br.Executor().feeds(prog, batches(1)) as feeds:
        feed = next(feeds)
    assert {name: str(value.dtype) for name, value in feed.items()} == {
        "x": "float32",
        "y": "float64",
    }


def test_a_variable_may_name_what_is_fed() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
    batch: Any = {x: [1, 2]}
    assert list(next(br.Executor().feeds(prog, [batch]))) == ["x"]


def test_an_iterator_may_fill_the_same_array_again() -> None:
    buffer, written = np.zeros(64, "float32"), threading.Event()

    def filled() -> Iterator[dict[str, Any]]:
        for i in range(3):
            buffer[:] = i
            yield {"x": buffer}
        buffer[:] = -1
        written.set()

    with br.Program() as prog:
        out = br.sum(br.data("x", [64]))
    exe, scope = br.Executor(), br.Scope()
    feeds = exe.feeds(prog, filled(), ahead=4)
    assert written.wait(60)
    assert [exe.run(prog, scope, feed=feed, fetch=out) for feed in feeds] == [0, 64, 128]


def test_the_number_of_prefetched_batches_is_limited() -> None:
    given = list[int]()

    def counted() -> Iterator[dict[str, Any]]:
        for i in range(100):
            given.append(i)
            yield {"x": np.zeros((1, 2)), "y": np.zeros(1)}

    feeds = br.Executor().feeds(summing()[0], counted(), ahead=2)
    for _ in range(10):
        next(feeds)
        assert len(given) <= 10 + 2
    feeds.close()
    assert len(given) <= 12


def test_what_the_iterator_raises_comes_in_its_place_with_its_own_trace() -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield from batches(2)
        raise OSError("the file ended early")

    feeds = br.Executor().feeds(summing()[0], failing())
    for _ in range(2):
        next(feeds)
    with pytest.raises(OSError, match="ended early") as raised:
        next(feeds)
    assert "in failing" in "".join(traceback.format_tb(raised.value.__traceback__))
    assert list(feeds) == []


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({"x": np.zeros((1, 2)), "z": 1}, "unknown data `z`."),
        ({"x": np.zeros((1, 2), "int32")}, "expected floats, got an array of int32"),
        ([1, 2], "expected a dict for a batch"),
    ],
)
def test_a_batch_that_is_wrong_is_refused_in_its_place(batch: Any, says: str) -> None:
    feeds = br.Executor().feeds(summing()[0], [*batches(1), batch])
    next(feeds)
    with pytest.raises(FeedError, match=says):
        next(feeds)


def test_what_is_closed_gives_nothing_more_and_closes_the_generator() -> None:
    closed = list[str]()

    def endless() -> Iterator[dict[str, Any]]:
        try:
            while True:
                yield from batches(1)
        finally:
            closed.append(threading.current_thread().name)

    with br.Executor().feeds(summing()[0], endless()) as feeds:
        next(feeds)
    assert closed == ["braces feeds"]
    assert list(feeds) == []
    feeds.close()


@pytest.mark.usefixtures("frozen_heap")
def test_letting_go_of_feeds_stops_their_thread() -> None:
    feeds = br.Executor().feeds(summing()[0], batches(1000))
    next(feeds)
    (thread,) = reading()
    del feeds
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_what_cannot_be_read_one_by_one_is_refused_at_once() -> None:
    exe, prog = br.Executor(), summing()[0]
    with pytest.raises(FeedError, match="expected an iterable of batches, got 5"):
        exe.feeds(prog, 5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ProgramError, match="invalid ahead=0"):
        exe.feeds(prog, [], ahead=0)
    with pytest.raises(ProgramError, match="expected a program, got"):
        exe.feeds([], prog)  # pyright: ignore[reportArgumentType]
    assert not reading()


ABANDONED = """
import numpy as np
import braces as br
with br.Program() as prog:
    total = br.sum(br.data("x", ["b", 256]))
exe, scope = br.Executor(), br.Scope()
batches = ({"x": np.ones((4096, 256), "float32")} for _ in range(1000))
for feed in exe.feeds(prog, batches):
    exe.run(prog, scope, feed, total)
    break
"""


@pytest.mark.thorough
def test_feeds_that_are_open_do_not_abort_the_end_of_a_process() -> None:
    for _ in range(12):
        ended = subprocess.run(
            [sys.executable, "-c", ABANDONED], capture_output=True, text=True
        )
        assert (ended.returncode, ended.stderr) == (0, "")


def test_open_feeds_are_stopped_at_the_end_of_a_process() -> None:
    prog, _ = summing()
    feeds = br.Executor().feeds(prog, batches(100))
    next(feeds)
    assert len(reading()) == 1
    end_producers()
    assert not reading()
    feeds.close()


def test_an_iterator_that_waits_does_not_hold_up_the_end_of_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefetch, "EXIT_WAIT_S", 0.1)
    waits = threading.Event()

    def endless() -> Iterator[dict[str, Any]]:
        yield from batches(1)
        waits.wait()

    feeds = br.Executor().feeds(summing()[0], endless())
    next(feeds)
    begun = time.monotonic()
    end_producers()
    assert time.monotonic() - begun < 30
    assert len(reading()) == 1
    waits.set()
    feeds.close()
