"""Encoding of sentences and decoding of labels for LAC's networks.

    百度是一家高科技公司
    百度 | 是 | 一家 | 高科技 | 公司       pieces: the longest words of a dictionary
    12   | 7  | 3301 | 880    | 415        words: i64[batch, time, 1], with their lengths
    ORG-B  v-B  m-B    n-B      n-B        labels: the likeliest sequence

A network for tagging reads pieces, so that a sentence is short; one for segmentation reads
characters. Sentences of a batch are padded to the longest; `words.lengths` has their lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path

import numpy as np

import braces as br
from examples.chinese.fetch import FOLDER, get

UNKNOWN = "OOV"
"""What stands in the vocabulary for whatever does not."""
Word = tuple[str, str]


@dataclass(frozen=True)
class Net:
    """A network: a program exported by Paddle, and its parameters."""

    program: br.Program
    scope: br.Scope
    executor: br.Executor

    @staticmethod
    def read(folder: Path, mode: str = "compile") -> Net:
        """Read the files saved by Paddle."""
        program, values = br.from_paddle(folder)
        scope = br.Scope()
        scope.update(values)
        return Net(program, scope, br.Executor(mode=mode))

    def labels(self, *rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """The label of each id of each sentence; two inputs require two lists of sentences."""
        lengths = np.array([len(row) for row in rows[0]])
        feed = dict[str, np.ndarray]()
        for name, given in zip(self.program.feeds[::2], rows, strict=True):
            feed |= {name: padded(given, lengths), f"{name}.lengths": lengths}
        fetch = self.program.fetches[0]
        found = self.executor.run(self.program, self.scope, feed, fetch)
        found = found.reshape(found.shape[:2])
        return [row[:n].tolist() for row, n in zip(found, lengths, strict=True)]


def padded(rows: Sequence[Sequence[int]], lengths: np.ndarray) -> np.ndarray:
    """Rows as one array `[batch, time, 1]`, padded with zeros."""
    made = np.zeros((len(rows), int(lengths.max(initial=0)), 1), np.int64)
    for at, row in enumerate(rows):
        made[at, : len(row), 0] = row
    return made


@dataclass(frozen=True)
class Tables:
    """The dictionaries of a model.

    Attributes:
        numbers: The ids by word or character.
        alike: Replacements of characters.
        labels: The labels by id.
        pieces: The words of the longest-match segmentation; empty for a model of characters.
        total: The logarithm of the total count of all words.
    """

    numbers: Mapping[str, int]
    alike: Mapping[str, str]
    labels: Mapping[int, str]
    pieces: frozenset[str] = frozenset()
    total: float = 0.0
    longest: int = field(init=False, default=1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "longest", max(map(len, self.pieces), default=1))

    @staticmethod
    def read(folder: Path, *, whole: bool) -> Tables:
        """Read the dictionaries of a model; with `whole`, also the dictionary of pieces."""
        numbers = {word: int(at) for at, word in pairs(folder / "word.dic")}
        labels = {int(at): label for at, label in pairs(folder / "tag.dic")}
        alike = dict(pairs(folder / "q2b.dic"))
        if not whole:
            return Tables(numbers, alike, labels)
        lines = (folder / "small_seg.dic").read_text(encoding="utf-8").split("\n")
        counted = [line.strip().split(" ") for line in lines if line.strip()]
        total = log(sum(int(count) for _, count in counted))
        return Tables(numbers, alike, labels, frozenset(word for word, _ in counted), total)

    def number(self, text: str) -> int:
        """The id of a word or character."""
        return self.numbers.get(self.alike.get(text, text), self.numbers[UNKNOWN])

    def split(self, text: str) -> list[str]:
        """A sentence as the units of the network: pieces, otherwise characters."""
        found = ([piece] if piece in self.numbers else list(piece) for piece in self.cut(text))
        return [part for parts in found for part in parts]

    def cut(self, text: str) -> list[str]:
        """A sentence as few, long words of the dictionary; a run of letters is one word."""
        best = [(0.0, len(text))] * (len(text) + 1)
        for start in reversed(range(len(text))):
            best[start] = max(
                (log(end - start) - self.total + best[end][0], end)
                for end in range(start + 1, min(start + self.longest, len(text)) + 1)
                if end == start + 1 or text[start:end] in self.pieces
            )
        found, start = list[str](), 0
        joins = False  # whether what comes is put behind the letters before
        while start < len(text):
            end = best[start][1]
            letter = end == start + 1 and text[start].isascii() and text[start].isalnum()
            if letter and joins:
                found[-1] += text[start]
            else:
                found.append(text[start:end])
            start, joins = end, letter
        return found


def pairs(path: Path) -> list[tuple[str, str]]:
    """The lines of a file with two columns."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n"))
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def joined(parts: Sequence[str], labels: Sequence[str]) -> list[Word]:
    """Words and their classes; a label marks the beginning of a word."""
    found = list[Word]()
    for part, label in zip(parts, labels, strict=True):
        kind, end = label[:-2], label[-1:]
        if not found or end in "BS":
            found.append((part, kind))
        else:
            found[-1] = found[-1][0] + part, kind
    return found


@dataclass(frozen=True)
class Lac:
    """The networks of one kind with their encoding and decoding."""

    net: Net
    tables: Tables
    kind: str = "lac"

    @staticmethod
    def read(kind: str, folder: Path = FOLDER, mode: str = "compile") -> Lac:
        """Read one of the models: `seg` for words, `lac` for words with classes."""
        place = get(kind, folder)
        tables = Tables.read(place / "conf", whole=kind == "lac")
        return Lac(Net.read(place / "model", mode), tables, kind)

    def split(self, text: str) -> list[str]:
        """The encoded sentence."""
        return self.tables.split(text) if self.kind == "lac" else list(text)

    def words(self, texts: Sequence[str]) -> list[list[Word]]:
        """The words of each sentence, with their classes if the network predicts them."""
        if not texts:
            return []
        parts = [self.split(text) for text in texts]
        numbers = [[self.tables.number(part) for part in row] for row in parts]
        found = self.net.labels(numbers)
        named = ([self.tables.labels[label] for label in row] for row in found)
        return [joined(row, labels) for row, labels in zip(parts, named, strict=True)]


def weights(lac: Lac, rank: Net, texts: Sequence[str]) -> list[list[tuple[str, int]]]:
    """The words of each sentence, with their importance: the maximum over their parts.

    Args:
        lac: The tagging network; its labels are an input of the other one.
        rank: The ranking network.
        texts: Sentences.
    """
    parts = [lac.split(text) for text in texts]
    numbers = [[lac.tables.number(part) for part in row] for row in parts]
    labels = lac.net.labels(numbers)
    made = list[list[tuple[str, int]]]()
    for row, said, weighed in zip(parts, labels, rank.labels(numbers, labels), strict=True):
        starts = [not at or lac.tables.labels[n][-1] in "BS" for at, n in enumerate(said)]
        found = list[tuple[str, int]]()
        for part, begins, weight in zip(row, starts, weighed, strict=True):
            word, most = ("", 0) if begins else found.pop()
            found.append((word + part, max(most, weight)))
        made.append(found)
    return made
