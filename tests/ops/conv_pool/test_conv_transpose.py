"""Edge cases of transposed convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ShapeError

pytestmark = pytest.mark.unoptimized

WEIGHT = (3, 4, 3, 3)


def type_of(*shape: Any, weight: Any = WEIGHT, **attrs: Any) -> str:
    with br.Program():
        x, k = br.data("x", shape), br.data("k", weight)
        return str(br.layers.conv_transpose2d(x, k, **attrs).type)


def test_symbolic_sizes_are_those_of_what_a_convolution_made_smaller() -> None:
    assert type_of("b", 3, "h", "w", stride=2, padding="same") == "f32[b,4,2*h,2*w]"
    doubled = type_of("b", 3, "h", "w", weight=(3, 4, 4, 4), stride=2, padding=1)
    assert doubled == "f32[b,4,2*h,2*w]"
    assert type_of("b", 3, "h", "w") == "f32[b,4,h + 2,w + 2]"
    assert type_of("b", 3, "h", 5, padding=2) == "f32[b,4,max(h - 2, 0),3]"
    wide = type_of("b", 3, 4, 5, weight=(3, 2, 1, 1), stride=3, padding="same")
    assert wide == "f32[b,2,12,15]"


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"weight": (2, 4, 3, 3)}, "expected 2 input channels, got 3"),
        ({"weight": (3, 4, 3)}, "weight of conv_transpose2d: expected rank 4"),
        ({"weight": (3, 4, "k", 3)}, "window of a convolution must have known sizes"),
        ({"groups": 2}, "3 input channels are not divisible by groups=2"),
        ({"groups": 0}, "invalid groups=0"),
        ({"output_padding": -1}, "`output_padding` must be at least 0"),
        ({"output_padding": 1, "padding": "same"}, "output_padding is not supported"),
        ({"padding": 4}, "less than 1 for an axis of size 5"),
        ({"layout": "NCW"}, "unknown layout 'NCW'"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(
    attrs: dict[str, Any], message: str
) -> None:
    with br.Program() as program:
        x, k = br.data("x", [1, 3, 5, 5]), br.data("k", attrs.pop("weight", WEIGHT))
        before = str(program)
        with pytest.raises(ShapeError, match=message) as wrong:
            br.layers.conv_transpose2d(x, k, **attrs)
        assert str(program) == before
    assert "test_conv_transpose.py" in str(wrong.value)


def test_a_bias_must_have_the_channels_of_the_result() -> None:
    with br.Program():
        x, k, b = br.data("x", [1, 4, 5]), br.data("k", [4, 4, 3]), br.data("b", [4])
        with pytest.raises(ShapeError, match="expected a bias of size 8, got 4"):
            br.layers.conv_transpose1d(x, k, bias=b, groups=2)


@pytest.mark.parametrize("padding", ["same", "valid", (1, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_it_is_the_gradient_of_a_convolution(mode: str, padding: Any, groups: int) -> None:
    rng = np.random.default_rng(0)
    with br.Program() as program:
        x, k = br.data("x", ["b", 4, 8, 6]), br.data("k", [6, 4 // groups, 3, 2])
        attrs = {"stride": 2, "padding": padding, "groups": groups}
        out = br.conv2d(x, k, **attrs)
        back = br.data("back", out.shape)
        (grad,) = br.gradients([br.sum(out * back)], [x])
        made = br.layers.conv_transpose2d(back, k, **attrs)
    shapes = {"x": (2, 4, 8, 6), "k": k.shape, "back": (2, *out.shape[1:])}
    feed = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    got, want = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[made, grad])
    high, wide = got.shape[2:]
    np.testing.assert_allclose(got, want[:, :, :high, :wide], rtol=1e-5, atol=1e-5)
