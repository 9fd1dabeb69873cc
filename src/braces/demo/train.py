"""The demo's training: one run of the program for each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import braces as br
from braces.demo.digits import Array, Images
from braces.demo.model import Net, Settings
from braces.passes.cleanup.prune import prune

LOSS, ACCURACY = "training loss", "training accuracy, with noise"
"""Names of the plotted curves."""

Reporting = Callable[[int, float, float], None]
"""Called after each epoch: its number from 1, the mean loss, and the mean accuracy."""


@dataclass
class Trained:
    """A trained net, its parameters and its training curve.

    Attributes:
        net: The program.
        scope: Its parameters.
        executor: The executor that runs it.
        curve: Mean loss and accuracy of each epoch, on training images.
    """

    net: Net
    scope: br.Scope
    executor: br.Executor
    curve: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def predict(self, pixels: Array) -> Array:
        """Return the logits of images from the inference program: f32[images, 10]."""
        program = prune(self.net.program.for_test(), [self.net.logits.name])
        return self.executor.run(
            program, self.scope, feed={"image": pixels}, fetch=self.net.logits.name
        )


def train(net: Net, images: Images, settings: Settings, report: Reporting) -> Trained:
    """Train a net; equal settings give equal parameters."""
    trained = Trained(net, br.Scope(), br.Executor(), {LOSS: [], ACCURACY: []})
    trained.executor.init(net.program, trained.scope, seed=settings.seed)
    rng = np.random.default_rng(settings.seed)
    for epoch in range(1, settings.epochs + 1):
        loss, accuracy = _epoch(trained, images.batches(settings.batch, settings.noise, rng))
        trained.curve[LOSS].append(loss)
        trained.curve[ACCURACY].append(accuracy)
        report(epoch, loss, accuracy)
    return trained


def _epoch(trained: Trained, batches: Iterable[Images]) -> tuple[float, float]:
    """Run one epoch; return the mean loss and accuracy."""
    net = trained.net
    metrics: list[Any] = [
        trained.executor.run(
            net.program,
            trained.scope,
            feed={"image": batch.pixels, "digit": batch.digits},
            fetch=[net.loss, net.accuracy],
        )
        for batch in batches
    ]
    loss, accuracy = np.mean(np.array(metrics), axis=0)
    return float(loss), float(accuracy)


def accuracy_of(logits: Array, images: Images) -> float:
    """Return the share of images whose label has the largest logit."""
    right: Array = logits.argmax(axis=-1) == images.digits
    return float(right.mean())
