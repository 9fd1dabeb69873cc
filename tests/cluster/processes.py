"""A program that tests launch as several processes; tests inspect its output."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import braces as br

ROWS, IDS, WIDTH = 16, 8, 16
STEPS = 3, 1, 1
"""Steps of training before an error in one process, after it, and after one in all."""


def learning(other: bool = False) -> tuple[br.Program, br.Var]:
    """A net with a table and dropout that learns, and its loss."""
    with br.Program() as program:
        ids, x = br.data("ids", ["batch"], dtype="int32"), br.data("x", ["batch", WIDTH])
        hidden = br.fc(x + br.embedding(ids, (IDS, WIDTH)), 32, act="tanh")
        hidden = br.dropout(br.tanh(hidden) if other else hidden, 0.1)
        loss = br.mean((br.fc(hidden, 1) - br.data("y", ["batch", 1])) ** 2)
        br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    return program, loss


def batches(index: int = 0, count: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the feeds of one of several processes."""
    rng = np.random.default_rng(1)
    mine = slice(index * ROWS // count, (index + 1) * ROWS // count)
    while True:
        x = rng.standard_normal((ROWS, WIDTH), np.float32)[mine]
        y = rng.standard_normal((ROWS, 1), np.float32)[mine]
        yield {"x": x, "y": y, "ids": rng.integers(0, IDS, ROWS).astype("int32")[mine]}


def digest(scope: br.Scope) -> str:
    """The bits of what this process has of a scope."""
    raws = [scope.find_var(name).raw for name in sorted(scope.names())]
    parts = [np.asarray(part.data).tobytes() for raw in raws for part in raw.addressable_shards]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def compared() -> None:
    """Compare what is alike, what is not, and what one process does not bring."""
    job = br.cluster.start()
    br.cluster.agree("data", "same")
    for name, value in (("data", f"of {job.process_index}"), ("late", "")):
        try:
            if name != "late" or job.process_index:
                br.cluster.agree(name, value, timeout_s=0.5)
        except br.ClusterError as error:
            print(error)
    br.cluster.agree("end", "same")


def trained() -> None:
    """Train, with an error of one process and two of all in between."""
    job = br.cluster.start()
    layout = br.Layout(br.Mesh({"data": -1}), dims={"batch": "data"}, fsdp="data")
    executor, scope = br.Executor(layout=layout), br.Scope()
    program, loss = learning()
    executor.init(program, scope)
    feeds = batches(job.process_index, job.process_count)

    def refused(program: br.Program, loss: br.Var, feed: dict[str, Any]) -> None:
        before = digest(scope)
        try:
            executor.run(program, scope, feed, fetch=loss)
        except br.BracesError as error:
            print(f"{type(error).__name__}: {error}")
        print("as before" if digest(scope) == before else "changed")

    def train(steps: int) -> None:
        for _ in range(steps):
            value = executor.run(program, scope, next(feeds), fetch=loss)
            print(f"loss {float(value).hex()}")

    first = next(batches(job.process_index, job.process_count))
    train(STEPS[0])
    wrong = first["ids"].copy()
    wrong[0] += 99 * (job.process_index == job.process_count - 1)
    refused(program, loss, {**first, "ids": wrong})
    train(STEPS[1])
    refused(*learning(other=job.process_index == 1), first)
    more = 2 + job.process_index
    refused(program, loss, {name: np.repeat(x, more, axis=0) for name, x in first.items()})
    train(STEPS[2])


def main() -> None:
    """All of it; in the end one process fails, and the others would wait for it."""
    job = br.cluster.start()
    assert br.cluster.start() == job
    assert len(job.local_devices) == 2
    compared()
    trained()
    print(job.process_index, job.process_count, job.found_by, job.attempt)
    if job.process_index == job.process_count - 1:
        raise KeyError("no such thing")
    time.sleep(60)


if __name__ == "__main__":
    main()
