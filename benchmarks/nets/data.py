"""The inputs of all sides of the networks: sizes, batches, and initial parameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

Arrays: TypeAlias = dict[str, Any]

RATE = 1e-3
"""The learning rate of Adam, which trains all of them."""


@dataclass(frozen=True)
class Mlp:
    """Images in a row, two hidden layers, classes."""

    rows: int = 128
    pixels: int = 784
    hidden: int = 512
    classes: int = 10

    def __str__(self) -> str:
        return (
            f"MLP, {self.pixels}-{self.hidden}-{self.hidden}-{self.classes}, {self.rows} rows"
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter."""
        widths = (self.pixels, self.hidden, self.hidden, self.classes)
        return {
            name: shape
            for i, (taken, made) in enumerate(pairwise(widths))
            for name, shape in ((f"fc{i}.w", (taken, made)), (f"fc{i}.b", (made,)))
        }

    def batch(self) -> Arrays:
        """Noise, and labels."""
        rng = np.random.default_rng(1)
        labels = rng.integers(0, self.classes, self.rows, dtype="int32")
        return {"x": rng.random((self.rows, self.pixels), dtype="float32"), "y": labels}


@dataclass(frozen=True)
class Cnn:
    """Two convolutions of 3x3, each pooled by 2x2, and a layer of classes."""

    rows: int = 32
    size: int = 28
    channels: tuple[int, int] = (16, 32)
    classes: int = 10

    def __str__(self) -> str:
        first, second = self.channels
        return (
            f"CNN, {first} and {second} channels, {self.rows} images of {self.size}x{self.size}"
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter; filters as [height, width, input, output]."""
        (first, second), side = self.channels, self.size // 4
        filters = {"conv0.w": (3, 3, 1, first), "conv1.w": (3, 3, first, second)}
        biases = {"conv0.b": (first,), "conv1.b": (second,), "fc.b": (self.classes,)}
        return filters | biases | {"fc.w": (side * side * second, self.classes)}

    def batch(self) -> Arrays:
        """Noise as grey images, [rows, height, width, 1], and labels."""
        rng = np.random.default_rng(1)
        labels = rng.integers(0, self.classes, self.rows, dtype="int32")
        images = rng.random((self.rows, self.size, self.size, 1), dtype="float32")
        return {"x": images, "y": labels}


@dataclass(frozen=True)
class Transformer:
    """A causal language model: pre-normalisation, learned positions, tanh-gelu."""

    rows: int = 8
    length: int = 64
    width: int = 128
    heads: int = 4
    layers: int = 4
    words: int = 1000

    def __str__(self) -> str:
        return (
            f"transformer, {self.layers} layers of {self.width}, {self.heads} heads, "
            f"{self.rows}x{self.length} of {self.words:,} words"
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter."""
        d, found = self.width, {"words.w": (self.words, self.width)}
        found["positions"] = (self.length, d)
        for i in range(self.layers):
            for norm in ("norm0", "norm1"):
                found |= {f"layer{i}/{norm}.scale": (d,), f"layer{i}/{norm}.bias": (d,)}
            products = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
            for name, (taken, made) in products.items():
                found |= {f"layer{i}/{name}.w": (taken, made), f"layer{i}/{name}.b": (made,)}
        found |= {"norm.scale": (d,), "norm.bias": (d,)}
        return found | {"logits.w": (d, self.words), "logits.b": (self.words,)}

    def batch(self) -> Arrays:
        """Words, and the words that follow them."""
        rng = np.random.default_rng(1)
        words = rng.integers(0, self.words, (self.rows, self.length + 1), dtype="int32")
        x, y = words[:, :-1], words[:, 1:]
        return {"x": np.ascontiguousarray(x), "y": np.ascontiguousarray(y)}


Net: TypeAlias = Mlp | Cnn | Transformer

NETS: tuple[Net, ...] = (Mlp(), Cnn(), Transformer())
TINY: tuple[Net, ...] = (
    Mlp(2, 5, 4, 3),
    Cnn(2, 8, (2, 3), 3),
    Transformer(2, 5, 8, 2, 2, 7),
)


def first_values(net: Net) -> Arrays:
    """The same initial parameters for all sides."""
    rng = np.random.default_rng(0)
    return {name: _first(name, shape, rng) for name, shape in net.shapes().items()}


def _first(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if name.endswith(".scale"):
        return np.ones(shape, "float32")
    fan_in = int(np.prod(shape[:-1])) if len(shape) > 1 else 100
    return (rng.normal(size=shape) / max(fan_in, 1) ** 0.5).astype("float32")
