"""The same training in PyTorch: same parameters, batches, architecture and optimizer.

It needs PyTorch and NumPy alone, so it may run in an environment of its own:

    python pytorch.py FILE.npz         reads parameters and batches, adds `torch_losses`

The names of the parameters are those of the program.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import torch
from torch.nn import functional


def positions(length: int, width: int) -> torch.Tensor:
    """Sinusoidal positional encoding."""
    powers = 10000.0 ** (torch.arange(0, width, 2) / width)
    angles = torch.arange(length)[:, None] / powers
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, width)


def layer(p: dict[str, torch.Tensor], x: torch.Tensor, heads: int) -> torch.Tensor:
    """A layer with normalized inputs of its sublayers."""

    def product(name: str, value: torch.Tensor) -> torch.Tensor:
        return functional.linear(value, p[f"{name}.w"].T, p[f"{name}.b"])

    def norm(name: str) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], p[f"{name}.scale"], p[f"{name}.bias"])

    normed = norm("norm1")
    q, k, v = (
        product(f"attention/{one}", normed).unflatten(-1, (heads, -1)).transpose(1, 2)
        for one in "qkv"
    )
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + product("attention/out", mixed.transpose(1, 2).flatten(2))
    return x + product("out", functional.gelu(product("hidden", norm("norm2"))))


def logits(p: dict[str, torch.Tensor], ids: torch.Tensor, heads: int) -> torch.Tensor:
    """The logits of the next characters."""
    x = functional.embedding(ids, p["characters.w"])
    x = x + positions(*x.shape[1:])
    for number in range(len({name.split("/")[0] for name in p if name.startswith("layer_")})):
        prefix = f"layer_{number}/"
        x = layer({n.removeprefix(prefix): v for n, v in p.items() if prefix in n}, x, heads)
    x = functional.layer_norm(x, x.shape[-1:], p["last.scale"], p["last.bias"])
    return functional.linear(x, p["logits.w"].T, p["logits.b"])


def train(stored: dict[str, Any]) -> tuple[list[float], float]:
    """The loss of each step, and the seconds of all steps but the first."""
    p = {
        name.removeprefix("transform/"): torch.tensor(value, requires_grad=True)
        for name, value in stored.items()
        if name.startswith("transform/")
    }
    optimizer = torch.optim.Adam(p.values())
    losses, start = list[float](), 0.0
    for batch, rate in zip(stored["batches"], stored["rates"], strict=True):
        ids = torch.tensor(batch.astype("int64"))
        optimizer.param_groups[0]["lr"] = float(rate)
        found = logits(p, ids[:, :-1], int(stored["heads"]))
        loss = functional.cross_entropy(found.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        start = start or time.perf_counter()
    return losses, time.perf_counter() - start


if __name__ == "__main__":
    path = sys.argv[1]
    stored = dict(np.load(path))
    losses, seconds = train(stored)
    np.savez(path, **stored, torch_losses=losses, torch_seconds=seconds)
