"""A convolutional net that may be killed at any time: images of digits.

    python -m examples.tasks.images [FOLDER]

Started again on the same folder it goes on where its last checkpoint was, and ends with the
very numbers that it would have had: parameters, optimizer, dropout, the place in the data.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.datasets import load_digits

import braces as br

PER_EPOCH, BATCH = 30, 50
TRAINED = PER_EPOCH * BATCH


def images() -> tuple[np.ndarray, np.ndarray]:
    """1,797 digits: f32[n, 1, 8, 8] and their classes."""
    digits = load_digits()
    return digits.images[:, None].astype("float32") / 16, digits.target.astype("int32")


def build() -> tuple[br.Program, br.Var, br.metrics.Metric]:
    """The program, its loss, and the share of images that it gets right."""
    with br.Program() as prog:
        x, y = br.data("x", ["n", 1, 8, 8]), br.data("y", ["n"], dtype="int32")
        h = x
        for channels in (16, 32):
            h = br.relu(br.batch_norm(br.conv2d(h, channels, 3, padding=1)))
        logits = br.fc(br.dropout(br.flatten(br.max_pool2d(h, 2)), 0.3), 10)
        right = br.metrics.accuracy(logits, y)
        loss = br.softmax_cross_entropy(logits, y, reduction="mean")
        br.optimizer.adam(2e-3).minimize(loss)
    return prog, loss, right


def train(folder: str, epochs: int, killed_at: int | None = None) -> tuple[br.Scope, float]:
    """Train from the last checkpoint on; the scope, and the share of other images it knows."""
    (x, y), (prog, loss, right) = images(), build()
    scope, exe, steps = br.Scope(), br.Executor(), epochs * PER_EPOCH
    exe.init(prog, scope, seed=0)
    with br.Checkpoint(folder) as job:
        for step in range(job.restore(scope).step if job.steps else 0, killed_at or steps):
            epoch, batch = divmod(step, PER_EPOCH)
            order = np.random.default_rng(epoch).permutation(TRAINED)
            rows = order[batch * BATCH :][:BATCH]
            exe.run(prog, scope, {"x": x[rows], "y": y[rows]}, loss)
            if step % 20 == 19:
                job.save(scope, step + 1)
    right.reset(scope)
    feed = {"x": x[TRAINED:], "y": y[TRAINED:]}
    return scope, float(exe.run(prog.for_test(), scope, feed, right.value))


if __name__ == "__main__":
    print("right:", train(sys.argv[1] if len(sys.argv) > 1 else "digits", epochs=6)[1])
