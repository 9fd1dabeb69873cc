"""Attention and layers of transformers against PyTorch, with its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")

LENGTHS = np.array([5, 2, 3], "i4")


def in_our_names(modules: list[Any], take: Any) -> dict[str, Any]:
    """What is taken of each parameter of torch's modules, by our names.

    Those of attention lie in one array there.
    """
    found: dict[str, Any] = {}
    for module, parts in modules:
        for theirs, ours in parts.items():
            part = module.get_submodule(theirs)
            if isinstance(part, torch.nn.MultiheadAttention):
                weights, biases = take(part.in_proj_weight), take(part.in_proj_bias)
                for role, w, b in zip("qkv", weights.chunk(3), biases.chunk(3), strict=True):
                    found |= {f"{ours}{role}.w": w.T, f"{ours}{role}.b": b}
                part, ours = part.out_proj, f"{ours}out"
            linear = not isinstance(part, torch.nn.LayerNorm)
            w, b = ("w", "b") if linear else ("scale", "bias")
            weight = take(part.weight)
            found |= {
                f"{ours}.{w}": weight.T if linear else weight,
                f"{ours}.{b}": take(part.bias),
            }
    return found


def agrees(prog: br.Program, feed: Any, outs: Any, want: Any, modules: Any) -> None:
    """Values, and gradients with respect to what is fed and to the weights of torch."""
    sum(torch.sin(one).sum() for one in want).backward()
    weights = in_our_names(modules, lambda p: p.detach())
    slopes = in_our_names(modules, lambda p: p.grad)
    inputs = [name for name in feed if isinstance(feed[name], torch.Tensor)]
    with prog:
        total = br.sum(br.sin(outs[0])) + br.sum(br.sin(outs[1]))
        grads = br.gradients([total], [prog.var(name) for name in (*inputs, *weights)])
    scope = br.Scope()
    br.Executor().init(prog, scope)
    assert {one.name for one in prog.parameters} == set(weights)
    scope.update({name: value.numpy() for name, value in weights.items()})
    arrays = {name: np.asarray(value.detach() if name in inputs else value)
              for name, value in feed.items()}  # fmt: skip
    wanted = [one.detach() for one in want] + [feed[name].grad for name in inputs]
    for mode in ("compile", "interpret"):
        got = br.Executor(mode=mode).run(prog, scope, arrays, fetch=[*outs, *grads])
        for left, right in zip(got, [*wanted, *slopes.values()], strict=True):
            np.testing.assert_allclose(left, np.asarray(right), rtol=2e-4, atol=2e-5)


@pytest.fixture
def data(rng: np.random.Generator) -> Any:
    torch.manual_seed(0)
    shapes = {"x": (3, 5, 8), "seen": (3, 4, 8)}
    return {
        name: torch.tensor(rng.normal(size=shape).astype("f4"), requires_grad=True)
        for name, shape in shapes.items()
    }


def randomised(module: Any) -> Any:
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.randn_like(one) * 0.4)
    return module


def test_multi_head_attention_is_that_of_torch(data: Any) -> None:
    rng = np.random.default_rng(1)
    mask = rng.random((3, 5, 4)) > 0.3
    mask[..., 0] = True
    itself, other = (
        randomised(torch.nn.MultiheadAttention(8, 2, batch_first=True)) for _ in range(2)
    )
    with br.Program() as prog:
        x, seen = br.data("x", ["b", "t", 8]), br.data("seen", ["b", "s", 8])
        kept = br.data("kept", ["b", "t", "s"], dtype="bool")
        own = br.multi_head_attention(x, 2, causal=True, name="own")
        cross = br.multi_head_attention(x, 2, seen, mask=kept[:, None], name="cross")
    tx, ts = data["x"], data["seen"]
    later = torch.ones(5, 5).triu(1).bool()
    hidden = torch.tensor(~mask).repeat_interleave(2, 0)
    want = [
        itself(tx, tx, tx, attn_mask=later, need_weights=False)[0],
        other(tx, ts, ts, attn_mask=hidden, need_weights=False)[0],
    ]
    modules = [(itself, {"": "own/"}), (other, {"": "cross/"})]
    agrees(prog, data | {"kept": mask}, [own, cross], want, modules)


@pytest.mark.parametrize("norm_first", [False, True])
def test_layers_of_transformers_are_those_of_torch(data: Any, norm_first: bool) -> None:
    sizes: Any = (8, 2, 12, 0.0)
    act, act_name = (torch.nn.functional.gelu, "gelu") if norm_first else ("relu", "relu")
    options: Any = {"batch_first": True, "norm_first": norm_first, "activation": act}
    encoder = randomised(torch.nn.TransformerEncoderLayer(*sizes, **options))
    decoder = randomised(torch.nn.TransformerDecoderLayer(*sizes, **options))
    given: Any = {"norm_first": norm_first, "activation": act_name}
    with br.Program() as prog:
        x, seen = br.data("x", ["b", "t", 8]), br.data("seen", ["b", "s", 8])
        lengths = br.data("lengths", ["b"], dtype="int32")
        enc = br.transformer_encoder_layer(x, 2, 12, lengths=lengths, name="enc", **given)
        few = br.cast(br.minimum(lengths, 4), "int32")
        dec = br.transformer_decoder_layer(
            x, seen, 2, 12, memory_lengths=few, name="dec", **given
        )
    valid = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    later = torch.ones(5, 5).triu(1).bool()
    tx, ts = data["x"], data["seen"]
    want = [
        encoder(tx, src_key_padding_mask=~valid) * valid[..., None],
        decoder(tx, ts, tgt_mask=later, memory_key_padding_mask=~valid[:, :4]),
    ]
    products = {"linear1": "hidden", "linear2": "out"}
    norms = {"norm1": "norm1", "norm2": "norm2"}
    in_encoder = {"self_attn": "attention/", **products, **norms}
    in_decoder = {
        "self_attn": "self_attention/", "multihead_attn": "cross_attention/", **products,
        **norms, "norm3": "norm3",
    }  # fmt: skip
    modules = [
        (encoder, {k: f"enc/{v}" for k, v in in_encoder.items()}),
        (decoder, {k: f"dec/{v}" for k, v in in_decoder.items()}),
    ]
    agrees(prog, data | {"lengths": LENGTHS}, [enc, dec], want, modules)
