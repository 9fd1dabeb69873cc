"""Speaker recognition: a recurrent network over utterances of different lengths.

Nine men say the Japanese vowels /ae/. An utterance is a series of 7 to 29 frames of 12 numbers
(LPC cepstrum coefficients). The utterances of a batch are padded to one length; `lengths=` has
the length of each, so that padding affects no value and no gradient:

    forward[t], backward[t] = two gated recurrent units, one in each direction of time
    heard                   = the mean of [forward[t], backward[t]] over its own frames
    logits                  = heard @ speaker.w + speaker.b

Source of the recordings: Kudo, Toyama, Shimbo, Multidimensional Curve Classification Using
Passing-Through Regions, 1999. They come with the package aeon (`pip install braces[examples]`).

    python -m examples.speakers                 train on 270 utterances, test once on 370
    python -m examples.speakers --validate      five-fold accuracy on the 270 alone
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import braces as br

CHANNELS, SPEAKERS, LONGEST = 12, 9, 29


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, chosen by `--validate`, never on the test utterances.

    Attributes:
        units: The units of each direction.
        epochs: Passes over the training utterances.
        batch: Utterances in a step.
        learning_rate: The initial learning rate; it falls to 0 along a cosine.
        noise: The standard deviation of the training noise, relative to that of a channel.
        dropout: The dropout rate of the mean features.
        seed: The seed of the initial parameters, the order of the utterances, and the noise.
    """

    units: int = 64
    epochs: int = 60
    batch: int = 27
    learning_rate: float = 5e-3
    noise: float = 0.3
    dropout: float = 0.3
    seed: int = 0


# ---- data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Utterances:
    """Padded series with their lengths.

    Attributes:
        frames: f32[utterances, LONGEST, CHANNELS]; NaN beyond an utterance's end.
        lengths: i32[utterances].
        speakers: i32[utterances], from 0 to 8.
    """

    frames: np.ndarray
    lengths: np.ndarray
    speakers: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    def part(self, chosen: np.ndarray) -> Utterances:
        """Some of the utterances."""
        return Utterances(self.frames[chosen], self.lengths[chosen], self.speakers[chosen])

    def feed(self) -> dict[str, np.ndarray]:
        """The feeds of a run."""
        return {"frames": self.frames, "lengths": self.lengths, "speaker": self.speakers}

    def batches(self, settings: Settings, rng: np.random.Generator) -> Iterator[Utterances]:
        """All utterances once, shuffled, with noise on the frames, less a short last batch."""
        order = rng.permutation(len(self))
        spread = settings.noise * np.nanstd(self.frames, axis=(0, 1))
        for start in range(0, len(self) - settings.batch + 1, settings.batch):
            batch = self.part(order[start : start + settings.batch])
            noise = rng.standard_normal(batch.frames.shape, np.float32)
            yield replace(batch, frames=batch.frames + spread * noise)


def padded(series: list[np.ndarray], speakers: np.ndarray) -> Utterances:
    """Series of [CHANNELS, frames] as one array, padded with NaN."""
    frames = np.full((len(series), LONGEST, CHANNELS), np.nan, np.float32)
    for row, one in zip(frames, series, strict=True):
        row[: one.shape[1]] = one.T
    lengths = np.array([one.shape[1] for one in series], np.int32)
    return Utterances(frames, lengths, speakers.astype(np.int32))


def recorded(split: str) -> Utterances:
    """The recordings: 270 training utterances, or 370 test utterances.

    Raises:
        ImportError: If the package aeon is not installed.
    """
    from aeon.datasets import load_japanese_vowels

    series, speakers = load_japanese_vowels(split=split)
    return padded(series, speakers.astype(int) - 1)


def look_alike(count: int, seed: int) -> Utterances:
    """Synthetic utterances of the same form: each speaker has a mean spectrum and a glide."""
    voices = np.random.default_rng(0).normal(size=(SPEAKERS, 2, CHANNELS, 1))
    rng = np.random.default_rng(seed)
    speakers = np.arange(count) % SPEAKERS
    series = []
    for mean, glide in voices[speakers]:
        time = np.linspace(-1.0, 1.0, rng.integers(7, LONGEST + 1))
        series.append(mean + glide * time + 0.5 * rng.normal(size=(CHANNELS, len(time))))
    return padded(series, speakers)


# ---- program ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """The training program, and the variables to fetch."""

    program: br.Program
    logits: br.Var
    loss: br.Var
    accuracy: br.Var


def build(settings: Settings, training: Utterances, steps: int) -> Net:
    """Build the program; the scale of the channels comes from the training utterances."""
    mean = np.nanmean(training.frames, axis=(0, 1))
    spread = np.nanstd(training.frames, axis=(0, 1))
    with br.Program() as program:
        frames = br.data("frames", ["batch", LONGEST, CHANNELS])
        lengths = br.data("lengths", ["batch"], dtype="int32")
        speaker = br.data("speaker", ["batch"], dtype="int32")
        scaled = (frames - br.constant(mean)) / br.constant(spread)
        ways = [
            read(scaled, lengths, settings.units, "forward", reverse=False),
            read(scaled, lengths, settings.units, "backward", reverse=True),
        ]
        counts = br.reshape(br.cast(lengths, "float32"), [-1, 1])
        heard = br.sum(br.concat(ways, axis=-1), axis=1) / counts
        logits = br.fc(br.dropout(heard, settings.dropout), SPEAKERS, name="speaker_logits")
        loss = br.softmax_cross_entropy(logits, speaker, name="loss")
        accuracy = br.accuracy(logits, speaker, name="accuracy")
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, steps)
        br.optimizer.adam(learning_rate=rate).minimize(loss)
    return Net(program, logits, loss, accuracy)


def read(x: br.Var, lengths: br.Var, units: int, name: str, *, reverse: bool) -> br.Var:
    """The state of a gated recurrent unit after each frame: f32[batch, LONGEST, units]."""
    rnn = br.create_rnn(lengths=lengths, reverse=reverse)
    with rnn.stepnet() as net:
        frame = net.add_input(x, axis=1)
        h = net.add_memory(shape=[units], batch_like=x)
        gates = br.fc(
            br.concat([frame, h], axis=-1), 2 * units, act="sigmoid", name=f"{name}_gates"
        )
        update, reset = gates[:, :units], gates[:, units:]
        candidate = br.fc(
            br.concat([frame, reset * h], axis=-1), units, act="tanh", name=f"{name}_candidate"
        )
        after = update * h + (1.0 - update) * candidate
        h.update(after)
        net.add_output(after, axis=1)
    return rnn()


# ---- training --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A network with its parameters.

    Attributes:
        net: The program.
        scope: Its parameters.
        losses: The mean loss of each epoch.
    """

    net: Net
    scope: br.Scope
    losses: list[float]

    def accuracy(self, utterances: Utterances) -> float:
        """The share of utterances whose speaker has the largest logit."""
        test = self.net.program.for_test()
        return float(br.Executor().run(test, self.scope, utterances.feed(), self.net.accuracy))


def train(settings: Settings, training: Utterances) -> Trained:
    """Train a network; equal settings give equal parameters."""
    steps = settings.epochs * (len(training) // settings.batch)
    net = build(settings, training, steps)
    scope, executor, losses = br.Scope(), br.Executor(), []
    executor.init(net.program, scope, seed=settings.seed)
    rng = np.random.default_rng(settings.seed)
    for _ in range(settings.epochs):
        epoch = [
            executor.run(net.program, scope, batch.feed(), net.loss)
            for batch in training.batches(settings, rng)
        ]
        losses.append(float(np.mean(epoch)))
    return Trained(net, scope, losses)


def cross_validate(settings: Settings, training: Utterances, folds: int = 5) -> float:
    """The accuracy on parts of the training utterances, each left out once."""
    fold = np.random.default_rng(1).permutation(len(training)) % folds
    found = [
        train(settings, training.part(fold != left)).accuracy(training.part(fold == left))
        for left in range(folds)
    ]
    return float(np.mean(found))


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--validate", action="store_true", help="do not use the test set")
    parser.add_argument(
        "--look-alike", action="store_true", help="synthetic data, without aeon"
    )
    options = parser.parse_args()
    training = look_alike(270, 1) if options.look_alike else recorded("train")
    start = time.perf_counter()
    if options.validate:
        accuracy = cross_validate(Settings(), training)
        print(f"Five-fold accuracy on training utterances: {accuracy:.1%}")
        return
    trained = train(Settings(), training)
    print(f"Trained in {time.perf_counter() - start:.0f} s; last loss {trained.losses[-1]:.4f}")
    test = look_alike(370, 2) if options.look_alike else recorded("test")
    print(f"Accuracy on {len(test)} test utterances: {trained.accuracy(test):.1%}")


if __name__ == "__main__":
    main()
