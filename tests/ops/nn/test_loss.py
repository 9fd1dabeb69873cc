"""Edge cases of losses and metrics."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, IndexRangeError, ShapeError
from braces.extend.operators import OPS
from tests.support.running import run

pytestmark = pytest.mark.unoptimized

INF = np.inf


def each(loss: Any) -> Any:
    """The loss of each example, without a reduction."""
    return partial(loss, reduction="none")


def loss_and_gradient(mode: str, loss: Any, logits: Any, target: Any) -> Any:
    """The value of a loss and its gradient in the logits."""
    logits, target = np.asarray(logits, np.float32), np.asarray(target)
    with br.Program() as program:
        x = br.data("x", [f"x{i}" for i in range(logits.ndim)])
        shape = [f"x{i}" for i in range(target.ndim)]
        out = loss(x, br.data("y", shape, dtype=target.dtype))
        (grad,) = br.gradients([out], [x])
    return run(mode, program, [out, grad], x=logits, y=target)


# ---- stability -------------------------------------------------------------------------------


def test_large_logits_do_not_overflow(mode: str) -> None:
    loss, grad = loss_and_gradient(
        mode, each(br.softmax_cross_entropy), [[1e4, 0.0], [-1e4, 0.0]], np.array([0, 0])
    )
    np.testing.assert_allclose(loss, [0, 1e4])
    np.testing.assert_allclose(grad, [[0, 0], [-1, 1]], atol=1e-6)


def test_classes_ruled_out_by_minus_infinity_take_no_part(mode: str) -> None:
    logits = [[0.0, 0.0, -INF]]
    for loss, target in (
        (each(br.softmax_cross_entropy), np.array([0])),
        (each(br.softmax_cross_entropy_soft), np.array([[1, 0, 0]], np.float32)),
    ):
        value, grad = loss_and_gradient(mode, loss, logits, target)
        np.testing.assert_allclose(value, [np.log(2)], 1e-6)
        np.testing.assert_allclose(grad, [[-0.5, 0.5, 0]], 1e-6)


def test_a_sure_and_right_prediction_keeps_its_tiny_loss(mode: str) -> None:
    loss, grad = loss_and_gradient(
        mode, each(br.sigmoid_binary_cross_entropy), [20.0, -20.0], np.array([1, 0], np.float32)
    )
    np.testing.assert_allclose(loss, np.full(2, np.log1p(np.exp(-20.0))), 1e-5)
    np.testing.assert_allclose(grad, [0, 0], atol=1e-6)


def test_a_target_of_zero_adds_nothing_to_the_divergence(mode: str) -> None:
    with br.Program() as program:
        x, y = br.data("x", [2]), br.data("y", [2])
        out = br.losses.kl_div_loss(x, y, reduction="none")
        fetch = [out, *br.gradients([out], [x, y])]
    given = {"x": np.array([0.0, -INF], np.float32), "y": np.array([1.0, 0.0], np.float32)}
    value, x_grad, y_grad = run(mode, program, fetch, **given)
    assert value == 0
    np.testing.assert_array_equal(x_grad, [-1, 0])
    assert np.isfinite(y_grad).all()


def test_zero_vectors_have_no_direction(mode: str) -> None:
    value, grad = loss_and_gradient(
        mode, br.losses.cosine_similarity, [[0.0, 0.0]], np.ones((1, 2), np.float32)
    )
    np.testing.assert_array_equal(value, [0])
    assert np.isfinite(grad).all()


def test_half_precision_logits_are_summed_in_float32(mode: str) -> None:
    logits, labels = np.zeros((1, 5000), np.float16), np.zeros(1, np.int32)
    with br.Program() as program:
        x = br.data("x", ["b", 5000], dtype="float16")
        out = br.softmax_cross_entropy(x, br.data("y", ["b"], dtype="int32"), reduction="none")
    (got,) = run(mode, program, [out], x=logits, y=labels)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, [np.log(5000)], 1e-3)


def test_the_gradient_of_cross_entropy_scatters_nothing() -> None:
    kernel = OPS.get("softmax_cross_entropy.vjp").kernel
    logits, labels = np.zeros((2, 3), np.float32), np.zeros(2, np.int32)
    with jax.enable_x64(True):
        text = str(jax.make_jaxpr(kernel)(logits, labels, np.ones(2, np.float32)))
    assert "scatter" not in text
    assert "gather" not in text


# ---- labels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_out_of_range_are_an_error(mode: str, label: int) -> None:
    with pytest.raises(IndexRangeError, match="A label is out of range") as error:
        loss_and_gradient(
            mode, each(br.softmax_cross_entropy), np.zeros((2, 3)), np.array([0, label])
        )
    assert error.value.given == f"{label}   logits: f32[2,3]   labels: i64[2]"


def test_labels_of_a_small_dtype_name_all_classes_they_can(mode: str) -> None:
    logits = np.zeros((2, 300))
    logits[:, 200] = 5.0
    labels = np.array([200, 0], np.uint8)
    loss, grad = loss_and_gradient(mode, each(br.softmax_cross_entropy), logits, labels)
    assert loss[0] < 2 < loss[1]
    assert grad[0, 200] < 0 < grad[1, 200]


def test_labels_must_be_integers_in_the_shape_of_the_rows() -> None:
    with br.Program():
        logits = br.data("logits", ["b", 3])
        with pytest.raises(
            DTypeError, match="expected an integer dtype for `labels`, got float32"
        ):
            br.softmax_cross_entropy(logits, br.data("soft", ["b"]), reduction="none")
        with pytest.raises(ShapeError, match=r"without axis -1: \[b\], got i32\[b,1\]"):
            br.softmax_cross_entropy(
                logits, br.data("column", ["b", 1], dtype="int32"), reduction="none"
            )
        with pytest.raises(ShapeError, match=r"\[b\], got i32\[c\]"):
            br.softmax_cross_entropy(
                logits, br.data("other", ["c"], dtype="int32"), reduction="none"
            )
        with pytest.raises(DTypeError, match="expected a real dtype, got complex64"):
            br.softmax_cross_entropy_soft(
                br.data("z", ["b", 3], dtype="complex64"), logits, reduction="none"
            )
        nothing, rows = br.data("nothing", ["b", 0]), br.data("rows", ["b"], dtype="int32")
        with pytest.raises(ShapeError, match="at least one class"):
            br.softmax_cross_entropy(nothing, rows, reduction="none")


def test_an_unnamed_dimension_of_labels_becomes_that_of_the_rows() -> None:
    with br.Program():
        labels = br.data("labels", [None], dtype="int32")
        br.softmax_cross_entropy(br.data("logits", ["b", 3]), labels, reduction="none")
        assert str(labels.type) == "i32[b]"


def test_no_rows_of_no_classes_have_no_loss(mode: str) -> None:
    loss, grad = loss_and_gradient(
        mode, each(br.softmax_cross_entropy), np.zeros((0, 0)), np.zeros(0, np.int32)
    )
    assert (loss.shape, grad.shape) == ((0,), (0, 0))


# ---- shapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loss",
    ["squared_error", "absolute_error", "losses.huber_loss", "sigmoid_binary_cross_entropy"],
)
def test_losses_do_not_broadcast(loss: str) -> None:
    with br.Program():
        column, row = br.data("column", ["b", 1]), br.data("row", ["b"])
        with pytest.raises(ShapeError, match="expected two equal shapes"):
            attrgetter(loss)(br)(column, row)
        assert str(each(attrgetter(loss)(br))(row, 1.0).type) == "f32[b]"


def test_losses_along_an_axis_need_equal_shapes() -> None:
    with br.Program():
        x = br.data("x", ["b", 3])
        for loss in (
            br.losses.kl_div_loss,
            br.losses.cosine_similarity,
            br.softmax_cross_entropy_soft,
        ):
            with pytest.raises(ShapeError, match="expected two equal shapes"):
                loss(x, br.data(f"y_{loss.__name__}", ["b", 4]))
            with pytest.raises(ShapeError, match="expected two equal shapes"):
                loss(x, 1.0)


# ---- metrics ---------------------------------------------------------------------------------


def metric(mode: str, function: Any, logits: Any, labels: Any, **attrs: Any) -> float:
    with br.Program() as program:
        x, y = br.data("x", ["b", "c"]), br.data("y", ["b"], dtype="int64")
        out = function(x, y, **attrs)
    arrays = {"x": np.asarray(logits, np.float32), "y": np.asarray(labels, np.int64)}
    return float(run(mode, program, [out], **arrays)[0])


def test_accuracy_is_the_share_of_right_rows(mode: str) -> None:
    logits = [[0, 1, 2], [3, 1, 2], [0, 1, 2], [0, 1, 2]]
    assert metric(mode, br.accuracy, logits, [2, 0, 1, -1]) == 0.5
    assert metric(mode, br.top_k_accuracy, logits, [2, 0, 1, -1], k=2) == 0.75
    assert metric(mode, br.top_k_accuracy, logits, [2, 0, 1, 3], k=9) == 0.75


def test_the_accuracy_of_no_rows_is_nan(mode: str) -> None:
    for function in (br.accuracy, br.top_k_accuracy):
        assert np.isnan(metric(mode, function, np.zeros((0, 3)), []))


def test_nan_is_never_a_right_guess(mode: str) -> None:
    assert metric(mode, br.top_k_accuracy, [[np.nan, 0.0]], [0], k=2) == 0.0


def test_the_best_none_are_refused() -> None:
    with br.Program(), pytest.raises(ShapeError, match="expected k of 1 or more, got 0"):
        br.top_k_accuracy(br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int64"), k=0)
