"""Windows of ONNX models with data-dependent sizes, against ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import braces as br

pytestmark = pytest.mark.unoptimized


def model(body: str, outputs: str = "float[] y", inputs: str = "float[N, 4, H, W] x") -> Any:
    head = '<ir_version: 10, opset_import: ["" : 22]>'
    return onnx.parser.parse_model(f"{head} windows ({inputs}) => ({outputs}) {{ {body} }}")


def agrees(found: Any, mode: str, shape: tuple[int, ...]) -> None:
    """Both give the same, for whole numbers of which many are equal."""
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("float32")
    prog, values = br.from_onnx(found)
    assert not values
    feed = {prog.feeds[0]: x}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=list(prog.fetches))
    for one, want in zip(got, ReferenceEvaluator(found).run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "body",
    [
        "y = MaxPool <kernel_shape = [3, 2], strides = [2, 1], ceil_mode = 1> (x)",
        "y = MaxPool <kernel_shape = [3, 3], auto_pad = 'SAME_UPPER', strides = [2, 3]> (x)",
        "y = AveragePool <kernel_shape = [3, 2], pads = [1, 0, 1, 1], ceil_mode = 1> (x)",
        "y = LpPool <kernel_shape = [2, 3], p = 3, pads = [1, 1, 0, 1]> (x)",
        "y = LRN <size = 3, alpha = 0.5, bias = 2.0> (x)",
        "y = LRN <size = 4, alpha = 0.5, bias = 2.0> (x)",
        "w = ConstantOfShape <value = float[1] {0.5}> (s) y = ConvTranspose <strides = [2, 1], "
        "pads = [1, 0, 0, 1], output_padding = [1, 0]> (x, w)",
        "w = ConstantOfShape <value = float[1] {0.5}> (s) "
        "y = ConvTranspose <strides = [2, 3], auto_pad = 'SAME_LOWER'> (x, w)",
        "y = Pad <mode = 'reflect'> (x, p)",
        "y = Pad <mode = 'edge'> (x, p)",
        "y = Pad <mode = 'wrap'> (x, p)",
    ],
)
def test_windows_with_symbolic_sizes_give_what_onnx_says(body: str, mode: str) -> None:
    constants = {
        "(s)": "s = Constant <value_ints = [4, 3, 3, 2]> () ",
        "(x, p)": "p = Constant <value_ints = [0, 0, 2, 1, 0, 0, 1, 3]> () ",
    }
    made = "".join(text for name, text in constants.items() if name in body)
    agrees(model(made + body.replace("'", '"')), mode, (4, 4, 7, 6))


@pytest.mark.parametrize("way", ["reflect", "edge", "wrap", "constant"])
def test_a_width_below_zero_takes_away(way: str, mode: str) -> None:
    text = f"""p = Constant <value_ints = [0, 0, 2, -1, 0, 0, -3, 1]> ()
        y = Pad <mode = "{way}"> (x, p)"""
    prog, _ = br.from_onnx(model(text))
    x = np.random.default_rng(0).normal(size=(2, 4, 7, 6)).astype("float32")
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed={"x": x}, fetch=["y"])[0]
    left = np.pad(x[:, :, :-3, 1:], [(0, 0), (0, 0), (2, 0), (0, 1)], mode=way)
    np.testing.assert_array_equal(got, left)


@pytest.mark.parametrize("order", [0, 1])
def test_places_are_among_all_elements(order: int, mode: str) -> None:
    attrs = f"kernel_shape = [2, 3], strides = [2, 2], storage_order = {order}"
    found = model(f"y, at = MaxPool <{attrs}> (x)", "float[] y, int64[] at")
    agrees(found, mode, (2, 4, 7, 6))


def test_what_was_pooled_is_put_back(mode: str) -> None:
    body = """largest, at = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (largest, at)"""
    agrees(model(body), mode, (2, 4, 6, 8))


def test_a_margin_may_hold_what_is_computed(mode: str) -> None:
    body = """p = Constant <value_ints = [0, 0, 0, 1, 0, 0, 2, 0]> ()
        v = ReduceMax <keepdims = 0> (x)
        y = Pad (x, p, v)"""
    agrees(model(body), mode, (2, 4, 3, 2))


def test_the_norm_of_the_whole_plane_has_a_slope_where_it_is_zero() -> None:
    prog, _ = br.from_onnx(model("y = GlobalLpPool <p = 3> (x)"))
    with prog:
        (grad,) = br.gradients([prog.var("y")], [prog.var("x")])
    value = np.array([[[[0.0, 0.0]], [[3.0, -1.0]], [[1.0, 0.0]], [[0.0, 2.0]]]])
    feed = {"x": value}
    got, moved = br.Executor().run(prog, br.Scope(), feed=feed, fetch=[prog.var("y"), grad])
    want = (abs(value) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert np.isfinite(moved).all()


@pytest.mark.parametrize(
    ("body", "inputs", "message"),
    [
        (
            'y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_LOWER"> '
            "(x)",
            "float[N, 4, H, W] x",
            "auto_pad along an axis of symbolic size",
        ),
        (
            "y = AveragePool <kernel_shape = [1, 1, 1, 1]> (x)",
            "float[N, 4, 2, 2, 2, 2] x",
            "AveragePool: expected 1 to 3 spatial axes, got 4",
        ),
        (
            "i = Constant <value_ints = [4, 4]> () b = Constant <value_ints = [2, 2]> () "
            "y = Col2Im (x, i, b)",
            "float[1, 6, 9] x",
            "axis size 6 is not a multiple of the window size 4",
        ),
    ],
)
def test_unsupported_windows_are_errors(body: str, inputs: str, message: str) -> None:
    with pytest.raises(br.errors.ProgramError, match=message):
        br.from_onnx(model(body, inputs=inputs))
