"""A symbolic size as an operand beside a variable acts like a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.building import apply

X = np.arange(1.0, 13.0).reshape(4, 3)

USES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, int], Any]]] = {
    "divided by": (lambda x, n: x / n, lambda x, n: x / n),
    "dividing": (lambda x, n: n / x, lambda x, n: n / x),
    "times": (lambda x, n: x * n, lambda x, n: x * n),
    "plus": (lambda x, n: n + x, lambda x, n: n + x),
    "minus": (lambda x, n: x - n, lambda x, n: x - n),
    "power": (lambda x, n: x**n, lambda x, n: x**n),
    "compared": (lambda x, n: x < n, lambda x, n: x < n),
    "function": (lambda x, n: br.divide(x, n), lambda x, n: x / n),
    "where": (lambda x, n: br.where(x > 5.0, x, n), lambda x, n: np.where(x > 5.0, x, n)),
    "mean by hand": (lambda x, n: br.sum(x) / (n * x.shape[1]), lambda x, n: x.mean()),
    "inverse": (lambda x, n: br.sum(x) * (1.0 / n), lambda x, n: x.sum() / n),
    "half": (lambda x, n: br.sum(x) / (n / 2), lambda x, n: x.sum() / (n / 2)),
    "polynomial": (lambda x, n: x / (2 * n + 1), lambda x, n: x / (2 * n + 1)),
    "filled": (lambda x, n: br.full([2], n), lambda x, n: np.full(2, n)),
    "output of a loop": (
        lambda x, n: br.scan(
            lambda c, row: (c + row / n, row / n), br.zeros([3], "float64"), x
        )[1],
        lambda x, n: x / n,
    ),
    "branch": (
        lambda x, n: br.cond(br.any(x > n), lambda: x / n, lambda: x),
        lambda x, n: x / n,
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("use", USES)
def test_a_size_is_the_number_of_the_run(mode: str, use: str, dtype: str) -> None:
    built, wanted = USES[use]
    with br.Program() as prog:
        x = br.data("x", ["n", 3], dtype=dtype)
        out = built(x, x.shape[0])
    if use not in ("compared", "filled", "half", "inverse"):
        assert out.dtype == dtype
    for rows in (4, 1):
        given = X[:rows].astype(dtype)
        found = br.Executor(mode=mode).run(prog, br.Scope(), {"x": given}, out)
        close = 1e-12 if dtype == "float64" and use not in ("half", "inverse") else 2e-3
        np.testing.assert_allclose(found, wanted(given, rows), rtol=close)


def test_sizes_beside_integers_are_of_their_dtype(mode: str) -> None:
    with br.Program() as prog:
        k = br.data("k", ["n"], dtype="int32")
        fetch = [k // k.shape[0], k % k.shape[0], k + k.shape[0], k / k.shape[0]]
    assert [str(var.dtype) for var in fetch] == ["int32", "int32", "int32", "float32"]
    found = br.Executor(mode=mode).run(prog, br.Scope(), {"k": [3, 5]}, fetch)
    assert [part.tolist() for part in found] == [[1, 2], [1, 1], [5, 7], [1.5, 2.5]]


def test_gradients_flow_beside_sizes(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 3], dtype="float64")
        (slope,) = br.gradients([br.sum(x**2) / x.shape[0]], [x])
        (curve,) = br.gradients([br.sum(slope**2) / x.shape[0]], [x])
    first, second = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, [slope, curve])
    np.testing.assert_allclose(first, 2.0 * X / 4)
    np.testing.assert_allclose(second, 8.0 * X / 4**3)


def test_no_rows_divide_to_nothing(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        out = x / x.shape[0]
    assert br.Executor(mode=mode).run(prog, br.Scope(), {"x": X[:0]}, out).shape == (0, 3)


def test_every_input_of_an_operator_takes_a_size() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        for op in ("add", "subtract", "multiply", "divide", "maximum", "pow", "less", "equal"):
            for x_slot, y_slot in ((x, x.shape[0]), (x.shape[0], x)):
                apply(op, {"x": (x_slot,), "y": (y_slot,)})
    br.verify(prog)


def test_the_error_of_a_size_outside_of_a_program_has_a_fix() -> None:
    with br.Program():
        n = br.data("x", ["n"]).shape[0]
        with pytest.raises(br.DTypeError, match=r"br\.size\("):
            br.constant(n)
    with pytest.raises(br.errors.ProgramError, match=r"with prog:"):
        n / 2
