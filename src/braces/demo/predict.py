"""Prediction from a model file in a separate process: `python -m braces.demo.predict`.

The process has the file and Braces, but not the code that built the model.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from braces.demo.digits import Array
from braces.errors import RunError
from braces.storage.model_files import load_model

_TIMEOUT_S = 120


def main(model_file: str, images_file: str, logits_file: str) -> None:
    """Load a model, predict the images of a file, and write the logits to another."""
    model = load_model(model_file)
    images = np.load(images_file, allow_pickle=False)
    np.save(logits_file, model.run(image=images)["logits"])


def predict_in_subprocess(model_file: Path, pixels: Array) -> Array:
    """Predict from a model file in a new process.

    Raises:
        RunError: If the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        images, logits = Path(folder, "images.npy"), Path(folder, "logits.npy")
        np.save(images, pixels)
        command = [
            sys.executable,
            "-P",
            "-m",
            "braces.demo.predict",
            model_file,
            images,
            logits,
        ]
        process = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
        if process.returncode:
            last = process.stderr.strip().splitlines()[-1:] or ["no error output"]
            raise RunError(
                f"the new process ended with status {process.returncode}.", given=last[0]
            )
        return np.load(logits, allow_pickle=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
