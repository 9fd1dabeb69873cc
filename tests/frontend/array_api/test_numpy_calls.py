"""NumPy functions and arrays in expressions with variables."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import SymbolicValueError
from braces.frontend.core.functions import FUNCTIONS
from tests.frontend.refusing import get, prog, refuse_here

__all__ = ["prog"]

GIVEN = np.array([0.25, -0.5, 2.0])
UFUNCS = [
    f
    for name, f in vars(np).items()
    if isinstance(f, np.ufunc) and name == f.__name__ and name in FUNCTIONS and f.nout == 1
]
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
COMPARISON = ("lt", "le", "gt", "ge", "eq", "ne")


def run(mode: str, build: Callable[[Any], Any], value: Any) -> Any:
    with br.Program() as program:
        out = build(br.data("x", value.shape, value.dtype))
    assert isinstance(out, br.Var)
    return br.Executor(mode=mode).run(program, br.Scope(), feed={"x": value}, fetch=out)


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_an_elementwise_function_of_numpy_is_the_operator_of_its_name(ufunc: np.ufunc) -> None:
    value = GIVEN > 0 if ufunc.__name__.startswith(("logical", "bitwise")) else GIVEN
    if "matmul" in ufunc.__name__:
        value = np.outer(GIVEN, GIVEN)
    with np.errstate(all="ignore"):
        expected = ufunc(*[value] * ufunc.nin)
    got = run("interpret", lambda x: ufunc(*[x] * ufunc.nin), value)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISON])
def test_arrays_stand_on_either_side_of_a_variable(mode: str, name: str) -> None:
    do, left = getattr(operator, name), np.array([3.0, 0.25, 1.5])
    value = np.abs(GIVEN)
    np.testing.assert_allclose(run(mode, lambda x: do(left, x), value), do(left, value))
    np.testing.assert_allclose(run(mode, lambda x: do(x, left), value), do(value, left))
    if name != "matmul":
        one = np.float64(1.5)
        np.testing.assert_allclose(run(mode, lambda x: do(one, x), value), do(one, value))


@pytest.mark.parametrize("name", ["and_", "or_", "xor"])
def test_bools_stand_on_either_side_of_a_variable(name: str) -> None:
    do, left, value = getattr(operator, name), np.array([True, False, True]), GIVEN > 0
    expected = do(left, value)
    np.testing.assert_array_equal(run("interpret", lambda x: do(left, x), value), expected)
    np.testing.assert_array_equal(run("interpret", lambda x: np.invert(x), value), ~value)


def test_names_that_differ_are_known() -> None:
    assert len(UFUNCS) > 40
    np.testing.assert_array_equal(run("interpret", lambda x: np.abs(x), GIVEN), np.abs(GIVEN))
    np.testing.assert_array_equal(run("interpret", lambda x: np.power(x, 2), GIVEN), GIVEN**2)


def test_functions_that_are_made_of_operators_are_found_too() -> None:
    for function in (np.signbit, np.deg2rad, np.log10):
        value = np.array([0.5, 3.0]) - (function is np.signbit)
        np.testing.assert_allclose(run("interpret", function, value), function(value))
    for function in (np.heaviside, np.copysign):
        made = run("interpret", lambda x, do=function: do(x, np.float64(2.0)), GIVEN)
        np.testing.assert_allclose(made, function(GIVEN, 2.0))


def add_in_place() -> None:
    array = np.ones((2, 4), np.float32)
    array += get("x")


@pytest.mark.parametrize(
    ("do", "parts"),
    [
        (lambda: np.sum(get("x")), ["np.sum", "Use br.sum(x, axis=None, keepdims=False)"]),
        (lambda: np.concatenate([get("x")] * 2), ["Use br.concat(xs, axis=0)"]),
        (lambda: np.shape(get("x")), ["Use x.shape"]),
        (lambda: np.median(get("x")), ["Use br.median(x, axis=None, keepdims=False)"]),
        (lambda: np.searchsorted(get("y"), 1.0), ["Use br.searchsorted(sequence, values"]),
        (lambda: np.linalg.matrix_norm(get("x")), ["Use br.linalg.matrix_norm(x, ord='fro'"]),
        (lambda: np.gradient(get("x")), ["br.signal.central_difference"]),
        (lambda: np.add.reduce(get("x")), ["np.add.reduce"]),
        (lambda: np.spacing(get("x")), ["np.spacing", "dir(br)"]),
        (lambda: np.tanh(get("x"), out=np.ones((2, 4))), ["out=", "Use br.tanh(x)"]),
        (add_in_place, ["np.add", "out=", "Use br.add(x, y)"]),
        (lambda: np.asarray(get("x")), ["cannot be converted to a NumPy array", "exe.run"]),
    ],
)
def test_other_functions_of_numpy_say_what_to_type(
    prog: br.Program, do: Callable[[], Any], parts: list[str]
) -> None:
    refuse_here(prog, SymbolicValueError, do, *parts)
