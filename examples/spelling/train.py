"""Training: one run of the program for each batch of words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import braces as br
from braces.storage.model import Model
from examples.spelling.data import Entry, Words, error_rate, spelled, spoken
from examples.spelling.model import Net, Settings, build

Report = Callable[[int, float], None]
"""Called every so many steps: their number, and the mean loss since the last call."""

REPORT_EVERY = 1000
_WORDS_AT_ONCE = 256


@dataclass(frozen=True)
class Trained:
    """A network with its parameters.

    Attributes:
        net: The program.
        scope: Its parameters.
        losses: The loss of each step.
    """

    net: Net
    scope: br.Scope
    losses: list[float]

    def save(self, path: str) -> None:
        """Save the decoder, including its loop, with its parameters."""
        speaker = self.net.program.for_test()
        fetches = {"phonemes": self.net.spoken, "trips": self.net.trips}
        br.save_model(path, speaker, self.scope, feeds=["letters", "n"], fetches=fetches)


def train(settings: Settings, words: Words, report: Report) -> Trained:
    """Train a network; equal settings give equal parameters."""
    net, scope, executor, losses = build(settings), br.Scope(), br.Executor(), []
    executor.init(net.program, scope, seed=settings.seed)
    rng = np.random.default_rng(settings.seed)
    for number, batch in enumerate(_endless(words, settings.batch, rng), start=1):
        losses.append(float(executor.run(net.program, scope, batch.feed(), net.loss)))
        if number % REPORT_EVERY == 0 or number == settings.steps:
            report(number, float(np.mean(losses[-REPORT_EVERY:])))
        if number == settings.steps:
            break
    return Trained(net, scope, losses)


def _endless(words: Words, size: int, rng: np.random.Generator) -> Iterator[Words]:
    while True:
        yield from words.batches(size, rng)


def pronounce(model: Model, words: Sequence[str]) -> list[tuple[str, ...]]:
    """The pronunciations from a loaded model."""
    found: list[tuple[str, ...]] = []
    for start in range(0, len(words), _WORDS_AT_ONCE):
        letters, n = spelled(words[start : start + _WORDS_AT_ONCE])
        found += spoken(model.run(letters=letters, n=n)["phonemes"])
    return found


def measure(model: Model, entries: Sequence[Entry]) -> tuple[float, float]:
    """The phoneme error rate, and the share of words without an error."""
    found = pronounce(model, [word for word, _ in entries])
    wanted = [phonemes for _, phonemes in entries]
    right = [a == b for a, b in zip(found, wanted, strict=True)]
    return error_rate(found, wanted), float(np.mean(right))
