"""`x[...]` against NumPy: sizes, values, gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import (
    DTypeError,
    IndexRangeError,
    ProgramError,
    ShapeError,
    SymbolicValueError,
)
from braces.extend.types import Dim, Size, substitute
from braces.ops.indexing.static_slice import slice_length
from tests.support.running import run

pytestmark = pytest.mark.unoptimized  # what is read and written where, not what is computed

b, t = Dim.named("b"), Dim.named("t")


def ramp(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# ---- known indices ---------------------------------------------------------------------------

KNOWN = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[:, 0],
    np.s_[..., 0],
    np.s_[0, ..., -2],
    np.s_[None],
    np.s_[:, None, 1:3],
    np.s_[..., None],
    np.s_[1:],
    np.s_[:-1, ::2],
    np.s_[::-1],
    np.s_[:, ::-2],
    np.s_[:, 3:0:-1, None, 1],
    np.s_[-2:, -3:-1],
    np.s_[5:2],
    np.s_[:, 1:100],
    np.s_[:, -100:2],
    np.s_[2:2, 0],
    np.s_[np.int64(1), :, np.int32(-1)],
]


@pytest.mark.parametrize("index", KNOWN, ids=str)
@pytest.mark.parametrize("symbolic", [False, True])
def test_known_indices_are_those_of_numpy(mode: str, index: Any, symbolic: bool) -> None:
    value = ramp(3, 5, 4)
    with br.Program() as program:
        x = br.data("x", ["b", "t", "d"] if symbolic else [3, 5, 4])
        y = x[index]
        (grad,) = br.gradients([br.sum(y * y)], [x])
    assert grad is not None
    got, got_grad = run(mode, program, [y, grad], x=value)
    want, want_grad = value[index], np.zeros_like(value)
    want_grad[index] = 2 * want
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_grad, want_grad)
    inferred = [substitute(size, {"b": 3, "t": 5, "d": 4}) for size in y.shape]
    assert tuple(inferred) == want.shape


@pytest.mark.parametrize("index", [np.s_[1:], np.s_[:3], np.s_[::-2], np.s_[:, 1], np.s_[-2:]])
def test_slices_of_nothing_are_empty(mode: str, index: Any) -> None:
    value = ramp(0, 4)
    with br.Program() as program:
        x = br.data("x", ["b", 4])
        y = x[index]
        (grad,) = br.gradients([y], [x])
    got, got_grad = run(mode, program, [y, grad], x=value)
    assert got.shape == value[index].shape
    assert got_grad.shape == (0, 4)


def test_the_length_of_every_slice_is_that_of_python() -> None:
    bounds = [None, *range(-4, 5)]
    for size in (b, b + 2, 2 * b):
        for start in bounds:
            for stop in bounds:
                for step in (-3, -2, -1, 1, 2, 3):
                    length = slice_length(size, (start, stop, step))
                    for n in range(6):
                        number = substitute(size, {"b": n})
                        assert isinstance(number, int)
                        wanted = len(range(*slice(start, stop, step).indices(number)))
                        assert substitute(length, {"b": n}) == wanted, (size, start, stop, step)


@pytest.mark.parametrize(
    ("index", "size"),
    [
        (np.s_[1:], "max(b - 1, 0)"),
        (np.s_[:-1], "max(b - 1, 0)"),
        (np.s_[1:-1], "max(b - 2, 0)"),
        (np.s_[:3], "min(b, 3)"),
        (np.s_[-3:], "min(b, 3)"),
        (np.s_[::2], "floordiv(b + 1, 2)"),
        (np.s_[::-1], "b"),
        (np.s_[: b - 1], "max(b - 1, 0)"),
        (np.s_[:b], "b"),
        (np.s_[b - 1 :], "min(b, 1)"),
        (np.s_[:t], "t"),
        (np.s_[t:], "b - t"),
        (np.s_[:-t], "b - t"),
        (np.s_[-t:], "t"),
        (np.s_[t : t + 3], "3"),
        (np.s_[1:t], "max(t - 1, 0)"),
        (np.s_[:t:2], "floordiv(t + 1, 2)"),
    ],
    ids=str,
)
def test_sizes_of_slices_are_as_simple_as_can_be(index: Any, size: str) -> None:
    with br.Program():
        x = br.data("x", ["b"])
        assert str(x[index].shape[0]) == size


def test_two_ways_to_drop_two_elements_have_one_type() -> None:
    with br.Program():
        x = br.data("x", ["b"])
        assert x[1:][:-1].shape == x[1:-1].shape == x[2:].shape
        assert (x[1:] - x[:-1]).shape == x[1:].shape


def test_a_whole_index_adds_no_operator() -> None:
    with br.Program():
        x = br.data("x", ["b", 4])
        assert x[:] is x
        assert x[...] is x
        assert x[:, 0:] is x
        assert x[:b] is x


def test_the_index_of_getitem_reads_well() -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 5, 4])
        x[..., 0]
        x[:, 1:3, None]
    assert '{index=[":", ":", 0]}' in str(program)
    assert '{index=[":", [1, 3], "new"]}' in str(program)


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (3, IndexRangeError, "out of range on axis 0, which has size 3"),
        (np.s_[:, -5], IndexRangeError, "out of range on axis 1"),
        (np.s_[0, 0, 0], ShapeError, "3 indices for an array of rank 2"),
        (np.s_[..., 0, ...], ShapeError, "only one"),
        (True, DTypeError, "invalid index True"),
        (1.0, DTypeError, "invalid index 1.0"),
        ("a", DTypeError, "invalid index 'a'"),
        (np.s_[::0], ProgramError, "slice step 0"),
        (np.s_[1.0:], DTypeError, "invalid slice bound 1.0"),
        (np.array([True, False, True]), DTypeError, "mask"),
        (np.array([1.0]), DTypeError, "expected integer indices, got float64"),
    ],
    ids=str,
)
def test_what_is_no_index_is_refused(index: Any, error: type[Exception], words: str) -> None:
    with br.Program():
        x = br.data("x", [3, 4])
        with pytest.raises(error, match=words) as caught:
            x[index]
    assert "test_indexing.py" in str(caught.value)
    assert "x: f32[3,4]" in str(caught.value)


def test_variables_are_no_bounds_and_masks_no_indices() -> None:
    with br.Program():
        x, n = br.data("x", ["b", 4]), br.data("n", [], dtype="int32")
        with pytest.raises(
            SymbolicValueError, match=r"(?s)slice bound `n` is unsupported.*br\.take"
        ):
            x[:n]
        with pytest.raises(DTypeError, match=r"(?s)mask.*br\.where"):
            x[x[:, 0] > 0.0]


# ---- windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "concrete"),
    [
        (np.s_[:t], np.s_[:2]),
        (np.s_[t:], np.s_[2:]),
        (np.s_[-t:], np.s_[-2:]),
        (np.s_[:-t], np.s_[:-2]),
        (np.s_[t], np.s_[2]),
        (np.s_[-t], np.s_[-2]),
        (np.s_[t - 1 : t + 2 : 2], np.s_[1:4:2]),
        (np.s_[t:0:-1], np.s_[2:0:-1]),
        (np.s_[:t:-1], np.s_[:2:-1]),
        (np.s_[2 * t :: -2], np.s_[4::-2]),
        (np.s_[:, t - 1], np.s_[:, 1]),
        (np.s_[None, :t, -t:], np.s_[None, :2, -2:]),
    ],
    ids=str,
)
def test_symbolic_bounds(mode: str, index: Any, concrete: Any) -> None:
    value, other = ramp(5, 3), np.zeros(2, np.float32)
    with br.Program() as program:
        x, y = br.data("x", ["b", 3]), br.data("y", ["t"])
        z = x[index]
        (grad,) = br.gradients([z], [x])
    got, got_grad, _ = run(mode, program, [z, grad, y], x=value, y=other)
    want_grad = np.zeros_like(value)
    want_grad[concrete] = 1
    np.testing.assert_array_equal(got, value[concrete])
    np.testing.assert_array_equal(got_grad, want_grad)
    sizes: dict[str, Size] = {"b": 5, "t": 2}
    assert tuple(substitute(size, sizes) for size in z.shape) == value[concrete].shape


@pytest.mark.parametrize("index", [np.s_[:t], np.s_[t:], np.s_[-t:], np.s_[t]], ids=str)
def test_a_symbolic_bound_outside_is_an_error_in_the_run(mode: str, index: Any) -> None:
    with br.Program() as program:
        x, y = br.data("x", ["b", 3]), br.data("y", ["t"])
        z = x[index]
    with pytest.raises(IndexRangeError, match="is out of range"):
        run(mode, program, [z, y], x=ramp(2, 3), y=np.zeros(4, np.float32))


@pytest.mark.parametrize("index", [2, -3])
def test_an_integer_on_a_symbolic_axis_is_checked_in_the_run(mode: str, index: int) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        y = x[index]
        (grad,) = br.gradients([y], [x])
    got, got_grad = run(mode, program, [y, grad], x=ramp(4, 3))
    np.testing.assert_array_equal(got, ramp(4, 3)[index])
    assert got_grad.sum() == 3
    for rows in (0, 2):
        with pytest.raises(IndexRangeError, match="is out of range"):
            run(mode, program, [y], x=ramp(rows, 3))


def test_what_cannot_fail_is_not_checked() -> None:
    with br.Program() as program:
        x, y = br.data("x", ["b", 4]), br.data("y", [b + 1, 4])
        x[:, 1], x[1:, -1], x[: b - 1], y[0], y[-1]
    assert {op.type for op in program.table.ops} == {"getitem"}


# ---- variables as indices --------------------------------------------------------------------

INTEGERS = [
    lambda i, j: np.s_[i],
    lambda i, j: np.s_[:, i],
    lambda i, j: np.s_[..., i],
    lambda i, j: np.s_[i, 0],
    lambda i, j: np.s_[0, :, i],
    lambda i, j: np.s_[i, None],
    lambda i, j: np.s_[1:, i, ::-1],
    lambda i, j: np.s_[i, j],
    lambda i, j: np.s_[:, i, j],
    lambda i, j: np.s_[i, :, j],
    lambda i, j: np.s_[i, None, j],
    lambda i, j: np.s_[0, i, j],
    lambda i, j: np.s_[i, :, 0],
    lambda i, j: np.s_[[2, 0], i],
    lambda i, j: np.s_[i, j, i],
]


@pytest.mark.parametrize("make", INTEGERS)
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_variables_as_indices_are_those_of_numpy(mode: str, make: Any, rank: int) -> None:
    value, rng = ramp(3, 3, 3), np.random.default_rng(rank)
    shape = (4, 2)[2 - rank :]
    shape = shape if not rank else (2,) if make is INTEGERS[13] else shape
    i, j = (rng.integers(-3, 3, shape).astype(d) for d in (np.int32, np.int64))
    with br.Program() as program:
        x = br.data("x", ["b", 3, 3])
        index = make(br.data("i", shape, dtype="int32"), br.data("j", shape, dtype="int64"))
        y = x[index]
        (grad,) = br.gradients([br.sum(y * y)], [x])
    read = {op_input for op in program.table.ops for op_input in op.reads()}
    feed = {name: array for name, array in (("i", i), ("j", j)) if name in read}
    got, got_grad = run(mode, program, [y, grad], x=value, **feed)
    want, want_grad = value[make(i, j)], np.zeros_like(value)
    np.add.at(want_grad, make(i, j), 2 * want)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_grad, want_grad)


def test_a_variable_index_out_of_range_is_an_error_in_the_run(mode: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", [3]), br.data("i", [], dtype="int64")
        y = x[i]
    assert run(mode, program, [y], x=ramp(3), i=np.int64(-3))[0] == 0
    for wrong in (3, -4, 2**32, -(2**40)):
        with pytest.raises(IndexRangeError, match="out of range"):
            run(mode, program, [y], x=ramp(3), i=np.int64(wrong))


def test_an_empty_list_takes_nothing(mode: str) -> None:
    with br.Program() as program:
        y = br.data("x", ["b", 3])[[]]
    assert run(mode, program, [y], x=ramp(0, 3))[0].shape == (0, 3)
