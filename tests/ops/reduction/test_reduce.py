"""Edges of reductions and orders: zeros, ties, infinities, nothing at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from braces import Program, data
from braces.errors import ShapeError
from braces.extend.building import call, emit
from tests.ops.cases import value_and_gradients

INF = np.inf


@pytest.mark.parametrize("name", ["norm", "std"])
def test_the_gradient_of_a_length_of_zero_is_zero(mode: str, name: str) -> None:
    out, (grad,) = value_and_gradients(lambda x: emit(name, x), {"x": np.zeros(3)}, mode)
    np.testing.assert_array_equal(out, 0)
    np.testing.assert_array_equal(grad, np.zeros(3))


def test_the_gradient_of_a_product_with_zeros(mode: str) -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0]])
    _, (grad,) = value_and_gradients(lambda x: emit("prod", x, axis=1), {"x": x}, mode)
    np.testing.assert_array_equal(grad, [[0, 6, 0], [0, 0, 0]])


def test_equal_extremes_share_the_gradient(mode: str) -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    _, (grad,) = value_and_gradients(lambda x: emit("max", x, axis=1), {"x": x}, mode)
    np.testing.assert_allclose(grad, [[0, 0.5, 0.5], [1 / 3] * 3])


def test_logsumexp_of_large_and_of_no_numbers(mode: str) -> None:
    x = np.array([[1000.0, 1000.0], [-INF, -INF], [-INF, 0.0]])
    out, (grad,) = value_and_gradients(lambda x: emit("logsumexp", x, axis=1), {"x": x}, mode)
    np.testing.assert_allclose(out, [1000 + np.log(2), -INF, 0])
    np.testing.assert_allclose(grad, [[0.5, 0.5], [0, 0], [0, 1]])


def test_softmax_of_large_numbers(mode: str) -> None:
    x = np.array([1000.0, 1000.0, -1000.0])
    for name, want in (("softmax", [0.5, 0.5, 0]), ("log_softmax", None)):
        out, (grad,) = value_and_gradients(lambda x, name=name: emit(name, x), {"x": x}, mode)
        assert np.isfinite(grad).all()
        assert want is None or np.allclose(out, want)


def test_the_mean_of_many_halves_has_a_gradient(mode: str) -> None:
    x = np.ones(70000, np.float16)
    out, (grad,) = value_and_gradients(lambda x: emit("mean", x), {"x": x}, mode)
    assert out == 1
    assert out.dtype == grad.dtype == np.float16
    assert (grad > 0).all()


def test_sums_of_small_integers_do_not_overflow(mode: str) -> None:
    x = np.full(1000, 100, np.int8)
    out, _ = value_and_gradients(lambda x: emit("sum", x), {"x": x}, mode)
    assert out == 100_000
    assert out.dtype == np.int64


def test_equal_numbers_keep_their_order(mode: str) -> None:
    x = np.array([1, 0, 1, 0])
    for descending, want in ((False, [1, 3, 0, 2]), (True, [0, 2, 1, 3])):
        out, _ = value_and_gradients(
            lambda x, d=descending: emit("argsort", x, descending=d), {"x": x}, mode
        )
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "message"),
    [
        ("sum", (2, 3), {"axis": 2}, "axis 2 is out of range for an array of rank 2"),
        ("sum", (2, 3), {"axis": (0, -2)}, "duplicate entries in `axis`"),
        ("max", (0, 3), {"axis": 0}, "zero-size axis"),
        ("argmax", (0,), {}, "zero-size axis"),
        ("cumsum", (2, 3), {}, "axis=None requires a vector"),
        ("cumsum", (), {}, "axis=None requires a vector"),
        ("topk", (3,), {"k": 4}, "k=4 is out of range for an axis of size 3"),
        ("softmax", (), {}, "axis -1 is out of range"),
        ("glu", (3,), {}, "axis -1 of size 3 is not divisible by 2"),
    ],
)
def test_axes_that_are_not_there_are_refused(
    name: str, shape: tuple[int, ...], attrs: dict[str, Any], message: str
) -> None:
    with Program(), pytest.raises(ShapeError, match=message):
        call(name, data("x", shape), **attrs)
