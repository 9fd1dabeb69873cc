"""Losses of PyTorch: reference values and gradients, for tests without it.

python scripts/torch_losses.py    write tests/frontend/losses/torch_losses.npz; needs torch
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WRITTEN = Path(__file__).resolve().parents[1] / "tests/frontend/losses/torch_losses.npz"
ROWS, CLASSES = 4, 5


def inputs() -> dict[str, Any]:
    """The inputs of all losses."""
    rng = np.random.default_rng(3)
    shape = (ROWS, CLASSES)
    probabilities = rng.uniform(0.1, 1, shape)
    return {
        "x": rng.normal(size=shape),
        "y": rng.normal(size=shape),
        "z": rng.normal(size=shape),
        "p": probabilities / probabilities.sum(1, keepdims=True),
        "yes": rng.integers(0, 2, shape).astype(float),
        "sign": rng.choice([-1.0, 1.0], shape),
        "count": rng.integers(0, 5, shape).astype(float),
        "variance": rng.uniform(0.5, 2, shape),
        "w": rng.uniform(0.5, 2, CLASSES),
        "labels": np.array([1, 4, 0, 2]),
        "side": np.array([1.0, -1.0, -1.0, 1.0]),
    }


def losses(v: dict[str, Any]) -> dict[str, Any]:
    """Each loss as a function of a reduction, by the names of the tests."""
    import torch
    from torch.nn import functional as F

    x, y, z, p, w, labels = (v[k] for k in ("x", "y", "z", "p", "w", "labels"))
    some = {"ignore_index": 4, "weight": w}
    more = {**some, "label_smoothing": 0.2}
    logs = F.log_softmax(x, 1)
    return {
        "squared": lambda r: F.mse_loss(x, y, reduction=r),
        "absolute": lambda r: F.l1_loss(x, y, reduction=r),
        "huber": lambda r: F.huber_loss(x, y, delta=0.7, reduction=r),
        "smooth_l1": lambda r: F.smooth_l1_loss(x, y, beta=0.7, reduction=r),
        "poisson": lambda r: F.poisson_nll_loss(x, v["count"], full=True, reduction=r),
        "poisson_plain": lambda r: F.poisson_nll_loss(
            v["variance"], v["count"], log_input=False, reduction=r
        ),
        "gaussian": lambda r: F.gaussian_nll_loss(x, y, v["variance"], full=True, reduction=r),
        "soft_margin": lambda r: F.soft_margin_loss(x, v["sign"], reduction=r),
        "hinge_embedding": lambda r: F.hinge_embedding_loss(x, v["sign"], 0.4, reduction=r),
        "ranking": lambda r: F.margin_ranking_loss(x, y, v["sign"], 0.3, reduction=r),
        "cosine": lambda r: F.cosine_embedding_loss(x, y, v["side"], -0.5, reduction=r),
        "triplet": lambda r: F.triplet_margin_loss(x, y, z, swap=True, reduction=r),
        "triplet_3": lambda r: F.triplet_margin_loss(x, y, z, 2.0, p=3.0, reduction=r),
        "cross": lambda r: F.cross_entropy(x, labels, reduction=r),
        "cross_some": lambda r: F.cross_entropy(x, labels, reduction=r, **some),
        "cross_more": lambda r: F.cross_entropy(x, labels, reduction=r, **more),
        "soft": lambda r: F.cross_entropy(x, p, w, label_smoothing=0.2, reduction=r),
        "nll": lambda r: F.nll_loss(logs, labels, reduction=r, **some),
        "multi_margin": lambda r: F.multi_margin_loss(x, labels, p=2, weight=w, reduction=r),
        "binary": lambda r: F.binary_cross_entropy_with_logits(
            x, v["yes"], w, pos_weight=w * 2, reduction=r
        ),
        "multilabel": lambda r: F.multilabel_soft_margin_loss(x, v["yes"], w, reduction=r),
        "multilabel_margin": lambda r: F.multilabel_margin_loss(
            x, listed(v["yes"]), reduction=r
        ),
        "circle": lambda r: reduced(circle(x, labels % 2), r),
        "tversky": lambda r: reduced(tversky(x.sigmoid(), v["yes"]), r),
        "contrast": lambda r: F.cross_entropy(
            F.normalize(x) @ F.normalize(y).T / 0.3, torch.arange(ROWS), reduction=r
        ),
        "divergence": lambda r: (
            F.kl_div(logs, p, reduction={"mean": "batchmean"}.get(r, r))
            .reshape(ROWS if r == "none" else 1, -1)
            .sum(1)
            .squeeze()
        ),
    }


def listed(yes: Any) -> Any:
    """The present classes in torch's format: by number, then -1."""
    rows = [[*np.flatnonzero(row), *[-1] * CLASSES][:CLASSES] for row in yes.numpy()]
    return yes.new_tensor(rows).long()


def circle(x: Any, labels: Any) -> Any:
    """The circle loss of its paper, pair by pair."""
    import torch

    unit, found = torch.nn.functional.normalize(x), []
    for i in range(ROWS):
        pull, push = [], []
        for j in range(ROWS):
            near = unit[i] @ unit[j]
            if labels[i] != labels[j]:
                push.append(20 * (near.detach() + 0.3).clamp(min=0) * (near - 0.3))
            elif i != j:
                pull.append(-20 * (1.3 - near.detach()).clamp(min=0) * (near - 0.7))
        both = torch.stack(pull).exp().sum() * torch.stack(push).exp().sum() if pull else None
        found.append(x.sum() * 0 if both is None else torch.log1p(both))
    return torch.stack(found)


def tversky(p: Any, y: Any) -> Any:
    """The formula of the Tversky index, example by example."""
    both, alone, missed = (p * y).sum(1), (p * (1 - y)).sum(1), ((1 - p) * y).sum(1)
    return 1 - (both + 0.5) / (both + 0.3 * alone + 0.7 * missed + 0.5)


def reduced(losses: Any, reduction: str) -> Any:
    """Losses of examples, or their reduction."""
    return losses if reduction == "none" else getattr(losses, reduction)()


def computed() -> dict[str, Any]:
    """Inputs by name, and each loss and its gradient as `loss.reduction` and `loss.x`."""
    import torch

    given = inputs()
    found = dict(given)
    for name in losses({key: torch.tensor(value) for key, value in given.items()}):
        for reduction in ("none", "mean", "sum"):
            tensors = {key: torch.tensor(value) for key, value in given.items()}
            source = tensors["variance" if name == "poisson_plain" else "x"].requires_grad_()
            out = losses(tensors)[name](reduction)
            torch.sin(out).sum().backward()
            found[f"{name}.{reduction}"] = out.detach().numpy()
            found[f"{name}.{reduction}.grad"] = source.grad.numpy()
    return found


if __name__ == "__main__":
    np.savez_compressed(WRITTEN, **computed())
