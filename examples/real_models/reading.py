"""Decoding of the outputs of the models: speech, text, file types, notes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from examples.real_models import cases, inputs
from examples.real_models.sides import Side

LIKELY = 0.5
HEIGHT = 48
"""Of lines, as nets read them."""
TURNED, SURE = 1, 0.9
"""The number by which a net says that a line is upside down, and how sure it must be."""
NOTHING, LOWEST_KEY = 0, 21
"""What a net says between letters, and the lowest note of a piano, as MIDI numbers it."""


def spoken(probabilities: np.ndarray, rate: int = 16000) -> tuple[float, float]:
    """The intervals with speech, in seconds."""
    heard = np.flatnonzero(probabilities.ravel() > LIKELY)
    second = rate / cases.RATES[rate][0]
    return float(heard[0] / second), float((heard[-1] + 1) / second)


# ---- text ------------------------------------------------------------------------------------


def written(find: Side, turn: Side, read: Side, letters: Sequence[str]) -> list[str]:
    """The lines of the page, found by one network, turned by another and read by a third."""
    page = inputs.page()
    (likely,) = find({"x": inputs.channels_first(page, 0.5, 0.5)})
    found = list[str]()
    for top, bottom, left, right in boxes(likely[0, 0] > LIKELY):
        cut = page[top:bottom, left:right]
        wide = max(round(cut.shape[1] * HEIGHT / cut.shape[0]), HEIGHT)
        line = inputs.channels_first(inputs.scaled(cut, HEIGHT, wide), 0.5, 0.5)
        (way,) = turn({"x": line[..., :192]})
        line = line[:, :, ::-1, ::-1] if way[0, TURNED] > SURE else line
        found.append(decoded(read({"x": line})[0][0], letters))
    return found


def boxes(marked: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Crops of the lines of text, with the margins that the networks expect."""
    rows = np.flatnonzero(np.diff(np.pad(marked.any(axis=1), 1).astype(int)))
    found = list[tuple[int, int, int, int]]()
    for top, bottom in zip(rows[::2], rows[1::2], strict=True):
        columns = np.flatnonzero(marked[top:bottom].any(axis=0))
        room = (bottom - top) // 2
        ends = max(top - room, 0), bottom + room, max(columns[0] - room, 0), columns[-1] + room
        found.append((int(ends[0]), int(ends[1]), int(ends[2]), int(ends[3])))
    return found


def decoded(likely: np.ndarray, letters: Sequence[str]) -> str:
    """The letters of a network's output, with repetitions merged."""
    said = likely.argmax(axis=-1)
    changed = np.flatnonzero(np.diff(said, prepend=NOTHING))
    return "".join(letters[said[at]] for at in changed if said[at] != NOTHING)


def letters_of(path: Path) -> list[str]:
    """The alphabet of a recognition network, by id, from the metadata of its file."""
    entries = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    return ["", *entries["character"].splitlines(), " "]


# ---- files and sounds ------------------------------------------------------------------------


def kinds(likely: np.ndarray, config: Path) -> list[str]:
    """The types of files, by their probabilities."""
    names = json.loads(config.read_text(encoding="utf-8"))["target_labels_space"]
    return [names[at] for at in likely.argmax(axis=-1)]


def played(likely: np.ndarray) -> list[int]:
    """The likeliest notes in each quarter of the sound, as MIDI numbers."""
    quarters = np.array_split(likely[0], len(inputs.NOTES))
    return [int(quarter.mean(axis=0).argmax()) + LOWEST_KEY for quarter in quarters]
