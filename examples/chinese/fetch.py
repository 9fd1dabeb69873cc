"""Download of the models: a fixed version of LAC, which is neither installed nor imported.

The models and dictionaries are extracted from a source archive. They are not changed, and are
not part of this repository. Pip runs its `setup.py` to read its name, which requires setuptools
before version 80.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from examples.real_models.packages import FOLDER as FOLDER, NotThereError

PACKAGE, VERSION = "lac", "2.1.2"
KINDS = ("seg", "lac", "rank")
"""The models: of words, of words and what they are, and of how much they matter."""


def fetch(folder: Path = FOLDER) -> None:
    """Download the package if it is missing, and unpack the models.

    Raises:
        CalledProcessError: If pip cannot download the package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"LAC-{VERSION}.tar.gz"
    if not archive.exists():
        _download(folder)
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            _unpack(packed, member, folder)


def _download(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(folder)]
    with tempfile.TemporaryDirectory() as place:
        old = Path(place) / "constraints.txt"
        old.write_text("setuptools<80\n")
        wanted = {"PIP_BUILD_CONSTRAINT": str(old), "PIP_CONSTRAINT": str(old)}
        subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=True, env=os.environ | wanted)


def _unpack(packed: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one file of a model, or of its dictionaries."""
    parts = Path(member.name).parts
    ours = len(parts) == 5 and parts[2] in {f"{kind}_model" for kind in KINDS}
    content = packed.extractfile(member) if ours and member.isfile() else None
    if content is None or ".." in parts:
        return
    place = folder / PACKAGE / Path(*parts[2:])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.read())


def get(kind: str, folder: Path = FOLDER) -> Path:
    """The folder of a model: `model` and `conf`.

    Raises:
        NotThereError: If the file does not exist.
    """
    found = folder / PACKAGE / f"{kind}_model"
    if not (found / "model").is_dir():
        raise NotThereError(
            f"{kind}_model is not in {folder}: python -m examples.chinese fetch, or --folder."
        )
    return found
