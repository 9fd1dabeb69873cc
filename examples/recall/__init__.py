"""A small transformer from PyTorch that looks up the value of a key, for recipes of surgery.

The text `a 7 f 2 f` is continued by `2`. `benchmarks/surgery/recall.py` trained the module in
PyTorch and imported it with `br.from_torch`. The files here are the imported program and its
parameters. `docs/guides/surgery/recipes` change it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import braces as br

FOLDER = Path(__file__).parent
KEYS, PAIRS = 8, 2
LENGTH = 2 * PAIRS + 1


def texts(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts of keys 0 to 7 and values 8 to 15, i64[count, 5], and the values of the pairs.

    The last key of a text is that of its first or second pair. The values, i64[count, 2], are
    that of this pair and that of the other.
    """
    rng = np.random.default_rng(seed)
    keys = rng.permuted(np.tile(np.arange(KEYS), (count, 1)), axis=1)[:, :PAIRS]
    values = rng.integers(KEYS, 2 * KEYS, (count, PAIRS))
    asked, rows = rng.integers(0, PAIRS, count), np.arange(count)
    pairs = np.stack([keys, values], axis=2).reshape(count, -1)
    ids = np.concatenate([pairs, keys[rows, asked][:, None]], axis=1)
    return ids, np.stack([values[rows, asked], values[rows, 1 - asked]], axis=1)


def load() -> tuple[br.Program, br.Scope]:
    """The imported program, from `ids` to the logits of the next token, and its parameters."""
    scope = br.Scope()
    br.load_parameters(scope, FOLDER / "recall.safetensors")
    return br.Program.load(FOLDER / "recall.program"), scope
