"""Iterable data sets of grain resume by the state of their iterator, not by counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import arrays, bits, net, shared_executor

grain: Any = pytest.importorskip("grain", reason="grain is an extra")

READ = list[int]()
"""The numbers of the rows that were read."""


def read(number: int) -> dict[str, Any]:
    READ.append(int(number))
    columns = arrays(40)
    return {name: column[int(number)] for name, column in columns.items()}


def pipeline(*, window: bool = False, batch: int = 4, seed: int = 3) -> Any:
    """Rows in an order of a seed, as an iterable."""
    options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    rows = grain.MapDataset.source(np.arange(40)).seed(seed).shuffle().map(read)
    rows = rows.to_iter_dataset(options)
    if window:
        rows = grain.experimental.WindowShuffleIterDataset(rows, window_size=8, seed=1)
    return rows.batch(batch) if batch else rows


def firsts(batches: Any) -> list[float]:
    return [float(batch["x"][0, 0]) for batch in batches]


@pytest.mark.parametrize("options", [{}, {"window": True}, {"batch": 0}])
def test_each_position_resumes_without_reading_the_batches_before_it(
    options: dict[str, Any],
) -> None:
    size = 4 if options.get("batch") == 0 else None
    data = br.batches(pipeline(**options), size)
    whole, states = list[float](), list[Any]()
    for i, batch in enumerate(data.epoch(1), start=1):
        whole.append(float(batch["x"][0, 0]))
        states.append(data.state(1, i))
    assert len(whole) == 10
    for start in (1, 4, 9, 10):
        again = br.batches(pipeline(**options), size)
        again.load_state(states[start - 1])
        READ.clear()
        assert firsts(again.epoch(1, start)) == whole[start:]
        limit = 40 if options.get("window") else 40 - 4 * start
        assert len(READ) <= limit
        assert firsts(again.epoch(0)) == whole


def test_without_a_state_and_with_that_of_another_epoch_batches_are_counted() -> None:
    data = br.batches(pipeline())
    whole = firsts(data.epoch(0))
    state = data.state(0, 5)
    other = br.batches(pipeline())
    other.load_state(state)
    READ.clear()
    assert firsts(other.epoch(1, 5)) == whole[5:]
    assert len(READ) == 40
    assert br.batches(pipeline()).state(0, 3) is None


def mixed(workers: int) -> Any:
    rows = pipeline()
    return rows.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))


def test_the_state_of_another_number_of_workers_is_refused() -> None:
    """Grain raises an IndexError or KeyError of its own; its batches differ."""
    with br.batches(mixed(2)) as data:
        first: Any = data.epoch(0)
        whole = firsts([next(first), next(first), next(first)])
        state = data.state(0, 1)
        first.close()
    with br.batches(mixed(2)) as data:
        data.load_state(state)
        rest: Any = data.epoch(0, 1)
        assert firsts([next(rest), next(rest)]) == whole[1:]
        rest.close()
    with br.batches(mixed(1)) as data:
        data.load_state(state)
        with pytest.raises(br.FeedError, match="number of workers") as caught:
            list(data.epoch(0, 1))
        assert "2 in the checkpoint, 1 now" in str(caught.value)
        assert "2 workers in mp_prefetch" in str(caught.value)


@pytest.mark.parametrize("state", [[0, 2, "{"], [0, 2, "7"], [0, 2, "{}"], {"a": 1}, [1], None])
def test_a_damaged_state_is_not_used(state: Any) -> None:
    data = br.batches(pipeline())
    data.load_state(state)
    assert firsts(data.epoch(0, 2)) == firsts(br.batches(pipeline()).epoch(0))[2:]


def test_an_iterator_of_grain_resumes_by_its_state() -> None:
    data = br.batches(iter(pipeline()))
    batches = data.epoch(0)
    whole = firsts([next(batches), next(batches)])
    state = data.state(0, 1)
    again = br.batches(iter(pipeline()))
    again.load_state(state)
    READ.clear()
    assert firsts(again.epoch(0, 1))[0] == whole[1]
    assert len(READ) == 36


# ---- training --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_training_resumes_at_each_step_with_the_same_bits(
    tmp_path: Path, mode: str, wrapped: bool
) -> None:
    prog, _ = net()
    wrap: Any = br.batches if wrapped else iter_of
    exe = shared_executor(mode)
    whole = br.training(prog, wrap(pipeline()), epochs=2, exe=exe)
    assert [step.number for step in whole] == list(range(1, 21))
    stops = (1, 9, 10, 13, 19, 20) if mode == "compile" else (3, 10, 20)
    for reached, stop in zip((0, *stops), stops, strict=False):
        READ.clear()
        steps = br.training(prog, wrap(pipeline()), epochs=2, exe=exe, folder=tmp_path)
        for step in steps:
            if step.number == stop:
                break
        assert steps.position.step == stop
        assert len(READ) <= 4 * (stop - reached + 5)  # the thread reads ahead
    assert bits(steps.scope) == bits(whole.scope)  # pyright: ignore[reportPossiblyUnboundVariable]


def iter_of(rows: Any) -> Any:
    """The pipeline itself as data."""
    return rows


def test_data_that_became_shorter_is_an_error_and_not_an_empty_rest(tmp_path: Path) -> None:
    prog, _ = net()

    def train(count: int) -> None:
        batches = [(b["x"], b["y"]) for b in br.batches(arrays(40), 4)][:count]
        for step in br.training(
            prog, br.batches(lambda: iter(batches)), folder=tmp_path, exe=shared_executor()
        ):
            if step.number == 3:
                break

    train(9)
    with pytest.raises(br.FeedError, match="ended after 3 batches"):
        train(3)
