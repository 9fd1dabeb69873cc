"""Batches of rows of similar length, padded last batches, and parts for processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

LENGTHS = np.random.default_rng(1).integers(1, 33, 200)
WORDS = [np.arange(1, length + 1) for length in LENGTHS]
SOURCE = {"word": WORDS, "length": LENGTHS, "id": np.arange(200)}


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("by", ["word", "length", lambda row: len(row["word"])])
def test_rows_are_padded_to_the_next_size(by: Any, shuffle: bool) -> None:
    sizes = (8, 16, 32)
    data = br.batches(SOURCE, 16, shuffle=shuffle, bucket_by=by, sizes=sizes, pad=-1)
    batches = list(data.epoch(3))
    assert len(batches) == len(data) == 13
    assert sorted(np.concatenate([b["id"] for b in batches]).tolist()) == list(range(200))
    assert [len(b["id"]) for b in batches].count(16) == 12
    for batch in batches:
        width = batch["word"].shape[1]
        assert width == min(size for size in sizes if size >= batch["length"].max())
        for row, number in zip(batch["word"], batch["id"], strict=True):
            np.testing.assert_array_equal(row[: LENGTHS[number]], WORDS[number])
            assert (row[LENGTHS[number] :] == -1).all()


def test_full_batches_of_a_size_have_no_longer_rows() -> None:
    data = br.batches(SOURCE, 16, bucket_by="word", sizes=(8, 16, 32))
    whole = sum(int((size >= LENGTHS).sum() - (low >= LENGTHS).sum()) // 16
                for low, size in ((0, 8), (8, 16), (16, 32)))  # fmt: skip
    for batch in list(data)[:whole]:
        low = batch["word"].shape[1] // 2 if batch["word"].shape[1] > 8 else 0
        assert batch["length"].min() > low


def test_epochs_of_buckets_differ_and_resume_at_each_batch() -> None:
    data = br.batches(SOURCE, 16, bucket_by="word", sizes=(8, 16, 32))
    whole = [batch["id"].tolist() for batch in data.epoch(1)]
    for start in range(len(data) + 1):
        assert [batch["id"].tolist() for batch in data.epoch(1, start)] == whole[start:]
    assert whole != [batch["id"].tolist() for batch in data.epoch(2)]


def test_sizes_are_powers_of_two_by_default() -> None:
    data = br.batches(SOURCE, 16, bucket_by="word")
    assert data.fingerprint()["sizes"] == [8, 16, int(LENGTHS.max())]
    assert {batch["word"].shape[1] for batch in data} <= {8, 16, int(LENGTHS.max())}


def test_dense_columns_with_a_fill_value_are_cut() -> None:
    dense = {"x": np.ones((4, 10)), "n": np.array([2, 3, 9, 10]), "y": np.ones((4, 10))}
    data = br.batches(dense, 2, shuffle=False, bucket_by="n", sizes=(4, 10), pad={"x": 0})
    assert [(b["x"].shape, b["y"].shape) for b in data] == [
        ((2, 4), (2, 10)),
        ((2, 10), (2, 10)),
    ]


def test_drop_last_leaves_out_one_batch_of_all_sizes() -> None:
    data = br.batches(SOURCE, 16, bucket_by="word", drop_last=True)
    assert [len(batch["id"]) for batch in data] == [16] * 12 == [16] * len(data)


@pytest.mark.parametrize("options", [{}, {"bucket_by": "word", "sizes": (8, 16, 32)}])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_the_parts_of_processes_are_the_whole_batch(
    options: dict[str, Any], count: int
) -> None:
    source = SOURCE if options else {"id": np.arange(200)}
    whole = br.batches(source, 16, drop_last=True, **options)
    parts = [
        br.batches(source, 16, drop_last=True, process=p, count=count, **options)
        for p in range(count)
    ]
    assert {len(part) for part in parts} == {len(whole)}
    assert all(part.fingerprint() == whole.fingerprint() for part in parts)
    for batch, *pieces in zip(whole.epoch(1), *(part.epoch(1) for part in parts), strict=True):
        for name, array in batch.items():
            joined = np.concatenate([piece[name] for piece in pieces])
            np.testing.assert_array_equal(joined, array)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_padded_rows_have_weight_0_and_repeat_the_last_row(count: int) -> None:
    parts = [
        br.batches({"id": np.arange(10)}, 8, pad_last=True, process=p, count=count)
        for p in range(count)
    ]
    rows = []
    for pieces in zip(*parts, strict=True):
        assert {len(piece["id"]) for piece in pieces} == {8 // count}
        number, weight = (np.concatenate([p[k] for p in pieces]) for k in ("id", "weight"))
        assert (weight.dtype, set(weight)) == (np.float32, {1.0} if not rows else {0.0, 1.0})
        rows += number[weight > 0].tolist()
        assert (number[weight == 0] == rows[-1]).all()
    assert sorted(rows) == list(range(10))
    assert parts[0].names == ("id", "weight")


def test_a_column_of_weights_is_kept_for_rows_that_are_not_padded() -> None:
    source = {"id": np.arange(3), "weight": np.array([0.5, 2.0, 3.0])}
    data = br.batches(source, 2, shuffle=False, pad_last=True)
    assert [batch["weight"].tolist() for batch in data] == [[0.5, 2.0], [3.0, 0.0]]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, br.FeedError, "rows of `word` have different lengths"),
        ({"sizes": (4,)}, br.ProgramError, "`sizes` cannot be applied to rows without"),
        ({"bucket_by": "word", "sizes": (4, 8)}, br.FeedError, "the largest size is 8"),
        ({"bucket_by": "word", "sizes": (8, 4)}, br.ProgramError, "invalid sizes="),
        ({"bucket_by": "word", "sizes": ()}, br.ProgramError, "invalid sizes="),
        ({"bucket_by": "wrod"}, br.FeedError, "unknown column 'wrod'"),
        ({"bucket_by": lambda row: 1, "sizes": (1,)}, br.ShapeError, "of `word` has 32"),
        ({"bucket_by": lambda row: 0.5}, br.FeedError, "one integer of at least 0"),
        ({"bucket_by": "word", "pad": 0.5}, br.ProgramError, "invalid pad=0.5 for `word`"),
        ({"bucket_by": "word", "pad": {"y": 0}}, br.ProgramError, "unknown column `y` in pad"),
        ({"bucket_by": "word", "process": 0}, br.ProgramError, "process=0 with count=None"),
        (
            {"bucket_by": "word", "process": 0, "count": 3},
            br.FeedError,
            "equal parts for 3 processes",
        ),
        ({"drop_last": True, "pad_last": True}, br.ProgramError, "exclude each other"),
    ],
)
def test_bad_options_are_refused(
    options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        br.batches(SOURCE, 16, **options)


def test_a_smaller_last_batch_must_divide_among_processes() -> None:
    with pytest.raises(br.FeedError, match="a batch of 3 rows does not divide into equal"):
        br.batches({"id": np.arange(11)}, 4, process=0, count=2)


def test_a_masked_loss_of_buckets_runs_with_few_executables() -> None:
    with br.Program() as prog:
        word, length = br.data("word", ["n", "t"], "int64"), br.data("length", ["n"], "int64")
        br.data("id", ["n"], "int64")
        steps = br.arange(word.shape[1])
        total = br.sum(br.where(steps < br.reshape(length, [-1, 1]), word, 0))
    data = br.batches(SOURCE, 16, bucket_by="word", sizes=(8, 16, 32))
    exe, scope = br.Executor(), br.Scope()
    sums = [exe.run(prog, scope, batch, fetch=total) for batch in data]
    assert int(sum(sums)) == int((LENGTHS * (LENGTHS + 1) // 2).sum())


def test_a_transform_may_read_batches_of_several_sizes() -> None:
    words = [np.arange(length) for length in (1, 2, 5, 6)]
    data = br.batches(
        {"word": words}, 2, bucket_by="word", sizes=(2, 8), transform=lambda batch: batch
    )
    assert sorted(batch["word"].shape for batch in data) == [(2, 2), (2, 8)]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("of", [list, np.array])
def test_sequences_of_one_length_are_padded_like_others(rows: int, of: Any) -> None:
    source = {
        "word": of([np.arange(5)] * rows),
        "tag": of([np.ones((5, 2))] * rows),
        "label": np.arange(rows),
        "image": np.zeros((rows, 3, 3)),
    }
    (batch,) = br.batches(source, 2, bucket_by="word", sizes=(8, 16), pad=-1)
    assert {name: array.shape[1:] for name, array in batch.items()} == {
        "word": (8,), "tag": (8, 2), "label": (), "image": (3, 3),
    }  # fmt: skip
    np.testing.assert_array_equal(batch["word"][0], [0, 1, 2, 3, 4, -1, -1, -1])
