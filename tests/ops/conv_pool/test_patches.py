"""Patches of windows, their inverse, and adjacent channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError, DTypeError, IndexRangeError, ShapeError

pytestmark = pytest.mark.unoptimized


def test_a_convolution_is_a_product_with_columns(mode: str) -> None:
    rng = np.random.default_rng(0)
    with br.Program() as program:
        x, w = br.data("x", ["b", 3, "h", 7]), br.data("w", [4, 3, 3, 2])
        attrs = {"stride": (2, 1), "padding": (1, 0, 1, 1), "dilation": (1, 2)}
        columns = br.image.im2col(x, window=(3, 2), **attrs)
        out = br.conv2d(x, w, **attrs)
        product = br.reshape(br.matmul(br.reshape(w, [4, 18]), columns), out.shape)
    feed = {"x": rng.normal(size=(2, 3, 6, 7)).astype("f4"), "w": rng.normal(size=w.shape)}
    got, want = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[product, out])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_windows_side_by_side_come_back_as_they_were(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2, 4, 6])
        out = br.image.col2im(
            br.image.im2col(x, window=2, stride=2), shape=x.shape, window=2, stride=2
        )
    value = np.random.default_rng(0).normal(size=(3, 2, 4, 6)).astype("f4")
    got = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": value}, fetch=out)
    np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_what_is_largest_goes_back_to_its_place(mode: str, layout: str) -> None:
    value = np.random.default_rng(0).permutation(2 * 4 * 4 * 4).reshape(2, 4, 4, 4)
    with br.Program() as program:
        x = br.data("x", ["b", 4, 4, 4])
        largest, places = br.layers.max_pool_with_indices2d(x, window=2, layout=layout)
        out = br.layers.max_unpool2d(largest, places, shape=x.shape, layout=layout)
        grads = br.gradients([br.sum(br.square(out))], [x])
    feed = {"x": value.astype("f4")}
    got, grad = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out, *grads])
    kept = got != 0
    np.testing.assert_array_equal(got[kept], value[kept])
    np.testing.assert_array_equal(grad, 2 * got)
    assert kept.sum() == value.size / 4 - (value[kept].min() == 0)


def test_a_place_that_there_is_not_is_an_error_of_the_run(mode: str) -> None:
    with br.Program() as program:
        x, at = br.data("x", [1, 1, 2]), br.data("at", [1, 1, 2], dtype="int64")
        out = br.layers.max_unpool1d(x, at, shape=(1, 1, 4))
    for wrong in (4, -1):
        feed = {"x": np.ones((1, 1, 2)), "at": np.array([[[0, wrong]]])}
        with pytest.raises(IndexRangeError, match="unpooling index") as error:
            br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=out)
        assert "test_patches.py" in str(error.value)


REFUSED: list[tuple[Callable[..., Any], type[BracesError], str]] = [
    (lambda x, at: br.image.im2col(x, window=9), ShapeError, "a window of 9 elements"),
    (
        lambda x, at: br.image.im2col(br.reshape(x, [-1]), window=1),
        ShapeError,
        "x of im2col: expected rank 3, 4 or 5, got rank 1",
    ),
    (
        lambda x, at: br.image.col2im(x, shape=(1, 2, 9), window=2),
        ShapeError,
        "col2im: expected",
    ),
    (
        lambda x, at: br.image.col2im(br.reshape(x, [1, 4, 3]), shape=(1, 2, 5), window=2),
        ShapeError,
        r"expected f32\[1,4,4\] for an output of this shape, got f32\[1,4,3\]",
    ),
    (
        lambda x, at: br.layers.max_unpool2d(x, at, shape=(1, 3, 8, 8)),
        ShapeError,
        "batch and channels of `shape`",
    ),
    (
        lambda x, at: br.layers.max_unpool2d(x, at, shape=(1, 2, 8)),
        ShapeError,
        "`shape` has 3 sizes; expected 4",
    ),
    (
        lambda x, at: br.layers.max_unpool2d(x, x, shape=(1, 2, 8, 8)),
        DTypeError,
        "expected integer indices",
    ),
    (
        lambda x, at: br.layers.local_response_norm(x, size=0),
        ShapeError,
        "at least one channel",
    ),
    (
        lambda x, at: br.layers.local_response_norm(br.reshape(x, [-1]), size=3),
        ShapeError,
        "expected channels on axis 1",
    ),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_what_does_not_fit_is_refused_where_it_is_written(
    build: Callable[..., Any], error: type[BracesError], message: str
) -> None:
    with br.Program():
        x, at = br.data("x", [1, 2, 2, 3]), br.data("at", [1, 2, 2, 3], dtype="int64")
        with pytest.raises(error, match=message) as wrong:
            build(x, at)
    assert "test_patches.py" in str(wrong.value)
