"""Workers that are actors of Ray, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import braces as br
from tests.remote.workers import batches, drawing, same

ray: Any = pytest.importorskip("ray", reason="Ray is an extra")

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", autouse=True)
def started() -> Iterator[None]:
    """Ray on this machine."""
    ray.init(_node_ip_address="127.0.0.1", num_cpus=3, include_dashboard=False)
    yield
    ray.shutdown()


def kill(worker: br.remote.Worker) -> None:
    link: Any = worker._asked
    ray.kill(link._actor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_actor_gives_what_a_run_here_gives_also_when_it_was_killed() -> None:
    program, drawn, scope = drawing()
    exe, feeds = br.Executor(), batches(3)
    with br.remote.worker("ray") as one:
        one.load(program, scope)
        same(one.run(feeds[0], drawn), exe.run(program, scope, feeds[0], drawn))
        with pytest.raises(br.FeedError, match="shape mismatch of the feed `x`"):
            one.run({"x": [[1.0]]}, drawn)
        kill(one)
        same(one.run(feeds[1], drawn), exe.run(program, scope, feeds[1], drawn))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_batches_over_actors_keep_their_order_when_one_is_killed() -> None:
    program, drawn, scope = drawing()
    exe, feeds, found = br.Executor(), batches(40), []
    with br.remote.Workers(["ray", "ray"]) as workers:
        workers.load(program, scope)
        for result in workers.map(feeds, drawn):
            found.append(result)
            if len(found) == 10:
                kill(workers.workers[0])
    for got, feed in zip(found, feeds, strict=True):
        same(got, exe.run(program, scope, feed, drawn))
