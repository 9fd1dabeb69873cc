"""The end-to-end demo: build, print, train, save, view, and predict from the file."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from braces.demo.digits import Images, load_images
from braces.demo.model import Net, Settings, build
from braces.demo.predict import predict_in_subprocess
from braces.demo.progress import show_progress
from braces.demo.train import Trained, accuracy_of, train
from braces.ir.files.atomic_write import write_atomically
from braces.passes.cleanup.prune import prune
from braces.storage.model_files import load_model, save_model
from braces.viewer.html import program_html

MODEL_FILE, PAGE_FILE = "digits.model", "digits.html"
TITLE = "Digits read row by row"


def run_demo(out: Path, epochs: int | None, stream: TextIO) -> int:
    """Run the demo; return 0 if a new process predicts the same bits from the file, else 1.

    Args:
        out: The output folder; created if it does not exist.
        epochs: Passes over the training images; `None` for the default settings.
        stream: The stream for messages.

    Raises:
        BracesError: If scikit-learn is missing, or the fresh process failed.
        OSError: If the folder cannot be written to.
    """
    start = time.perf_counter()
    settings = replace(Settings(), **({"epochs": epochs} if epochs else {}))
    training, test = load_images()
    out.mkdir(parents=True, exist_ok=True)
    net = build(settings, settings.epochs * (len(training) // settings.batch))
    _print_program(net, training, test, stream)
    with show_progress(stream, settings.epochs) as report:
        trained = train(net, training, settings, report)
    _print_line(stream, f"\nTrained in {time.perf_counter() - start:.0f} s.")
    status = _finish(trained, test, out, stream)
    _print_line(stream, f"{time.perf_counter() - start:.0f} s in all.")
    return status


def _finish(trained: Trained, test: Images, out: Path, stream: TextIO) -> int:
    """Evaluate and save the model, and compare it with a new process."""
    logits = trained.predict(test.pixels)
    accuracy = accuracy_of(logits, test)
    _print_line(stream, f"Accuracy on {len(test)} test images: {accuracy:.1%}")
    _write(trained, accuracy, out)
    _print_line(stream, f"Wrote {out / MODEL_FILE}  (braces show {out / MODEL_FILE})")
    _print_line(stream, f"Wrote {out / PAGE_FILE}  (open it in a browser)")
    loaded = load_model(out / MODEL_FILE).run(image=test.pixels)["logits"]
    fresh = predict_in_subprocess(out / MODEL_FILE, test.pixels)
    same = fresh.tobytes() == loaded.tobytes() and np.allclose(loaded, logits, atol=1e-4)
    verdict = "are bitwise equal" if same else "DIFFER"
    _print_line(stream, f"The predictions of a new process that loads the file {verdict}.")
    return 0 if same else 1


def _print_program(net: Net, training: Images, test: Images, stream: TextIO) -> None:
    small = prune(net.program.for_test(), [net.logits.name])
    _print_line(stream, f"The network as a program:\n\n{small}")
    operators = sum(len(block.ops) for block in net.program.blocks)
    _print_line(
        stream, f"The training program, with gradients and Adam, has {operators} operators."
    )
    _print_line(
        stream,
        f"{len(training)} training images, with noise added; {len(test)} test images.\n",
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
    title = f"{TITLE}: accuracy {accuracy:.1%}"
    page = program_html(net.program, curve=trained.curve, title=title)
    write_atomically(out / PAGE_FILE, page.encode())


def _print_line(stream: TextIO, text: str) -> None:
    print(text, file=stream, flush=True)
