"""Workers that go away: batches keep their order, none is lost, and answers are the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.remote import client
from braces.remote.protocol.messages import DONE, RUN, Message
from tests.remote.workers import (
    TOKEN,
    batches,
    drawing,
    linear,
    listening,
    same,
    training,
)

pytestmark = pytest.mark.unoptimized


class Several:
    """Workers of this process, which are ended and come back at the same place."""

    def __init__(self, count: int) -> None:
        self.stacks = [ExitStack() for _ in range(count)]
        self.addresses = [s.enter_context(listening()).address for s in self.stacks]

    def end(self, number: int) -> None:
        """As a kill would: all connections break at once."""
        self.stacks[number].close()

    def come_back(self, number: int) -> None:
        """A new worker, which knows nothing, at the old address."""
        self.stacks[number].enter_context(listening(self.addresses[number]))

    def close(self) -> None:
        """End all."""
        for number in range(len(self.stacks)):
            self.end(number)


@pytest.fixture
def several() -> Iterator[Several]:
    """Three workers."""
    found = Several(3)
    yield found
    found.close()


def here(program: br.Program, scope: br.Scope, fetch: Any, feeds: Any) -> list[Any]:
    exe = br.Executor()
    return [exe.run(program, scope, feed, fetch) for feed in feeds]


def test_batches_keep_their_order_while_workers_come_and_go(several: Several) -> None:
    program, drawn, scope = drawing()
    feeds, found = batches(60), []
    with br.remote.Workers(several.addresses, TOKEN) as workers:
        workers.load(program, scope)
        for result in workers.map(feeds, drawn):
            found.append(result)
            if len(found) in (10, 25):
                several.end(len(found) % 3)
                several.come_back(len(found) % 3)
        same([len(workers)], [3])
        for got, wanted in zip(found, here(program, scope, drawn, feeds), strict=True):
            same(got, wanted)
        more = list(workers.map(feeds[:2], drawn))  # draws go on
        for got, wanted in zip(more, here(program, scope, drawn, feeds[:2]), strict=True):
            same(got, wanted)


def test_other_workers_take_the_batches_of_one_that_does_not_come_back(
    several: Several,
) -> None:
    program, y, scope = linear()
    feeds, found = batches(30), []
    with br.remote.Workers(several.addresses, TOKEN, timeout_s=0.2) as workers:
        workers.load(program, scope)
        for result in workers.map(feeds, y):
            found.append(result)
            if len(found) == 10:
                several.end(0)
        same(found, here(program, scope, y, feeds))
        several.close()
        with pytest.raises(br.RemoteError, match=r"no worker answers|all workers have ended"):
            list(workers.map(feeds, y))
        several.come_back(1)
        same(list(workers.map(feeds, y)), here(program, scope, y, feeds))


@pytest.mark.thorough
def test_a_seed_determines_the_draws_of_batches_for_any_number_of_workers(
    several: Several,
) -> None:
    program, drawn, scope = drawing()
    found = []
    for count in (1, 3):
        with br.remote.Workers(several.addresses[:count], TOKEN) as workers:
            workers.load(program, scope)
            found.append(list(workers.map(batches(9), drawn, seed=11)))
    for one, three in zip(*found, strict=True):
        same(one, three)


def test_a_batch_that_fails_raises_in_its_place(several: Several) -> None:
    program, y, scope = linear()
    with br.remote.Workers(several.addresses, TOKEN) as workers:
        workers.load(program, scope)
        for wrong in ({"x": [[1.0]]}, {"z": 1.0}, {}, 7):
            results = workers.map([*batches(5), wrong, *batches(5)], y)
            same([next(results) for _ in range(5)], here(program, scope, y, batches(5)))
            with pytest.raises(br.FeedError):
                next(results)
            assert list(results) == []
        same(list(workers.map(batches(4), y)), here(program, scope, y, batches(4)))


def test_what_batches_raise_is_raised_in_its_place(several: Several) -> None:
    def broken() -> Iterator[Any]:
        yield from batches(5)
        raise LookupError("no more")

    program, y, scope = linear()
    with br.remote.Workers(several.addresses, TOKEN) as workers:
        workers.load(program, scope)
        results = workers.map(broken(), y)
        assert len([next(results) for _ in range(5)]) == 5
        with pytest.raises(LookupError, match="no more"):
            next(results)


def test_batches_are_read_as_they_are_needed(several: Several) -> None:
    read = []

    def endless() -> Iterator[Any]:
        row = np.zeros((1, 2), np.float32)
        while True:
            row[:] = len(read)  # the same array, again and again
            read.append(None)
            yield {"x": row}

    program, y, scope = linear()
    with br.remote.Workers(several.addresses, TOKEN) as workers:
        workers.load(program, scope)
        results = workers.map(endless(), y, ahead=2)
        assert [float(next(results)[0, 0]) for _ in range(20)] == [5.0 * n for n in range(20)]
        assert len(read) <= 20 + 2 * 3
        results.close()
        same(list(workers.map(batches(3), y)), here(program, scope, y, batches(3)))


def test_batches_of_a_program_that_updates_are_refused(several: Several) -> None:
    program, loss, scope = training()
    with br.remote.Workers(several.addresses, TOKEN) as workers:
        with pytest.raises(br.ProgramError, match="no program"):
            workers.map([], loss)
        workers.load(program, scope)
        with pytest.raises(br.ProgramError, match="depend on each other"):
            workers.map([], loss)


def test_what_a_program_had_updated_is_not_made_up(several: Several) -> None:
    program, loss, scope = training()
    feed = {"x": [[1.0, 2.0]], "y": [[1.0]]}
    with br.remote.worker(several.addresses[0], TOKEN) as one:
        one.load(program, scope)
        first = one.run(feed, loss)
        scope.update(one.values())
        several.end(0)
        several.come_back(0)
        with pytest.raises(br.RemoteError, match=r"updated are lost: .*w"):
            one.run(feed, loss)
        with pytest.raises(br.ProgramError, match="no program"):
            one.run(feed, loss)
        one.load(program, scope)
        assert one.run(feed, loss) < first


def test_a_run_that_ends_every_worker_is_given_up(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, y, scope = linear()
    with monkeypatch.context() as patched:
        patched.setattr("braces.remote.serving.session.Session.answer", ending)
        one = br.remote.worker(several.addresses[0], TOKEN)
        one.load(program, scope)
        with pytest.raises(br.RemoteError, match="3 times in this run"):
            one.run({"x": [[1.0, 10.0]]}, y)
    with one:
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0


def ending(_: Any, request: Message) -> Message:
    """What a worker does that each run ends."""
    if request.kind == RUN:
        raise ConnectionError
    return Message(DONE)


def sleeping(*_: Any) -> dict[str, Any]:
    time.sleep(2.0)
    return {}


def test_a_worker_that_does_not_answer_is_given_up(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, y, scope = linear()
    monkeypatch.setattr(client, "GRACE_S", 0.1)
    with br.remote.worker(several.addresses[0], TOKEN) as one:
        one.load(program, scope)
        with monkeypatch.context() as patched:
            patched.setattr("braces.remote.serving.session.Session._run", sleeping)
            with pytest.raises(br.RunError, match="did not answer"):
                one.run({"x": [[1.0, 10.0]]}, y, timeout_s=0.1)
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0


def test_a_worker_closed_in_a_run_raises_there(
    several: Several, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, y, scope = linear()
    one = br.remote.worker(several.addresses[0], TOKEN)
    one.load(program, scope)
    monkeypatch.setattr("braces.remote.serving.session.Session._run", sleeping)
    waiting = [one.submit({"x": [[1.0, 10.0]]}, y) for _ in range(3)]
    time.sleep(0.1)
    begun = time.monotonic()
    one.close()
    assert time.monotonic() - begun < 1.5
    with pytest.raises(br.RemoteError, match="closed"):
        waiting[0].result()
    assert all(future.cancelled() for future in waiting[1:])


def test_workers_that_cannot_all_be_reached_are_none(several: Several) -> None:
    several.end(1)
    with pytest.raises(br.RemoteError, match="no worker answers"):
        br.remote.Workers(several.addresses, TOKEN, timeout_s=0.1)
    with pytest.raises(br.ProgramError, match="at least one worker, got none"):
        br.remote.Workers(0)
    with br.remote.worker(several.addresses[0], TOKEN) as one:
        assert one.address == several.addresses[0]
