"""The language model of all sides: its sizes, its values, and its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = dict[str, Any]

START = 0
"""The word that it is told first."""


@dataclass(frozen=True)
class Task:
    """An LSTM or a GRU between an embedding and logits.

    The gates of an LSTM are i, f, g, o; those of a GRU are r, z, n, where n reads the product
    of the memory, with its own bias, through r: as in cuDNN.

    Attributes:
        cell: `lstm` or `gru`.
        words: The size of the vocabulary.
        width: The width of the embedding.
        hidden: The width of the memory.
        limit: The maximum number of decoded words.
    """

    cell: str
    words: int
    width: int
    hidden: int
    limit: int

    def __str__(self) -> str:
        sizes = f"D {self.width}, H {self.hidden}, V {self.words:,}"
        return f"{self.cell.upper()}, {sizes}, {len(self.said)} words"

    @cached_property
    def values(self) -> Values:
        """The parameters."""
        rng, gates = np.random.default_rng(0), self.gates * self.hidden
        shapes = {
            "emb": (self.words, self.width), "wx": (self.width, gates),
            "wh": (self.hidden, gates), "b": (gates,), "bn": (self.hidden,),
            "wo": (self.hidden, self.words), "bo": (self.words,),
        }  # fmt: skip
        if self.cell == "lstm":
            del shapes["bn"]
        scales = {"emb": 1.0, "wo": 0.3, "b": 0.1, "bn": 0.1, "bo": 0.1}
        made = {
            name: rng.normal(0, scales.get(name, shape[0] ** -0.5), shape)
            for name, shape in shapes.items()
        }
        return {name: value.astype("float32") for name, value in made.items()}

    @property
    def gates(self) -> int:
        """The number of gates of the cell."""
        return 4 if self.cell == "lstm" else 3

    @property
    def memories(self) -> int:
        """The number of memories of the cell; the first one is read."""
        return 2 if self.cell == "lstm" else 1

    @cached_property
    def last_word(self) -> int:
        """The end token: the word that is decoded last, long before the limit."""
        endless = self._endless
        return max({*endless} - {START}, key=endless.index)

    @cached_property
    def said(self) -> list[int]:
        """The decoded words, by NumPy."""
        endless = self._endless
        return endless[: endless.index(self.last_word) + 1]

    @cached_property
    def _endless(self) -> list[int]:
        p, word, said = self.values, START, list[int]()
        memories: Sequence[Any] = [np.zeros(self.hidden, "float32")] * self.memories
        for _ in range(self.limit // 2):
            memories = CELLS[self.cell](p, p["emb"][word], *memories)
            word = int((memories[0] @ p["wo"] + p["bo"]).argmax())
            said.append(word)
        return said


def _lstm(p: Values, x: Any, h: Any, c: Any) -> Sequence[Any]:
    i, f, g, o = np.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru(p: Values, x: Any, h: Any) -> Sequence[Any]:
    xr, xz, xn = np.split(x @ p["wx"] + p["b"], 3)
    hr, hz, hn = np.split(h @ p["wh"], 3)
    z = _sigmoid(xz + hz)
    n = np.tanh(xn + _sigmoid(xr + hr) * (hn + p["bn"]))
    return ((1 - z) * n + z * h,)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


CELLS: dict[str, Callable[..., Sequence[Any]]] = {"lstm": _lstm, "gru": _gru}

TASKS = (
    Task("lstm", 1000, 128, 128, 128),
    Task("gru", 1000, 128, 128, 128),
    Task("lstm", 10000, 256, 512, 128),
)
TINY = (Task("lstm", 30, 4, 5, 12), Task("gru", 30, 4, 5, 12))
