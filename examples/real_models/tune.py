"""Fine-tuning of an ONNX model: silero-vad, a speech detector, learns to detect notes.

The network is read from its ONNX file, with its weights as parameters. It trains with a few
steps of Adam on one sequence: speech, with its own previous outputs as targets, then a melody,
which it classified as noise. The result is exported to ONNX again.

    python -m examples.real_models tune
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import braces as br
from examples.real_models import cases, inputs, packages
from examples.real_models.sides import Feed, Ours, difference, theirs

FILE = f"{packages.SILERO}/silero_vad_16k_sequence.onnx"
STEPS, RATE = 30, 1e-3
LOUD = 0.02
"""Frames whose mean is louder than this are notes."""


@dataclass(frozen=True)
class Lesson:
    """The training data.

    Attributes:
        feed: The inputs, by the names of the model.
        wanted: The target probability of speech or notes, frame by frame.
        notes: The index of the first frame with notes.
    """

    feed: Feed
    wanted: np.ndarray
    notes: int


@dataclass(frozen=True)
class Tuned:
    """A trained network.

    Attributes:
        net: The program, with its trained parameters.
        lesson: The training data.
        losses: The loss of each step.
    """

    net: Ours
    lesson: Lesson
    losses: list[float]

    def heard(self) -> np.ndarray:
        """The outputs of the network, frame by frame."""
        return self.net(self.lesson.feed)[0].ravel()

    def write(self, path: Path) -> float:
        """Export it to ONNX; return the difference of ONNX Runtime's results."""
        program = self.net.program
        br.to_onnx(program, path, scope=self.net.scope, fetches=list(program.fetches))
        named = self.net.names
        feed = {named[name]: value for name, value in self.lesson.feed.items()}
        return difference(self.net(self.lesson.feed), theirs(path)(feed))


def lesson(net: Ours) -> Lesson:
    """Speech and a melody, one after the other."""
    case = cases.at_once()
    speech = case.feeds[0]["input"]
    before = net(case.feeds[0])[0].ravel()
    sound = inputs.melody(16000, 32000)
    notes = inputs.frames(sound, *cases.RATES[16000])
    feed = {**case.feeds[0], "input": np.concatenate([speech, notes])}
    loud = (np.abs(notes).mean(axis=1) > LOUD).astype(np.float32)
    return Lesson(feed, np.concatenate([before, loud]), len(speech))


def tune(net: Ours, given: Lesson, steps: int = STEPS, output: int = 0) -> Tuned:
    """Train a network.

    Args:
        net: The network; its parameters change, its program does not.
        given: The training data.
        steps: The number of steps.
        output: The index of the trained output.
    """
    with copy(net.program) as training:
        said = br.reshape(training.var(net.program.fetches[output]), [-1])
        said = br.clip(said, min=1e-6, max=1 - 1e-6)
        wanted = br.data("wanted", [said.shape[0]])
        likely = wanted * br.log(said) + (1.0 - wanted) * br.log(1.0 - said)
        loss = br.mean(-likely, name="loss")
        br.optimizer.adam(learning_rate=RATE).minimize(loss)
    net.executor.init(training, net.scope, missing_only=True)
    feed = {net.names[name]: value for name, value in given.feed.items()}
    feed["wanted"] = given.wanted
    run = net.executor.run
    losses = [float(run(training, net.scope, feed, loss)) for _ in range(steps)]
    return Tuned(net, given, losses)


def tuned(folder: Path = packages.FOLDER, steps: int = STEPS) -> tuple[np.ndarray, Tuned]:
    """The outputs before training, and the trained network."""
    net = Ours.of(packages.get(FILE, folder))
    given = lesson(net)
    before = net(given.feed)[0].ravel()
    return before, tune(net, given, steps)


def told(before: np.ndarray, after: Tuned, path: Path) -> list[str]:
    """A description of the results, with the exported file."""
    apart, heard, given = after.write(path), after.heard(), after.lesson
    wanted = given.wanted[given.notes :] > 0
    speech = slice(0, given.notes)
    return [
        f"The loss falls from {after.losses[0]:.2f} to {after.losses[-1]:.2f} in "
        f"{len(after.losses)} steps of Adam.",
        "Frames with notes that are classified as speech: "
        f"{share(before[given.notes :][wanted])} before, "
        f"{share(heard[given.notes :][wanted])} after.",
        f"Frames of the sentence that are classified as speech: {share(before[speech])} "
        f"before, {share(heard[speech])} after.",
        f"The largest difference of the ONNX export in ONNX Runtime is {apart:.0e}.",
    ]


def share(heard: np.ndarray) -> str:
    """The number of frames that the network classifies as speech."""
    return f"{np.mean(heard > 0.5):.0%}"
