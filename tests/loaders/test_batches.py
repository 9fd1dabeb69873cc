"""`br.batches` of arrays: order, position, names, and bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import braces as br

X = np.random.default_rng(0).random((10, 3), np.float32)
Y = np.arange(10)


def rows(batches: Any) -> list[list[int]]:
    """The values of `y` of each batch."""
    return [batch["y"].tolist() for batch in batches]


@pytest.mark.parametrize("epoch", [0, 1, 7])
@pytest.mark.parametrize("seed", [0, 3])
def test_an_epoch_is_the_permutation_of_seed_and_epoch(seed: int, epoch: int) -> None:
    data = br.batches({"x": X, "y": Y}, 4, seed=seed)
    order = np.random.default_rng((seed, epoch)).permutation(10)
    batches = list(data.epoch(epoch))
    np.testing.assert_array_equal(np.concatenate([b["y"] for b in batches]), order)
    np.testing.assert_array_equal(np.concatenate([b["x"] for b in batches]), X[order])
    assert [len(b["x"]) for b in batches] == [4, 4, 2]
    assert (len(data), data.rows, data.names) == (3, 10, ("x", "y"))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_an_epoch_resumes_at_each_batch(shuffle: bool, drop_last: bool) -> None:
    data = br.batches({"y": Y}, 3, shuffle=shuffle, drop_last=drop_last)
    whole = rows(data.epoch(2))
    assert len(whole) == len(data) == (3 if drop_last else 4)
    for start in range(len(data) + 1):
        assert rows(data.epoch(2, start)) == whole[start:]
    if not shuffle:
        assert [y for part in whole for y in part] == list(range(9 if drop_last else 10))


def test_iteration_is_epoch_0_each_time() -> None:
    data = br.batches({"y": Y}, 4)
    assert rows(data) == rows(data) == rows(data.epoch(0)) != rows(data.epoch(1))


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_are_arrays_of_their_own(shuffle: bool) -> None:
    x = np.zeros((4, 2))
    for batch in br.batches({"x": x}, 2, shuffle=shuffle):
        batch["x"] += 1
    assert not x.any()


def test_a_tuple_gives_tuples_until_it_has_names() -> None:
    data = br.batches((X, Y), 4)
    assert data.names is None
    assert [type(batch) for batch in data] == [tuple] * 3
    named = data.named(["x", "y"])
    assert named.names == ("x", "y")
    assert rows(named) == rows(br.batches((X, Y), 4, names=("x", "y")))
    assert rows(named) == [y.tolist() for _, y in data]
    assert named.named(["a", "b"]) is named


def test_fingerprints_are_json_and_tell_orders_apart() -> None:
    base = {"source": {"y": Y}, "batch_size": 4}
    changed: list[dict[str, Any]] = [
        {},
        {"seed": 1},
        {"shuffle": False},
        {"batch_size": 5},
        {"drop_last": True},
        {"source": {"y": Y[:9]}},
    ]
    texts = [json.dumps(br.batches(**base | change).fingerprint()) for change in changed]
    assert len(set(texts)) == len(texts)
    assert texts[0] == json.dumps(br.batches({"y": Y}, 4).fingerprint())


def test_lists_and_other_arrays_are_columns() -> None:
    data = br.batches({"x": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]}, 2, shuffle=False)
    (batch,) = data
    np.testing.assert_array_equal(batch["x"], [[1.0, 2.0], [3.0, 4.0]])
    assert repr(data) == (
        "<Batches 1 batch of 2, 2 rows, stored order: x: float64[2], y: int64[]>"
    )


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ({"x": X, "y": Y[:5]}, {}, br.ShapeError, "`x`: 10, `y`: 5"),
        ({}, {}, br.FeedError, "no arrays"),
        ({"x": X[:0]}, {}, br.FeedError, "empty: `x` with 0 rows"),
        ({"x": 3.0}, {}, br.ShapeError, "`x` is a scalar"),
        ({"x": [[1], [2, 3]]}, {}, br.FeedError, "`x` have different lengths"),
        ({"x": [[1], ["a"]]}, {}, br.DTypeError, "expected numbers for `x`"),
        ({"x": [[1], [[2, 3]]]}, {}, br.DTypeError, "cannot convert `x`"),
        ({"x": ["a", "b"]}, {}, br.DTypeError, "expected numbers for `x`"),
        ({1: X}, {}, br.FeedError, "names of columns, got 1"),
        (
            3,
            {},
            br.FeedError,
            "an iterable of batches or a function, got 3",
        ),
        ((X, Y), {"names": ("x",)}, br.FeedError, "expected 2 different names"),
        ((X, Y), {"names": ("x", "x")}, br.FeedError, "expected 2 different names"),
        ({"x": X}, {"batch_size": 0}, br.ProgramError, "invalid batch_size=0"),
        ({"x": X}, {"batch_size": 2.5}, br.ProgramError, "batch_size"),
        ({"x": X}, {"seed": -1}, br.ProgramError, "invalid seed=-1"),
        (
            {"x": X},
            {"batch_size": 11, "drop_last": True},
            br.FeedError,
            "fewer rows than a batch: 10 < 11",
        ),
    ],
)
def test_bad_data_sets_are_refused(
    source: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        br.batches(source, **options)


@pytest.mark.parametrize("position", [(-1, 0), (0, -1), (0, 4), (0.5, 0), (True, 0)])
def test_positions_out_of_range_are_refused(position: tuple[Any, Any]) -> None:
    with pytest.raises(br.ProgramError, match=r"invalid|out of range"):
        br.batches({"y": Y}, 4).epoch(*position)


def test_keywords_of_other_libraries_are_hinted() -> None:
    call: Any = br.batches
    for word, meant in (("batch", "batch_size"), ("num_workers", "workers")):
        with pytest.raises(TypeError, match=rf"Use {meant}=\."):
            call({"y": Y}, **{word: 4})


def test_each_process_of_a_job_reads_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braces.loaders.rows.parts.process_count", lambda: 2)
    monkeypatch.setattr("braces.loaders.rows.parts.process_index", lambda: 1)
    data = br.batches({"y": Y}, 4, drop_last=True)
    whole = br.batches({"y": Y}, 4, drop_last=True, process=0, count=1)
    assert rows(data) == [part[2:] for part in rows(whole)]
