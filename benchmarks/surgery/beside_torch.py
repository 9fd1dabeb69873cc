"""Each recipe beside PyTorch or PEFT, which do the same with the same module and numbers.

`python -m benchmarks.surgery.beside_torch [RECIPE …]`, in the root of the repository, prints
the differences that the pages of `docs/guides/surgery/recipes` quote.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import braces as br
from benchmarks.surgery.recall import load
from examples import recall

PAGES = Path(__file__).parents[2] / "docs" / "guides" / "surgery" / "recipes"
Names = dict[str, Any]


def run_page(name: str, folder: str) -> Names:
    """Run the code of a page, and return its variables."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    names = Names()
    exec(compile(code.replace("/tmp/", f"{folder}/"), name, "exec"), names)
    return names


def largest(found: Any, wanted: Any) -> float:
    """The largest difference of two arrays."""
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else wanted
    return float(np.abs(np.asarray(found, "float64") - np.asarray(wanted, "float64")).max())


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    """Arrays as tensors."""
    return [torch.from_numpy(np.array(array)) for array in arrays]


def trained(
    module: nn.Module, make: Callable[[Any], torch.optim.Optimizer], feeds: list[Any]
) -> list[float]:
    """The loss of each step."""
    step, losses = make([p for p in module.parameters() if p.requires_grad]), list[float]()
    for ids, answer in feeds:
        loss = nn.functional.cross_entropy(module(ids), answer)
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


def lora(page: Names) -> str:
    """PEFT, with the same first values."""
    import peft

    config = peft.LoraConfig(
        r=4, lora_alpha=4, target_modules=r".*\.attention\.(q|k|v|out)", lora_dropout=0.0
    )
    module = peft.get_peft_model(load(), config)
    first = page["exe"].init(page["adapted"], br.Scope(), seed=0)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            part = re.search(r"model\.(layers.*)\.lora_([AB])\.default", name)
            if part:
                weight.copy_(tensors(first[f"{part[1]}.lora_{part[2].lower()}"])[0])
    feeds = [tensors(*page["feed"](seed).values()) for seed in range(200)]
    losses = trained(module, lambda p: torch.optim.Adam(p, 1e-2), feeds)
    merged = module.merge_and_unload()(tensors(page["test"]["ids"])[0])
    correct = (merged.argmax(-1).numpy() == page["test"]["answer"]).mean()
    apart = [abs(a - b) for a, b in zip(losses, page["losses"], strict=True)]
    return (
        f"PEFT {version('peft')}: losses of 20 steps differ by {max(apart[:20]):.1e}, "
        f"of all by {max(apart):.1e}; accuracy {correct:.3f}, ours {page['accuracy']:.3f}"
    )


def swap_activation(page: Names) -> str:
    """The same module with another function."""
    module, gelu = load(), nn.functional.gelu
    nn.functional.gelu = nn.functional.relu
    feed = tensors(*page["feed"].values())
    losses = trained(module, lambda p: torch.optim.SGD(p, 0.1), [feed] * 4)
    nn.functional.gelu = gelu
    return f"losses {losses} differ by {largest(page['losses'], losses):.1e}"


def per_example(page: Names) -> str:
    """The transform of a function of parameters."""
    module = load()
    weights = {name: p.detach() for name, p in module.named_parameters()}

    def loss(weights: Any, row: Any, label: Any) -> Any:
        logits = torch.func.functional_call(module, weights, (row[None],))
        return nn.functional.cross_entropy(logits, label[None])

    # Attention of a batch of one in vmap needs the plain kernels.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        mapped = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        found = mapped(weights, *tensors(page["ids"], page["labels"]))
    norms = sum(g.flatten(1).square().sum(1) for g in found.values()).sqrt()
    apart = largest(page["norm"], norms) / float(norms.max())
    places = largest(page["places"], found["places"])
    return f"norms differ by {apart:.1e} of the largest, gradients of `places` by {places:.1e}"


def fold_batch_norm(page: Names) -> str:
    """The weights of `fuse_conv_bn_eval`."""
    state, apart = page["scope"].state_dict(), list[float]()
    for at, (size, bias) in enumerate([(3, False), (8, True)]):
        conv, norm = nn.Conv2d(size, 8, 3, bias=bias), nn.BatchNorm2d(8)
        names = [("weight", "scale"), ("bias", "bias"), ("running_mean", "mean")]
        with torch.no_grad():
            conv.weight.copy_(tensors(state[f"conv2d_{at}.w"])[0])
            if conv.bias is not None:
                conv.bias.copy_(tensors(state[f"conv2d_{at}.b"])[0])
            for theirs, ours in [*names, ("running_var", "var")]:
                getattr(norm, theirs).copy_(tensors(state[f"batch_norm_{at}.{ours}"])[0])
        fused = nn.utils.fusion.fuse_conv_bn_eval(conv.eval(), norm.eval())
        folded = page["folded"].find(type="conv2d")[at]
        weight, shift = (state[v.name] for v in folded.inputs[1:])
        apart += [largest(weight, fused.weight), largest(shift, fused.bias)]
    return f"weights and biases differ by {max(apart):.1e}"


class Rounded(nn.Module):
    """A weight rounded to 8 bits, with a straight-through gradient."""

    def forward(self, w: torch.Tensor) -> torch.Tensor:
        """Round."""
        scale = w.detach().abs().amax(1) / 127
        zeros = torch.zeros(len(scale), dtype=torch.int32)
        fake = torch.fake_quantize_per_channel_affine(w, scale, zeros, 0, -128, 127)
        return w + (fake - w).detach()


def quantize(page: Names) -> str:
    """Fake quantization of PyTorch in the same layers."""
    module = load()
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.utils.parametrize.register_parametrization(layer, "weight", Rounded())
    feed = tensors(*page["feed"].values())
    losses = trained(module, lambda p: torch.optim.Adam(p, 1e-3), [feed] * 50)
    apart = largest(page["losses"], losses)
    return f"50 losses differ by {apart:.1e}; from {losses[0]:.2e} to {losses[-1]:.2e}"


def prune_heads(page: Names) -> str:
    """Gates in hooks before the last projection."""
    module = load()
    gates = [torch.ones(4, 1, requires_grad=True) for _ in module.layers]
    for layer, gate in zip(module.layers, gates, strict=True):
        layer.attention.out.register_forward_pre_hook(
            lambda _, args, gate=gate: ((args[0].unflatten(-1, (4, -1)) * gate).flatten(-2),)
        )
    ids, answer = tensors(*page["feed"].values())
    nn.functional.cross_entropy(module(ids), answer).backward()
    scores = np.stack(
        [np.abs(gate.grad.numpy()[:, 0]) for gate in gates if gate.grad is not None]
    )
    return f"scores differ by {largest(page['scores'] / scores, 1.0):.1e} of themselves"


def inspect(page: Names) -> str:
    """Logit lens and patches by hooks."""
    module, seen = load(), list[torch.Tensor]()
    for layer in module.layers:
        layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    module.layers[-1].register_forward_hook(lambda _, args, out: seen.append(out))
    ids, corrupt = tensors(page["ids"], page["corrupt"])
    answer, restored = page["values"][:, 0], np.zeros((4, recall.LENGTH))

    def correct(logits: torch.Tensor) -> float:
        return float((logits.argmax(-1).numpy() == answer).mean())

    with torch.no_grad():
        module(ids)
        clean = seen[:5]
        lens = [correct(module.head(module.norm(state)[:, -1])) for state in clean]
        for at, layer in enumerate(module.layers):
            for place in range(recall.LENGTH):

                def patch(_: Any, args: Any, at: int = at, place: int = place) -> Any:
                    mixed = args[0].clone()
                    mixed[:, place] = clean[at][:, place]
                    return (mixed,)

                hook = layer.register_forward_pre_hook(patch)
                restored[at, place] = correct(module(corrupt))
                hook.remove()
    patches = largest(page["restored"], restored)
    return f"lens differs by {largest(page['lens'], lens):.1e}, patches by {patches:.1e}"


def distill(page: Names) -> str:
    """A student of the same two layers."""
    teacher, student = load(), load()
    student.layers = nn.ModuleList([student.layers[0], student.layers[2]])
    adam, losses = torch.optim.Adam(student.parameters(), 3e-3), list[float]()
    for seed in range(2, 202):
        (ids,) = tensors(recall.texts(128, seed)[0])
        with torch.no_grad():
            soft = teacher(ids).softmax(-1)
        loss = nn.functional.cross_entropy(student(ids), soft)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    apart = [abs(a - b) for a, b in zip(losses, page["losses"], strict=True)]
    return (
        f"losses of the first 20 steps differ by {max(apart[:20]):.1e}, of all by "
        f"{max(apart):.1e}; the last is {losses[-1]:.4f}, ours {page['losses'][-1]:.4f}"
    )


def stream(page: Names) -> str:
    """`nn.RNN` with the same weights, in chunks."""
    rnn, state = nn.RNN(3, 8), page["scope"].state_dict()
    weight = state["cell.w"]
    with torch.no_grad():
        for name, value in {
            "weight_ih_l0": weight[:3].T,
            "weight_hh_l0": weight[3:].T,
            "bias_ih_l0": state["cell.b"],
            "bias_hh_l0": np.zeros(8, "float32"),
        }.items():
            getattr(rnn, name).copy_(tensors(value)[0])
        hidden, parts = None, list[torch.Tensor]()
        for chunk in tensors(page["sound"])[0].split(3):
            rows, hidden = rnn(chunk, hidden)
            parts.append(rows @ tensors(state["out.w"])[0] + tensors(state["out.b"])[0])
    return f"outputs differ by {largest(np.concatenate(page['parts']), torch.cat(parts)):.1e}"


PEERS: dict[str, Callable[[Names], str]] = {
    peer.__name__: peer
    for peer in (
        lora, swap_activation, per_example, fold_batch_norm, quantize, prune_heads, inspect,
        distill, stream,
    )
}  # fmt: skip


def main(names: list[str]) -> None:
    """Print a line for each recipe."""
    print(f"torch {torch.__version__}")
    for name in names or PEERS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}: {PEERS[name](run_page(name, folder))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
