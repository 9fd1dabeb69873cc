"""Layers with weights of PyTorch: reference values and gradients, for tests without it.

python scripts/torch_layers.py    write tests/frontend/nn/torch_layers.npz; needs torch
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WRITTEN = Path(__file__).resolve().parents[1] / "tests/frontend/nn/torch_layers.npz"
SOURCES = ("x", "w", "deep", "table", "pair", "slope", "scale")


def inputs() -> dict[str, Any]:
    """The inputs of all layers."""
    rng = np.random.default_rng(9)
    sizes = {
        "x": (3, 4, 5, 6), "w": (5, 4, 3, 3), "deep": (8, 1, 3, 2), "point": (5, 8, 1, 1),
        "bias": 5, "slope": 4, "scale": 5, "u": 5, "table": (7, 4), "pair": (2, 6, 6),
        "factors": (3, 4),
    }  # fmt: skip
    given = {name: rng.normal(size=size) for name, size in sizes.items()}
    return given | {"ids": np.array([[1, 6, 2, 2], [0, 3, 0, 0], [0, 0, 0, 0]])}


def layers(v: dict[str, Any]) -> dict[str, Any]:
    """Each layer, by the names of the tests."""
    from torch.nn import functional as F

    x, deep, table, ids = (v[k] for k in ("x", "deep", "table", "ids"))
    padded: Any = {"padding_idx": 0}
    return {
        "prelu": F.prelu(x, v["slope"]),
        "depthwise": F.conv2d(x, deep, stride=2, padding=1, groups=4),
        "separable": F.conv2d(F.conv2d(x, deep, groups=4), v["point"], v["bias"]),
        "bilinear": F.bilinear(x, x.flip(1), v["pair"], v["bias"][:2]),
        "shuffle": F.channel_shuffle(x, 2),
        "padded": F.embedding(ids, table, **padded) * ids.ne(0)[..., None],
        **{
            f"bag_{mode}": F.embedding_bag(ids, table, mode=mode, **padded)
            for mode in ("mean", "sum", "max")
        },
        "bag_weights": F.embedding_bag(
            ids, table, mode="sum", per_sample_weights=v["factors"], **padded
        ),
        **{f"weight_norm_{dim}": length_apart(v, dim) for dim in (0, None)},
        **{
            f"spectral_{runs}_{trips}_{training}": divided(v, runs, trips, training)
            for runs, trips, training in ((1, 1, True), (2, 3, True), (1, 1, False))
        },
    }


def length_apart(v: dict[str, Any], dim: int | None) -> Any:
    """Weights as a direction and a length."""
    import torch

    scale = v["scale"].reshape(-1, 1, 1, 1) if dim == 0 else v["scale"][0]
    return torch._weight_norm(v["w"], scale, -1 if dim is None else dim)


def divided(v: dict[str, Any], runs: int, trips: int, training: bool) -> Any:
    """Weights over their largest singular value, after some runs from one state."""
    import torch
    from torch.nn.utils.parametrizations import _SpectralNorm

    norm = _SpectralNorm(v["w"], n_power_iterations=trips).train(training)
    unit = v["u"] / v["u"].norm()
    right = v["w"].detach().flatten(1).T @ unit
    with torch.no_grad():
        norm._u.copy_(unit)
        norm._v.copy_(right / right.norm())
    return [norm(v["w"]) for _ in range(runs)][-1]


def computed() -> dict[str, Any]:
    """Inputs by name, and each layer and its gradients as `layer` and `layer.source`."""
    import torch

    given = inputs()
    found = dict(given)
    for name in layers({key: torch.tensor(value) for key, value in given.items()}):
        tensors = {key: torch.tensor(value) for key, value in given.items()}
        for source in SOURCES:
            tensors[source].requires_grad_()
        out = layers(tensors)[name]
        torch.sin(out).sum().backward()
        grads = {source: tensors[source].grad for source in SOURCES}
        found[name] = out.detach().numpy()
        found |= {f"{name}.{key}": one.numpy() for key, one in grads.items() if one is not None}
    return found


if __name__ == "__main__":
    np.savez_compressed(WRITTEN, **computed())
