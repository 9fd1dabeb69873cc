"""Scatter operators of ONNX: cases that are missing in its test suite."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br
from tests.support.running import run_fetches

pytestmark = pytest.mark.unoptimized


def model(text: str, version: int = 18) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {version}]> {text}')


def run(found: Any, mode: str, *fed: Any) -> list[Any]:
    prog, values = br.from_onnx(found)
    feed = dict(zip(prog.feeds, fed, strict=True))
    return run_fetches(prog, feed, mode, values=values)


X = np.arange(12, dtype="float32").reshape(3, 4)


def test_there_may_be_indices_for_the_first_lines_only(mode: str) -> None:
    found = model("""
        part (float[3, 4] x, int64[2, 3] i, float[2, 3] u) => (float[3, 4] y, float[2, 3] z) {
            y = ScatterElements<axis = 1>(x, i, u)
            z = GatherElements<axis = 1>(x, i)
        }""")
    i = np.array([[3, 0, 1], [2, 1, 0]])
    u = -np.ones((2, 3), "float32")
    y, z = run(found, mode, X, i, u)
    want = X.copy()
    np.put_along_axis(want[:2], i, u, axis=1)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, np.take_along_axis(X[:2], i, axis=1))


def test_a_cache_of_a_symbolic_batch_takes_new_entries(mode: str) -> None:
    found = model(
        """
        cache (float[N, 4, 2] kept, float[N, 1, 2] u, int64[N] at) => (float[N, 4, 2] y) {
            y = TensorScatter<axis = -2, mode = "circular">(kept, u, at)
        }""",
        24,
    )
    kept, u = np.zeros((3, 4, 2), "float32"), np.ones((3, 1, 2), "float32")
    (y,) = run(found, mode, kept, u, np.array([0, 3, 5]))
    assert [int(np.argmax(row[:, 0])) for row in y] == [0, 3, 1]
