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
LONGEST, UNITS = 12, 96


def names() -> list[str]:
    """Those of the standard library."""
    return sorted(n for n in sys.stdlib_module_names if 1 < len(n) < LONGEST and n.islower())


def encoded(words: list[str]) -> np.ndarray:
    """i32[words, LONGEST]: each word, and ends."""
    return np.array(
        [[LETTERS.index(c) for c in w.ljust(LONGEST, "\n")] for w in words], "int32"
    )


@br.shared
def step(ids: br.Var, h: br.Var) -> tuple[br.Var, br.Var]:
    """Logits of the letter after this one, and the next state."""
    h = br.gru_cell(br.embedding(ids, [len(LETTERS), 32]), h)
    return br.fc(h, len(LETTERS)), h


def build() -> tuple[br.Program, br.Var, br.decoding.Decoded]:
    """The program, its loss, and the best five names for each first letter."""
    with br.Program() as prog:
        words = br.data("words", ["n", LONGEST], dtype="int32")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([words.shape[0], UNITS]))
            logits, h_next = step(net.add_input(words[:, :-1], axis=1), h)
            h.update(h_next)
            net.add_output(logits)
        loss = br.softmax_cross_entropy(
            br.swapaxes(rnn(), 0, 1), words[:, 1:], reduction="mean"
        )
        first = br.data("first", ["m"], dtype="int32")
        nothing = br.zeros([first.shape[0], UNITS])
        found = br.decoding.beam_search(
            step, nothing, 5, start=first, end=0, max_length=LONGEST
        )
        br.optimizer.adam(1e-2).minimize(loss)
    return prog, loss, found


def train(path: str, steps: int) -> float:
    """Learn, and save what searches; the last loss."""
    prog, loss, found = build()
    scope, exe = br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    losses = [exe.run(prog, scope, {"words": encoded(names())}, loss) for _ in range(steps)]
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
