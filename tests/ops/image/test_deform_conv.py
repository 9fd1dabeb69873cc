"""Edge cases of deformable convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ShapeError

pytestmark = pytest.mark.unoptimized


def test_without_offsets_it_is_a_convolution(mode: str) -> None:
    rng = np.random.default_rng(0)
    attrs = {"stride": 2, "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": 2}
    with br.Program() as program:
        x, w = br.data("x", ["b", 4, "h", 9]), br.data("w", [6, 2, 3, 2])
        want = br.conv2d(x, w, **attrs)
        offset = br.full([x.shape[0], 12, *want.shape[2:]], 0.0)
        got = br.layers.deform_conv2d(x, w, offset, **attrs)
        loss = [br.sum(br.square(one)) for one in (got, want)]
        grads = [grad for one in loss for grad in br.gradients([one], [x, w])]
    feed = {"x": rng.normal(size=(2, 4, 8, 9)), "w": rng.normal(size=(6, 2, 3, 2))}
    found = br.Executor(mode=mode).run(
        program, br.Scope(), feed=feed, fetch=[got, want, *grads]
    )
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)
    for one, other in zip(found[2:4], found[4:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_elements_may_lie_beyond_the_image_and_are_zero_there(mode: str) -> None:
    with br.Program() as program:
        x, offset = br.data("x", [1, 1, 2, 2]), br.data("offset", [1, 2, 2, 2])
        out = br.layers.deform_conv2d(x, br.full([1, 1, 1, 1], 1.0), offset)
    moved = np.zeros((1, 2, 2, 2), "f4")
    moved[0, 0] = [[-1, 0.5], [1e6, -0.25]]
    feed = {"x": np.array([[[[1.0, 2.0], [3.0, 4.0]]]]), "offset": moved}
    got = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=out)
    np.testing.assert_allclose(got[0, 0], [[0, 3], [0, 3.5]])


@pytest.mark.parametrize(
    ("given", "attrs", "message"),
    [
        ({"offset": [1, 8, 4, 4]}, {}, r"offset of .*: expected f32\[1,8,3,3\], got"),
        ({"offset": [1, 8, 9]}, {}, "offset of deform_conv2d: expected rank 4"),
        ({"mask": [1, 8, 3, 3]}, {}, r"mask of .*: expected f32\[1,4,3,3\], got"),
        ({"w": [2, 3, 2, 2]}, {}, "expected 3 input channels, got 2"),
        ({}, {"offset_groups": 3}, "2 input channels are not divisible by offset_groups=3"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(
    given: dict[str, Any], attrs: dict[str, Any], message: str
) -> None:
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "offset": [1, 8, 3, 3]} | given
    with br.Program() as program:
        inputs = {name: br.data(name, shape) for name, shape in shapes.items()}
        before = str(program)
        with pytest.raises(ShapeError, match=message) as wrong:
            br.layers.deform_conv2d(
                inputs["x"], inputs["w"], inputs["offset"], mask=inputs.get("mask"), **attrs
            )
        assert str(program) == before
    assert "test_deform_conv.py" in str(wrong.value)
