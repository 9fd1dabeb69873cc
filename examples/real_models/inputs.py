"""Synthetic inputs of the models: images, sounds and files, equal on every run."""

from __future__ import annotations

import ctypes
import json
import zlib
from functools import cache
from pathlib import Path

import numpy as np

TEXT = "Every program is a piece of data."
LINES = ("Braces 2026", "a loop is one operator", "if else while")
NOTES = (60, 64, 67, 72)
"""A melody: C, E, G and the next C, as MIDI numbers them."""

# ---- sound -----------------------------------------------------------------------------------


@cache
def speech(rate: int, text: str = TEXT) -> np.ndarray:
    """A sentence spoken by eSpeak NG, with half a second of silence around it: f32[samples].

    Raises:
        ImportError: If the package espeakng-loader, which contains the library, is not
            installed.
    """
    said, given = _said(text)
    places = np.arange(0, len(said), given / rate)
    sound = np.interp(places, np.arange(len(said)), said).astype(np.float32)
    return heard_in_a_room(np.pad(sound, rate // 2))


def heard_in_a_room(sound: np.ndarray) -> np.ndarray:
    """A sound with a little noise; with silence, networks would amplify rounding errors.

    They compute the logarithm or the root of loudness, with an infinite derivative at 0.
    """
    noise = np.random.default_rng(0).normal(size=sound.shape)
    return (sound + 0.005 * noise).astype(np.float32)


def _said(text: str) -> tuple[np.ndarray, int]:
    """The samples from eSpeak NG, and their rate per second."""
    import espeakng_loader

    library = ctypes.CDLL(espeakng_loader.get_library_path())
    heard: list[np.ndarray] = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
    )
    def hear(samples: ctypes._Pointer[ctypes.c_short], count: int, events: object) -> int:
        if count > 0:
            heard.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    folder = str(Path(espeakng_loader.get_data_path()).parent).encode()
    synchronous, utf8 = 2, 1
    rate = library.espeak_Initialize(synchronous, 0, folder, 0)
    library.espeak_SetSynthCallback(hear)
    library.espeak_SetVoiceByName(b"en")
    data = text.encode()
    library.espeak_Synth(data, len(data) + 1, 0, 1, 0, utf8, None, None)
    library.espeak_Terminate()
    return np.concatenate(heard).astype(np.float32) / 32768, rate


def frames(sound: np.ndarray, size: int, before: int) -> np.ndarray:
    """A sound in frames that overlap their predecessors: f32[frames, before + size]."""
    count = len(sound) // size
    own = sound[: count * size].reshape(count, size)
    last = np.concatenate([np.zeros((1, before), np.float32), own[:-1, -before:]])
    return np.concatenate([last, own], axis=1)


def melody(rate: int, samples: int) -> np.ndarray:
    """Four notes, one after the other, each with eight harmonics: f32[samples]."""
    at = np.arange(samples) / rate
    length = samples / rate / len(NOTES)
    sound = np.zeros(samples)
    for place, note in enumerate(NOTES):
        since = at - place * length
        loud = np.where((since >= 0) & (since < length), np.exp(-3 * np.abs(since)), 0)
        pitch = 440 * 2 ** ((note - 69) / 12)
        for harmonic in range(1, 9):
            sound += loud * np.sin(2 * np.pi * pitch * harmonic * since) / harmonic**1.5
    return heard_in_a_room(0.3 * sound / np.abs(sound).max())


# ---- pictures --------------------------------------------------------------------------------


def page(lines: tuple[str, ...] = LINES) -> np.ndarray:
    """Lines of black text on white: u8[height, width, 3], both multiples of 32."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (448, 64 * len(lines) + 64), "white")
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        draw.text((32, 40 + 64 * row), line, "black", font=ImageFont.load_default(32))
    return np.asarray(image)


def scene(size: int) -> np.ndarray:
    """A drawing of a face under the sun: u8[size, size, 3]."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (size, size), (120, 170, 230))
    draw = ImageDraw.Draw(image)
    unit = size // 16
    draw.ellipse((12 * unit, unit, 15 * unit, 4 * unit), (250, 220, 60))
    draw.ellipse((4 * unit, 4 * unit, 12 * unit, 14 * unit), (235, 190, 160))
    for left in (6, 9):
        draw.ellipse((left * unit, 7 * unit, (left + 1) * unit, 8 * unit), "black")
    draw.arc((6 * unit, 8 * unit, 10 * unit, 12 * unit), 20, 160, (160, 40, 40), unit // 2)
    return np.asarray(image)


def scaled(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """An image of another size, by nearest neighbour."""
    rows = np.arange(height) * image.shape[0] // height
    return image[rows][:, np.arange(width) * image.shape[1] // width]


def channels_first(image: np.ndarray, middle: float, spread: float) -> np.ndarray:
    """An image in the layout of the networks: f32[1, 3, height, width]."""
    scaled = (image.astype(np.float32) / 255 - middle) / spread
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


# ---- files -----------------------------------------------------------------------------------


def contents() -> dict[str, bytes]:
    """The beginnings of files of a few kinds."""
    table = [{"name": f"row {row}", "value": row * row} for row in range(40)]
    code = Path(__file__).read_bytes()
    lines = [f"{row['name']},{row['value']}" for row in table]
    return {
        "python": code,
        "json": json.dumps({"rows": table}, indent=2).encode(),
        "csv": "\n".join(["name,value", *lines]).encode(),
        "html": (
            "<!DOCTYPE html><html><body>" + "<p>one</p>\n" * 60 + "</body></html>"
        ).encode(),
        "zlibstream": zlib.compress(code),
    }
