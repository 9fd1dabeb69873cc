"""Edge cases of normalisation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError
from tests.support.running import run

pytestmark = pytest.mark.unoptimized


def running(**attrs: Any) -> tuple[br.Program, Any]:
    """A batch norm of `[b,2]` with running statistics 1 and 4."""
    with br.Program() as program:
        x = br.data("x", ["b", 2])
        mean, var = (br.constant(np.full(2, value, np.float32)) for value in (1.0, 4.0))
        return program, br.batch_norm(x, mean, var, **attrs)


def test_training_takes_the_statistics_of_the_batch(mode: str) -> None:
    program, outs = running(momentum=0.75)
    x = np.array([[0.0, 2.0], [4.0, 4.0]], np.float32)
    out, mean, var = run(mode, program, list(outs), x=x)
    np.testing.assert_allclose(out, [[-1, -1], [1, 1]], 1e-4)
    np.testing.assert_allclose(mean, [1.25, 1.5])
    np.testing.assert_allclose(var, [4.0, 3.25])


def test_inference_takes_the_running_ones_and_passes_them_on(mode: str) -> None:
    program, outs = running(training=False, epsilon=0.0)
    out, mean, var = run(mode, program, list(outs), x=np.array([[1.0, 5.0]], np.float32))
    np.testing.assert_allclose(out, [[0, 2]])
    np.testing.assert_array_equal((mean, var), [[1, 1], [4, 4]])


def test_a_batch_of_nothing_leaves_the_running_statistics(mode: str) -> None:
    program, outs = running()
    out, mean, var = run(mode, program, list(outs), x=np.zeros((0, 2), np.float32))
    assert out.shape == (0, 2)
    np.testing.assert_array_equal((mean, var), [[1, 1], [4, 4]])


def test_parameters_get_zero_gradients_from_a_batch_of_nothing(mode: str) -> None:
    with br.Program() as program:
        x, scale = br.data("x", ["b", 2]), br.data("scale", [2])
        mean, var = br.data("mean", [2]), br.data("var", [2])
        normed = br.batch_norm(x, mean, var, scale)[0]
        grads = br.gradients([br.sum(normed) + br.sum(br.layer_norm(x, scale))], [scale])
    two = np.ones(2, np.float32)
    feed = {"x": np.zeros((0, 2), np.float32), "scale": two, "mean": two, "var": two}
    np.testing.assert_array_equal(run(mode, program, grads, **feed), [[0, 0]])


def test_equal_numbers_give_finite_results_and_gradients(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        plain = br.layer_norm(x, scale=False, bias=False)
        outs = [plain, br.rms_norm(x, scale=False), br.linalg.l2_normalize(x)]
        grads = [br.gradients([br.sum(out)], [x])[0] for out in outs]
    for value in run(mode, program, [*outs, *grads], x=np.zeros((2, 3), np.float32)):
        assert np.isfinite(value).all()


def test_statistics_of_half_precision_are_summed_in_float32(mode: str) -> None:
    x = (1000 + np.arange(4096) % 7).astype(np.float16)[None]
    with br.Program() as program:
        out = br.layer_norm(br.data("x", ["b", 4096], dtype="float16"), False, False)
    (got,) = run(mode, program, [out], x=x)
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / wide.std()
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(np.float64), want, 2e-3, 2e-3)


def test_float32_parameters_promote_bfloat16() -> None:
    with br.Program():
        x = br.data("x", ["b", 4], dtype="bfloat16")
        assert br.layer_norm(x).dtype == ml_dtypes.bfloat16
        assert br.layer_norm(x, br.data("scale", [4])).dtype == np.float32


def test_an_unnamed_dimension_becomes_that_of_the_scale() -> None:
    with br.Program():
        x = br.data("x", ["b", None])
        br.layer_norm(x, br.data("scale", [4]))
        assert str(x.type) == "f32[b,4]"


def test_what_does_not_fit_is_refused() -> None:
    with br.Program():
        x, three = br.data("x", ["b", 4]), br.data("three", [3])
        with pytest.raises(ShapeError, match=r"layer_norm: expected a scale of shape \[4\]"):
            br.layer_norm(x, three)
        with pytest.raises(
            ShapeError, match=r"batch_norm: expected a running_var of shape \[4\]"
        ):
            br.batch_norm(x, br.data("mean", [4]), three)
        with pytest.raises(ShapeError, match="4 channels are not divisible by groups=3"):
            br.group_norm(x, groups=3)
        with pytest.raises(ShapeError, match="axis 0, the batch"):
            br.group_norm(x, groups=1, scale=False, bias=False, axis=0)
        with pytest.raises(ShapeError, match="axis 2 is out of range"):
            br.rms_norm(x, axis=2)
        whole = br.data("whole", [4], dtype="int32")
        message = "running_mean of batch_norm: expected a floating dtype"
        with pytest.raises(DTypeError, match=message):
            br.batch_norm(x, whole, whole)


def test_as_many_groups_as_channels_normalise_each_channel(mode: str, rng: Any) -> None:
    x = rng.normal(size=(2, 3, 8)).astype(np.float32)
    with br.Program() as program:
        var = br.data("x", ["b", 3, "t"])
        outs = [
            br.group_norm(var, 3, scale=False, bias=False),
            br.layer_norm(var, axis=2, scale=False, bias=False),
        ]
    np.testing.assert_allclose(*run(mode, program, outs, x=x), 1e-5, 1e-5)
