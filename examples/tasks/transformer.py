"""A transformer that adds: it reads `47+85=` and writes the digits of the sum, the last first.

Two layers have causal attention. `br.decoding.greedy` decodes inside the program, one digit at
a time, with caches of keys and values and the trained blocks.

    python -m examples.tasks.transformer
"""

from __future__ import annotations

import numpy as np

import braces as br
from braces import layers

LETTERS = "0123456789+=."
END, ASKED, LENGTH, WIDTH = 12, 6, 10, 64


def sums(count: int, seed: int) -> np.ndarray:
    """Texts like `47+85=231.`: i32[count, LENGTH]."""
    pairs = np.random.default_rng(seed).integers(0, 100, (count, 2))
    texts = [f"{a:02}+{b:02}={f'{a + b:03}'[::-1]}." for a, b in pairs]
    return np.array([[LETTERS.find(one) for one in text] for text in texts], "int32")


@br.shared
def net(ids: br.Var, caches: list[layers.AttentionCache]) -> tuple[br.Var, list]:
    """The logits of the next letters, and the updated caches."""
    places = caches[0].position + br.arange(ids.shape[1])
    x = br.embedding(ids, [len(LETTERS), WIDTH]) + layers.positional_encoding(places, WIDTH)
    after = []
    for c in caches:
        x, new = layers.transformer_encoder_layer(x, 4, causal=True, norm_first=True, cache=c)
        after.append(new)
    return br.fc(br.layer_norm(x), len(LETTERS)), after


def next_digit(ids: br.Var, caches: list[layers.AttentionCache]) -> tuple[br.Var, list]:
    """A decoding step: the logits of the next letter."""
    logits, caches = net(ids[:, None], caches)
    return logits[:, 0], caches


with br.Program() as program:
    text = br.data("text", ["n", "length"], dtype="int32")
    empty = [layers.attention_cache(text.shape[0], LENGTH, 4, WIDTH // 4) for _ in range(2)]
    logits, _ = net(text, empty)
    loss = br.softmax_cross_entropy(logits[:, ASKED - 1 : -1], text[:, ASKED:])
    _, read = net(text[:, : ASKED - 1], empty)
    start, room = text[:, ASKED - 1], LENGTH - ASKED
    written = br.decoding.greedy(next_digit, read, start=start, end=END, max_length=room)
    br.optimizer.adam(1e-3).minimize(loss)


def train(steps: int) -> tuple[float, float]:
    """The last loss, and the share of correct sums of unseen pairs."""
    exe, test = br.Executor(), sums(500, steps)
    scope = exe.init(program)
    losses = [exe.run(program, scope, {"text": sums(128, s)}, loss) for s in range(steps)]
    ids = exe.run(program.for_test(), scope, {"text": test[:, :ASKED]}, written.ids)
    return float(losses[-1]), float(np.mean((ids == test[:, ASKED:]).all(axis=1)))


if __name__ == "__main__":
    print("loss and accuracy:", train(steps=1500))
