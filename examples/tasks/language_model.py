"""A language model whose state is carried over batches: letters of Python's own source.

Sixteen readers walk through a text side by side. A batch has the next 32 letters of each, and
the states of the LSTM after it are states of the program, with which the next batch begins. A
gradient ends at the beginning of its batch; the memory does not.

    python -m examples.tasks.language_model
"""

from __future__ import annotations

import argparse
import inspect

import numpy as np

import braces as br

READERS, STEPS, UNITS = 16, 32, 128


def batches(text: str, letters: str) -> np.ndarray:
    """The text in order: i32[batches, READERS, STEPS + 1], letters between two in both."""
    ids = np.array([letters.index(letter) for letter in text], "int32")
    parts = ids[: len(ids) // READERS * READERS].reshape(READERS, -1)
    starts = range(0, parts.shape[1] - STEPS, STEPS)
    return np.stack([parts[:, start : start + STEPS + 1] for start in starts])


def build(vocabulary: int, carried: bool = True) -> tuple[br.Program, br.Var]:
    """The program that trains, and what it thinks of a text in bits for each letter."""
    with br.Program() as prog:
        ids = br.data("ids", [READERS, STEPS + 1], dtype="int32")
        h, c = (br.state(name, [READERS, UNITS]) for name in ("h", "c"))
        seen = br.embedding(ids[:, :-1], [vocabulary, 32])
        out, (h_next, c_next) = br.lstm(seen, UNITS, state=(h, c))
        if carried:
            prog.update(h, h_next)
            prog.update(c, c_next)
        logits = br.fc(out, vocabulary)
        loss = br.softmax_cross_entropy(logits, ids[:, 1:], reduction="mean")
        br.optimizer.adam(3e-3).minimize(loss)
    return prog, loss / np.log(2)


def train(epochs: int, carried: bool = True, length: int = 60_000) -> list[float]:
    """Bits for each letter, the mean of each epoch."""
    text = inspect.getsource(argparse)[:length]
    letters = "".join(sorted(set(text)))
    prog, bits = build(len(letters), carried)
    scope, exe, found = br.Scope(), br.Executor(), []
    exe.init(prog, scope, seed=0)
    for _ in range(epochs):
        scope.update({name: np.zeros([READERS, UNITS], "float32") for name in "hc"})
        told = [exe.run(prog, scope, {"ids": ids}, bits) for ids in batches(text, letters)]
        found.append(float(np.mean(told)))
    return found


if __name__ == "__main__":
    print("bits for each letter:", np.round(train(epochs=8), 2))
