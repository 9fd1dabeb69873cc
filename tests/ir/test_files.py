"""Files, and the paths of source files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from braces.errors import FileFormatError
from braces.ir import Program
from braces.ir.files import read_bounded, stored_path, write_atomically


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


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.braces"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["model.braces"]
    assert path.read_bytes() == b"old"


def test_a_file_is_as_readable_as_any_other_and_keeps_its_mode(tmp_path: Path) -> None:
    path, other = tmp_path / "model.braces", tmp_path / "other"
    write_atomically(path, b"1")
    other.write_bytes(b"1")
    assert path.stat().st_mode == other.stat().st_mode
    path.chmod(0o640)
    write_atomically(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_goes_on_pointing_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("model.braces")
    write_atomically(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "model.braces").read_bytes() == b"1"


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
