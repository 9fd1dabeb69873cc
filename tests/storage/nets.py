"""A net that models are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.storage.model_files import save_model

XS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
YS = np.array([[1.0], [0.0], [2.0], [-1.0]], np.float32)


class Net:
    """A net with dropout, its training step, and a scope with first values."""

    def __init__(self, train: bool = True) -> None:
        with br.Program() as self.program:
            self.x, self.y = br.data("x", ["b", 3]), br.data("y", ["b", 1])
            w, u = br.parameter("w", [3, 8]), br.parameter("u", [8, 1])
            self.hidden = br.dropout(br.tanh(br.matmul(self.x, w)), 0.5)
            self.logits = br.matmul(self.hidden, u)
            error = self.logits - self.y
            self.loss = br.mean(error * error)
            if train:
                self.descend(w, u)
        self.scope, self.executor = br.Scope(), br.Executor()
        self.reset()

    def reset(self) -> Net:
        self.scope = br.Scope()
        self.executor.init(self.program, self.scope, seed=3)
        return self

    def descend(self, *weights: br.Var) -> None:
        for weight, slope in zip(
            weights, br.gradients([self.loss], list(weights)), strict=True
        ):
            speed = br.state(f"momentum/{weight.name}", weight.shape)
            faster = speed * 0.9 + slope
            self.program.update(speed.name, faster.name)
            self.program.update(weight.name, (weight - faster * 0.1).name)

    def step(self) -> float:
        feed = {"x": XS, "y": YS}
        return float(self.executor.run(self.program, self.scope, feed, self.loss))

    def save(self, path: Path, **options: Any) -> Path:
        save_model(path, self.program, self.scope, ["x"], [self.logits], **options)
        return path
