"""Operators on small integers with a scale, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.exchange.onnx.onnx_runtime import agree, by_us, model

pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(7)


def u8(*shape: int) -> Any:
    return RNG.integers(0, 256, shape).astype("u1")


def i8(*shape: int) -> Any:
    """Half of their range: where a processor has no sums of 8-bit products, ONNX Runtime adds
    two of them in 16 bits, and cuts larger ones off.
    """
    return RNG.integers(-64, 65, shape).astype("i1")


def f4(value: Any) -> Any:
    return np.asarray(value, "f4")


def zero(value: int, dtype: str = "u1") -> Any:
    return np.asarray(value, dtype)


X = [u8(2, 3, 5, 4), f4(0.05), zero(120)]
ONE = 1.01
"""Where a quotient is nearly a half, both neighbours are right."""
OUT = [f4(0.04), zero(100)]


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_broadcast(mode: str, op_type: str) -> None:
    agree(mode, op_type, [*X, u8(4), f4(0.02), zero(5), f4(0.07), zero(128)], atol=ONE)


@pytest.mark.parametrize(
    ("op_type", "attrs"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.1}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 1]}),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}),
        ("QLinearSoftmax", {"axis": 2, "opset": 12}),
    ],
)
def test_functions_of_one_array_round_once(
    mode: str, op_type: str, attrs: dict[str, Any]
) -> None:
    scale = [f4(1 / 256), zero(0)] if "o" in op_type[7:10] else OUT
    agree(mode, op_type, [*X, *scale], atol=ONE, **attrs)


def test_arrays_of_other_scales_are_joined(mode: str) -> None:
    parts = [*OUT, *X, u8(2, 2, 5, 4), f4(0.03), zero(9)]
    agree(mode, "QLinearConcat", parts, axis=1)
    agree(
        mode, "QLinearWhere",
        [u8(3, 4) > 99, u8(3, 4), f4(0.1), zero(3), u8(4), f4(0.2), zero(8), f4(0.3), zero(7)],
        weights=(2, 3, 5, 6, 7, 8), atol=ONE,
    )  # fmt: skip


CONV = [X[0], X[1], X[2], i8(6, 3, 3, 2), f4(RNG.uniform(0.01, 0.02, 6)), np.zeros(6, "i1")]


def test_a_convolution_has_scales_of_channels_and_a_bias(mode: str) -> None:
    bias = RNG.integers(-999, 999, 6).astype("i4")
    agree(
        mode, "QLinearConv", [*CONV, f4(0.3), zero(77), bias],
        domain="", pads=[1, 0, 1, 1], strides=[2, 1], weights=range(1, 9), atol=ONE,
    )  # fmt: skip


def test_sums_of_a_convolution_are_exact_where_float32_would_round(mode: str) -> None:
    x, w = np.full((1, 512, 3, 3), 255, "u1"), np.full((2, 512, 3, 3), 255, "u1")
    x[0, 0], w[1, 3] = 254, 3
    agree(mode, "ConvInteger", [x, w, zero(1)], domain="", atol=0, weights=(1, 2))


def test_products_are_exact_and_have_zero_points_of_rows_and_columns(mode: str) -> None:
    a, b = u8(2, 4, 600), i8(600, 3)
    agree(mode, "MatMulInteger", [a, b, zero(9), i8(3)], domain="", atol=0)
    whole = RNG.integers(-128, 128, (600, 3)).astype("i1")
    made = model("MatMulInteger", [a, whole, zero(9)], domain="")
    (found,) = by_us(made, {"x0": a, "x1": whole, "x2": zero(9)}, mode)
    np.testing.assert_array_equal(found, (a.astype("i4") - 9) @ whole.astype("i4"))
    agree(
        mode, "QLinearMatMul",
        [a, f4(0.01), zero(3), b, f4([0.02, 0.01, 0.03]), i8(3), f4(0.9), zero(130)],
        domain="", weights=range(1, 8), atol=ONE,
    )  # fmt: skip


def test_products_of_integers_give_floats(mode: str) -> None:
    a, b, bias = u8(4, 6), i8(6, 3), f4(RNG.normal(size=3))
    scales = [f4(0.1), f4([0.2, 0.1, 0.3])]
    agree(mode, "MatMulIntegerToFloat", [a, b, *scales, zero(8), i8(3), bias])
    x = f4(RNG.normal(size=(4, 6)))
    agree(mode, "DynamicQuantizeMatMul", [x, b, f4(0.2), zero(4, "i1"), bias])


@pytest.mark.parametrize("last", [(), OUT])
def test_a_product_with_a_bias_gives_integers_or_floats(mode: str, last: Any) -> None:
    a, b, c = u8(6, 4), i8(3, 6), RNG.integers(-99, 99, 3).astype("i4")
    agree(
        mode, "QGemm", [a, f4(0.01), zero(9), b, f4(0.02), zero(0, "i1"), c, *last],
        transA=1, transB=1, alpha=0.5, atol=ONE,
    )  # fmt: skip


@pytest.mark.parametrize("scales", [(2,), (2, 12)])
def test_an_lstm_has_weights_of_integers(mode: str, scales: tuple[int, ...]) -> None:
    x = f4(RNG.normal(size=(5, 2, 4)))
    w, r = i8(2, 4, 12), i8(2, 3, 12)
    scale = f4(RNG.uniform(0.003, 0.005, scales))
    zeros = np.zeros(scales, "i1")
    bias = f4(RNG.normal(size=(2, 24)))
    rest = [None] * 4
    agree(
        mode, "DynamicQuantizeLSTM", [x, w, r, bias, *rest, scale, zeros, scale, zeros],
        outputs=3, hidden_size=3, direction="bidirectional",
        atol=1e-3,  # each thread of ONNX Runtime has the range of its own part of a batch
        weights=(1, 2, 3, 8, 9, 10, 11),
    )  # fmt: skip


def test_an_lstm_of_integers_rounds_its_input_and_its_memory(mode: str) -> None:
    """Weights so large that dequantized weights alone would give other gates."""
    x = f4(3 * RNG.normal(size=(6, 1, 8)))
    w, r = i8(1, 8, 16), i8(1, 4, 16)
    scale, zeros = f4([0.05]), np.zeros(1, "i1")
    first = [f4(RNG.normal(size=(1, 1, 4))), f4(RNG.normal(size=(1, 1, 4)))]
    agree(
        mode, "DynamicQuantizeLSTM",
        [x, w, r, None, None, *first, None, scale, zeros, scale, zeros],
        outputs=3, hidden_size=4, weights=(1, 2, 8, 9, 10, 11),
    )  # fmt: skip


def test_the_range_of_zeros_has_a_scale(mode: str) -> None:
    zeros = f4(np.zeros((2, 3)))
    agree(mode, "DynamicQuantizeLinear", [zeros], domain="", outputs=3, atol=0)


def test_long_products_of_integers_are_exact(mode: str) -> None:
    a, b = np.full((1, 3000), 255, "u1"), np.full((3000, 2), -127, "i1")
    a[0, 5], b[7, 1] = 2, 3
    made = model("MatMulInteger", [a, b], domain="")
    (found,) = by_us(made, {"x0": a, "x1": b}, mode)
    np.testing.assert_array_equal(found, a.astype("i4") @ b.astype("i4"))
    (one,) = by_us(model("MatMulInteger", [a[0], b], domain=""), {"x0": a[0], "x1": b}, mode)
    np.testing.assert_array_equal(one, found[0])
