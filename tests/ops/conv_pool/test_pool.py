"""Pooling with dilation, rounding up, and indices of the maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError
from tests.ops.references.conv_pool.max_pool import max_pool_with_indices

pytestmark = pytest.mark.unoptimized


def type_of(function: Any, *shape: Any, **attrs: Any) -> str:
    with br.Program():
        return str(function(br.data("x", shape), **attrs).type)


def test_sizes_with_a_window_more_are_symbolic() -> None:
    rounded = type_of(br.max_pool1d, "b", 3, "t", window=2, ceil_mode=True)
    assert rounded == "f32[b,3,floordiv(t + 1, 2)]"
    assert type_of(br.avg_pool1d, "b", 3, 7, window=3, stride=2, ceil_mode=True) == "f32[b,3,3]"
    assert type_of(br.avg_pool1d, "b", 3, 2, window=3, stride=2, ceil_mode=True) == "f32[b,3,1]"
    begins_in_padding = {"window": 3, "stride": 3, "padding": 1, "ceil_mode": True}
    assert type_of(br.max_pool1d, 1, 1, 5, **begins_in_padding) == "f32[1,1,2]"
    assert type_of(br.max_pool3d, 1, 1, 9, 9, 9, window=3, dilation=4) == "f32[1,1,1,1,1]"


@pytest.mark.parametrize("window", [(2, 2), (6, 7)], ids=["few places", "many places"])
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_places_and_gradients_are_those_of_the_first_with_holes_too(
    mode: str, window: Any, ceil_mode: bool
) -> None:
    attrs = {
        "window": window, "stride": (3, 2), "padding": 1, "dilation": 2, "ceil_mode": ceil_mode,
        "layout": "NCHW",
    }  # fmt: skip
    x = np.random.default_rng(0).integers(-2, 3, (2, 3, 15, 14)).astype("float64")
    with br.Program() as program:
        given = br.data("x", ["b", 3, "h", 14], dtype="float64")
        plain = br.max_pool2d(given, **attrs)
        out, places = br.layers.max_pool_with_indices2d(given, **attrs)
        found = [*br.gradients([plain], [given]), *br.gradients([out], [given])]
    fetch = [plain, out, places, *found]
    got = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x}, fetch=fetch)
    want, at = max_pool_with_indices(x, **attrs)
    moved = np.zeros((2, 3, 15 * 14))
    for n, c in np.ndindex(2, 3):
        np.add.at(moved[n, c], at[n, c].ravel(), 1)
    for value, wanted in zip(got, [want, want, at, *[moved.reshape(x.shape)] * 2], strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_nan_has_a_place(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [1, 1, "t"])
        out, places = br.layers.max_pool_with_indices1d(x, window=3)
    feed = {"x": np.array([[[1, np.nan, 2, -np.inf, -np.inf, -np.inf]]], "float32")}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out, places])
    np.testing.assert_array_equal(got[0][0, 0], [np.nan, -np.inf])
    np.testing.assert_array_equal(got[1][0, 0], [1, 3])


def test_elements_beyond_the_padding_never_count(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [1, 1, "t"])
        attrs = {"window": 3, "stride": 3, "padding": 1, "ceil_mode": True}
        out = [br.avg_pool1d(x, count_include_pad=counts, **attrs) for counts in (True, False)]
    feed = {"x": np.full((1, 1, 6), 6, "float32")}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=out)
    np.testing.assert_array_equal(got[0][0, 0], [4, 6, 3])
    np.testing.assert_array_equal(got[1][0, 0], [6, 6, 6])


def test_the_norm_of_nothing_but_zeros_has_no_slope(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [1, 1, "t"])
        out = br.layers.lp_pool1d(x, window=2)
        (grad,) = br.gradients([out], [x])
    feed = {"x": np.array([[[0, 0, 3, -4]]], "float32")}
    got, moved = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out, grad])
    np.testing.assert_allclose(got[0, 0], [0, 5])
    np.testing.assert_allclose(moved[0, 0], [0, 0, 0.6, -0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "attrs", "error", "message"),
    [
        (
            br.layers.lp_pool2d,
            {"window": 2, "p": 0.5},
            ShapeError,
            "lp_pool2d: invalid norm p=0.5",
        ),
        (br.max_pool2d, {"window": 3, "dilation": 3}, ShapeError, "a window of 7 elements"),
        (br.max_pool2d, {"window": (2, 2, 2)}, ShapeError, "3 entries for 2 spatial axes"),
        (
            br.avg_pool2d,
            {"window": 2, "dilation": 0},
            ShapeError,
            "`dilation` must be at least 1",
        ),
        (br.avg_pool3d, {"window": 2}, ShapeError, "x of avg_pool3d: expected rank 5"),
        (br.max_pool2d, {"window": 2, "layout": "NCW"}, ShapeError, "unknown layout 'NCW'"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(
    function: Any, attrs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with br.Program() as program:
        x = br.data("x", [1, 2, 6, 6])
        before = str(program)
        with pytest.raises(error, match=message) as wrong:
            function(x, **attrs)
        assert str(program) == before
    assert "test_pool.py" in str(wrong.value)


def test_places_need_an_order() -> None:
    with br.Program():
        x = br.data("x", [1, 2, 6], dtype="complex64")
        message = "max_pool_with_indices1d is not defined for complex"
        with pytest.raises(DTypeError, match=message):
            br.layers.max_pool_with_indices1d(x, window=2)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: br.max_pool2d(x, 5),
        lambda x: br.layers.max_pool_with_indices2d(x, 5)[1],
        lambda x: br.max_pool2d(x, 3, dilation=2),
        lambda x: br.avg_pool2d(x, 5),
        lambda x: br.layers.lp_pool2d(x, 5, p=2.0),
        lambda x: br.conv2d(x, br.ones([2, 1, 5, 5])),
        lambda x: br.image.im2col(x, window=5),
    ],
)
def test_a_run_refuses_an_image_that_is_smaller_than_the_window(
    mode: str, build: Callable[[br.Var], br.Var]
) -> None:
    with br.Program() as prog:
        out = build(br.data("x", ["n", 1, "h", "w"]))
    exe, feed = br.Executor(mode), {"x": np.ones((2, 1, 5, 4), "float32")}
    with pytest.raises(ShapeError, match=r"window of 5 elements .* axis of size 4") as caught:
        exe.run(prog, br.Scope(), feed, out)
    assert "test_pool.py" in str(caught.value)
    feed = {"x": np.ones((0, 1, 5, 6), "float32")}  # no images, of a sufficient size
    assert exe.run(prog, br.Scope(), feed, out).shape[0] == 0
