"""The reference of the file format has the keys, dtypes, limits and versions of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import braces as br
from braces.dims import LONGEST_TEXT
from braces.dtypes import COMPUTED, HIGHEST_RANK
from braces.ir import metadata
from braces.ir.limits import DEEPEST_NESTING, LARGEST_FILE, LARGEST_UNKNOWN
from braces.ir.names import LONGEST_NAME
from braces.ir.serde import FORMAT_VERSION
from braces.storage import checkpoint, model_files, parameters, sharded_checkpoint, tensor_file
from braces.storage.checkpoint_arguments import LARGEST_HISTORY, LARGEST_POSITION
from tests.storage.test_metadata import save

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "file_format.md"
LIMITS = {
    "bytes of a program": LARGEST_FILE,
    "characters of a name": LONGEST_NAME,
    "nesting depth of blocks and lists": DEEPEST_NESTING,
    "axes of an array": HIGHEST_RANK,
    "characters of a symbolic size": LONGEST_TEXT,
    "bytes of unknown fields of a record": LARGEST_UNKNOWN,
    "bytes of metadata of a model": metadata.MOST_BYTES,
    "nesting depth of metadata": metadata.DEEPEST,
    "bytes of a position in the data": LARGEST_POSITION,
    "bytes of a history": LARGEST_HISTORY,
}


def table(heading: str) -> list[list[str]]:
    """The cells of the first table of a section."""
    section = re.split(rf"\n##+ {heading}\n", PAGE.read_text(encoding="utf-8"))[1]
    lines = section.split("\n## ")[0].split("\n### ")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    return rows[2:]


def record_of(path: Path) -> dict[str, Any]:
    with tensor_file.open_tensors(path) as file:
        return dict(file.record)


def test_limits_are_those_of_the_code() -> None:
    assert {name: int(value) for name, value in table("Limits")} == LIMITS


def test_versions_are_those_of_the_code() -> None:
    numbers = [row[1] for row in table("Versions")]
    assert numbers == [str(tensor_file.VERSION), str(FORMAT_VERSION), "by operator"]


def test_the_record_has_the_keys_of_the_page(tmp_path: Path) -> None:
    scope = br.Scope()
    scope.update({"z": np.ones(2, "complex128"), "q": np.zeros(2, ml_dtypes.float8_e5m2)})
    br.save_parameters(scope, tmp_path / "p.safetensors")
    save(tmp_path / "m.model", metadata={"license": "MIT"})
    saved = br.Checkpoint(tmp_path / "c")
    for step, position in ((1, 7), (2, "x" * 900_000)):
        saved.save(scope, step, position)
    saved.wait()
    files = [tmp_path / "p.safetensors", tmp_path / "m.model", *(tmp_path / "c").iterdir()]
    written = {key for file in files for key in record_of(file)}
    listed = {name for row in table("Record") for name in re.findall(r"`(\w+)`", row[0])}
    assert written <= listed
    assert listed - written == {"parts", "shapes", "starts"}  # of several processes


def test_the_record_has_the_formats_of_the_page() -> None:
    formats = {
        part.FORMAT for part in (model_files, parameters, checkpoint, sharded_checkpoint)
    }
    assert formats == set(re.findall(r"`(braces\.\w+)`", table("Record")[0][1]))


def test_dtypes_are_those_of_the_code(tmp_path: Path) -> None:
    found: dict[str, str] = {}
    for names, stored in table("Dtypes"):
        codes = re.findall(r"`([A-Z]+\d*)`", stored)
        if "…" not in names:
            found |= dict(zip(names.split(", "), codes, strict=True))
    assert len(found) == len(COMPUTED)
    for name, code in found.items():
        scope = br.Scope()
        scope.update({"x": np.zeros(2, getattr(br, name))})
        br.save_parameters(scope, tmp_path / "x.safetensors")
        data = (tmp_path / "x.safetensors").read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert header["x"]["dtype"] == code, name
