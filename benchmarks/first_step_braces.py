"""The Braces side of `first_step`."""

from __future__ import annotations

from typing import Any

import braces as br
from benchmarks.first_step_data import CLASSES, HIDDEN, Arrays, batch


def train(model: str, values: Arrays | None = None, steps: int = 1) -> list[Any]:
    """Build, initialise and train; return the loss of each step."""
    images, labels = batch(model)
    with br.Program() as prog:
        x = br.data("x", ["batch", *images.shape[1:]])
        y = br.data("y", ["batch"], dtype="int32")
        loss = br.softmax_cross_entropy(NETS[model](x), y)
        br.optimizer.adam(learning_rate=1e-3).minimize(loss)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=0)
    for name, value in (values or {}).items():
        scope.var(name).set(value)
    feed = {"x": images, "y": labels}
    return [exe.run(prog, scope, feed=feed, fetch=[loss])[0] for _ in range(steps)]


def mlp(x: br.Var) -> br.Var:
    """Three layers."""
    h = br.fc(x, HIDDEN, act="tanh", name="fc1")
    return br.fc(br.fc(h, HIDDEN, act="tanh", name="fc2"), CLASSES, name="out")


def rnn(x: br.Var) -> br.Var:
    """One step for each row of the image."""
    net = br.create_rnn()
    with net.stepnet() as step:
        row = step.add_input(x, axis=1)
        h = step.add_memory(shape=[HIDDEN], batch_like=row)
        both = br.fc(row, HIDDEN, name="in") + br.fc(h.pre(1), HIDDEN, bias=False, name="h")
        h.update(br.tanh(both))
    return br.fc(net.final(h), CLASSES, name="out")


NETS = {"mlp": mlp, "rnn": rnn}
