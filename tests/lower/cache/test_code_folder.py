"""The folder of compiled code keeps its entries, and leaves everything else as it is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from braces.cli.main import main
from braces.lower.cache.cache_directory import (
    JAX_VARIABLE,
    MARKER,
    VARIABLE,
    evict_entries,
    list_entries,
    prepare_cache,
    processor_name,
    reason_not_cache,
    remove_entries,
)

KEY = "0123456789abcdef" * 4
ENTRIES = (
    f"x86_64-0123456789ab/jit_braces_0123456789abcdef-{KEY}-cache",
    f"x86_64-0123456789ab/jit_braces_0123456789abcdef-{KEY}-atime",
    f"aarch64-ba9876543210/jit_<lambda>-{KEY}-cache",
    "x86_64-0123456789ab/xla_gpu_kernel_cache_file",
    f"x86_64-0123456789ab/xla_gpu_per_fusion_autotune_cache_dir/{'aZ_-9' * 8}123.textproto",
    "x86_64-0123456789ab/xla_gpu_per_fusion_autotune_cache_dir/tmp/"
    f"tmp_per_fusion_cache_{'a' * 43}_17.textproto",
)
OTHERS = (
    f"x86_64-0123456789ab/jit_f-{KEY}-cached",
    f"x86_64-0123456789ab/jit_f-{KEY[1:]}-cache",
    f"x86_64-0123456789ab/jit_f-{KEY.upper()}-cache",
    f"x86_64-0123456789ab/jit_f-{KEY}-cache.py",
    f"x86_64-0123456789ab/jit_f-{KEY}-cache\n",
    f"x86_64-0123456789ab/src/jit_f-{KEY}-cache",
    f"x86_64-0123456789abc/jit_f-{KEY}-cache",
    f"src/jit_f-{KEY}-cache",
    f"jit_f-{KEY}-cache",
    "x86_64-0123456789ab/notes.txt",
    "x86_64-0123456789ab/results.textproto",
    "xla_gpu_per_fusion_autotune_cache_dir/" + "a" * 43 + ".textproto",
    "src/main.cc",
    "CACHEDIR.TAG.old",
    ".notes.braces-tmp",
)
"""Names that an entry does not have, however near."""

Remove = Callable[[Path], object]


def clear(folder: Path) -> None:
    """`braces cache --clear`."""
    main(["cache", "--clear"])


def trim_all(folder: Path) -> None:
    """Trim to nothing."""
    evict_entries(folder, most_bytes=0, most_files=0)


def drop_one(folder: Path) -> None:
    """Drop what could not be read, whatever it is called."""
    for place in (folder, folder / processor_name(), *folder.iterdir()):
        remove_entries(place, "")


REMOVALS = (clear, trim_all, drop_one)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled code, which is not there yet."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "d"))
    monkeypatch.delenv(JAX_VARIABLE, raising=False)
    return tmp_path / "d" / "xla"


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / name).write_bytes(b"12345")


def tree(folder: Path) -> dict[str, bytes]:
    """All files, through links too."""
    paths = [
        Path(at, name) for at, _, names in os.walk(folder, followlinks=True) for name in names
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


# ---- what is removed -------------------------------------------------------------------------


@pytest.mark.parametrize("remove", [clear, trim_all])
def test_entries_are_removed_and_nothing_else(folder: Path, remove: Remove) -> None:
    assert prepare_cache(folder)
    write(folder, *ENTRIES, *OTHERS)
    assert len(list_entries(folder)) == len(ENTRIES)
    remove(folder)
    assert set(tree(folder)) == {*OTHERS, MARKER}


@pytest.mark.parametrize("remove", REMOVALS)
@pytest.mark.parametrize("names", [("src/main.cc",), (*ENTRIES, "src/main.cc"), OTHERS])
def test_a_folder_with_other_content_never_becomes_a_cache(
    folder: Path, remove: Remove, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, *names)
    before = tree(folder)
    assert not prepare_cache(folder)
    assert not list_entries(folder)
    remove(folder)
    assert tree(folder) == before
    assert main(["cache", "--clear"]) == 1
    assert "not used" in capsys.readouterr().out


@pytest.mark.parametrize("name", OTHERS)
def test_one_file_with_another_name_makes_a_folder_foreign(folder: Path, name: str) -> None:
    write(folder, *ENTRIES, name)
    assert not prepare_cache(folder)
    assert "has a file of another program" in str(reason_not_cache(folder))


def test_a_folder_of_folders_is_foreign_also_where_these_are_empty(folder: Path) -> None:
    (folder / "src").mkdir(parents=True, mode=0o700)
    assert not prepare_cache(folder)


@pytest.mark.parametrize(
    "text", [b"", b"Signature: 8a477f597d28d172789f06886806bc55\n# pytest\n"]
)
def test_a_marker_of_another_program_makes_no_cache(folder: Path, text: bytes) -> None:
    write(folder, *ENTRIES)
    (folder / MARKER).write_bytes(text)
    assert not prepare_cache(folder)
    assert (folder / MARKER).read_bytes() == text
    assert not list_entries(folder)


def test_a_cache_of_an_earlier_version_is_taken_over(folder: Path) -> None:
    write(folder, *ENTRIES)
    (folder / f".{MARKER}.0123456789abcdef.braces-tmp").write_bytes(b"half")
    folder.chmod(0o700)
    assert prepare_cache(folder)
    assert len(list_entries(folder)) == len(ENTRIES)


def test_the_log_has_one_note_on_a_foreign_folder(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder, "src/main.cc")
    with caplog.at_level(logging.WARNING, "braces"):
        assert not prepare_cache(folder)
        assert not prepare_cache(folder)
    (record,) = caplog.records
    assert "src" in record.getMessage()
    assert VARIABLE in record.getMessage()


# ---- links and permissions -------------------------------------------------------------------


@pytest.mark.parametrize("remove", REMOVALS)
def test_links_are_not_followed(folder: Path, tmp_path: Path, remove: Remove) -> None:
    other = tmp_path / "other"
    write(other, *ENTRIES, f"jit_f-{KEY}-cache")
    assert prepare_cache(folder)
    (folder / "x86_64-0123456789ab").symlink_to(other / "x86_64-0123456789ab")
    (folder / "arm64-0123456789ab").symlink_to(other)
    (folder / processor_name() / f"jit_g-{KEY}-cache").symlink_to(other / ENTRIES[0])
    before = tree(other)
    assert not list_entries(folder)
    remove(folder)
    assert tree(other) == before
    assert (folder / processor_name() / f"jit_g-{KEY}-cache").is_symlink()


@pytest.mark.parametrize("remove", [clear, trim_all])
def test_a_link_in_place_of_the_folder_is_refused(
    folder: Path, tmp_path: Path, remove: Remove
) -> None:
    other = tmp_path / "other"
    assert prepare_cache(other)
    write(other, *ENTRIES)
    folder.parent.mkdir()
    folder.symlink_to(other)
    before = tree(other)
    assert not prepare_cache(folder)
    remove(folder)
    assert tree(other) == before


def test_a_link_in_place_of_the_folder_of_a_processor_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    assert prepare_cache(folder)
    (folder / processor_name()).rmdir()
    (tmp_path / "other").mkdir(mode=0o700)
    (folder / processor_name()).symlink_to(tmp_path / "other")
    assert not prepare_cache(folder)


def test_a_folder_that_cannot_be_written_to_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True, mode=0o500)
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for users who are not root
    assert not prepare_cache(folder)
    assert not tree(folder)


# ---- several processes -----------------------------------------------------------------------

RACE = """
import sys
from pathlib import Path
from braces.lower.cache.cache_directory import evict_entries, prepare_cache, processor_name
folder = Path(sys.argv[1])
sys.stdin.read()
for number in range(100):
    assert prepare_cache(folder)
    name = f"jit_{sys.argv[2]}{number}-{'0' * 64}-cache"
    (folder / processor_name() / name).write_bytes(b"12345")
    evict_entries(folder, most_bytes=100)
"""


def test_processes_make_and_trim_one_folder_at_once(folder: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", RACE, str(folder)]
    started = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for name in "ab"
    ]
    for one in started:
        assert one.stdin is not None
        one.stdin.close()
        one.stdin = None
    for one in started:
        assert one.communicate(timeout=100)[1] == b""
        assert one.returncode == 0
    assert len(list_entries(folder)) <= 21
    evict_entries(folder, most_bytes=100)
    assert len(list_entries(folder)) == 20
    assert MARKER in tree(folder)
