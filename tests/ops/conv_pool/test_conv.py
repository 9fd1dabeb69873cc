"""Edge cases of convolution and pooling."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError
from braces.extend.building import call

pytestmark = pytest.mark.unoptimized

NCHW = ("b", 3, "h", "w")


def shapes_of(*shape: Any, weight: Any = (4, 3, 3, 3), **attrs: Any) -> str:
    """The inferred type of a convolution, as text."""
    with br.Program():
        return str(br.conv2d(br.data("x", shape), br.data("k", weight), **attrs).type)


def evaluate(mode: str, function: Any, *arrays: Any) -> Any:
    """Build with one symbolic input for each array, and run."""
    with br.Program() as program:
        vars_ = [
            br.data(f"x{i}", [f"x{i}_{n}" for n in range(a.ndim)], dtype=a.dtype)
            for i, a in enumerate(arrays)
        ]
        out = function(*vars_)
    feed = {var.name: a for var, a in zip(vars_, arrays, strict=True)}
    return br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[out])[0]


# ---- inference -------------------------------------------------------------------------------


def test_symbolic_sizes_pass_through_windows() -> None:
    assert shapes_of(*NCHW) == "f32[b,4,max(h - 2, 0),max(w - 2, 0)]"
    assert shapes_of(*NCHW, padding="same") == "f32[b,4,h,w]"
    assert shapes_of(*NCHW, padding=1) == "f32[b,4,h,w]"
    found = shapes_of(*NCHW, padding="same", stride=2)
    assert found == "f32[b,4,floordiv(h + 1, 2),floordiv(w + 1, 2)]"


def test_an_unnamed_channel_dimension_becomes_that_of_the_weight() -> None:
    with br.Program():
        x = br.data("x", ["b", None, 8, 8])
        br.conv2d(x, br.data("k", [4, 3, 3, 3]))
        assert str(x.type) == "f32[b,3,8,8]"


def test_a_bias_must_have_the_output_channels() -> None:
    with br.Program(), pytest.raises(ShapeError, match="expected a bias of size 4, got 5"):
        br.conv2d(br.data("x", NCHW), br.data("k", [4, 3, 3, 3]), bias=br.data("c", [5]))


@pytest.mark.parametrize(
    ("shape", "attrs", "message"),
    [
        ((1, 2, 8, 8), {}, "expected 3 input channels, got 2"),
        ((1, 6, 8, 8), {"groups": 2}, None),
        ((1, 9, 8, 8), {"groups": 3}, "4 output channels are not divisible by groups=3"),
        ((1, 3, 2, 8), {}, "a window of 3 elements does not fit into an axis of size 2"),
        (
            (1, 3, 4, 8),
            {"dilation": 2},
            "a window of 5 elements does not fit into an axis of size 4",
        ),
        ((1, 3, 8), {}, "x of conv2d: expected rank 4, got f32"),
        ((1, 3, 8, 8), {"stride": 0}, "`stride` must be at least 1"),
        ((1, 3, 8, 8), {"stride": (1, 1, 1)}, "`stride` has 3 entries for 2 spatial axes"),
        ((1, 3, 8, 8), {"padding": -1}, "`padding` must be at least 0"),
        ((1, 3, 8, 8), {"padding": "full"}, "unknown padding 'full'"),
        ((1, 3, 8, 8), {"layout": "CHWN"}, "unknown layout 'CHWN'"),
        ((1, 3, 8, 8), {"groups": 0}, "invalid groups=0"),
    ],
)
def test_what_does_not_fit_is_refused(shape: Any, attrs: Any, message: str | None) -> None:
    if message is None:
        assert shapes_of(*shape, **attrs)
    else:
        with pytest.raises(ShapeError, match=message):
            shapes_of(*shape, **attrs)


@pytest.mark.parametrize(
    ("op", "other", "shape"),
    [("conv_to_input", (4, 3, 3), (2, 3, 7)), ("conv_to_weight", (2, 3, 7), (4, 3, 3))],
)
@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((2, 4, 6), r"expected result f32\[2,4,5\]"),
        ((4, 5), "result of conv_to_.*: expected rank 3"),
    ],
)
def test_a_derivative_needs_what_the_convolution_gives(
    op: str, other: Any, shape: Any, result: Any, message: str
) -> None:
    with br.Program(), pytest.raises(ShapeError, match=message):
        call(op, br.data("other", other), br.data("r", result), shape=shape, layout="NCW")


def test_a_window_of_unknown_size_is_refused() -> None:
    with pytest.raises(ShapeError, match="must have known sizes"):
        shapes_of(*NCHW, weight=(4, 3, "k", 3))


# ---- values ----------------------------------------------------------------------------------


def test_a_run_refuses_a_window_larger_than_a_symbolic_axis(mode: str) -> None:
    x, weight = np.ones((2, 3, 2, 5), np.float32), np.ones((4, 3, 3, 3), np.float32)
    with br.Program() as program:
        x_var = br.data("x", NCHW)
        out = br.conv2d(x_var, br.constant(weight))
        (grad,) = br.gradients([br.sum(out)], [x_var])
    run = br.Executor(mode=mode).run
    with pytest.raises(ShapeError, match=r"a window of 3 .* an axis of size 2") as caught:
        run(program, br.Scope(), feed={"x": x}, fetch=[out, grad])
    assert "test_conv.py" in str(caught.value)
    out, grad = run(program, br.Scope(), feed={"x": x[:, :, [0, 1, 1]]}, fetch=[out, grad])
    assert out.shape == (2, 4, 1, 3)
    assert grad.shape == (2, 3, 3, 5)


def test_layouts_agree(mode: str, rng: Any) -> None:
    x = rng.normal(size=(2, 3, 6, 5)).astype(np.float32)
    weight = rng.normal(size=(4, 3, 3, 2)).astype(np.float32)

    def both(padding: Any) -> Any:
        first = br.conv2d(br.constant(x), br.constant(weight), padding=padding)
        last = br.conv2d(
            br.constant(x.transpose(0, 2, 3, 1)),
            br.constant(weight.transpose(2, 3, 1, 0)),
            padding=padding,
            layout="NHWC",
        )
        return first, last

    with br.Program() as program:
        pairs = [both(padding) for padding in ("valid", "same", 1, (0, 1), (1, 0, 2, 1))]
    for first, last in pairs:
        got, other = br.Executor(mode=mode).run(program, br.Scope(), fetch=[first, last])
        np.testing.assert_allclose(got, other.transpose(0, 3, 1, 2), 1e-5, 1e-5)


def test_integers_convolve_as_float32() -> None:
    with br.Program():
        x, weight = br.data("x", NCHW, dtype="int32"), br.data("k", [1, 3, 1, 1], dtype="int8")
        assert str(br.conv2d(x, weight).dtype) == "float32"


def test_max_pool_passes_nan_on_and_ignores_padding(mode: str) -> None:
    x = np.array([[[[-3.0, np.nan], [-2.0, -1.0]]]], np.float32)
    got = evaluate(
        mode, lambda v: br.max_pool2d(v, window=2, stride=1, padding=(1, 0, 1, 0)), x
    )
    np.testing.assert_array_equal(got, [[[[-3.0, np.nan], [-2.0, np.nan]]]])


def test_the_gradient_of_equal_elements_goes_to_the_first(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [1, 1, "h", 4])
        (grad,) = br.gradients([br.sum(br.max_pool2d(x, window=2))], [x])
    feed = {"x": np.zeros((1, 1, 2, 4), np.float32)}
    (got,) = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[grad])
    np.testing.assert_array_equal(got[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize(
    "attrs",
    [
        {"window": 2},
        {"window": (3, 2), "layout": "NHWC"},
        {"window": 3, "stride": 2, "padding": 1},
        {"window": 3, "stride": 1, "padding": "same", "layout": "NHWC"},
        {"window": (2, 3), "stride": (3, 1), "padding": (0, 1, 2, 0)},
        {"window": 7, "stride": 3},
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_gradient_of_a_largest_element_is_that_of_jax(
    attrs: dict[str, Any], dtype: str
) -> None:
    """With many equal elements, and windows of more elements than are compared one by one."""
    rng = np.random.default_rng(0)
    shape = (2, 11, 13, 3) if "layout" in attrs else (2, 3, 11, 13)
    x = rng.integers(-3, 3, shape).astype(dtype)
    with br.Program() as program:
        given = br.data("x", list(shape), dtype=dtype)
        out = br.max_pool2d(given, **attrs)
        weights = br.data("w", out.shape, dtype=dtype)
        (grad,) = br.gradients([br.sum(out * weights)], [given])
    w = rng.integers(-8, 8, out.shape).astype(dtype)
    got = br.Executor().run(program, br.Scope(), feed={"x": x, "w": w}, fetch=grad)
    with jax.enable_x64(True):
        _, pull = jax.vjp(lambda x: pooled_by_jax(x, **attrs), x)
        np.testing.assert_array_equal(got, pull(w)[0])


def pooled_by_jax(
    x: Any, window: Any, stride: Any = None, padding: Any = "valid", layout: str = "NCHW"
) -> Any:
    """JAX's own pooling, which has a gradient where nothing is dilated."""
    spatial = [axis for axis, letter in enumerate(layout) if letter in "HW"]
    sizes, steps, pads = [1] * 4, [1] * 4, [(0, 0)] * 4
    edges = (
        padding if isinstance(padding, tuple) else (0 if padding == "valid" else padding,) * 4
    )
    for i, axis in enumerate(spatial):
        sizes[axis] = np.broadcast_to(window, 2)[i]
        steps[axis] = sizes[axis] if stride is None else np.broadcast_to(stride, 2)[i]
        pads[axis] = (edges[2 * i], edges[2 * i + 1])
    start = np.asarray(-np.inf, x.dtype)
    given = padding.upper() if isinstance(padding, str) else pads
    return jax.lax.reduce_window(x, start, jax.lax.max, sizes, steps, given)


def test_the_gradient_of_a_largest_element_goes_to_nan_but_not_to_padding(mode: str) -> None:
    low, nan = -np.inf, np.nan
    x = np.array([[[[low, low, 1.0], [low, 2.0, nan], [0.0, nan, 3.0]]]], np.float32)
    with br.Program() as program:
        given = br.data("x", list(x.shape))
        out = br.max_pool2d(given, window=2, padding=1)
        (grad,) = br.gradients([out], [given])
    got = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x}, fetch=grad)
    np.testing.assert_array_equal(got[0, 0], [[1, 0, 1], [0, 0, 1], [1, 0, 0]])


def test_avg_pool_counts_padding_only_on_request(mode: str) -> None:
    x = np.ones((1, 1, 2, 2), np.float32)

    def corner(**attrs: Any) -> float:
        out = evaluate(mode, lambda v: br.avg_pool2d(v, window=2, padding=1, **attrs), x)
        return float(out[0, 0, 0, 0])

    assert (corner(), corner(count_include_pad=True)) == (1.0, 0.25)


def test_padding_as_wide_as_the_window_is_refused() -> None:
    with (
        br.Program(),
        pytest.raises(ShapeError, match="padding 2 is too large for a window of 2"),
    ):
        br.max_pool2d(br.data("x", NCHW), window=2, padding=2)


def test_complex_numbers_have_no_maximum() -> None:
    with br.Program(), pytest.raises(DTypeError, match="is not defined for complex numbers"):
        br.max_pool2d(br.data("x", NCHW, dtype="complex64"), window=2)
