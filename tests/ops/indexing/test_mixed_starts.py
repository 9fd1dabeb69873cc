"""Positions of several integer dtypes, and numbers of Python among them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import braces as br
from tests.ops.cases import MODES
from tests.support.running import run

pytestmark = pytest.mark.unoptimized

DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_may_stand_beside_a_position_of_any_dtype(dtype: str, mode: str) -> None:
    with br.Program() as program:
        x, i = br.data("x", ["b", "t"]), br.data("i", [], dtype=dtype)
        part = br.dynamic_slice(x, [0, i], [2, 2])
        put = br.dynamic_update_slice(x, br.zeros([1, 2]), [i, np.int16(1)])
        taken = x[i, 0]
        (grad,) = br.gradients([br.sum(part * part)], [x])
    got = run(mode, program, [part, put, taken, grad], x=X, i=np.ones((), dtype))
    want, slope = X.copy(), np.zeros_like(X)
    want[1, 1:3], slope[:2, 1:3] = 0, 2 * X[:2, 1:3]
    for one, other in zip(got, (X[:2, 1:3], want, X[1, 0], slope), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", MODES)
def test_positions_may_have_different_dtypes(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", "t"])
        places = {dtype: br.data(dtype, [], dtype=dtype) for dtype in DTYPES}
        fetch = [
            br.dynamic_slice(x, [places[a], places[b]], [2, 2])
            for a, b in product(DTYPES, DTYPES)
        ]
    feed = {dtype: np.ones((), dtype) for dtype in DTYPES}
    for got in run(mode, program, fetch, x=X, **feed):
        np.testing.assert_array_equal(got, X[1:3, 1:3])
