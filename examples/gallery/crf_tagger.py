"""Sequence labelling with a BiLSTM-CRF: segmentation and part-of-speech tags of Turkish words.

A Turkish word is a stem with suffixes, each of which may change the part of speech. The network
reads the characters of a sentence and labels each with B-TAG at the beginning of a segment,
I-TAG inside, or O for a space:

    text       b i l m e k _ g ü z e l          to know is nice
    segments   bil|mek       güzel
    tags       VERB NOUN     ADJ

A linear-chain conditional random field (CRF) scores pairs of adjacent labels, and the Viterbi
algorithm finds the best sequence (Huang, Xu and Yu, 2015). Beside it, the same network with a
softmax for each character.

The 4,851 sentences of the Turkish Web Treebank (Google, 2018) are files of a package:
`pip install turkish-treebanks`.

    python -m examples.gallery.crf_tagger             train both, measure
    python -m examples.gallery.crf_tagger --small     some steps on sentences of the same form
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import line_chart

LONGEST = 160
"""Longer sentences are left out."""
Segment = tuple[int, int, str]
"""The position of the first character, that behind the last one, and the tag."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        crf: Whether labels are those of a CRF, or of a softmax for each character.
        width: The size of the character embedding.
        units: The units of each direction of the LSTM.
        layers: The layers of the LSTM.
        epochs: Passes over the training sentences.
        batch: Sentences in a step.
        rate: The initial learning rate, which falls to 0 along a cosine.
        dropout: The dropout rate between layers and before the emissions.
        sizes: The lengths that sentences are padded to.
        mode: The mode of the executor.
    """

    crf: bool = True
    width: int = 48
    units: int = 96
    layers: int = 2
    epochs: int = 15
    batch: int = 32
    rate: float = 4e-3
    dropout: float = 0.3
    sizes: tuple[int, ...] = (64, 96, 128, LONGEST)
    mode: str = "compile"


SMALL = Settings(
    width=8, units=16, layers=1, epochs=6, batch=16, rate=2e-2, dropout=0.0, sizes=(24,)
)

# ---- data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """A sentence as segments.

    Attributes:
        parts: The segments, each with its tag.
        joined: Whether no space precedes a segment.
    """

    parts: Sequence[tuple[str, str]]
    joined: Sequence[bool]

    def characters(self) -> tuple[str, list[str]]:
        """The text, and the label of each character."""
        text, labels = "", list[str]()
        for (part, tag), joined in zip(self.parts, self.joined, strict=True):
            if text and not joined:
                text, labels = text + " ", [*labels, "O"]
            text += part
            labels += [f"B-{tag}", *[f"I-{tag}"] * (len(part) - 1)]
        return text, labels


def treebank() -> list[Sentence]:
    """The sentences of both parts of the treebank, without the longest ones.

    Raises:
        PackageNotFoundError: If the package turkish-treebanks is not installed.
    """
    files = importlib.metadata.files("turkish-treebanks") or []
    paths = [Path(str(file.locate())) for file in files if file.suffix == ".conllu"]
    read = (sentence for path in sorted(paths) for sentence in parse(path.read_text("utf-8")))
    return [sentence for sentence in read if len(sentence.characters()[0]) <= LONGEST]


def parse(text: str) -> Iterable[Sentence]:
    """Sentences of the CoNLL-U format: a line for each segment, an empty one between them."""
    for block in text.split("\n\n"):
        lines = (line.split("\t") for line in block.split("\n") if line[:1].isdigit())
        fields = [(line[1], line[3], line[9]) for line in lines]
        if fields:
            joined = [False, *("SpaceAfter=No" in field[2] for field in fields[:-1])]
            yield Sentence([field[:2] for field in fields], joined)


def look_alike(count: int, seed: int) -> list[Sentence]:
    """Invented sentences of the same form: stems with suffixes that determine the tags."""
    rng, stems = np.random.default_rng(seed), [("ev", "NOUN"), ("gel", "VERB"), ("iyi", "ADJ")]
    suffixes = [("ler", "NOUN"), ("mek", "NOUN"), ("di", "VERB"), ("ki", "ADJ")]
    sentences = list[Sentence]()
    for _ in range(count):
        parts, joined = list[tuple[str, str]](), list[bool]()
        for _ in range(rng.integers(1, 3)):
            parts, joined = [*parts, stems[rng.integers(3)]], [*joined, False]
            for suffix in rng.choice(4, rng.integers(0, 3), replace=False):
                parts, joined = [*parts, suffixes[suffix]], [*joined, True]
        sentences.append(Sentence([*parts, (".", "PUNCT")], [*joined, True]))
    return sentences


@dataclass(frozen=True)
class Tables:
    """Characters and labels by number; number 0 stands for unknown characters."""

    characters: Sequence[str]
    labels: Sequence[str]

    @staticmethod
    def of(sentences: Iterable[Sentence]) -> Tables:
        """The tables of training sentences."""
        read = [sentence.characters() for sentence in sentences]
        tags = sorted({tag for sentence in sentences for _, tag in sentence.parts})
        labels = ["O", *(f"{where}-{tag}" for tag in tags for where in "BI")]
        return Tables(["?", *sorted({c for text, _ in read for c in text})], labels)

    def columns(self, sentences: Iterable[Sentence]) -> dict[str, Any]:
        """Columns of a data set: sequences of numbers, and their lengths."""
        read = [sentence.characters() for sentence in sentences]
        number = {c: i for i, c in enumerate(self.characters)}
        known = {label: i for i, label in enumerate(self.labels)}
        return {
            "text": [np.array([number.get(c, 0) for c in text], "int32") for text, _ in read],
            "label": [np.array([known[label] for label in row], "int32") for _, row in read],
            "length": np.array([len(text) for text, _ in read], "int32"),
        }


def segments(labels: Sequence[str]) -> set[Segment]:
    """The segments of a sequence of labels; each has the tag of its first character."""
    found, start = set[Segment](), -1
    for at, label in enumerate([*labels, "O"]):
        if label[0] in "BO" or start < 0:
            if start >= 0:
                found.add((start, at, labels[start][2:]))
            start = -1 if label == "O" else at
    return found


# ---- program ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Net:
    """The program and its variables.

    Attributes:
        program: The training program.
        loss: The mean over the sentences.
        path: The predicted labels: i32[batch, time].
    """

    program: br.Program
    loss: br.Var
    path: br.Var


def build(settings: Settings, tables: Tables, steps: int) -> Net:
    """Build the program."""
    with br.Program() as program:
        text = br.data("text", ["batch", "time"], dtype="int32")
        label = br.data("label", ["batch", "time"], dtype="int32")
        length = br.data("length", ["batch"], dtype="int32")
        seen = br.embedding(text, [len(tables.characters), settings.width])
        context, _ = br.lstm(
            seen,
            settings.units,
            layers=settings.layers,
            bidirectional=True,
            lengths=length,
            dropout=settings.dropout,
        )
        emissions = br.fc(br.dropout(context, settings.dropout), len(tables.labels))
        if settings.crf:
            crf = [f"crf.{role}" for role in ("transitions", "start", "end")]
            loss = br.layers.conditional_random_field(
                emissions, label, lengths=length, params=crf
            )
            path, _ = br.layers.viterbi(emissions, lengths=length, params=crf)
        else:
            each = br.softmax_cross_entropy(
                emissions, label, ignored_label=-1, reduction="none"
            )
            loss, path = br.mean(br.sum(each, axis=1)), br.argmax(emissions, axis=-1)
        rate = br.optimizer.cosine_decay_schedule(settings.rate, steps)
        clip = br.optimizer.clip_by_global_norm(5.0)
        br.optimizer.chain(clip, br.optimizer.adam(rate)).minimize(loss)
    return Net(program, loss, path)


# ---- training --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A trained tagger.

    Attributes:
        net: The program.
        tables: Characters and labels.
        run: The training.
    """

    net: Net
    tables: Tables
    run: br.Training

    def labels(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """The predicted labels of the characters of each sentence."""
        columns, found = self.tables.columns(sentences), list[list[str]]()
        for start in range(0, len(sentences), 64):
            texts = columns["text"][start : start + 64]
            length = columns["length"][start : start + 64]
            padded = np.zeros((len(texts), max(length)), "int32")
            for row, text in zip(padded, texts, strict=True):
                row[: len(text)] = text
            feed = {"text": padded, "length": length}
            path = self.run.exe.evaluate(self.net.program, self.run.scope, feed, self.net.path)
            rows = zip(path, length, strict=True)
            found += [[self.tables.labels[i] for i in row[:n]] for row, n in rows]
        return found


def train(settings: Settings, sentences: Sequence[Sentence], *, quiet: bool = False) -> Trained:
    """Train a tagger on batches of sentences of similar length."""
    tables = Tables.of(sentences)
    data = br.batches(
        tables.columns(sentences),
        settings.batch,
        bucket_by="text",
        sizes=settings.sizes,
        pad={"text": 0, "label": -1},
        drop_last=True,
    )
    net = build(settings, tables, settings.epochs * len(data))
    exe = br.Executor(mode=settings.mode)
    run = br.fit(net.program, data, epochs=settings.epochs, exe=exe, quiet=quiet)
    return Trained(net, tables, run)


# ---- measurement -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Measurements on sentences.

    Attributes:
        accuracy: The share of characters with the right label.
        f1: The F1 of segments with the right bounds and tag.
        whole: The share of sentences without an error.
        invalid: The share of labels I-TAG that continue no segment of this tag.
    """

    accuracy: float
    f1: float
    whole: float
    invalid: float


def measure(tagger: Trained, sentences: Sequence[Sentence]) -> Scores:
    """Measure a tagger."""
    truth = [sentence.characters()[1] for sentence in sentences]
    found = tagger.labels(sentences)
    pairs = list(zip(truth, found, strict=True))
    right = np.concatenate([np.array(a) == np.array(b) for a, b in pairs])
    both = [(segments(a), segments(b)) for a, b in pairs]
    common = sum(len(a & b) for a, b in both)
    f1 = 2 * common / sum(len(a) + len(b) for a, b in both)
    inside = [
        label[2:] != before[2:]
        for row in found
        for before, label in zip(["O", *row], row, strict=False)
        if label[0] == "I"
    ]
    whole = float(np.mean([a == b for a, b in pairs]))
    return Scores(float(right.mean()), f1, whole, float(np.mean(inside or [0.0])))


def shown(tagger: Trained, sentence: Sentence) -> str:
    """A sentence with the segments and tags of a tagger."""
    text, (labels,) = sentence.characters()[0], tagger.labels([sentence])
    return " ".join(f"{text[a:b]}/{tag}" for a, b, tag in sorted(segments(labels)))


def example(small: bool) -> tuple[str, str]:
    """Train both taggers, measure and draw."""
    sentences = look_alike(300, 0) if small else treebank()
    order = np.random.default_rng(0).permutation(len(sentences))
    held_out, training = (
        [sentences[i] for i in part] for part in np.split(order, [len(order) // 10])
    )
    lines, curves = list[str](), dict[str, list[float]]()
    for name, crf in (("CRF", True), ("softmax", False)):
        settings = replace(SMALL if small else Settings(), crf=crf)
        tagger = train(settings, training, quiet=small)
        scores = measure(tagger, held_out)
        curves[name] = tagger.run.history["loss"]
        lines.append(
            f"{name}: F1 {scores.f1:.2%}, characters {scores.accuracy:.2%}, whole sentences "
            f"{scores.whole:.2%} of {len(held_out)}, invalid I-labels {scores.invalid:.2%}"
        )
        lines.append("  " + shown(tagger, held_out[1]))
    return "\n".join(lines), line_chart(
        curves, x="epoch", y="loss of a sentence in nats", log=True
    )


if __name__ == "__main__":
    run_example(__doc__, example)
