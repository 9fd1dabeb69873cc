"""Beam search in one file: what are Python's modules called that begin with these letters?

A gated recurrent unit learns the names of the standard library, letter by letter. The saved
model holds the search as a loop of its own, so whoever loads it asks for names, not for logits.

    python -m examples.tasks.beam_search
"""

from __future__ import annotations

import sys

import numpy as np

import braces as br

LETTERS = "\n_abcdefghijklmnopqrstuvwxyz0123456789"
LENGTH, UNITS = 12, 96


def names() -> list[str]:
    """Those of the standard library."""
    return sorted(n for n in sys.stdlib_module_names if 1 < len(n) < LENGTH and n.islower())


def encoded(words: list[str]) -> np.ndarray:
    """i32[words, letters]: each word, and ends."""
    return np.array([[LETTERS.find(c) for c in w.ljust(LENGTH, "\n")] for w in words], "int32")


@br.shared
def step(ids: br.Var, h: br.Var) -> tuple[br.Var, br.Var]:
    """Logits of the letter after this one, and the next state."""
    h = br.gru_cell(br.embedding(ids, [len(LETTERS), 32]), h)
    return br.fc(h, len(LETTERS)), h


def build() -> tuple[br.Program, br.Var, br.decoding.Decoded]:
    """The program, its loss, and the best five names for each first letter."""
    with br.Program() as prog:
        words = br.data("words", [LENGTH, "n"], dtype="int32")
        nothing = br.zeros([words.shape[1], UNITS])
        _, logits = br.scan(lambda h, ids: step(ids, h)[::-1], nothing, words[:-1])
        loss = br.softmax_cross_entropy(logits, words[1:], reduction="mean")
        first = br.data("first", ["m"], dtype="int32")
        nothing = br.zeros([first.shape[0], UNITS])
        found = br.decoding.beam_search(step, nothing, 5, start=first, end=0, max_length=LENGTH)
        br.optimizer.adam(1e-2).minimize(loss)
    return prog, loss, found


def train(path: str, steps: int) -> float:
    """Learn, and save what searches; the last loss."""
    (prog, loss, found), scope, exe = build(), br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    losses = [exe.run(prog, scope, {"words": encoded(names()).T}, loss) for _ in range(steps)]
    br.save_model(path, prog, scope, feeds=["first"], fetches=[found.ids])
    return float(losses[-1])


def search(path: str, letters: str) -> dict[str, list[str]]:
    """The best names for each first letter."""
    ids = br.load_model(path).run(first=encoded(list(letters))[:, 0])
    return {
        letter: [letter + "".join(LETTERS[i] for i in one).rstrip("\n") for one in rows]
        for letter, rows in zip(letters, ids, strict=True)
    }


if __name__ == "__main__":
    print("loss:", train("names.model", steps=150))
    print(search("names.model", "jrs"))
