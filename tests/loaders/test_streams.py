"""Iterables, functions, loaders of PyTorch and transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import braces as br


def read_batches(epoch: int = 0) -> Iterator[dict[str, Any]]:
    for i in range(5):
        yield {"x": np.full((4, 2), 10.0 * epoch + i), "y": np.arange(4)}


def firsts(batches: Any) -> list[float]:
    return [float(batch["x"][0, 0]) for batch in batches]


def test_a_function_is_called_for_each_epoch() -> None:
    data = br.batches(lambda epoch: read_batches(epoch))
    assert firsts(data.epoch(0)) == firsts(data) == [0, 1, 2, 3, 4]
    assert firsts(data.epoch(2, start=3)) == [23, 24]
    assert firsts(br.batches(read_batches).epoch(2)) == [0, 1, 2, 3, 4]
    assert not hasattr(data, "__len__")
    assert data.rows is None


def test_a_list_of_batches_has_a_length_and_further_epochs() -> None:
    data: Any = br.batches(list(read_batches()))
    assert len(data) == 5
    assert firsts(data.epoch(0)) == firsts(data.epoch(1))


def test_an_iterator_has_one_epoch() -> None:
    data = br.batches(read_batches())
    assert firsts(data.epoch(0, 2)) == [2, 3, 4]
    with pytest.raises(br.FeedError, match="no second epoch") as caught:
        data.epoch(1)
    assert "Pass the function" in str(caught.value)


def test_generators_are_closed_when_the_epoch_is_left() -> None:
    closed = []

    def read() -> Iterator[Any]:
        try:
            yield from read_batches()
        finally:
            closed.append(True)

    for _ in br.batches(read):
        break
    assert closed == [True]


def test_rows_of_iterables_are_stacked() -> None:
    rows = [{"x": np.float32(i), "y": i} for i in range(10)]
    data: Any = br.batches(rows, 4)
    assert [batch["y"].tolist() for batch in data] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(data) == 3
    assert len(list(br.batches(rows, 4, drop_last=True))) == 2
    padded = list(br.batches(rows, 4, pad_last=True))
    assert padded[-1]["y"].tolist() == [8, 9, 9, 9]
    assert padded[-1]["weight"].tolist() == [1, 1, 0, 0]
    pairs: Any = br.batches(((i, -i) for i in range(4)), 2, names=("a", "b"))
    assert [(b["a"].tolist(), b["b"].tolist()) for b in pairs] == [
        ([0, 1], [0, -1]),
        ([2, 3], [-2, -3]),
    ]


def test_tuples_get_names() -> None:
    source = [(np.zeros(2), np.ones(2))]
    assert [type(batch) for batch in br.batches(source)] == [tuple]
    for data in (br.batches(source, names=("x", "y")), br.batches(source).named(["x", "y"])):
        assert [sorted(batch) for batch in data] == [["x", "y"]]


# ---- transforms ------------------------------------------------------------------------------


def noisy(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": batch["x"] + rng.random(batch["x"].shape)}


def test_a_transform_draws_the_same_values_after_a_resume() -> None:
    data = br.batches({"x": np.zeros((10, 2))}, 4, transform=noisy)
    whole = [batch["x"].tolist() for batch in data.epoch(1)]
    assert [batch["x"].tolist() for batch in data.epoch(1, 1)] == whole[1:]
    assert len({str(batch) for batch in whole}) == 3
    stream = br.batches(read_batches, transform=noisy)
    assert firsts(stream.epoch(0, 2)) == firsts(stream.epoch(0))[2:]


def test_transforms_of_tuples_get_dicts_once_there_are_names() -> None:
    data = br.batches((np.zeros(4), np.ones(4)), 2, transform=lambda batch: batch[::-1])
    assert [batch[0].tolist() for batch in data] == [[1, 1], [1, 1]]
    named = br.batches(
        (np.zeros(4), np.ones(4)), 2, names=["x", "y"], transform=lambda b: {**b, "z": b["y"]}
    )
    assert [sorted(batch) for batch in named] == [["x", "y", "z"]] * 2


# ---- bad input -------------------------------------------------------------------------------

GOOD = {"x": np.zeros((4, 2)), "y": np.zeros(4, int)}


@pytest.mark.parametrize(
    ("batch", "error", "words"),
    [
        ({"x": GOOD["x"]}, br.FeedError, "keys of the batches differ.*`x`; the first"),
        ({**GOOD, "x": np.zeros((4, 2), "f4")}, br.DTypeError, "`x` has the dtype float32"),
        ({**GOOD, "x": np.zeros((4, 3))}, br.ShapeError, r"`x` has the shape \[4, 3\]"),
        ({**GOOD, "x": np.zeros(4)}, br.ShapeError, r"`x` has the shape \[4\]"),
        ({**GOOD, "y": ["a"] * 4}, br.DTypeError, "expected numbers for `y`"),
        ({**GOOD, "y": [[1], [1, 2]]}, br.DTypeError, "cannot convert `y`"),
        ({**GOOD, 3: 1}, br.FeedError, "keys of a batch, got 3"),
        (7, br.FeedError, "expected a dict or a tuple of arrays for a batch, got 7"),
    ],
)
@pytest.mark.parametrize("as_transform", [False, True])
def test_batches_that_change_are_refused_with_their_number(
    batch: Any, error: type[Exception], words: str, as_transform: bool
) -> None:
    each = [GOOD, GOOD, batch]
    if as_transform:
        count = iter(each)
        data = br.batches({"a": np.zeros(6)}, 2, transform=lambda _: next(count))
    else:
        data = br.batches(each)
    seen = []
    with pytest.raises(error, match=f"(?s){words}.*") as caught:
        seen.extend(data.epoch(4))
    assert len(seen) == 2
    assert "batch 2 of epoch 4" in str(caught.value)


def test_further_axes_may_vary_if_they_are_said_to() -> None:
    each = [{"x": np.zeros((4, size))} for size in (2, 3)]
    with pytest.raises(br.ShapeError, match="varying=True"):
        list(br.batches(each))
    assert len(list(br.batches(each, varying=True))) == 2
    with pytest.raises(br.ShapeError, match=r"shape \[4\]"):
        list(br.batches([*each, {"x": np.zeros(4)}], varying=True))


def test_a_smaller_last_batch_is_no_change() -> None:
    assert len(list(br.batches([GOOD, {"x": np.zeros((1, 2)), "y": np.zeros(1, int)}]))) == 2


def test_errors_of_users_get_the_batch() -> None:
    def read() -> Iterator[Any]:
        yield GOOD
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone") as caught:
        list(br.batches(read).epoch(3))
    assert "batch 1 of epoch 3" in caught.value.__notes__[0]

    def fail(batch: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as again:
        list(br.batches({"x": np.zeros(4)}, 2, transform=fail))
    assert "batch 0 of epoch 0" in again.value.__notes__[0]


def test_empty_epochs_are_refused() -> None:
    with pytest.raises(br.FeedError, match="the data set is empty"):
        list(br.batches(list))
    with pytest.raises(br.FeedError, match="batch 9 is out of range for an epoch of 5"):
        list(br.batches(read_batches).epoch(0, 9))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"shuffle": True}, "`shuffle` cannot be applied to an iterable"),
        ({"drop_last": True}, "`drop_last` cannot be applied to an iterable of batches"),
        ({"bucket_by": "x"}, "`bucket_by` cannot be applied"),
        ({"process": 0, "count": 2}, "`process`, `count` cannot be applied"),
        ({"transform": lambda: None}, "transform does not take 1 argument"),
    ],
)
def test_options_that_do_not_apply_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(br.ProgramError, match=words):
        br.batches(read_batches, **options)


# ---- PyTorch ---------------------------------------------------------------------------------


def torch_loader(**options: Any) -> Any:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is no requirement")
    x = torch.arange(20, dtype=torch.float32).reshape(10, 2)
    data = torch.utils.data.TensorDataset(x, torch.arange(10))
    return torch.utils.data.DataLoader(data, 4, **options)


def test_a_loader_of_pytorch_is_a_data_set() -> None:
    data: Any = br.batches(torch_loader(), names=("x", "y"))
    assert len(data) == 3
    batches = list(data)
    assert all(isinstance(batch["x"], np.ndarray) for batch in batches)
    assert [batch["y"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [type(batch) for batch in br.batches(torch_loader())] == [tuple] * 3


def test_a_shuffling_loader_with_a_generator_resumes() -> None:
    pytest.importorskip("torch", reason="PyTorch is no requirement")
    import torch

    def order(seed: int, epoch: int, start: int = 0) -> list[list[int]]:
        generator = torch.Generator()
        loader = torch_loader(shuffle=True, generator=generator)
        data = br.batches(loader, names=("x", "y"), seed=seed)
        return [batch["y"].tolist() for batch in data.epoch(epoch, start)]

    assert order(0, 1) == order(0, 1) != order(0, 2)
    assert order(0, 1, 2) == order(0, 1)[2:]
    assert order(0, 1) != order(1, 1)
