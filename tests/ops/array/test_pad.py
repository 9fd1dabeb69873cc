"""Padding with an array's own values, with data-dependent sizes and widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ShapeError
from braces.extend.types import Dim

MODES = ("edge", "reflect", "symmetric", "wrap")


@pytest.mark.parametrize("padding", MODES)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_widths_may_be_sizes_of_the_run(mode: str, padding: Any, size: int) -> None:
    with br.Program() as program:
        x = br.data("x", ["n", 2], dtype="float64")
        out = br.pad(x, ((Dim.named("n") + 1, 3), (0, 1)), mode=padding)
        (grad,) = br.gradients([br.sum(br.square(out))], [x])
    assert str(out.type) == "f64[2*n + 4,3]"
    value = np.random.default_rng(0).normal(size=(size, 2))
    got, moved = br.Executor(mode=mode).run(
        program, br.Scope(), feed={"x": value}, fetch=[out, grad]
    )
    widths = ((size + 1, 3), (0, 1))
    np.testing.assert_array_equal(got, np.pad(value, widths, padding))
    places = np.pad(np.arange(value.size).reshape(value.shape), widths, padding)
    counts = np.bincount(places.ravel(), minlength=value.size).reshape(value.shape)
    np.testing.assert_allclose(moved, 2 * value * counts)


@pytest.mark.parametrize("padding", MODES)
def test_nothing_is_surrounded_by_the_value(mode: str, padding: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["n"])
        out = br.pad(x, 2, mode=padding, value=7.0)
    feed = {"x": np.zeros(0, "float32")}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=out)
    np.testing.assert_array_equal(got, np.full(4, 7.0))


def test_a_mode_that_there_is_not_names_the_nearest() -> None:
    with br.Program() as program:
        x = br.data("x", ["n"])
        before = str(program)
        with pytest.raises(ShapeError, match="unknown mode 'reflected'") as wrong:
            br.pad(x, 1, mode="reflected")
        assert str(program) == before
    assert "Did you mean `reflect`?" in str(wrong.value)
    assert "test_pad.py" in str(wrong.value)
