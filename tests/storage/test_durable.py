"""Files of all kinds are on the disk before they have their names, with the right mode."""

from __future__ import annotations

import ast
import os
import stat
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import braces as br
from braces.cli.main import main

posix = pytest.mark.skipif(os.name != "posix", reason="modes and inodes are those of POSIX")
SOURCES = Path(br.__file__).parent

Writer = Callable[[Path], object]


def program() -> br.Program:
    with br.Program() as prog:
        br.tanh(br.data("x", [3]) + br.parameter("w", [3]), name="y")
    return prog


def scope() -> br.Scope:
    scope = br.Scope()
    scope.var("w").set([1.0, 2.0, 3.0])
    scope.var("z").set([1.0 + 2.0j])
    return scope


def source(folder: Path) -> str:
    """A program that commands read, outside of the folder that they write to."""
    path = folder.parent / "source.braces"
    if not path.exists():
        program().save(path)
    return str(path)


def in_background(path: Path) -> None:
    with br.Checkpoint(path.parent) as job:
        job.save(scope(), int(path.stem.removeprefix("step-")))


def command(*arguments: str) -> Writer:
    def write(path: Path) -> None:
        name, *options = arguments
        assert main([name, source(path.parent), *options, "-o", str(path)]) == 0

    return write


STEP = "step-000000000007.safetensors"
WRITERS: dict[str, tuple[str, Writer]] = {
    "program": ("p.braces", lambda path: program().save(path)),
    "page": ("p.html", lambda path: program().to_html(path)),
    "parameters": ("w.safetensors", lambda path: br.save_parameters(scope(), path)),
    "model": ("m.model", lambda path: br.save_model(path, program(), scope(), ["x"], ["y"])),
    "checkpoint": (STEP, lambda path: br.save_checkpoint(scope(), path.parent, 7)),
    "checkpoint in the background": (STEP, in_background),
    "braces prune": ("p.braces", command("prune", "--targets", "y")),
    "braces prune --text": ("p.txt", command("prune", "--targets", "y", "--text")),
    "braces run": ("o.npz", command("run", "--feed", "x=[1,2,3]", "--fetch", "y")),
}


@pytest.fixture(params=WRITERS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Writer]:
    name, write = WRITERS[request.param]
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / name, write


@pytest.fixture
def umask() -> Generator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


Happened = tuple[str, int, int]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[Happened]:
    """Every `fsync` and `replace` from now on, with the inode and its size."""
    happened: list[Happened] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        found = os.fstat(handle)
        happened.append(("fsync", found.st_ino, found.st_size))
        fsync(handle)

    def noted_replace(old: Path, new: Path) -> None:
        found = os.stat(old)
        happened.append(("replace", found.st_ino, found.st_size))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return happened


@posix
def test_the_file_that_stays_is_synchronised_and_then_its_folder(
    target: tuple[Path, Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = target
    source(path.parent)
    happened = watched(monkeypatch)
    write(path)
    file, folder = path.stat(), path.parent.stat()
    assert file.st_size > 0
    assert happened == [
        ("fsync", file.st_ino, file.st_size),
        ("replace", file.st_ino, file.st_size),
        ("fsync", folder.st_ino, folder.st_size),
    ]


@posix
@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_mode_of_the_umask_and_a_replaced_one_its_own(
    target: tuple[Path, Writer],
) -> None:
    path, write = target
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for mode in (0o604, 0o444, 0o644):
        path.chmod(mode)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_any_save_removes_what_killed_writers_left(target: tuple[Path, Writer]) -> None:
    path, write = target
    for number in range(3):
        (path.parent / f".x.{number:016x}.braces-tmp").write_bytes(b"half")
    write(path)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@posix
def test_a_pipe_and_a_folder_of_the_name_stay_what_they_are(
    target: tuple[Path, Writer],
) -> None:
    path, write = target
    path.mkdir()
    with pytest.raises((IsADirectoryError, AssertionError)):  # of a command: status 2
        write(path)
    assert path.is_dir()
    assert len(os.listdir(path.parent)) == 1
    path.rmdir()
    os.mkfifo(path)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join(60)
    assert read[0]
    assert path.is_fifo()


LOGS = ("fitting/steps/writes.py",)
"""Files that append to logs."""


def test_nothing_else_opens_a_file_to_write_to() -> None:
    """All go through `atomic_write.py`, or are not on the disk after a power failure.

    Logs are appended to, and may lose their last rows.
    """
    found = {
        f"{path.relative_to(SOURCES).as_posix()}: {ast.unparse(call.func)}"
        for path in SOURCES.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and _writes(call)
    }
    found.discard("cli/commands/run.py: archive.open")  # a zip file in memory
    modules = {one.partition(":")[0] for one in found}
    assert modules == {"ir/files/atomic_write.py", *LOGS}, sorted(found)


def _writes(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in ("serialize_file", "save_file", "mkstemp"):
        return True
    if name in ("write_text", "write_bytes"):
        return isinstance(call.func, ast.Attribute)
    modes = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "mode")]
    written = [ast.unparse(mode) for mode in modes if isinstance(mode, ast.Constant)]
    return name in ("open", "fdopen") and any(set(mode) & set("wax+") for mode in written)
