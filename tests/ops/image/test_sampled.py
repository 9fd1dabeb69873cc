"""Images sampled at a grid: errors, and grids that models compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize(
    ("shapes", "options", "word"),
    [
        (([2, 3, 4, 4], [2, 5, 2]), {}, "equal rank, 3 or more, got ranks 3 and 4"),
        (([2, 3], [2, 5]), {}, "3 or more"),
        (([2, 3, 4, 4], [2, 5, 5, 3]), {}, "2 coordinates"),
        (([2, 3, 4, 4], [3, 5, 5, 2]), {}, "2"),
        (([2, 3, 4, 4], [2, 5, 5, 2]), {"mode": "bilinear"}, "bilinear"),
        (([2, 3, 4, 4], [2, 5, 5, 2]), {"padding_mode": "wrap"}, "wrap"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: Any, options: Any, word: str) -> None:
    with br.Program() as prog:
        x, grid = (br.data(f"x{i}", shape) for i, shape in enumerate(shapes))
        before = str(prog)
        with pytest.raises(br.BracesError, match=word) as caught:
            br.image.grid_sample(x, grid, **options)
        assert "test_sampled.py" in str(caught.value)
        assert str(prog) == before


@pytest.mark.parametrize("align", [0, 1])
def test_a_grid_that_changes_nothing_gives_the_image(align: int) -> None:
    """Sizes are symbolic, and the grid of a matrix is computed from them."""
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    still (float[N, C, H, W] x, float[N, 2, 3] theta) => (float[N, C, H, W] y) {{
        size = Shape(x)
        grid = AffineGrid<align_corners = {align}>(theta, size)
        y = GridSample<align_corners = {align}>(x, grid)
    }}"""
    prog, _ = br.from_onnx(onnx.parser.parse_model(text))
    assert str(prog.var("grid").type) == "f32[N,H,W,2]"
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    theta = np.broadcast_to(np.eye(2, 3, dtype=np.float32), (2, 2, 3))
    for mode in ("compile", "interpret"):
        exe = br.Executor(mode=mode)
        (y,) = exe.run(prog, br.Scope(), feed={"x": x, "theta": theta}, fetch=["y"])
        np.testing.assert_allclose(y, x, atol=1e-5)


def test_a_network_of_spatial_transformers_trains() -> None:
    """The gradient reaches the matrix through the grid."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 1, 8, 8)).astype(np.float32)
    with br.Program() as prog:
        image = br.data("image", [1, 1, 8, 8])
        shift = br.parameter("shift", [2], init=br.init.zeros())
        steps = br.constant(np.linspace(-0.6, 0.6, 5).astype(np.float32))
        across = br.broadcast_to(br.reshape(steps, (1, 1, 5)), (1, 5, 5))
        down = br.broadcast_to(br.reshape(steps, (1, 5, 1)), (1, 5, 5))
        grid = br.stack([across, down], axis=-1) + shift
        seen = br.image.grid_sample(image, grid)
        (grad,) = br.gradients(br.sum(seen), shift)
    scope, exe = br.Scope(), br.Executor()
    exe.init(prog, scope)
    assert np.abs(exe.run(prog, scope, feed={"image": x}, fetch=grad)).min() > 1e-3
