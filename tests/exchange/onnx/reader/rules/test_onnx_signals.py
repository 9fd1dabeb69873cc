"""Models of ONNX with draws, transforms of signals, and reductions of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from tests.support.running import run_fetches

pytestmark = pytest.mark.unoptimized
MODES = ("compile", "interpret")


def read(text: str, version: int = 22, **options: Any) -> br.Program:
    model = f'<ir_version: 10, opset_import: ["" : {version}]> graph {text}'
    prog, _ = br.from_onnx(onnx.parser.parse_model(model), **options)
    return prog


# ---- draws -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "mean", "deviation"),
    [
        ("RandomUniform<shape = [300, 300], low = -1.0, high = 3.0>()", 1.0, 4 / 12**0.5),
        ("RandomNormal<shape = [300, 300], mean = 2.0, scale = 0.5>()", 2.0, 0.5),
        ("RandomUniformLike<low = 0.0, high = 2.0>(x)", 1.0, 2 / 12**0.5),
        ("RandomNormalLike<mean = -1.0, scale = 3.0>(x)", -1.0, 3.0),
        ("Bernoulli(x)", 0.25, (0.25 * 0.75) ** 0.5),
    ],
)
def test_draws_have_the_moments_that_the_model_says(
    node: str, mean: float, deviation: float
) -> None:
    prog = read(f"(float[300, 300] x) => (float[300, 300] y) {{ y = {node} }}")
    x = np.full((300, 300), 0.25, np.float32)
    first, other = (run_fetches(prog, {"x": x}, seed=seed)[0] for seed in (0, 1))
    assert abs(first.mean() - mean) < 0.03
    assert abs(first.std() - deviation) < 0.03
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(first, run_fetches(prog, {"x": x}, "interpret")[0])


def test_classes_are_drawn_by_the_logarithms_of_their_probabilities() -> None:
    prog = read(
        "(float[2, 3] x) => (int64[2, 20000] y) "
        "{ y = Multinomial<sample_size = 20000, dtype = 7>(x) }"
    )
    chances = np.array([[0.2, 0.3, 0.5], [0.7, 0.0, 0.3]], np.float32)
    with np.errstate(divide="ignore"):
        (drawn,) = run_fetches(prog, {"x": np.log(chances)})
    assert drawn.dtype == np.int64
    found = [[np.mean(row == k) for k in range(3)] for row in drawn]
    np.testing.assert_allclose(found, chances, atol=0.02)


DROPOUT = """(float[N, 50] x) => (float[N, 50] y, bool[N, 50] mask) {
    rate = Constant<value = float {0.25}>()
    on = Constant<value = bool {1}>()
    y, mask = Dropout(x, rate, on)
}"""


def test_dropout_that_trains_drops_what_its_mask_says() -> None:
    prog = read(DROPOUT)
    x = np.random.default_rng(0).normal(size=(400, 50)).astype(np.float32)
    for mode in MODES:
        y, mask = run_fetches(prog, {"x": x}, mode)
        assert abs(mask.mean() - 0.75) < 0.02
        np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0.0), rtol=1e-6)


def test_the_inference_form_of_a_model_that_trains_drops_nothing() -> None:
    prog = read(DROPOUT)
    x = np.ones((4, 50), np.float32)
    y, mask = run_fetches(br.for_test(prog), {"x": x})
    np.testing.assert_array_equal(y, x)
    assert mask.all()


TOLD = """(float[N, 50] x, float rate, bool on) => (float[N, 50] y, bool[N, 50] mask) {
    y, mask = Dropout(x, rate, on)
}"""


def test_dropout_of_which_a_run_tells_drops_nothing_in_the_inference_form() -> None:
    prog, rng = read(TOLD), np.random.default_rng(0)
    x = rng.normal(size=(400, 50)).astype(np.float32)
    for mode in MODES:
        for rate, kept in ((0.25, 0.75), (1.0, 0.0)):
            told = {"rate": np.float32(rate), "on": np.array(True)}
            y, mask = run_fetches(prog, {"x": x, **told}, mode)
            assert abs(mask.mean() - kept) < 0.02
            np.testing.assert_allclose(y, np.where(mask, x / max(kept, 0.5), 0.0), rtol=1e-6)
            y, mask = run_fetches(br.for_test(prog), {"x": x, **told}, mode)
            np.testing.assert_array_equal(y, x)
            assert mask.all()
        y, mask = run_fetches(
            prog, {"x": x, "rate": np.float32(0.25), "on": np.array(False)}, mode
        )
        np.testing.assert_array_equal(y, x)


# ---- transforms ------------------------------------------------------------------------------


def test_a_transform_of_a_symbolic_size_has_half_as_many_frequencies() -> None:
    prog = read(
        "(float[N, T, 1] x) => (float[N, K, 2] y) { y = DFT<onesided = 1, axis = 1>(x) }", 17
    )
    assert str(prog.var("y").type) == "f32[N,floordiv(T, 2) + 1,2]"
    x = np.random.default_rng(0).normal(size=(2, 9, 1)).astype(np.float32)
    wanted = np.fft.rfft(x[..., 0], axis=1)
    for mode in MODES:
        (y,) = run_fetches(prog, {"x": x}, mode)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, atol=1e-5)


def test_pieces_of_a_signal_of_any_length_are_transformed() -> None:
    prog = read("""(float[1, T, 1] x, float[8] w) => (float[1, F, K, 2] y) {
        step = Constant<value = int64 {3}>()
        y = STFT(x, step, w)
    }""")
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(1, 21, 1)), np.hanning(8)
    pieces = [x[0, i : i + 8, 0] * w for i in range(0, 14, 3)]
    (y,) = run_fetches(prog, {"x": x.astype(np.float32), "w": w.astype(np.float32)})
    np.testing.assert_allclose(y[0, ..., 0] + 1j * y[0, ..., 1], np.fft.rfft(pieces), atol=1e-5)


@pytest.mark.parametrize("axis", [2, -1, 5])
def test_a_transform_of_the_parts_of_numbers_is_refused(axis: int) -> None:
    text = f"(float[2, 4, 1] x) => (float[2, 4, 2] y) {{ y = DFT<axis = {axis}>(x) }}"
    with pytest.raises(br.BracesError, match="axis"):
        read(text, 17)


# ---- reductions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        ("float", -np.inf, np.inf),
        ("int64", np.iinfo(np.int64).min, np.iinfo(np.int64).max),
        ("uint8", 0, 255),
        ("bool", False, True),
    ],
)
def test_of_nothing_it_is_what_no_number_changes(dtype: str, lowest: Any, highest: Any) -> None:
    prog = read(f"""({dtype}[2, 0] x) => ({dtype}[2] low, {dtype}[1, 1] high) {{
        axes = Constant<value = int64[1] {{-1}}>()
        low = ReduceMax<keepdims = 0>(x, axes)
        high = ReduceMin(x)
    }}""")
    x = np.zeros((2, 0), {"float": "float32"}.get(dtype, dtype))
    low, high = run_fetches(prog, {"x": x})
    np.testing.assert_array_equal(low, np.full(2, lowest, x.dtype))
    np.testing.assert_array_equal(high, np.full((1, 1), highest, x.dtype))
