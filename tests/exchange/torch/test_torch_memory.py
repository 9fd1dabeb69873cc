"""Operators of torch on strides and views, against views of NumPy, without torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import braces as br
from braces.exchange.torch.graph.storage_aliasing import Storage, StorageLayout
from braces.exchange.torch.rules.tensor import strides as memory
from tests.support.running import run

NUMBERS = np.arange(24.0, dtype="f")
VIEWS = [
    ((2, 3, 4), (12, 4, 1), 0),  # all in their order
    ((3, 2), (1, 3), 5),  # in a row, and turned
    ((3, 4), (8, 2), 1),  # with gaps
    ((5, 3), (2, 1), 3),  # several times
    ((2, 3), (0, 4), 2),  # the same row
    ((1, 3), (7, 1), 21),  # an axis of size 1 lies anywhere
    ((), (), 23),
    ((2, 0), (1, 1), 0),
]
FILLED = [((2, 3, 4), (12, 4, 1)), ((4, 6), (1, 4)), ((2, 1, 12), (1, 5, 2))]


def view(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> np.ndarray:
    return as_strided(NUMBERS[offset:], shape, [4 * far for far in strides])


@pytest.mark.parametrize(("shape", "strides"), FILLED)
def test_views_of_a_storage_read_its_elements(
    shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    own = StorageLayout(shape, strides)
    with br.Program() as prog:
        x = br.data("x", shape)
        given = Storage(own, None, (x, own))
        views = [memory.as_strided(given, *found) for found in VIEWS]
    found = run("interpret", prog, views, x=view(shape, strides))
    for made, wanted in zip(found, VIEWS, strict=True):
        np.testing.assert_array_equal(made, view(*wanted))


def test_what_is_written_through_a_view_stands_in_the_whole_and_in_other_views() -> None:
    part, wanted = StorageLayout((2, 2), (6, 1), 7), NUMBERS.copy()
    with br.Program() as prog:
        x = br.data("x", (4, 6))
        given = Storage(part, None, (x, StorageLayout((4, 6), (6, 1))))
        put = memory.as_strided_scatter(given, br.constant([-1.0, -2.0]), (2,), (6,), 8)
        grown = memory.resize(given, (3, 7))
    wanted[[8, 14]] = -1, -2
    found = run("interpret", prog, [put, grown], x=NUMBERS.reshape(4, 6))
    np.testing.assert_array_equal(found[0], as_strided(wanted[7:], (2, 2), (24, 4)))
    np.testing.assert_array_equal(found[1].ravel(), [*NUMBERS[7:], 0, 0, 0, 0])


def test_strides_of_named_sizes_are_sizes() -> None:
    with br.Program() as prog:
        x = br.data("x", ["rows", "columns"])
        rows, columns = x.shape
        own = StorageLayout((rows, columns), (columns, 1))
        turned = Storage(StorageLayout((columns, rows), (1, columns)), None, (x, own))
        made = memory.as_strided(turned, (rows, 2), (columns, 1))
    assert memory.sym_stride(turned) == [1, columns]
    assert memory.sym_is_contiguous(Storage(own, None, None))
    fed = NUMBERS.reshape(4, 6)
    np.testing.assert_array_equal(run("interpret", prog, made, x=fed), fed[:, :2])
    with pytest.raises(br.IndexRangeError):
        run("interpret", prog, made, x=fed[:, :1])  # the second column of one


def test_channels_may_lie_next_to_each_other() -> None:
    last = Storage(StorageLayout((2, 3, 4, 5), (60, 1, 15, 3)), None, None)
    assert not memory.sym_is_contiguous(last)
    assert memory.sym_is_contiguous(last, "torch.channels_last")


def test_numbers_that_no_tensor_holds_are_not_made_up() -> None:
    own = StorageLayout((4, 3), (6, 2))
    with br.Program():
        x = br.data("x", (4, 6))
        with pytest.raises(br.ProgramError, match="belongs to no tensor"):
            memory.as_strided(Storage(own, None, None), (2,), (1,))
        with pytest.raises(br.ShapeError, match="out of range for storage of size 24"):
            memory.as_strided(
                Storage(own, None, (x, StorageLayout((4, 6), (6, 1)))), (5, 2), (5, 4)
            )
