"""Edges of the elementwise operators: zeros, ties, infinities, dtypes that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from braces import Program, Var, data
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.extend.building import emit
from braces.extend.types import FLOAT32, Dim, TensorType
from tests.ops.cases import value_and_gradients

INF, NAN = np.inf, np.nan


def variable(name: str, shape: tuple[Any, ...], dtype: str = "float32") -> Var:
    return data(name, shape, dtype)


@pytest.mark.parametrize(
    ("power", "slope"), [(0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (3.0, 0.0), (0.5, INF)]
)
def test_the_gradient_of_a_power_at_zero(mode: str, power: float, slope: float) -> None:
    out, (grad,) = value_and_gradients(lambda x: x**power, {"x": np.zeros(2)}, mode)
    np.testing.assert_array_equal(out, [0.0**power] * 2)
    np.testing.assert_array_equal(grad, [slope] * 2)


def test_the_gradient_of_a_power_by_its_exponent_at_zero(mode: str) -> None:
    inputs = {"x": np.array([0.0, 2.0]), "y": np.array([2.0, 3.0])}
    _, (_, grad) = value_and_gradients(lambda x, y: x**y, inputs, mode)
    np.testing.assert_allclose(grad, [0, 8 * np.log(2)])


def test_gradients_by_real_operands_of_complex_functions_are_real(mode: str) -> None:
    """A cotangent is that of JAX: f'(x) of a holomorphic function, and the real part of it."""
    z, r = np.array([1 + 2j, -0.5 + 1j, 2 - 1j]), np.array([0.5, 2.0, -1.5])
    weight = np.array([1 - 1j, 2 + 0.5j, 0.25j])

    def real(function: Any) -> Any:
        return lambda z, r: emit("real", function(z, r) * weight)

    for function, slopes in (
        (lambda z, r: z * r, (r, z)),
        (lambda z, r: z / r, (1 / r, -z / r**2)),
        (lambda z, r: r / z, (-r / z**2, 1 / z)),
        (lambda z, r: z - r, (np.ones(3), -np.ones(3))),
        (lambda z, r: z**r, (r * z ** (r - 1), z**r * np.log(z))),
    ):
        _, (by_z, by_r) = value_and_gradients(real(function), {"z": z, "r": r}, mode)
        np.testing.assert_allclose(by_z, weight * slopes[0], rtol=1e-12)
        assert by_r.dtype == np.float64
        np.testing.assert_allclose(by_r, (weight * slopes[1]).real, rtol=1e-12)


def test_integers_divided_by_zero_give_zero(mode: str) -> None:
    inputs = {"x": np.array([7, -7, 0]), "y": np.array([0, 0, 0])}
    for function in (lambda x, y: x // y, lambda x, y: x % y):
        np.testing.assert_array_equal(value_and_gradients(function, inputs, mode)[0], 0)


def test_division_rounds_down_as_python_does(mode: str) -> None:
    x, y = np.array([7, 7, -7, -7]), np.array([2, -2, 2, -2])
    for number in (np.int32, np.float32):
        inputs = {"x": x.astype(number), "y": y.astype(number)}
        quotient, _ = value_and_gradients(lambda x, y: x // y, inputs, mode)
        rest, _ = value_and_gradients(lambda x, y: x % y, inputs, mode)
        np.testing.assert_array_equal(quotient, [7 // 2, 7 // -2, -7 // 2, -7 // -2])
        np.testing.assert_array_equal(rest, [7 % 2, 7 % -2, -7 % 2, -7 % -2])


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_equal_numbers_share_the_gradient(mode: str, name: str) -> None:
    inputs = {"x": np.array([1.0, 2.0, 3.0]), "y": np.array([2.0, 2.0, 2.0])}
    _, grads = value_and_gradients(lambda x, y: emit(name, x, y), inputs, mode)
    share = np.array([0, 0.5, 1])
    want = (share, 1 - share) if name == "maximum" else (1 - share, share)
    np.testing.assert_array_equal(grads, want)


def test_the_side_that_where_does_not_choose_leaks_nothing(mode: str) -> None:
    inputs = {
        "condition": np.array([True, False]),
        "x": np.array([1.0, NAN]),
        "y": np.array([INF, 2.0]),
    }
    out, grads = value_and_gradients(lambda c, x, y: emit("where", c, x, y), inputs, mode)
    np.testing.assert_array_equal(out, [1, 2])
    np.testing.assert_array_equal(grads, [[1, 0], [0, 1]])


def test_clip_keeps_nan_and_passes_the_gradient_at_its_ends(mode: str) -> None:
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, NAN])
    out, (grad,) = value_and_gradients(lambda x: emit("clip", x, min=-1, max=1), {"x": x}, mode)
    np.testing.assert_array_equal(out, [-1, -1, 0, 1, 1, NAN])
    np.testing.assert_array_equal(grad[:5], [0, 1, 1, 1, 0])


def test_hypot_has_a_gradient_at_the_origin_and_does_not_overflow(mode: str) -> None:
    inputs = {"x": np.array([0.0, 3e200]), "y": np.array([0.0, 4e200])}
    out, grads = value_and_gradients(lambda x, y: emit("hypot", x, y), inputs, mode)
    np.testing.assert_allclose(out, [0, 5e200])
    np.testing.assert_allclose(grads, [[0, 0.6], [0, 0.8]])


def test_mixed_dtypes_give_the_float_one(mode: str) -> None:
    inputs = {"x": np.ones(2, np.int64), "y": np.ones(2, np.float32)}
    out, _ = value_and_gradients(lambda x, y: x + y, inputs, mode)
    assert out.dtype == np.float32


def test_unnamed_sizes_become_known() -> None:
    with Program():
        x, y = variable("x", (None, 4)), variable("y", ("b", 1))
        assert (x + y).type == TensorType(FLOAT32, (Dim.named("b"), 4))
        assert x.shape == (Dim.named("b"), 4)


@pytest.mark.parametrize(
    ("error", "message", "build"),
    [
        (ShapeError, "cannot broadcast 3 with 4", lambda: variable("x", (3,)) + np.ones(4)),
        (
            ShapeError,
            "broadcast a with b",
            lambda: variable("x", ("a",)) + variable("y", ("b",)),
        ),
        (DTypeError, "not defined for bools", lambda: -variable("x", (2,), "bool")),
        (DTypeError, "not defined for complex", lambda: variable("x", (), "complex64") < 1),
        (DTypeError, "expected a bool dtype, got float32", lambda: ~variable("x", (2,))),
        (DTypeError, "bool condition", lambda: emit("where", variable("x", ()), 1.0, 2.0)),
        (ProgramError, "exceeds max", lambda: emit("clip", variable("x", ()), min=2, max=1)),
        (
            DTypeError,
            "is out of range for",
            lambda: emit("clip", variable("x", (), "int8"), max=0.5),
        ),
        (DTypeError, "uint64", lambda: variable("x", (), "uint64") + variable("y", (), "int8")),
    ],
)
def test_what_does_not_fit_is_refused(error: Any, message: str, build: Any) -> None:
    with Program(), pytest.raises(error, match=message) as caught:
        build()
    assert "given:" in str(caught.value)
    assert "test_elementwise.py" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("hard_shrink", {"threshold": -1.0}, "expected a nonnegative threshold, got -1.0"),
        (
            "softshrink",
            {"threshold": float("nan")},
            "expected a nonnegative threshold, got nan",
        ),
        ("celu", {"alpha": 0.0}, "expected a nonzero alpha"),
    ],
)
def test_what_shrinks_and_bends_by_nonsense_is_refused(
    name: str, options: dict[str, float], said: str
) -> None:
    with Program():
        x = data("x", [3])
        with pytest.raises(ProgramError, match=said) as told:
            emit(name, x, **options)
    assert name in str(told.value)


def test_the_gradient_of_a_cast_to_complex_numbers_is_real(mode: str) -> None:
    def function(x: Var) -> Var:
        turned = emit("cast", x, dtype="complex128") * np.exp(0.5j)
        return emit("real", turned) + 3.0 * emit("imag", turned)

    out, (grad,) = value_and_gradients(function, {"x": np.array([1.0, -2.0])}, mode)
    slope = np.cos(0.5) + 3 * np.sin(0.5)
    np.testing.assert_allclose(out, [slope, -2 * slope])
    np.testing.assert_allclose(grad, [slope, slope])
