"""The whole way once: build, print, train, save, look, and predict from the file."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from braces.demo.digits import Images, load_images
from braces.demo.model import Net, Settings, build
from braces.demo.predict import predict_afresh
from braces.demo.progress import shown_progress
from braces.demo.train import Trained, accuracy_of, train
from braces.ir.files.atomic_write import write_atomically
from braces.passes.cleanup.prune import prune
from braces.storage.model_files import save_model
from braces.viewer.html import program_html

MODEL_FILE, PAGE_FILE = "digits.model", "digits.html"
TITLE = "Digits read row by row"


def run_demo(out: Path, epochs: int | None, stream: TextIO) -> int:
    """Run the demo; 0 where the file predicts what the trained net does, bit for bit, else 1.

    Args:
        out: The folder to write to; made where it is not there.
        epochs: Passes over the training images; those of the settings where it is `None`.
        stream: What is said goes here.

    Raises:
        BracesError: Scikit-learn is missing, or the fresh process failed.
        OSError: The folder cannot be written to.
    """
    start = time.perf_counter()
    settings = replace(Settings(), **({"epochs": epochs} if epochs else {}))
    training, test = load_images()
    out.mkdir(parents=True, exist_ok=True)
    net = build(settings, settings.epochs * (len(training) // settings.batch))
    _introduce(net, training, test, stream)
    with shown_progress(stream, settings.epochs) as report:
        trained = train(net, training, settings, report)
    _tell(stream, f"\nTrained in {time.perf_counter() - start:.0f} s.")
    status = _finish(trained, test, out, stream)
    _tell(stream, f"{time.perf_counter() - start:.0f} s in all.")
    return status


def _finish(trained: Trained, test: Images, out: Path, stream: TextIO) -> int:
    """Measure, write, and compare with a fresh process."""
    logits = trained.predict(test.pixels)
    accuracy = accuracy_of(logits, test)
    _tell(stream, f"Accuracy on {len(test)} images that it never saw: {accuracy:.1%}")
    _write(trained, accuracy, out)
    _tell(stream, f"Wrote {out / MODEL_FILE}  (braces show {out / MODEL_FILE})")
    _tell(stream, f"Wrote {out / PAGE_FILE}  (open it in a browser)")
    again = predict_afresh(out / MODEL_FILE, test.pixels)
    same = again.dtype == logits.dtype and again.tobytes() == logits.tobytes()
    found = "the same, bit for bit" if same else "SOMETHING ELSE"
    _tell(stream, f"A fresh process loads the file and predicts {found}.")
    return 0 if same else 1


def _introduce(net: Net, training: Images, test: Images, stream: TextIO) -> None:
    small = prune(net.program.for_test(), [net.logits.name])
    _tell(stream, f"The net, as data:\n\n{small}")
    operators = sum(len(block.ops) for block in net.program.blocks)
    _tell(stream, f"Training it is data too: with gradients and Adam, {operators} operators.")
    _tell(
        stream,
        f"{len(training)} images to learn from, with noise added; {len(test)} to test with.\n",
    )


def _write(trained: Trained, accuracy: float, out: Path) -> None:
    net = trained.net
    save_model(
        out / MODEL_FILE,
        net.program,
        trained.scope,
        feeds=["image"],
        fetches={"logits": net.logits},
    )
    title = f"{TITLE}: {accuracy:.1%} right"
    page = program_html(net.program, curve=trained.curve, title=title)
    write_atomically(out / PAGE_FILE, page.encode())


def _tell(stream: TextIO, text: str) -> None:
    print(text, file=stream, flush=True)
