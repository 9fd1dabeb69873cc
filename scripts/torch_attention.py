"""Attention and transformers of torch: reference values for tests of Braces' layers.

python scripts/torch_attention.py    write tests/frontend/attention/attention.npz; needs torch

Each case has feeds, weights by the names of Braces, results, and the gradients of the sum
of their sines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "tests" / "frontend" / "attention" / "attention.npz"
LENGTHS = np.array([5, 2, 3], "int32")
PRODUCTS = {"linear1": "hidden", "linear2": "out"}
NORMS = {"norm1": "norm1", "norm2": "norm2"}
ENCODER = {"self_attn": "attention/", **PRODUCTS, **NORMS}
DECODER = {
    "self_attn": "self_attention/", "multihead_attn": "cross_attention/", **PRODUCTS, **NORMS,
    "norm3": "norm3",
}  # fmt: skip


def named(module: Any, parts: Mapping[str, str], take: Any) -> Iterator[tuple[str, Any]]:
    """The slices of each parameter of a torch module, by the names of Braces.

    The weights of attention are one array in torch.
    """
    for theirs, to in parts.items():
        part = module.get_submodule(theirs)
        if hasattr(part, "in_proj_weight"):
            weights, biases = take(part.in_proj_weight), take(part.in_proj_bias)
            for at, role in enumerate("qkv"):
                yield f"{to}{role}.w", np.split(weights, 3)[at].T
                yield f"{to}{role}.b", np.split(biases, 3)[at]
            yield f"{to}out.w", take(part.out_proj.weight).T
            yield f"{to}out.b", take(part.out_proj.bias)
        elif to.startswith("norm"):
            yield f"{to}.scale", take(part.weight)
            yield f"{to}.bias", take(part.bias)
        else:
            yield f"{to}.w", take(part.weight).T
            yield f"{to}.b", take(part.bias)


def fed(torch: Any) -> dict[str, Any]:
    """Inputs of layers: steps, and the output of an encoder."""
    shapes = {"x": (3, 5, 8), "seen": (3, 4, 8)}
    return {name: torch.randn(shape, requires_grad=True) for name, shape in shapes.items()}


def written(
    torch: Any, case: str, given: Mapping[str, Any], results: Any, modules: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The arrays of one case."""
    sum(torch.sin(one).sum() for one in results).backward()
    for at, result in enumerate(results):
        yield f"{case}.result.{at}", result.detach().numpy()
    for name, value in given.items():
        yield f"{case}.feed.{name}", value.detach().numpy()
        yield f"{case}.feed.{name}.grad", value.grad.numpy()
    for prefix, (module, parts) in modules.items():
        for name, value in named(module, parts, lambda one: one.detach().numpy()):
            yield f"{case}.parameter.{prefix}/{name}", value
        for name, value in named(module, parts, lambda one: one.grad.numpy()):
            yield f"{case}.parameter.{prefix}/{name}.grad", value


def randomised(torch: Any, module: Any) -> Any:
    """A module without weights that are zero or one."""
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.randn_like(one) * 0.4)
    return module


def attention(torch: Any) -> Iterator[tuple[str, Any]]:
    """Causal attention of steps to each other, and attention to others with a mask."""
    kept = np.random.default_rng(1).random((3, 5, 4)) > 0.3
    kept[..., 0] = True
    given = fed(torch)
    x, seen = given.values()
    make = torch.nn.MultiheadAttention
    own, cross = (randomised(torch, make(8, 2, batch_first=True)) for _ in range(2))
    later = torch.ones(5, 5).triu(1).bool()
    hidden = torch.tensor(~kept).repeat_interleave(2, 0)
    results = [
        own(x, x, x, attn_mask=later, need_weights=False)[0],
        cross(x, seen, seen, attn_mask=hidden, need_weights=False)[0],
    ]
    yield "attention.kept", kept
    modules = {"own": (own, {"": ""}), "cross": (cross, {"": ""})}
    yield from written(torch, "attention", given, results, modules)


def layers(torch: Any, case: str, **options: Any) -> Iterator[tuple[str, Any]]:
    """A layer of an encoder with lengths, and one of a decoder with the same number of keys."""
    given, net = fed(torch), torch.nn
    x, seen = given.values()
    encoder, decoder = (
        randomised(torch, make(8, 2, 12, 0.0, batch_first=True, **options))
        for make in (net.TransformerEncoderLayer, net.TransformerDecoderLayer)
    )
    valid = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    later = torch.ones(5, 5).triu(1).bool()
    results = [
        encoder(x, src_key_padding_mask=~valid) * valid[..., None],
        decoder(x, seen, tgt_mask=later, memory_key_padding_mask=~valid[:, :4]),
    ]
    modules = {"enc": (encoder, ENCODER), "dec": (decoder, DECODER)}
    yield from written(torch, case, given, results, modules)


def main() -> None:
    """Write the file."""
    import torch

    torch.manual_seed(0)
    arrays: dict[str, Any] = {"lengths": LENGTHS}
    arrays.update(attention(torch))
    arrays.update(layers(torch, "post_norm"))
    gelu = torch.nn.functional.gelu
    arrays.update(layers(torch, "pre_norm", norm_first=True, activation=gelu))
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
