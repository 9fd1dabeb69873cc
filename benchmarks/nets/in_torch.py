"""The networks in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.nets.data import RATE, Cnn, Mlp, Net, Transformer, first_values
from benchmarks.peers import cores

LAYOUT = torch.channels_last
"""What PyTorch recommends for convolutions on a CPU."""
ROLES = {"w": "weight", "scale": "weight", "b": "bias"}


torch.set_num_threads(cores())


def train_step(net: Net) -> Callable[[], float]:
    """One step of Adam, eager; returns the loss before it."""
    return _step(net, lambda function: function)


def compiled_step(net: Net) -> Callable[[], float]:
    """The same, with network and loss compiled together, for these shapes."""
    return _step(net, lambda function: torch.compile(function, dynamic=False))


def compiling(net: Net) -> Callable[[], float]:
    """The first step, after a reset of all compiled code."""
    torch.compiler.config.force_disable_caches = True

    def run() -> float:
        torch.compiler.reset()
        return compiled_step(net)()

    return run


def _step(net: Net, compiled: Callable[[Any], Any]) -> Callable[[], float]:
    module = MODULES[type(net)](net)
    _set(module, net)
    if isinstance(net, Cnn):
        module = module.to(memory_format=LAYOUT)
    optimizer = torch.optim.Adam(module.parameters(), lr=RATE, fused=True)
    x, y = _batch(net)
    loss_of = compiled(
        lambda x, y: functional.cross_entropy(module(x).flatten(0, -2), y.flatten())
    )

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _batch(net: Net) -> tuple[Any, Any]:
    batch = net.batch()
    x, y = torch.from_numpy(batch["x"]), torch.from_numpy(batch["y"]).long()
    if isinstance(net, Cnn):
        return x.permute(0, 3, 1, 2).contiguous(memory_format=LAYOUT), y
    return (x.long() if isinstance(net, Transformer) else x), y


def _set(module: nn.Module, net: Net) -> None:
    """The initial values, transposed to torch's layout."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for name, value in first_values(net).items():
            parameters.pop(_named(name)).copy_(torch.from_numpy(_turned(name, value, net)))
    assert not parameters, list(parameters)


def _named(name: str) -> str:
    """The name of a parameter in torch."""
    *layer, role = name.replace("/", ".").split(".")
    return ".".join([*layer, ROLES.get(role, role)])


def _turned(name: str, value: Any, net: Net) -> Any:
    if name == "fc.w" and isinstance(net, Cnn):  # channels lie before the places in torch
        side = net.size // 4
        placed = value.reshape(side, side, net.channels[1], net.classes)
        return np.ascontiguousarray(placed.transpose(3, 2, 0, 1).reshape(net.classes, -1))
    if value.ndim == 4:
        return np.ascontiguousarray(value.transpose(3, 2, 0, 1))
    return np.ascontiguousarray(value.T) if name.endswith(".w") and name != "words.w" else value


# ---- nets ------------------------------------------------------------------------------------


class MlpModule(nn.Module):
    """Three products."""

    def __init__(self, net: Mlp) -> None:
        super().__init__()
        self.fc0 = nn.Linear(net.pixels, net.hidden)
        self.fc1 = nn.Linear(net.hidden, net.hidden)
        self.fc2 = nn.Linear(net.hidden, net.classes)

    def forward(self, x: Any) -> Any:
        """The logits."""
        return self.fc2(functional.relu(self.fc1(functional.relu(self.fc0(x)))))


class CnnModule(nn.Module):
    """Channels first for the user, and last in memory."""

    def __init__(self, net: Cnn) -> None:
        super().__init__()
        first, second = net.channels
        self.conv0 = nn.Conv2d(1, first, 3, padding="same")
        self.conv1 = nn.Conv2d(first, second, 3, padding="same")
        self.fc = nn.Linear((net.size // 4) ** 2 * second, net.classes)

    def forward(self, x: Any) -> Any:
        """The logits."""
        x = functional.max_pool2d(functional.relu(self.conv0(x)), 2)
        return self.fc(functional.max_pool2d(functional.relu(self.conv1(x)), 2).flatten(1))


class TransformerModule(nn.Module):
    """A sequence of layers."""

    def __init__(self, net: Transformer) -> None:
        super().__init__()
        self.words = nn.Embedding(net.words, net.width)
        self.positions = nn.Parameter(torch.zeros(net.length, net.width))
        for i in range(net.layers):
            self.add_module(f"layer{i}", Layer(net))
        self.layers = [getattr(self, f"layer{i}") for i in range(net.layers)]
        self.norm = nn.LayerNorm(net.width)
        self.logits = nn.Linear(net.width, net.words)

    def forward(self, x: Any) -> Any:
        """The logits."""
        h = self.words(x) + self.positions
        for layer in self.layers:
            h = layer(h)
        return self.logits(self.norm(h))


class Layer(nn.Module):
    """Attention and two products, with torch's own fused attention."""

    def __init__(self, net: Transformer) -> None:
        super().__init__()
        d, self.heads = net.width, net.heads
        self.norm0, self.norm1 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, h: Any) -> Any:
        """The words after this layer."""
        rows, length, width = h.shape
        heads = self.qkv(self.norm0(h)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return h + self.down(functional.gelu(self.up(self.norm1(h)), approximate="tanh"))


MODULES: dict[type[Any], Callable[[Any], nn.Module]] = {
    Mlp: MlpModule,
    Cnn: CnnModule,
    Transformer: TransformerModule,
}
