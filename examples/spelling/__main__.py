"""Train a model of pronunciation, save the decoder, and use it in a separate process.

python -m examples.spelling train spelling.model      train, save, and measure
python -m examples.spelling say spelling.model word   the output of the saved model
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

import braces as br
from examples.spelling.data import dictionary, divided, encoded, look_alike
from examples.spelling.model import Settings
from examples.spelling.train import measure, pronounce, train

SHOWN = ("braces", "knights", "thoroughly", "phonology", "zigzagged")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.spelling")
    commands = parser.add_subparsers(required=True)
    learning = commands.add_parser("train", help="train, save, and measure")
    learning.add_argument("model")
    learning.add_argument("--steps", type=int, default=Settings.steps)
    learning.add_argument("--look-alike", action="store_true", help="synthetic words")
    learning.set_defaults(run=learn)
    saying = commands.add_parser("say", help="print the phonemes of words from a saved model")
    saying.add_argument("model")
    saying.add_argument("words", nargs="+")
    saying.set_defaults(run=say)
    options = parser.parse_args(arguments)
    options.run(options)


def learn(options: argparse.Namespace) -> None:
    """Train, save, and evaluate the file on held-out words."""
    entries = look_alike(20_000, 0) if options.look_alike else dictionary()
    training, held_out = divided(entries)
    print(f"{len(training)} training words, {len(held_out)} held out", flush=True)
    start = time.perf_counter()
    settings = Settings(steps=options.steps)
    trained = train(settings, encoded(training), _report)
    print(f"Trained in {time.perf_counter() - start:.0f} s")
    trained.save(options.model)
    errors, right = measure(br.load_model(options.model), held_out)
    print(f"Held-out words: phoneme error rate {errors:.1%}, correct words {right:.1%}")
    print("Output of a new process:", flush=True)
    command = [sys.executable, "-m", "examples.spelling", "say", options.model, *SHOWN]
    subprocess.run(command, check=True)


def _report(step: int, loss: float) -> None:
    print(f"step {step}  loss {loss:.3f}", flush=True)


def say(options: argparse.Namespace) -> None:
    """Print the phonemes of some words."""
    said = pronounce(br.load_model(options.model), options.words)
    for word, phonemes in zip(options.words, said, strict=True):
        print(f"  {word:12} {' '.join(phonemes)}")


if __name__ == "__main__":
    main()
