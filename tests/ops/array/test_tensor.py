"""Edge cases of shapes, of putting together and cutting, of margins and copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, IndexRangeError, ProgramError, ShapeError
from braces.extend.building import emit
from braces.extend.types import Dim
from tests.support.running import run

b, t = Dim.named("b"), Dim.named("t")


def ramp(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# ---- reshape ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("have", "want", "found"),
    [
        (["b", 8], (-1, 4), "(2*b, 4)"),
        (["b", 8], (b, -1), "(b, 8)"),
        (["b", "t", 8], (b * t, -1), "(b*t, 8)"),
        (["b", "t"], (-1,), "(b*t,)"),
        ([b + 3, 4], (-1, 2), "(2*b + 6, 2)"),
        ([b + 3, 4], (b + 3, 2, -1), "(b + 3, 2, 2)"),
        ([0, 4], (-1, 4), "(0, 4)"),
        ([0, 4], (4, 0, 7), "(4, 0, 7)"),
        (["b"], (b, 1), "(b, 1)"),
        ([None, 4], (b, 2, 2), "(b, 2, 2)"),
        ([None], (b, 4), "(b, 4)"),
    ],
    ids=str,
)
def test_sizes_of_reshape(have: Any, want: Any, found: str) -> None:
    with br.Program():
        x = br.data("x", have)
        assert str(br.reshape(x, want).shape) == found


def test_reshape_finds_unnamed_dimensions() -> None:
    with br.Program():
        x = br.data("x", [None, 2])
        br.reshape(x, (b, 4))
        assert x.shape == (2 * b, 2)


@pytest.mark.parametrize(
    ("have", "want", "words"),
    [
        (
            ["b", 8],
            (-1, 16),
            r"8\*b is not divisible by 16 for all values.*\n.*\n.*\n.*8\*b / 16",
        ),
        ([6], (4, -1), "6 elements are not divisible by 4"),
        ([6], (-1, -1), "only one size can be -1"),
        ([6], (-2, -3), "negative size other than -1"),
        ([0, 3], (0, -1, 0), "beside a size of 0"),
        (["b", 8], (b, 9), r"expected 9\*b elements, got 8\*b"),
        (["b"], ("t",), "reshape"),
        (["b"], (t,), "expected t elements, got b"),
        ([2, 3], (7,), "expected 7 elements, got 6"),
    ],
    ids=str,
)
def test_what_reshape_refuses(have: Any, want: Any, words: str) -> None:
    with br.Program():
        x = br.data("x", have)
        with pytest.raises((ShapeError, ProgramError), match=words):
            br.reshape(x, want)


def test_an_empty_batch_is_reshaped_as_any_other(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2, 3])
        y = x.reshape(b, -1), x.reshape((-1, 3)), br.flatten(x)
        grads = br.gradients([br.sum(one * one) for one in y], [x])
    *got, grad = run(mode, program, [*y, *grads], x=ramp(0, 2, 3))
    assert [one.shape for one in got] == [(0, 6), (0, 3), (0, 6)]
    assert grad.shape == (0, 2, 3)


def test_flatten_keeps_leading_axes() -> None:
    with br.Program():
        x = br.data("x", ["b", 2, "t"])
        assert [br.flatten(x, axis).shape for axis in (0, 2, 3)] == [
            (2 * b * t,),
            (b, 2, t),
            (b, 2, t, 1),
        ]
        with pytest.raises(ShapeError, match="axis 4 is out of range for an array of rank 3"):
            br.flatten(x, 4)


def test_squeeze_removes_ones_only() -> None:
    with br.Program():
        x = br.data("x", ["b", 1, None])
        with pytest.raises(ShapeError, match="expected size 1 on axis 0, got b"):
            br.squeeze(x, 0)
        assert br.squeeze(x, (1, 2)).shape == (b,)
        assert x.shape == (b, 1, 1)


def test_broadcast_to_refuses_what_does_not_fit() -> None:
    with br.Program():
        x = br.data("x", ["b", 3])
        for shape in ((3,), (b, 4), (t, 3), (-1, 3)):
            with pytest.raises(ShapeError, match="broadcast_to: cannot broadcast"):
                br.broadcast_to(x, shape)


def test_axes_that_are_not_there_are_refused() -> None:
    with br.Program():
        x = br.data("x", ["b", 3])
        for build in (
            lambda: br.flip(x, 2),
            lambda: br.roll(x, 1, -3),
            lambda: br.swapaxes(x, 0, 2),
            lambda: br.moveaxis(x, 2, 0),
            lambda: br.expand_dims(x, 3),
            lambda: br.concat([x, x], axis=2),
            lambda: br.split(x, 1, axis=-3),
        ):
            with pytest.raises(
                ShapeError, match=r"axis -?\d is out of range for an array of rank \d"
            ):
                build()
        with pytest.raises(ShapeError, match="`source` has 1 axes, `destination` has 2"):
            br.moveaxis(x, 0, (0, 1))
        with pytest.raises(ShapeError, match="`shift` has 3 entries for 2 axes"):
            br.roll(x, (1, 2, 3), (0, 1))


# ---- together and apart ----------------------------------------------------------------------


def test_pieces_of_symbolic_sizes_get_their_gradients(mode: str) -> None:
    parts = [ramp(2, 2), ramp(3, 2) + 10, ramp(1, 2) + 20]
    with br.Program() as program:
        xs = [br.data("x", ["b", 2]), br.data("y", ["t", 2]), br.data("z", [1, 2])]
        joined = br.concat(xs, axis=0)
        grads = br.gradients([br.sum(joined * joined)], xs)
    assert joined.shape == (b + t + 1, 2)
    feed = dict(zip("xyz", parts, strict=True))
    for part, grad in zip(parts, run(mode, program, grads, **feed), strict=True):
        np.testing.assert_array_equal(grad, 2 * part)


def test_the_gradient_of_concat_cuts_with_known_bounds_where_it_can() -> None:
    with br.Program() as program:
        first, rest, last = br.data("f", [1, 2]), br.data("r", ["t", 2]), br.data("l", [2, 2])
        br.gradients([br.concat([first, rest, last])], [first, rest, last])
    assert not [op for op in program.table.ops if op.type in ("split", "window")]


def test_concat_and_stack_say_what_does_not_fit() -> None:
    with br.Program():
        x, y, z = br.data("x", ["b", 2]), br.data("y", ["t", 3]), br.data("z", [])
        with pytest.raises(ShapeError, match="equal sizes on axis 1, got 2 and 3"):
            br.concat([x, y])
        with pytest.raises(ShapeError, match="equal sizes on axis 0, got b and t"):
            br.concat([x, y], axis=1)
        with pytest.raises(ShapeError, match="expected arrays of equal rank, got ranks"):
            br.stack([x, z])
        with pytest.raises(ShapeError, match="got scalars"):
            br.concat([z, z])
        with pytest.raises(ShapeError, match="at least one array"):
            br.concat([])
        assert br.concat([x, br.data("u", [None, None])]).shape[1] == 2


def test_only_wanted_pieces_get_gradients(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", ["b", 2]), br.data("n", ["b", 2], dtype="int32")
        grads = br.gradients([br.concat([n, x], 1) * 3.0, br.stack([x, n])], [x])
    got, _ = run(mode, program, [*grads, n], x=ramp(2, 2), n=np.ones((2, 2), np.int32))
    np.testing.assert_array_equal(got, np.full((2, 2), 4))


def test_split_into_symbolic_sizes(mode: str) -> None:
    with br.Program() as program:
        x, y = br.data("x", [b + 3]), br.data("y", ["b"])
        head, tail = br.split(x, (b, 3))
        grads = br.gradients([head * y], [x])
    assert (head.shape, tail.shape) == ((b,), (3,))
    got = run(mode, program, [head, tail, *grads], x=ramp(5), y=ramp(2) + 1)
    for array, want in zip(got, ([0, 1], [2, 3, 4], [1, 2, 0, 0, 0]), strict=True):
        np.testing.assert_array_equal(array, want)


def test_the_error_of_split_has_the_sizes() -> None:
    with br.Program():
        x = br.data("x", ["b", 5])
        with pytest.raises(ShapeError, match="axis size b is not divisible into 2 equal"):
            br.split(x, 2)
        with pytest.raises(ShapeError, match="axis size 5 is not divisible into 2 equal"):
            br.split(x, 2, axis=1)
        with pytest.raises(ShapeError, match=r"sections 2 \+ 2 do not sum to the axis size 5"):
            br.split(x, (2, 2), axis=1)
        with pytest.raises(ShapeError, match="at least one section, got 0"):
            br.split(x, 0)
        with pytest.raises(
            ShapeError,
            match=r"(?s)number of outputs, b, is not known before the run.*create_rnn",
        ):
            br.unstack(x)


def test_unstack_of_nothing_is_no_array(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [2, 0])
        assert br.unstack(x, axis=1) == []
        (grad,) = br.gradients([br.unstack(x)[1]], [x])
    assert run(mode, program, [grad], x=ramp(2, 0))[0].shape == (2, 0)


# ---- margins and copies ----------------------------------------------------------------------


def test_symbolic_margins(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", ["b", 2]), br.data("n", ["t"])
        y = br.pad(x, ((t, 1), (0, 0)), value=-1.0)
        grads = br.gradients([y * y], [x])
    assert y.shape == (b + t + 1, 2)
    got, grad, _ = run(mode, program, [y, *grads, n], x=ramp(2, 2), n=ramp(3))
    np.testing.assert_array_equal(got, np.pad(ramp(2, 2), ((3, 1), (0, 0)), constant_values=-1))
    np.testing.assert_array_equal(grad, 2 * ramp(2, 2))


def test_what_margins_and_copies_refuse() -> None:
    with br.Program():
        x = br.data("x", ["b", 2, 3])
        with pytest.raises(ShapeError, match="`widths` has 2 pairs for an array of rank 3"):
            br.pad(x, ((1, 1), (1, 1)))
        with pytest.raises(ShapeError, match="negative padding"):
            br.pad(x, -1)
        with pytest.raises(ProgramError, match="pad: invalid argument widths"):
            br.pad(x, ((1, 1, 1),))
        with pytest.raises(ShapeError, match="negative number of repetitions"):
            br.tile(x, (-1, 1, 1))
        with pytest.raises(ShapeError, match="negative number of repetitions"):
            br.repeat(x, -1)


def test_the_margin_of_infinity_leaves_gradients_finite(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"])
        grads = br.gradients([br.max(br.pad(x, 1, value=-np.inf))], [x])
    np.testing.assert_array_equal(run(mode, program, grads, x=ramp(3)), [[0, 0, 1]])


def test_triangles_need_matrices() -> None:
    with br.Program():
        x = br.data("x", ["b"])
        with pytest.raises(ShapeError, match="tril: expected an array of rank 2 or more"):
            br.tril(x)
        with pytest.raises(ShapeError, match="diag: expected a vector or a matrix"):
            br.diag(br.data("y", ["b", 2, 2]))
        assert br.diag(br.data("z", ["b", "b"])).shape == (b,)
        assert str(br.diag(br.data("u", [3, "t"]), 1).shape) == "(max(min(t - 1, 3), 0),)"


# ---- indices ---------------------------------------------------------------------------------


def test_gathering_refuses_what_does_not_fit() -> None:
    with br.Program():
        x, i = br.data("x", ["b", 3]), br.data("i", ["t"], dtype="int32")
        with pytest.raises(DTypeError, match=r"(?s)expected integer indices.*br\.cast"):
            br.take(x, x, axis=0)
        with pytest.raises(DTypeError, match=r"(?s)expected integer indices.*br\.where"):
            br.take(x, x > 0.0, axis=0)
        with pytest.raises(DTypeError, match=r"(?s)expected integer indices.*br\.where"):
            br.take(i, x > 0.0, axis=0)
        with pytest.raises(DTypeError, match=r"(?s)the ids first.*br\.embedding\(ids, table\)"):
            br.embedding(x, i)
        with pytest.raises(
            DTypeError, match=r"the order of arguments: br\.take\(x, indices, axis\)"
        ):
            br.take(i, x, axis=0)
        with pytest.raises(ShapeError, match=r"update of the type f32\[t,3\], got f32\[b,3\]"):
            br.scatter_add(x, i, x)
        with pytest.raises(DTypeError, match="update of dtype float32, got float64"):
            br.scatter_add(x, i, br.data("u", ["t", 3], dtype="float64"))
        with pytest.raises(ShapeError, match="expected a table of rank 2"):
            br.embedding(i, br.data("table", [3]))
        with pytest.raises(ShapeError, match=r"(?s)shape of x except on axis 1.*expand_dims"):
            br.take_along_axis(x, i, axis=1)
        with pytest.raises(ShapeError, match="expected 1 to 2 indices"):
            br.gather_nd(x, [i, i, i])
        with pytest.raises(ShapeError, match="negative num_classes=-1"):
            br.one_hot(i, -1)


GATHERS = {
    "take": lambda x, i: br.take(x, i, axis=0),
    "flat": lambda x, i: br.take(x, i),
    "scatter_add": lambda x, i: br.scatter_add(x, i, br.zeros_like(br.take(x, i, axis=0))),
    "embedding": lambda x, i: br.embedding(i, x),
    "one_hot": lambda x, i: br.one_hot(i, 3),
    "take_along_axis": lambda x, i: br.take_along_axis(x, br.expand_dims(i, 1), axis=0),
    "put_along_axis_add": lambda x, i: emit(
        "put_along_axis_add", x, br.expand_dims(i, 1), x[:1], axis=0
    ),
    "gather_nd": lambda x, i: br.gather_nd(x, [np.int32(0), i]),
    "scatter_nd_add": lambda x, i: br.scatter_nd_add(x, [1.0], [i, np.int32(0)]),
}


FAR = ("-1073741822 or less", "1073741822 or more")


@pytest.mark.parametrize("op", GATHERS)
def test_indices_out_of_range_are_errors_in_the_run(mode: str, op: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", [3, 1]), br.data("i", [1], dtype="int64")
        if op == "gather_nd":
            x = br.reshape(x, (1, 3))
        y = GATHERS[op](x, i)
    negative = [-1] if op in ("embedding", "one_hot") else [-4]
    for wrong in ([3], negative, [2**33], [-(2**62)]):
        with pytest.raises(IndexRangeError, match="out of range") as error:
            run(mode, program, [y], x=ramp(3, 1), i=np.array(wrong))
        index, *operands = str(error.value.given).split("   ")
        assert index == (str(wrong[0]) if wrong[0] in (3, -1, -4) else FAR[wrong[0] > 0])
        assert any("i64[1" in operand for operand in operands), operands
    run(mode, program, [y], x=ramp(3, 1), i=np.array([2]))
    if op not in ("embedding", "one_hot"):
        run(mode, program, [y], x=ramp(3, 1), i=np.array([-3]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
def test_small_and_unsigned_indices_reach_far(mode: str, dtype: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", [300]), br.data("i", [2], dtype=dtype)
        y = br.take(x, i, axis=0)
    signed = dtype.startswith("i")
    index = np.array([127, -100 if signed else 200]).astype(dtype)
    got = run(mode, program, [y], x=ramp(300), i=index)[0]
    np.testing.assert_array_equal(got, ramp(300)[index])


def test_an_unsigned_index_does_not_wrap_around(mode: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", [3]), br.data("i", [1], dtype="uint64")
        y = br.take(x, i, axis=0)
    with pytest.raises(IndexRangeError):
        run(mode, program, [y], x=ramp(3), i=np.array([2**64 - 1], np.uint64))


def test_nothing_can_be_taken_from_nothing(mode: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", ["b", 2]), br.data("i", ["t"], dtype="int32")
        y = br.take(x, i, axis=0)
        grads = br.gradients([y], [x])
    none = np.zeros(0, np.int32)
    got, grad = run(mode, program, [y, *grads], x=ramp(0, 2), i=none)
    assert (got.shape, grad.shape) == ((0, 2), (0, 2))
    with pytest.raises(IndexRangeError):
        run(mode, program, [y], x=ramp(0, 2), i=np.zeros(1, np.int32))


def test_repeated_indices_add_up(mode: str) -> None:
    with br.Program() as program:
        table, ids = br.data("table", [3, 2]), br.data("ids", ["b"], dtype="int32")
        rows = br.embedding(ids, table)
        grads = br.gradients([rows * rows], [table])
    table_ = ramp(3, 2) + 1
    got = run(mode, program, grads, table=table_, ids=np.array([1, 1, 0, 1], np.int32))[0]
    np.testing.assert_array_equal(got, 2 * table_ * [[1], [3], [0]])


def test_the_gradient_of_an_embedding_in_a_loop_adds_rows_in_place(mode: str) -> None:
    with br.Program() as program:
        table = br.data("table", [5, 2])
        ids = br.data("ids", ["t", "b"], dtype="int32")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            now = net.add_input(ids)
            h = net.add_memory(init=br.constant(np.zeros((1, 2), np.float32)))
            h.update(h.pre() + br.sum(br.embedding(now, table), axis=0, keepdims=True))
        grads = br.gradients([br.sum(rnn.final(h))], [table])
    text = str(program)
    assert text.count("= scatter_add(") == 1
    got = run(mode, program, grads, table=ramp(5, 2), ids=np.array([[1, 2], [1, 4]], np.int32))
    np.testing.assert_array_equal(got[0], np.array([0, 2, 1, 0, 1])[:, None] * np.ones(2))
