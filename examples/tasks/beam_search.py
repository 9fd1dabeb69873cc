"""Beam search inside a saved model: names of Python modules from their first letters.

A gated recurrent unit learns the names of the standard library, letter by letter. The saved
model contains the search as a loop, so that its output is names instead of logits.

    python -m examples.tasks.beam_search
"""

from __future__ import annotations

import sys

import numpy as np

import braces as br

LETTERS = "\n_abcdefghijklmnopqrstuvwxyz0123456789"
LENGTH, UNITS = 12, 96
NAMES = [n for n in sys.stdlib_module_names if 1 < len(n) < LENGTH and n.islower()]


def encoded(words: list[str]) -> np.ndarray:
    """i32[words, letters]: each word, padded with end tokens."""
    return np.array([[LETTERS.find(c) for c in w.ljust(LENGTH, "\n")] for w in words], "int32")


@br.shared
def step(ids: br.Var, h: br.Var) -> tuple[br.Var, br.Var]:
    """The logits of the next letter, and the next state."""
    h = br.layers.gru_cell(br.embedding(ids, [len(LETTERS), 32]), h)
    return br.fc(h, len(LETTERS)), h


with br.Program() as program:
    words = br.data("words", [LENGTH, "n"], dtype="int32")
    nothing = br.zeros([words.shape[1], UNITS])
    _, logits = br.scan(lambda h, ids: step(ids, h)[::-1], nothing, words[:-1])
    loss = br.softmax_cross_entropy(logits, words[1:])
    first = br.data("first", ["m"], dtype="int32")
    nothing = br.zeros([first.shape[0], UNITS])
    best = br.decoding.beam_search(step, nothing, 5, start=first, end=0, max_length=LENGTH)
    br.optimizer.adam(1e-2).minimize(loss)


def train(path: str, steps: int) -> float:
    """Train, and save the search; return the last loss."""
    exe, feed = br.Executor(), {"words": encoded(sorted(NAMES)).T}
    scope = exe.init(program)
    losses = [exe.run(program, scope, feed, loss) for _ in range(steps)]
    br.save_model(path, program, scope, feeds=["first"], fetches=[best.ids])
    return float(losses[-1])


def search(path: str, letters: str) -> dict[str, list[str]]:
    """The best names for each first letter."""
    ids = br.load_model(path).run(first=encoded([*letters])[:, 0])
    texts = [["".join(LETTERS[i] for i in row).rstrip("\n") for row in rows] for rows in ids]
    return {a: [a + b for b in more] for a, more in zip(letters, texts, strict=True)}


if __name__ == "__main__":
    print("loss:", train("names.model", steps=150))
    print(search("names.model", "jrs"))
