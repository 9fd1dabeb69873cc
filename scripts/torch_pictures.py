"""Image layers of PyTorch: reference values and gradients, for tests without it.

python scripts/torch_pictures.py    write tests/frontend/nn/torch_pictures.npz; needs torch
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WRITTEN = Path(__file__).resolve().parents[1] / "tests/frontend/nn/torch_pictures.npz"


def layers(x: Any, scale: Any, bias: Any) -> dict[str, Any]:
    """Each image layer, by the names of the tests."""
    from torch.nn import functional as F

    line, space = x[:, :, :, 0], x[:, :, None]
    return {
        "avg": F.adaptive_avg_pool2d(x, (3, 4)),
        "avg_even": F.adaptive_avg_pool2d(x, (None, 2)),
        "avg_line": F.adaptive_avg_pool1d(line, 2),
        "avg_space": F.adaptive_avg_pool3d(space, (1, 3, 2)),
        "max": F.adaptive_max_pool2d(x, (3, 4)),
        "max_line": F.adaptive_max_pool1d(line, 4),
        "max_space": F.adaptive_max_pool3d(space, (1, 2, 2)),
        "shuffle": F.pixel_shuffle(x, 2),
        "unshuffle": F.pixel_unshuffle(F.pixel_shuffle(x, 2)[:, :, :4, :6], 2),
        "nearest": F.interpolate(x, scale_factor=3, mode="nearest"),
        "linear": F.interpolate(x, scale_factor=2, mode="bilinear"),
        "corners": F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        "cubic": F.interpolate(x, scale_factor=2, mode="bicubic"),
        "instance": F.instance_norm(x, weight=scale, bias=bias),
        "mean": x.mean((2, 3)),
        "largest": x.amax((2, 3)),
    }


def computed() -> dict[str, Any]:
    """Inputs by name, and each layer and its gradients as `layer` and `layer.grad`."""
    import torch

    rng = np.random.default_rng(5)
    sizes = {"x": (2, 4, 5, 6), "scale": 4, "bias": 4}
    given = {name: rng.normal(size=size) for name, size in sizes.items()}
    found = dict(given)
    for name in layers(*map(torch.tensor, given.values())):
        tensors = [torch.tensor(value, requires_grad=True) for value in given.values()]
        out = layers(*tensors)[name]
        torch.sin(out).sum().backward()
        found |= {name: out.detach().numpy(), f"{name}.grad": tensors[0].grad.numpy()}
    return found


if __name__ == "__main__":
    np.savez_compressed(WRITTEN, **computed())
