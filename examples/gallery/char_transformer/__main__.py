"""Train, sample, and compare the losses with PyTorch's.

python -m examples.gallery.char_transformer --torch PYTHON
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

import braces as br
from examples.gallery.char_transformer import pytorch_path
from examples.gallery.char_transformer.model import SMALL, Settings
from examples.gallery.char_transformer.training import Trained, train, write
from examples.gallery.pictures import line_chart


def rates_of(settings: Settings) -> np.ndarray:
    """The learning rate of each step."""
    schedule = br.optimizer.warmup_cosine_decay_schedule(
        0.0, settings.learning_rate, settings.steps // 10, settings.steps
    )
    return np.array([float(schedule(step)) for step in range(settings.steps)])


def train_in_pytorch(trained: Trained, python: str) -> tuple[np.ndarray, float]:
    """The losses of PyTorch, in an interpreter that has it, and the seconds of its steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exchange.npz"
        np.savez(
            file,
            **trained.first,
            batches=trained.batches.astype("uint8"),
            rates=rates_of(trained.settings),
            heads=trained.settings.heads,
        )
        subprocess.run([python, str(pytorch_path()), str(file)], check=True)
        with np.load(file) as stored:
            return stored["torch_losses"], float(stored["torch_seconds"])


def smooth(losses: list[float] | np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each `every` losses, and its step."""
    count = len(losses) // every
    means = np.reshape(losses[: count * every], (count, every)).mean(axis=1)
    return (np.arange(count) + 0.5) * every, means


def main() -> None:
    """Train, and print the result."""
    parser = argparse.ArgumentParser(description="A character transformer.")
    parser.add_argument("--small", action="store_true", help="a version of seconds")
    parser.add_argument("--torch", metavar="PYTHON", help="an interpreter with PyTorch")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="write the picture")
    options = parser.parse_args()
    start = time.perf_counter()
    trained = train(SMALL if options.small else Settings())
    print(f"test loss {trained.test:.3f} nats per character")
    print(f"{1e3 * trained.seconds / len(trained.losses):.0f} ms per step")
    text, seconds = write(trained, "    def ")
    print(f"{text}\n-- {len(text)} characters in {1e3 * seconds:.0f} ms")
    every = max(trained.settings.steps // 50, 1)
    curves = {"Braces": smooth(trained.losses, every)}
    if options.torch:
        theirs, seconds = train_in_pytorch(trained, options.torch)
        curves["PyTorch"] = smooth(theirs, every)
        apart = np.abs(theirs - trained.losses)
        print(f"PyTorch: {1e3 * seconds / len(theirs):.0f} ms per step")
        print(f"last losses {curves['Braces'][1][-1]:.4f}, {curves['PyTorch'][1][-1]:.4f}")
        print(f"difference of losses: {apart[:100].max():.1e} in 100 steps, {apart.max():.1e}")
    if options.picture:
        chart = line_chart(curves, x="step", y="loss, nats per character", points=("PyTorch",))
        options.picture.write_text(chart, encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
