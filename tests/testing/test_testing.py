"""`br.testing`: agreement passes, and each kind of difference is an AssertionError."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.testing.differences import central_differences

X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def test_a_narrow_dtype_has_the_wider_tolerance() -> None:
    br.testing.assert_allclose(ml_dtypes.bfloat16(1.0), np.float32(1.01))
    with pytest.raises(AssertionError):
        br.testing.assert_allclose(np.float32(1.0), np.float32(1.01))
    with pytest.raises(AssertionError):
        br.testing.assert_allclose(np.int64(2**53), np.int64(2**53 + 1))


@pytest.mark.parametrize(
    ("actual", "desired", "place"),
    [
        ({"a": [X, X]}, {"a": [X, X + 1]}, r"\['a'\]\[1\]"),
        ({"a": X}, {"b": X}, "the keys"),
        ([X, X], [X], "2 items"),
        (X, X[0], "the shape"),
        (X, np.where(X[0, 0] == X, np.nan, X), "the value"),
    ],
)
def test_a_difference_has_its_place(actual: Any, desired: Any, place: str) -> None:
    with pytest.raises(AssertionError, match=place):
        br.testing.assert_allclose(actual, desired)


def test_nan_equals_nan_and_a_scalar_every_element() -> None:
    br.testing.assert_allclose([np.nan, 1.0], [np.nan, 1.0])
    br.testing.assert_allclose(np.ones((2, 3), "f4"), 1.0)


def trained() -> tuple[br.Program, br.Var]:
    with br.Program() as prog:
        loss = br.mean(br.square(br.fc(br.data("x", ["b", 3], "float64"), 2)))
        br.optimizer.sgd(0.1).minimize(loss)
    return prog, loss


def test_modes_agree_in_values_and_updates() -> None:
    prog, loss = trained()
    found = br.testing.assert_modes_agree(prog, {"x": X}, loss, rtol=1e-5)
    np.testing.assert_array_equal(found, br.testing.run(prog, {"x": X}, loss))


@pytest.mark.usefixtures("registry")
def test_an_operator_that_depends_on_the_mode_is_found() -> None:
    calls = [0]

    @br.op(axes="... -> ...")
    def counting(x: br.Tensor) -> br.Tensor:
        """An operator with a hidden state."""
        calls[0] += 1
        return x * calls[0]

    with br.Program() as prog:
        y = counting(br.data("x", [2]))
    with pytest.raises(AssertionError, match=r"\['fetch'\]"):
        br.testing.assert_modes_agree(prog, {"x": [1.0, 2.0]}, y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: br.tanh(x),
        lambda x: [br.sin(x), br.sum(x * x)],
        lambda x: br.zeros_like(x),
        lambda x: br.fc(x, 2, bias=False),
    ],
)
def test_gradients_of_operators_pass(function: Callable[..., Any]) -> None:
    br.testing.check_gradients(function, X)


def test_integers_are_held_constant() -> None:
    br.testing.check_gradients(lambda x, i: br.take(x, i, axis=1), X, np.array([2, 0]))


def test_a_wrong_gradient_is_found_with_the_name_of_the_input() -> None:
    @br.custom_gradient
    def wrong(x: br.Var, w: br.Var) -> Any:
        return x * w, lambda d: (d * w, d)

    with pytest.raises(AssertionError, match="the gradient with respect to w"):
        br.testing.check_gradients(wrong, X, X + 2.0)


def test_a_wrong_second_derivative_is_found() -> None:
    @br.custom_gradient
    def wrong(x: br.Var) -> Any:
        return br.exp(x), lambda d: d * br.stop_gradient(br.exp(x))

    br.testing.check_gradients(wrong, X, order=1)
    with pytest.raises(AssertionError, match="the second derivative with respect to x"):
        br.testing.check_gradients(wrong, X)


def test_outputs_of_float32_are_too_coarse() -> None:
    with pytest.raises(br.DTypeError, match="expected float64 outputs") as raised:
        br.testing.check_gradients(lambda x: br.cast(x, "float32"), X)
    assert Path(__file__).name in str(raised.value)


def test_differences_are_taken_along_every_number() -> None:
    def powers(given: Mapping[str, Any]) -> dict[str, Any]:
        return {"y": np.sum(given["x"] ** 3) * given["c"], "other": 0.0}

    found = central_differences(powers, {"x": X, "c": 2.0}, "x", ["y", "missing"])
    np.testing.assert_allclose(found["y"], 6 * X**2, atol=1e-8)
    assert found.keys() == {"y", "missing"}
    assert not found["missing"].any()


def test_an_error_of_the_block_names_its_line() -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 3])
    with prog, br.testing.raises(br.ShapeError, "3 with 2", unchanged=prog) as caught:
        br.matmul(x, x)
    assert caught.names_line
    assert isinstance(caught.error, ValueError)


def raise_nothing(x: br.Var) -> None:
    del x


def raise_foreign(x: br.Var) -> None:
    del x
    raise ValueError("3 with 2")


def change_and_raise(x: br.Var) -> None:
    br.matmul(x * 2.0, x)


@pytest.mark.parametrize(
    ("build", "match", "reason"),
    [
        (raise_nothing, "", "ValueError was not raised"),
        (raise_foreign, "", "expected an error of Braces, got ValueError"),
        (change_and_raise, "4 with 5", "does not match '4 with 5'"),
        (change_and_raise, "3 with 2", "was changed"),
    ],
)
def test_another_outcome_is_an_assertion_error(
    build: Callable[[br.Var], None], match: str, reason: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 3])

    def expect() -> None:
        with prog, br.testing.raises(ValueError, match, unchanged=prog):
            build(x)

    with pytest.raises(AssertionError, match=reason):
        expect()
