"""The transformer of the recipes, in PyTorch: it looks up the value of a key.

The text `a 7 f 2 f` is continued by `2`. `python -m benchmarks.surgery.recall FOLDER`
trains the module and writes the files in `examples/recall`: the program that
`br.from_torch` returns, its parameters, and the same module exported to ONNX.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import braces as br
from examples.recall import FOLDER, KEYS, LENGTH, load as load_program, texts

WIDTH, HEADS, LAYERS = 32, 4, 4


class Attention(nn.Module):
    """Causal self-attention with four projections."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the outputs."""
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a perceptron, both on normalized inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the outputs."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Recall(nn.Module):
    """Logits of the token after the text."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.tokens = nn.Embedding(2 * KEYS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * KEYS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Compute the outputs."""
        x = self.tokens(ids) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, -1])


def accuracy(module: nn.Module, seed: int = 1) -> float:
    """The share of 1,000 texts that are continued correctly."""
    ids, values = map(torch.from_numpy, texts(1000, seed))
    with torch.no_grad():
        return float((module(ids).argmax(-1) == values[:, 0]).float().mean())


def train(module: nn.Module, steps: int = 1200, rate: float = 2e-3) -> float:
    """Train by Adam; return the last loss."""
    adam, loss = torch.optim.Adam(module.parameters(), rate), torch.zeros(())
    for step in range(steps):
        ids, values = map(torch.from_numpy, texts(128, 1000 + step))
        loss = nn.functional.cross_entropy(module(ids), values[:, 0])
        adam.zero_grad()
        loss.backward()
        adam.step()
    return loss.item()


def exported(module: nn.Module) -> torch.export.ExportedProgram:
    """The exported module, for any batch size."""
    ids = torch.from_numpy(texts(4, 0)[0])
    sizes = ({0: torch.export.Dim("batch")},)
    return torch.export.export(module.eval(), (ids,), dynamic_shapes=sizes)


def load() -> Recall:
    """The trained module, from the files."""
    module, (_, scope) = Recall(), load_program()
    module.load_state_dict(
        {n: torch.from_numpy(v.copy()) for n, v in scope.state_dict().items()}
    )
    return module.eval()


def main(folder: Path = FOLDER) -> None:
    """Train, and write the files."""
    torch.manual_seed(0)
    module = Recall()
    loss = train(module)
    print(f"loss {loss:.4f}, accuracy {accuracy(module):.3f}")
    prog, values = br.from_torch(exported(module))
    prog.save(folder / "recall.program")
    scope = br.Scope()
    scope.update(values)
    br.save_parameters(scope, folder / "recall.safetensors")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
