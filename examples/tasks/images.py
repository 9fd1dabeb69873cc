"""A convolutional network on images of digits, with checkpoints: it can be killed at any time.

    python -m examples.tasks.images [FOLDER]

With the same folder it resumes from its last checkpoint. Parameters, optimizer state, dropout
and data position are bitwise equal to those of an uninterrupted run.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_digits

import braces as br

DIGITS = load_digits()
PER_EPOCH, BATCH = 30, 50
TRAINED = PER_EPOCH * BATCH

with br.Program() as program:
    x, y = br.data("x", ["n", 1, 8, 8]), br.data("y", ["n"], dtype="int32")
    h = x
    for channels in (16, 32):
        h = br.relu(br.batch_norm(br.conv2d(h, channels, 3, padding=1)))
    logits = br.fc(br.dropout(br.flatten(br.max_pool2d(h, 2)), 0.3), 10)
    right = br.mean(br.argmax(logits, axis=1) == y)
    loss = br.softmax_cross_entropy(logits, y)
    br.optimizer.adam(2e-3).minimize(loss)


def images(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Some of 1,797 digits, and their classes."""
    return {"x": DIGITS.images[rows, None] / 16, "y": DIGITS.target[rows]}


def train(folder: str, epochs: int, killed_at: int | None = None) -> tuple[br.Scope, float]:
    """Train from the last checkpoint on; return the scope and the accuracy on other images."""
    exe = br.Executor()
    scope = exe.init(program)
    with br.Checkpoint(folder) as job:
        begun = job.restore(scope).step if job.steps else 0
        for step in range(begun, killed_at or epochs * PER_EPOCH):
            epoch, batch = divmod(step, PER_EPOCH)
            order = np.random.default_rng(epoch).permutation(TRAINED)
            exe.run(program, scope, images(order[batch * BATCH :][:BATCH]), loss)
            if step % 20 == 19:
                job.save(scope, step + 1)
    others = images(np.arange(TRAINED, 1797))
    return scope, float(exe.run(program.for_test(), scope, others, right))


if __name__ == "__main__":
    print("right:", train(sys.argv[1] if len(sys.argv) > 1 else "digits", epochs=6)[1])
