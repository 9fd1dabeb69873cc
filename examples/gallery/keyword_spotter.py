"""Streaming keyword spotter: a GRU, exported to ONNX, and run there frame by frame.

A spotter listens to an endless stream and reports a keyword once. The recordings are the
Japanese vowels: nine men say /ae/, in frames of 12 LPC cepstrum coefficients; each man's
vowel is one of nine keywords. A stream is a series of utterances without pauses.

    training   per frame of a stream, the logits of the nine keywords
    spotter    per run, one frame: smoothed posteriors and two thresholds. Above the upper one
               a keyword is detected, and not again until it was below the lower one. The
               memories are states of the program.

`br.to_onnx(..., updates=True)` writes the step with the states as inputs and outputs. In ONNX
Runtime it makes the same decisions.

    python -m examples.gallery.keyword_spotter             train, measure; needs aeon
    python -m examples.gallery.keyword_spotter --small     some steps on invented recordings
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart
from examples.speakers import CHANNELS, SPEAKERS, Utterances, look_alike, recorded

NOTHING = -1
"""The decision on a frame without a detection."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The units of the GRU.
        frames: The frames of a training stream.
        steps: The training steps.
        batch: The streams in a step.
        rate: The initial learning rate, which falls to 0 along a cosine.
        noise: The standard deviation of the training noise, relative to that of a channel.
        smoothing: The weight of the past in the smoothed posteriors.
        upper: A smoothed posterior above it is a detection; at least 0.5.
        lower: A keyword is armed again once its smoothed posterior is below it.
        mode: The mode of the executor.
    """

    units: int = 96
    frames: int = 80
    steps: int = 600
    batch: int = 32
    rate: float = 4e-3
    noise: float = 0.3
    smoothing: float = 0.75
    upper: float = 0.7
    lower: float = 0.4
    mode: str = "compile"


SMALL = Settings(units=12, frames=40, steps=20, batch=8, rate=3e-2, upper=0.5, lower=0.4)

# ---- streams ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audio:
    """A stream.

    Attributes:
        frames: f32[frames, CHANNELS].
        keywords: i32[frames], the keyword of each frame.
        starts: The first frame of each utterance, and the end of the stream.
    """

    frames: np.ndarray
    keywords: np.ndarray
    starts: np.ndarray


def joined(utterances: Utterances, order: np.ndarray) -> Audio:
    """Utterances one after the other."""
    lengths = utterances.lengths[order]
    frames = [utterances.frames[i, :n] for i, n in zip(order, lengths, strict=True)]
    keywords = np.repeat(utterances.speakers[order], lengths)
    return Audio(np.concatenate(frames), keywords, np.concatenate([[0], np.cumsum(lengths)]))


def shuffled(utterances: Utterances, seed: int) -> np.ndarray:
    """A random order in which most neighbors are of different speakers."""
    rest = np.random.default_rng(seed).permutation(len(utterances)).tolist()
    order = [rest.pop()]
    while rest:
        last = utterances.speakers[order[-1]]
        others = (i for i, one in enumerate(rest) if utterances.speakers[one] != last)
        order.append(rest.pop(next(others, 0)))
    return np.array(order)


def streams(
    utterances: Utterances, settings: Settings
) -> Callable[[int], Iterator[dict[str, np.ndarray]]]:
    """A function from an epoch to its batches: random streams with noise."""
    spread = np.nanstd(utterances.frames, axis=(0, 1)) * settings.noise

    def batches(epoch: int) -> Iterator[dict[str, np.ndarray]]:
        rng = np.random.default_rng(epoch)
        for _ in range(min(settings.steps, 100)):
            orders = rng.integers(
                0, len(utterances), (settings.batch, settings.frames // 7 + 1)
            )
            cut = [joined(utterances, order) for order in orders]
            frames = np.stack([one.frames[: settings.frames] for one in cut])
            noise = spread * rng.standard_normal(frames.shape, np.float32)
            keywords = np.stack([one.keywords[: settings.frames] for one in cut])
            yield {"frames": (frames + noise).astype("float32"), "keyword": keywords}

    return batches


# ---- programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """Both programs and their variables.

    Attributes:
        trainer: The training program, on streams.
        spotter: The program of one frame, with states.
        decision: The detected keyword, or NOTHING: i32[].
        score: The largest smoothed posterior: f32[].
    """

    trainer: br.Program
    spotter: br.Program
    decision: br.Var
    score: br.Var


def build(settings: Settings, mean: np.ndarray, spread: np.ndarray) -> Net:
    """Build both programs; mean and spread are those of the channels."""
    with br.Program() as trainer:
        frames = br.data("frames", ["batch", "time", CHANNELS])
        keyword = br.data("keyword", ["batch", "time"], dtype="int32")
        heard, _ = br.gru((frames - mean) / spread, settings.units, name="ear")
        logits = br.fc(br.dropout(heard, 0.2), SPEAKERS, name="keywords")
        loss = br.softmax_cross_entropy(logits, keyword)
        rate = br.optimizer.cosine_decay_schedule(settings.rate, settings.steps)
        br.optimizer.adam(rate).minimize(loss)
    with br.Program() as spotter:
        frame = br.data("frame", [1, CHANNELS])
        memory = br.state("memory", [1, settings.units])
        smooth = br.state("smooth", [1, SPEAKERS])
        armed = br.state("armed", [1, SPEAKERS], dtype="bool", init=True)
        cell = [f"ear/forward.{role}" for role in ("w", "u", "b", "b_reset")]
        heard = br.layers.gru_cell((frame - mean) / spread, memory, params=cell)
        now = br.softmax(br.fc(heard, SPEAKERS, name="keywords"))
        smoothed = settings.smoothing * smooth + (1 - settings.smoothing) * now
        score = br.max(smoothed, name="score")
        ready = br.logical_or(armed, smoothed < settings.lower)
        loud = smoothed > settings.upper
        detected = br.any(br.logical_and(ready, loud))
        best = br.cast(br.argmax(smoothed[0], axis=0), "int32")
        decision = br.where(detected, best, NOTHING, name="decision")
        spotter.update(memory, heard)
        spotter.update(smooth, smoothed)
        spotter.update(armed, br.logical_and(ready, br.logical_not(loud)))
    return Net(trainer, spotter, decision, score)


# ---- training and streaming ------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A trained spotter.

    Attributes:
        net: The programs.
        run: The training.
    """

    net: Net
    run: br.Training

    def spot(self, audio: Audio) -> tuple[np.ndarray, np.ndarray]:
        """The decision and the score of each frame, frame by frame from the first states on."""
        net, scope, exe = self.net, self.reset(), self.run.exe
        fetch = [net.decision, net.score]
        found = [
            exe.run(net.spotter, scope, {"frame": row[None]}, fetch) for row in audio.frames
        ]
        decisions, scores = zip(*found, strict=True)
        return np.array(decisions), np.array(scores)

    def reset(self) -> br.Scope:
        """A scope with the first states, over that of the parameters."""
        scope = self.run.scope.new_scope()
        return self.run.exe.init(self.net.spotter, scope, missing_only=True)

    def export(self, path: Path) -> None:
        """Write the step to an ONNX file, with the states as inputs and outputs."""
        fetches = {"decision": self.net.decision, "score": self.net.score}
        br.to_onnx(self.net.spotter, path, scope=self.reset(), fetches=fetches, updates=True)


def train(settings: Settings, utterances: Utterances, *, quiet: bool = False) -> Trained:
    """Train on random streams."""
    mean, spread = (f(utterances.frames, axis=(0, 1)) for f in (np.nanmean, np.nanstd))
    net = build(settings, mean.astype("float32"), spread.astype("float32"))
    data = br.batches(streams(utterances, settings))
    epochs = -(-settings.steps // 100)
    exe = br.Executor(mode=settings.mode)
    return Trained(net, br.fit(net.trainer, data, epochs=epochs, exe=exe, quiet=quiet))


def spot_in_onnx_runtime(path: Path, audio: Audio) -> tuple[np.ndarray, np.ndarray]:
    """The decisions and scores of an exported spotter; each state is passed on by its name.

    Raises:
        ImportError: If ONNX Runtime is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # states are inputs with defaults, which it warns about
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(path, options, providers=providers)
    names = [output.name for output in session.get_outputs()]
    states, decisions, scores = {}, [], []
    for row in audio.frames:
        found = dict(zip(names, session.run(None, {"frame": row[None], **states}), strict=True))
        decisions.append(found.pop("decision"))
        scores.append(found.pop("score"))
        states = {name.removesuffix(".next"): value for name, value in found.items()}
    return np.array(decisions), np.array(scores)


# ---- measurement -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Measurements on a stream.

    Attributes:
        found: The share of utterances whose keyword is detected.
        false_alarms: Detections of other keywords, and further ones in an utterance, for each
            thousand frames.
        delay: The mean number of frames from the beginning of an utterance to its detection.
    """

    found: float
    false_alarms: float
    delay: float


def measure(audio: Audio, decisions: np.ndarray) -> Scores:
    """Compare decisions with the utterances."""
    delays, right = list[int](), 0
    for start, end in zip(audio.starts, audio.starts[1:], strict=False):
        hits = np.flatnonzero(decisions[start:end] == audio.keywords[start])
        delays += hits[:1].tolist()
        right += len(hits[:1])
    detections = int(np.sum(decisions != NOTHING))
    alarms = 1000 * (detections - right) / len(decisions)
    return Scores(right / (len(audio.starts) - 1), alarms, float(np.mean(delays or [np.nan])))


def draw(audio: Audio, decisions: np.ndarray, scores: np.ndarray) -> str:
    """The smoothed posterior of the first 160 frames, with detections and utterances."""
    frames = np.arange(min(160, len(decisions)))
    starts = audio.starts[audio.starts < len(frames)]
    hits = frames[decisions[frames] != NOTHING]
    right = decisions[hits] == audio.keywords[hits]
    curves = {
        "posterior": (frames, scores[frames]),
        "begin": (starts, np.zeros(len(starts))),
        "detected": (hits[right], scores[hits[right]]),
        "false alarm": (hits[~right], scores[hits[~right]]),
    }
    points = tuple(curves)[1:]
    return line_chart(curves, x="frame", y="smoothed posterior", points=points)


def example(small: bool) -> tuple[str, str]:
    """Train, export, and run the spotter on a stream of all test utterances."""
    settings = SMALL if small else Settings()
    training = look_alike(90, 1) if small else recorded("train")
    test = look_alike(20, 2) if small else recorded("test")
    trained = train(settings, training, quiet=small)
    audio = joined(test, shuffled(test, 0))
    decisions, scores = trained.spot(audio)
    with tempfile.TemporaryDirectory() as folder:
        trained.export(Path(folder) / "spotter.onnx")
        theirs, their_scores = spot_in_onnx_runtime(Path(folder) / "spotter.onnx", audio)
    measured = measure(audio, decisions)
    result = (
        f"{len(test)} utterances in {len(decisions)} frames: {measured.found:.1%} detected, "
        f"after {measured.delay:.1f} frames; "
        f"{measured.false_alarms:.1f} false alarms in 1,000 frames\n"
        f"ONNX Runtime, frame by frame: {np.mean(decisions == theirs):.2%} equal decisions, "
        f"largest difference of a score {np.abs(scores - their_scores).max():.0e}"
    )
    return result, draw(audio, decisions, scores)


if __name__ == "__main__":
    run_example(__doc__, example)
