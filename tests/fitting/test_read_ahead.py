"""Batches that the thread of the steps reads, and those that another thread reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import braces as br
from braces.fitting.steps import batch_stream
from braces.loaders.rows.row_batches import RowBatches
from tests.fitting.nets import STEPS, bits, data, shared_executor, shared_net


def readers(prog: br.Program, data: Any, **options: Any) -> list[bool]:
    """Whether a thread reads batches during each step."""
    return [
        any(thread.name == "braces feeds" for thread in threading.enumerate())
        for _ in br.training(prog, data, exe=shared_executor(), **options)
    ]


def test_rows_in_memory_are_read_without_a_thread_until_reading_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prog, _ = shared_net()
    monkeypatch.setattr(batch_stream, "FAST_S", 60.0)
    assert not any(readers(prog, data()))
    monkeypatch.setattr(batch_stream, "FAST_S", 0.0)
    found = readers(prog, data(), epochs=2)
    assert found.index(True) == batch_stream.MOST_SLOW
    assert len(found) == 2 * STEPS
    assert readers(prog, list(data()))[0]
    assert not any(readers(prog, data(), ahead=0))


def test_a_thread_that_takes_over_changes_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    prog, _ = shared_net()
    hashes = set[str]()
    for seconds, ahead in ((0.0, 2), (60.0, 2), (0.0, 0)):
        monkeypatch.setattr(batch_stream, "FAST_S", seconds)
        run = br.fit(prog, data(), epochs=2, ahead=ahead, exe=shared_executor(), quiet=True)
        hashes.add(bits(run.scope))
    assert len(hashes) == 1


def test_an_error_of_a_batch_names_it_after_a_thread_took_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prog, _ = shared_net()
    monkeypatch.setattr(batch_stream, "FAST_S", 0.0)

    whole = list(data().epoch(0))

    def failing(self: Any, number: int, start: int = 0) -> Iterator[Any]:
        yield from whole[start:5]
        raise OSError("disk")

    monkeypatch.setattr(RowBatches, "epoch", failing)
    with pytest.raises(OSError, match="disk") as caught:
        readers(prog, data())
    assert "epoch 1, batch 6" in str(caught.value.__notes__)
    assert not [t for t in threading.enumerate() if t.name == "braces feeds"]
