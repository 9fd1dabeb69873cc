"""Data, training and sampling."""

from __future__ import annotations

import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import braces as br
from examples.gallery.char_transformer.model import (
    CHARACTERS,
    Settings,
    training_program,
    writing_program,
)


def encode(text: str) -> np.ndarray:
    """The ids of characters, i32[len(text)]; others than those of the vocabulary are `?`."""
    table = np.full(0x110000, CHARACTERS.index("?"), "int32")
    table[[ord(one) for one in CHARACTERS]] = np.arange(len(CHARACTERS))
    return table[np.frombuffer(text.encode("utf-32-le"), "uint32")]


def decode(ids: np.ndarray) -> str:
    """The text of ids."""
    return "".join(CHARACTERS[one] for one in ids)


def read_library(size: int) -> tuple[str, str]:
    """Sources of the standard library: a training text, and one of a tenth of its size."""
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.glob("*.py")) + sorted(folder.glob("[!_]*/*.py"))
    kept = [file for file in files if not {"site-packages", "test", "idlelib"} & {*file.parts}]
    texts = ["", ""]
    for number, file in enumerate(kept):
        source = file.read_text(encoding="utf-8", errors="replace").replace("\t", "    ")
        texts[number % 10 == 9] += source + "\0"
        if len(texts[0]) >= size and len(texts[1]) >= size // 10:
            break
    return texts[0][:size], texts[1][: size // 10]


def rows_of(text: str, length: int) -> np.ndarray:
    """A text as rows that overlap by one character; i32[rows, length + 1]."""
    ids = encode(text)
    starts = np.arange(0, len(ids) - length, length)
    return ids[starts[:, None] + np.arange(length + 1)]


@dataclass(frozen=True)
class Trained:
    """A trained transformer.

    Attributes:
        settings: The hyperparameters.
        scope: The parameters.
        first: The initial parameters, by name.
        batches: The batches in order, i32[steps, batch, length + 1].
        losses: The loss of each step, in nats per character.
        test: The loss on other modules.
        seconds: The time of the steps, without compilation.
    """

    settings: Settings
    scope: br.Scope
    first: dict[str, np.ndarray]
    batches: np.ndarray
    losses: list[float]
    test: float
    seconds: float


def train(settings: Settings, *, mode: str = "compile", seed: int = 0) -> Trained:
    """Train the transformer."""
    text, other = read_library(settings.size)
    data = br.batches({"text": rows_of(text, settings.length)}, settings.batch, drop_last=True)
    epochs = -(-settings.steps // len(data))
    program, loss = training_program(settings)
    exe = br.Executor(mode=mode)
    scope = exe.init(program, seed=seed)
    first = {info.name: np.array(scope[info.name]) for info in program.parameters}
    losses, start = list[float](), 0.0
    for step in br.training(program, data, fetch=loss, epochs=epochs, scope=scope, exe=exe):
        losses.append(float(step.values))
        start = start or time.perf_counter()
        if step.number % max(settings.steps // 10, 1) == 0:
            print(f"step {step.number}  loss {np.mean(losses[-50:]):.3f}", flush=True)
        if step.number == settings.steps:
            break
    taken = time.perf_counter() - start
    rows = {"text": rows_of(other, settings.length)}
    measured = br.evaluate(program, br.batches(rows, 16, shuffle=False), scope, exe=exe)
    seen = [batch["text"] for epoch in range(epochs) for batch in data.epoch(epoch)]
    return Trained(
        settings,
        scope,
        first,
        np.stack(seen[: settings.steps]),
        losses,
        measured["loss"],
        taken,
    )


def write(
    trained: Trained, prompt: str, temperature: float = 0.8, mode: str = "compile"
) -> tuple[str, float]:
    """Continue a prompt; return the text and the seconds of the second run."""
    program, written = writing_program(trained.settings)
    exe, seconds = br.Executor(mode=mode), 0.0
    exe.init(program, trained.scope, missing_only=True)  # the state of the random draws
    feed = {"prompt": encode(prompt)[None], "temperature": temperature}
    for _ in range(2):
        start = time.perf_counter()
        ids = exe.run(program, trained.scope, feed, written.ids)[0]
        seconds = time.perf_counter() - start
    return prompt + decode(ids).split("\0")[0], seconds
