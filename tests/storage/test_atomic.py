"""Files that take the place of others at once or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from braces.storage.atomic import remove_abandoned, replacing

posix = pytest.mark.skipif(os.name != "posix", reason="file modes and locks are those of POSIX")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def write_half(path: Path, error: type[BaseException]) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise error


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert left(tmp_path) == ["f"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_old_file_stays_where_writing_fails(
    error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["f"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_file_stays_where_the_disk_fails(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"), replacing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["f"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "f"):
        pass


@posix
def test_the_mode_of_the_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with replacing(path):
        pass
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    with replacing(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"new"


@posix
def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    for name in (".step-1.0123.tmp", ".other-1.0123.tmp", "step-1", ".step-1"):
        (tmp_path / name).touch()
    with replacing(tmp_path / "step-2") as file:
        file.write(b"whole")
        remove_abandoned(tmp_path, "step-")
    assert (tmp_path / "step-2").read_bytes() == b"whole"
    assert left(tmp_path) == [".other-1.0123.tmp", ".step-1", "step-1", "step-2"]
