"""Resizing: values of other libraries, symbolic sizes, gradients, and errors."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import onnx.parser
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized


def resized(x: Any, shape: Any, **options: Any) -> Any:
    with br.Program() as prog:
        out = br.image.resize(br.data("x", x.shape, dtype=x.dtype), shape, **options)
    return br.Executor().run(prog, br.Scope(), feed={"x": x}, fetch=out)


@pytest.mark.parametrize("shape", [(2, 3, 3), (2, 11, 9), (2, 2, 20), (2, 40, 1)])
@pytest.mark.parametrize(
    ("mode", "coefficient"), [("nearest", -0.5), ("linear", -0.5), ("cubic", -0.5)]
)
def test_images_are_resized_as_jax_does(shape: Any, mode: str, coefficient: float) -> None:
    x = np.random.default_rng(0).normal(size=(2, 7, 8)).astype(np.float32)
    wanted = jax.image.resize(x, shape, mode)
    smooth = {} if mode == "nearest" else {"antialias": True, "exclude_outside": True}
    rounding = {"nearest_mode": "round_prefer_ceil"}
    got = resized(x, shape, mode=mode, cubic_coefficient=coefficient, **smooth, **rounding)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_gradient_scatters_nothing_and_keeps_nothing() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4, 4])
        out = br.image.resize(br.sin(x), ["n", 8, 8], mode="cubic")
        (grad,) = br.gradients(out, x)
    ops = [op.type for op in prog.block(0).ops]
    assert "resize_back" in ops
    (back,) = [op for op in prog.block(0).ops if op.type == "resize_back"]
    assert len(back.inputs["x"]) == 1
    assert str(grad.type) == "f32[n,4,4]"


def test_long_sums_are_products_with_a_matrix() -> None:
    x = np.random.default_rng(0).normal(size=(3, 500)).astype(np.float32)
    got = resized(x, (3, 4), antialias=True, exclude_outside=True)
    np.testing.assert_allclose(got, jax.image.resize(x, (3, 4), "linear"), atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "options", "word"),
    [
        ([2, 3], {}, "`shape` has 2 sizes; expected 3"),
        ([2, 3, -1], {}, "negative"),
        ([2, 3, 4], {"mode": "bicubic"}, "bicubic"),
        ([2, 3, 4], {"coordinates": "corners"}, "corners"),
        ([2, 3, 4], {"nearest_mode": "up"}, "up"),
        ([2, 3, 4], {"scales": (1.0, 2.0)}, "scales"),
        ([2, 3, 4], {"scales": (1.0, 0.0, 1.0)}, "scales"),
        ([2, 3, 4], {"region": (0.0, 1.0)}, "region"),
        ([2, 3, 4], {"mode": "nearest", "antialias": True}, "antialias=True is not supported"),
    ],
)
def test_invalid_options_of_resize_are_refused(shape: Any, options: Any, word: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 5, 5])
        before = str(prog)
        with pytest.raises(br.BracesError, match=word) as caught:
            br.image.resize(x, shape, **options)
        assert "test_resizing.py" in str(caught.value)
        assert str(prog) == before


def test_bools_have_no_mean() -> None:
    with br.Program():
        x = br.data("x", [2, 5], dtype="bool")
        assert str(br.image.resize(x, [2, 9], mode="nearest").type) == "bool[2,9]"
        with pytest.raises(br.errors.DTypeError):
            br.image.resize(x, [2, 9])


# ---- ONNX ------------------------------------------------------------------------------------


def read(text: str, version: int = 19, **options: Any) -> br.Program:
    head = f'<ir_version: 10, opset_import: ["" : {version}]> resizing '
    prog, _ = br.from_onnx(onnx.parser.parse_model(head + text), **options)
    return prog


SCALED = """(float[N, 3, H, W] x) => (float[N, 3, K, L] y) {{
    scales = Constant<value = float[4] {{1.0, 1.0, {up}, {down}}}>()
    y = Resize<mode = "linear">(x, , scales)
}}"""


def test_symbolic_sizes_are_multiplied_by_exact_factors() -> None:
    prog = read(SCALED.format(up=2.0, down=0.5))
    assert str(prog.var("y").type) == "f32[N,3,2*H,floordiv(W, 2)]"
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32)
    (y,) = br.Executor().run(prog, br.Scope(), feed={"x": x}, fetch=["y"])
    fixed = read(SCALED.format(up=2.0, down=0.5), sizes={"N": 2, "H": 5, "W": 7})
    (other,) = br.Executor().run(fixed, br.Scope(), feed={"x": x}, fetch=["y"])
    np.testing.assert_array_equal(y, other)


def test_a_symbolic_size_times_any_number_is_refused() -> None:
    with pytest.raises(br.errors.ProgramError, match="symbolic size"):
        read(SCALED.format(up=1.1, down=1.0))


def test_sizes_that_follow_from_another_input_are_computed_while_reading() -> None:
    prog = read("""(float[N, C, H, W] x, float[N, C, P, Q] like) => (float[N, C, P, Q] y) {
        sizes = Shape(like)
        y = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric">(
            x, , , sizes)
    }""")
    assert [op.type for op in prog.block(0).ops] == ["resize"]
    assert str(prog.var("y").type) == "f32[N,C,P,Q]"


def test_whole_numbers_stay_whole_and_within_their_range() -> None:
    prog = read("""(uint8[1, 4] x) => (uint8[1, 8] y) {
        sizes = Constant<value = int64[2] {1, 8}>()
        y = Resize<mode = "cubic">(x, , , sizes)
    }""")
    x = np.array([[0, 255, 0, 255]], np.uint8)
    (y,) = br.Executor().run(prog, br.Scope(), feed={"x": x}, fetch=["y"])
    assert y.dtype == np.uint8
    assert {y.min(), y.max()} == {0, 255}
