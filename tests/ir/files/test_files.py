"""Files, and the paths of source files."""

from __future__ import annotations

from pathlib import Path

import pytest

from braces import Program
from braces.errors import FileFormatError
from braces.ir.files.bounded_read import read_bounded, stored_path


@pytest.mark.parametrize(
    ("file", "stored"),
    [
        ("train.py", "train.py"),
        ("models/deep/rnn.py", "models/deep/rnn.py"),
        ("../../models/rnn.py", "models/rnn.py"),
        ("/usr/lib/python/models/rnn.py", "models/rnn.py"),
        ("/rnn.py", "rnn.py"),
        ("C:\\work\\models\\rnn.py", "models/rnn.py"),
        ("<stdin>", "<stdin>"),
        ("", ""),
        ("\udcff.py", "?.py"),
    ],
)
def test_source_paths_are_never_absolute(file: str, stored: str) -> None:
    assert stored_path(file) == stored


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "model.braces"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(FileFormatError, match="larger than 4 bytes"):
        read_bounded(path, 4)
    with pytest.raises(FileFormatError, match="not a regular file"):
        read_bounded("/dev/zero")
    with pytest.raises(FileFormatError, match="not a regular file"):
        Program.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Program.load(tmp_path / "nothing")
