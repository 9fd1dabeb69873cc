"""Sentences as numbers, and labels as words: what is around LAC's nets.

    百度是一家高科技公司
    百度 | 是 | 一家 | 高科技 | 公司       pieces: words of a dictionary, as long as they come
    12   | 7  | 3301 | 880    | 415        words: i64[batch, time, 1], with their lengths
    ORG-B  v-B  m-B    n-B      n-B        labels, the likeliest in a row

A net for tagging reads pieces, so that a sentence is short; one for cutting reads characters.
Sentences of a batch are padded to the longest; `words.lengths` says how long each is.
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
    """One of the nets: a program that Paddle wrote, and its parameters."""

    program: br.Program
    scope: br.Scope
    executor: br.Executor

    @staticmethod
    def read(folder: Path, mode: str = "compile") -> Net:
        """Read what Paddle saved."""
        program, values = br.from_paddle(folder)
        scope = br.Scope()
        scope.update(values)
        return Net(program, scope, br.Executor(mode=mode))

    def labels(self, *rows: Sequence[Sequence[int]]) -> list[list[int]]:
        """A label for each number of each sentence; of two inputs, two rows of sentences."""
        lengths = np.array([len(row) for row in rows[0]])
        feed = dict[str, np.ndarray]()
        for name, given in zip(self.program.feeds[::2], rows, strict=True):
            feed |= {name: padded(given, lengths), f"{name}.lengths": lengths}
        fetch = self.program.fetches[0]
        found = self.executor.run(self.program, self.scope, feed, fetch)
        found = found.reshape(found.shape[:2])
        return [row[:n].tolist() for row, n in zip(found, lengths, strict=True)]


def padded(rows: Sequence[Sequence[int]], lengths: np.ndarray) -> np.ndarray:
    """Rows as one array `[batch, time, 1]`, zeros behind those that are shorter."""
    made = np.zeros((len(rows), int(lengths.max(initial=0)), 1), np.int64)
    for at, row in enumerate(rows):
        made[at, : len(row), 0] = row
    return made


@dataclass(frozen=True)
class Tables:
    """What a model knows of words.

    Attributes:
        numbers: By word or character.
        alike: Characters that are read as others.
        labels: By number.
        pieces: Words of which sentences are put together; none where they are cut.
        total: How often all of them occur, as a logarithm.
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
        """Read the dictionaries of a model; of a net that reads `whole` pieces, those too."""
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
        """The number of a word or character."""
        return self.numbers.get(self.alike.get(text, text), self.numbers[UNKNOWN])

    def split(self, text: str) -> list[str]:
        """A sentence as what the net has numbers for: pieces, else characters."""
        found = ([piece] if piece in self.numbers else list(piece) for piece in self.cut(text))
        return [part for parts in found for part in parts]

    def cut(self, text: str) -> list[str]:
        """A sentence as few and long words of the dictionary; a row of letters is one."""
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
    """The lines of a file that have two columns."""
    lines = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n"))
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def joined(parts: Sequence[str], labels: Sequence[str]) -> list[Word]:
    """Words and what they are: each begins where a label says so."""
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
    """The nets of one kind with what is around them."""

    net: Net
    tables: Tables
    kind: str = "lac"

    @staticmethod
    def read(kind: str, folder: Path = FOLDER, mode: str = "compile") -> Lac:
        """Read one of the models: `seg` for words, `lac` for words and what they are."""
        place = get(kind, folder)
        tables = Tables.read(place / "conf", whole=kind == "lac")
        return Lac(Net.read(place / "model", mode), tables, kind)

    def split(self, text: str) -> list[str]:
        """A sentence as the net reads it."""
        return self.tables.split(text) if self.kind == "lac" else list(text)

    def words(self, texts: Sequence[str]) -> list[list[Word]]:
        """The words of each sentence, with what they are where the net says that."""
        if not texts:
            return []
        parts = [self.split(text) for text in texts]
        numbers = [[self.tables.number(part) for part in row] for row in parts]
        found = self.net.labels(numbers)
        named = ([self.tables.labels[label] for label in row] for row in found)
        return [joined(row, labels) for row, labels in zip(parts, named, strict=True)]


def weights(lac: Lac, rank: Net, texts: Sequence[str]) -> list[list[tuple[str, int]]]:
    """The words of each sentence, with how much each matters: the most that a part of it does.

    Args:
        lac: The net whose labels the other one reads.
        rank: The one that weighs.
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
