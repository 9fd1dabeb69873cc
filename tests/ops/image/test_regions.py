"""Regions of images: errors, and models that pool regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
MODES = ("compile", "interpret")


@pytest.mark.parametrize(
    ("shapes", "options", "word"),
    [
        (([2, 3, 4], [5, 4], [5]), {}, "images"),
        (([2, 3, 4, 4], [5, 5], [5]), {}, "4 coordinates for each region"),
        (([2, 3, 4, 4], [5, 4], [6]), {}, "5"),
        (([2, 3, 4, 4], [5, 4], [5]), {"output_size": (2,)}, "two output sizes"),
        (([2, 3, 4, 4], [5, 4], [5]), {"output_size": (2, 0)}, "two output sizes"),
        (([2, 3, 4, 4], [5, 4], [5]), {"mode": "mean"}, "mean"),
        (([2, 3, 4, 4], [5, 4], [5]), {"sampling_ratio": -1}, "sampling_ratio"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: Any, options: Any, word: str) -> None:
    with br.Program() as prog:
        x, rois = (br.data(f"x{i}", shape) for i, shape in enumerate(shapes[:2]))
        numbers = br.data("numbers", shapes[2], dtype="int64")
        before = str(prog)
        with pytest.raises(br.BracesError, match=word) as caught:
            br.image.roi_align(x, rois, numbers, **{"output_size": (2, 2), **options})
        assert "test_regions.py" in str(caught.value)
        assert str(prog) == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [-1, 2])
@pytest.mark.parametrize("function", [br.image.roi_align, br.image.roi_pool])
def test_a_region_of_no_image_is_an_error_of_the_run(
    mode: str, number: int, function: Any
) -> None:
    with br.Program() as prog:
        x, rois = br.data("x", [2, 1, 4, 4]), br.data("rois", [1, 4])
        numbers = br.data("numbers", [1], dtype="int64")
        out = function(x, rois, numbers, output_size=(2, 2))
    feed = {"x": np.ones((2, 1, 4, 4), np.float32), "rois": np.ones((1, 4), np.float32)}
    with pytest.raises(br.errors.IndexRangeError, match="image"):
        br.Executor(mode=mode).run(
            prog, br.Scope(), feed=feed | {"numbers": np.array([number])}, fetch=out
        )


def test_many_regions_are_pooled_as_a_model_says() -> None:
    """More than are computed at once, of a symbolic number."""
    text = """<ir_version: 10, opset_import: ["" : 22]>
    pool (float[N, C, H, W] x, float[K, 5] rois) => (float[K, C, 2, 2] y) {
        y = MaxRoiPool<pooled_shape = [2, 2], spatial_scale = 0.5>(x, rois)
    }"""
    prog, _ = br.from_onnx(onnx.parser.parse_model(text))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 2, 8, 8)).astype(np.float32)
    corners = rng.integers(0, 8, (40, 2))
    rois = np.concatenate(
        [rng.integers(0, 3, (40, 1)), 2 * corners, 2 * np.minimum(corners + 3, 7)], axis=1
    ).astype(np.float32)
    for mode in MODES:
        exe = br.Executor(mode=mode)
        (y,) = exe.run(prog, br.Scope(), feed={"x": x, "rois": rois}, fetch=["y"])
        for roi, pooled in zip(rois, y, strict=True):
            left, top, right, bottom = (roi[1:] / 2).astype(int)
            cut = x[int(roi[0]), :, top : bottom + 1, left : right + 1]
            np.testing.assert_array_equal(pooled.max((1, 2)), cut.max((1, 2)))
