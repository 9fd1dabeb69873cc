"""Small integers with a scale: ties, ends, gradients, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError
from tests.support.running import run_function

pytestmark = pytest.mark.unoptimized


def test_halves_go_to_even_numbers_and_the_ends_are_kept(mode: str) -> None:
    x = np.array([0.5, 1.5, -0.5, -2.5, 1e9, -np.inf, 300, -300], "f4")
    found = run_function(mode, lambda x: br.layers.quantize(x, 1.0, dtype="int8"), x)
    np.testing.assert_array_equal(found, [0, 2, 0, -2, 127, -128, 127, -128])


def test_a_quotient_is_that_of_numpy_where_it_is_nearly_a_half(mode: str) -> None:
    scale = np.asarray(np.float32(5) / np.float32(255))
    x = ((np.arange(-120, 120) + 0.5) * np.float64(scale)).astype("f4")
    found = run_function(mode, lambda x, s: br.layers.quantize(x, s, dtype="int8"), x, scale)
    np.testing.assert_array_equal(found, np.rint(x / scale))


def test_a_scale_has_a_gradient_and_numbers_train_through_rounding() -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        scale = br.data("scale", [])
        q = br.layers.quantize(x, scale, dtype="int8")
        near = br.layers.dequantize(q, scale)
        through = x + br.stop_gradient(near - x)
        grads = br.gradients([br.sum(through * through)], [x])
        scales = br.gradients([br.sum(near)], [scale])
    feed = {"x": np.array([0.3, -1.2, 2.0], "f4"), "scale": np.float32(0.5)}
    fetch = [*grads, *scales]
    got, slope = br.Executor().run(program, br.Scope(), feed=feed, fetch=fetch)
    np.testing.assert_allclose(got, 2 * np.array([0.5, -1.0, 2.0]))
    np.testing.assert_allclose(slope, 1 - 2 + 4)


def test_scales_that_do_not_fit_are_refused() -> None:
    with br.Program():
        x = br.data("x", ["b", 6])
        with pytest.raises(ShapeError, match="scales of shape"):
            br.layers.quantize(x, br.data("s", ["b", 3]), axis=1, block=4)
        with pytest.raises(ShapeError, match="`block` requires `axis`"):
            br.layers.quantize(x, 1.0, block=2)
        with pytest.raises(ShapeError, match="invalid block=-1"):
            br.layers.quantize(x, br.data("u", ["b", 6]), axis=1, block=-1)


def test_dtypes_that_hold_no_small_integers_are_refused() -> None:
    with br.Program():
        x, q = br.data("x", [3]), br.data("q", [3], "int8")
        with pytest.raises(DTypeError, match="unsupported output dtype int32"):
            br.layers.quantize(x, 1.0, dtype="int32")
        with pytest.raises(
            DTypeError, match="zero_point of dequantize: expected int8, got uint8"
        ):
            br.layers.dequantize(q, br.data("s", []), br.data("z", [], "uint8"))
        with pytest.raises(DTypeError, match="expected an integer of 32 bits"):
            br.layers.dequantize(x, br.data("t", []))
        with pytest.raises(DTypeError, match="a real floating dtype"):
            br.layers.quantize(x, q, axis=0)
