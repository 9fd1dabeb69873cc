"""A language model on the source of Python, with its LSTM state carried over batches.

Sixteen streams read a text in parallel. A batch has the next 32 letters of each. The final
states of the LSTM are states of the program, and the initial states of the next batch.
Gradients are truncated at the beginning of a batch.

    python -m examples.tasks.language_model
"""

from __future__ import annotations

import argparse
import inspect

import numpy as np

import braces as br

READERS, STEPS, UNITS = 16, 32, 128
TEXT = inspect.getsource(argparse)[:60_000]
LETTERS = "".join(sorted(set(TEXT)))

with br.Program() as program:
    ids = br.data("ids", [READERS, STEPS + 1], dtype="int32")
    h, c = (br.state(name, [READERS, UNITS]) for name in ("h", "c"))
    seen = br.embedding(ids[:, :-1], [len(LETTERS), 32])
    out, (h_next, c_next) = br.lstm(seen, UNITS, state=(h, c))
    program.update(h, h_next)
    program.update(c, c_next)
    logits = br.fc(out, len(LETTERS))
    loss = br.softmax_cross_entropy(logits, ids[:, 1:])
    bits = loss / np.log(2)
    br.optimizer.adam(3e-3).minimize(loss)


def batches(text: str) -> np.ndarray:
    """The text in order: i32[batches, READERS, STEPS + 1]; batches overlap by one letter."""
    ids = np.array([LETTERS.index(letter) for letter in text], "int32")
    parts = ids[: len(ids) // READERS * READERS].reshape(READERS, -1)
    windows = np.lib.stride_tricks.sliding_window_view(parts, STEPS + 1, axis=1)
    return windows[:, ::STEPS].swapaxes(0, 1)


def read(exe: br.Executor, scope: br.Scope) -> float:
    """Train on the text once, from its beginning; return the bits per letter."""
    scope.update({name: np.zeros([READERS, UNITS], "float32") for name in "hc"})
    found = [exe.run(program, scope, {"ids": ids}, bits) for ids in batches(TEXT)]
    return float(np.mean(found))


if __name__ == "__main__":
    exe = br.Executor()
    scope = exe.init(program)
    print("bits per letter:", [round(read(exe, scope), 2) for _ in range(8)])
