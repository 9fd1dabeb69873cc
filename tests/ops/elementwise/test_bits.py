"""Bits: those of floats, shifts beyond the width, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ShapeError
from tests.support.running import run_function

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize(
    ("kind", "other"),
    [("float32", "int32"), ("float64", "uint64"), ("float16", "int16"), ("float32", "float32")],
)
def test_floats_and_integers_of_one_width_have_the_same_bits(
    mode: str, kind: str, other: str
) -> None:
    x = np.array([0.0, -0.0, 1.5, -2.25, np.inf], kind)
    bits = run_function(mode, lambda x: br.bitcast(x, other), x)
    np.testing.assert_array_equal(bits, x.view(other))
    np.testing.assert_array_equal(run_function(mode, lambda n: br.bitcast(n, kind), bits), x)


def test_what_is_moved_by_all_bits_or_more_is_gone(mode: str) -> None:
    x, by = np.array([-5, 5, -5, 5], "i2"), np.array([16, 16, -1, 40], "i2")
    np.testing.assert_array_equal(
        run_function(mode, br.bitwise_left_shift, x, by), [0, 0, 0, 0]
    )
    np.testing.assert_array_equal(
        run_function(mode, br.bitwise_right_shift, x, by), [-1, 0, -1, 0]
    )
    unsigned = run_function(mode, br.bitwise_right_shift, x.view("u2"), by.view("u2"))
    np.testing.assert_array_equal(unsigned, [0, 0, 0, 0])


@pytest.mark.parametrize(
    ("build", "kind", "word"),
    [
        (
            lambda x: br.bitwise_and(x, x),
            "f4",
            "expected an integer or bool dtype, got float32",
        ),
        (br.bitwise_invert, "f4", "expected an integer or bool dtype, got float32"),
        (lambda x: br.bitwise_left_shift(x, x), "?", "expected an integer dtype, got bool"),
        (lambda x: br.bitcast(x, "f64"), "c8", "complex"),
    ],
)
def test_what_has_no_such_bits_is_refused(build: Any, kind: str, word: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"], kind)
        with pytest.raises(DTypeError, match=word):
            build(x)
        assert not program.block(0).ops


def test_a_wider_number_needs_its_parts_in_the_last_axis() -> None:
    with br.Program():
        x = br.data("x", ["b"], "f4")
        with pytest.raises(ShapeError, match="last axis of size 2, the parts of one int64"):
            br.bitcast(x, "i64")
