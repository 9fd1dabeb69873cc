"""Data that changes midway, is empty, or whose processes die, for each kind of source.

Each fault is an error within seconds, the last checkpoint is intact, and correct data resumes
from it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import arrays, bits, net, shared_executor

LIMIT_S = 60
BATCHES, GOOD = 6, 3
"""The batches of an epoch, and those before the fault."""


def batch(number: int) -> dict[str, Any]:
    columns = arrays(4 * BATCHES)
    return {name: column[4 * number : 4 * number + 4] for name, column in columns.items()}


def faulty(fault: str, number: int) -> dict[str, Any]:
    """A batch, of which that after the good ones has a fault."""
    good = batch(number)
    if number != GOOD or fault == "none":
        return good
    if fault == "dead":
        os.kill(os.getpid(), signal.SIGKILL)
    return {
        "keys": {"x": good["x"]},
        "more keys": {**good, "z": good["y"]},
        "text": {**good, "y": np.array(["a", "b", "c", "d"])},
        "dtype": {**good, "x": good["x"].astype(complex)},
        "shape": {**good, "x": good["x"][:, :3]},
        "rank": {**good, "x": good["x"][:, 0]},
    }[fault]


class Change:
    """A transform that replaces a batch by the faulty one with its number."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __call__(self, found: dict[str, Any]) -> dict[str, Any]:
        return faulty(self.fault, int(found["number"][0]) // 4)


class Element:
    """The elements of a source of PyTorch or grain: batches by number."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> dict[str, Any]:
        return faulty(self.fault, int(index))


class Own:
    """A data set of the user."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        return (faulty(self.fault, i) for i in range(start, BATCHES))


def rows(fault: str, workers: int = 0) -> Any:
    if workers:
        pytest.importorskip("grain", reason="grain is an extra")
    numbers = {"number": np.arange(4 * BATCHES)}
    return br.batches(numbers, 4, shuffle=False, transform=Change(fault), workers=workers)


def of_grain(fault: str, iterable: bool, workers: int = 0) -> Any:
    grain: Any = pytest.importorskip("grain", reason="grain is an extra")
    pipeline = grain.MapDataset.source(Element(fault))
    if not iterable:
        return br.batches(pipeline, workers=workers)
    pipeline = pipeline.to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )
    if workers:
        pipeline = pipeline.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return br.batches(pipeline)


def of_torch(fault: str, workers: int = 0) -> Any:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is no requirement")
    return br.batches(
        torch.utils.data.DataLoader(Element(fault), batch_size=None, num_workers=workers)
    )


def listed(fault: str) -> list[Any]:
    return [faulty(fault, i) for i in range(BATCHES)]


KINDS: dict[str, Callable[[str], Any]] = {
    "rows": rows,
    "list": lambda fault: br.batches(listed(fault)),
    "function": lambda fault: br.batches(lambda: (faulty(fault, i) for i in range(BATCHES))),
    "iterator": lambda fault: br.batches(faulty(fault, i) for i in range(BATCHES)),
    "torch": of_torch,
    "map of grain": lambda fault: of_grain(fault, iterable=False),
    "iterable of grain": lambda fault: of_grain(fault, iterable=True),
    "plain list": listed,
    "plain generator": lambda fault: (faulty(fault, i) for i in range(BATCHES)),
    "own": Own,
}
PROCESSES: dict[str, Callable[[str], Any]] = {
    "rows": lambda fault: rows(fault, workers=1),
    "torch": lambda fault: of_torch(fault, workers=1),
    "map of grain": lambda fault: of_grain(fault, iterable=False, workers=1),
    "iterable of grain": lambda fault: of_grain(fault, iterable=True, workers=1),
}


def check(folder: Path, data: Any, good: Any, error: type[Exception], step: int) -> None:
    """Check that data fails after a step, and that good data resumes from it."""
    prog, _ = net()
    began = time.monotonic()
    with pytest.raises(br.BracesError) as caught:
        br.fit(prog, data, exe=shared_executor(), folder=folder, save_every=1, quiet=True)
    assert time.monotonic() - began < LIMIT_S
    assert isinstance(caught.value, error)
    assert f"batch {step + 1}" in str(caught.value)
    assert br.Checkpoint(folder).steps[-1] == step
    run = br.fit(prog, good, exe=shared_executor(), folder=folder, quiet=True)
    whole = br.fit(prog, listed("none"), exe=shared_executor(), quiet=True)
    assert run.resumed == step
    assert bits(run.scope) == bits(whole.scope)
    assert run.history.rows == whole.history.rows


ERRORS: dict[str, type[Exception]] = {
    "keys": br.FeedError,
    "more keys": br.FeedError,
    "text": br.BracesError,
    "dtype": br.BracesError,
    "shape": br.BracesError,
    "rank": br.BracesError,
}


@pytest.mark.parametrize("fault", ERRORS)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_change_midway_are_an_error_and_resume_after_a_correction(
    kind: str, fault: str, tmp_path: Path
) -> None:
    check(tmp_path, KINDS[kind](fault), KINDS[kind]("none"), ERRORS[fault], GOOD)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("kind", PROCESSES)
def test_a_process_of_the_data_that_dies_is_an_error_and_not_a_hang(
    kind: str, tmp_path: Path
) -> None:
    read = PROCESSES[kind]
    prog, _ = net()
    began = time.monotonic()
    with pytest.raises(br.FeedError, match="process") as caught:
        br.fit(
            prog, read("dead"), exe=shared_executor(), folder=tmp_path, save_every=1, quiet=True
        )
    assert time.monotonic() - began < LIMIT_S
    assert "batch" in str(caught.value)
    steps = br.Checkpoint(tmp_path).steps
    assert not steps or steps[-1] <= GOOD
    run = br.fit(prog, KINDS[kind]("none"), exe=shared_executor(), folder=tmp_path, quiet=True)
    whole = br.fit(prog, listed("none"), exe=shared_executor(), quiet=True)
    assert run.resumed == (steps[-1] if steps else None)
    assert bits(run.scope) == bits(whole.scope)


@pytest.mark.parametrize(
    "empty",
    [
        list, lambda: iter(()), lambda: br.batches([]), lambda: br.batches(list),
        lambda: br.batches(iter(())), lambda: br.batches({"x": np.zeros((0, 4))}), Own.__new__,
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_validation", [False, True])
def test_empty_data_is_an_error(empty: Any, as_validation: bool) -> None:
    class Empty:
        def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
            return iter(())

    prog, _ = net()

    def run() -> None:
        data = Empty() if empty is Own.__new__ else empty()
        given = listed("none") if as_validation else data
        validation = data if as_validation else None
        br.fit(prog, given, validation=validation, exe=shared_executor(), quiet=True)

    with pytest.raises(br.FeedError, match=r"(data set is empty|no batches)"):
        run()
