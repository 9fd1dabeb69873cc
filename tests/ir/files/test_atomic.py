"""Files that take the place of others at once or not at all."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from braces.ir.files import atomic_write
from braces.ir.files.atomic_write import replace_atomically, write_atomically
from tests.support.ctrl_c import interrupted

posix = pytest.mark.skipif(os.name != "posix", reason="file modes and locks are those of POSIX")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def write_half(path: Path, error: type[BaseException]) -> None:
    with replace_atomically(path) as file:
        file.write(b"half")
        raise error


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with replace_atomically(path) as file:
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
    with pytest.raises(OSError, match="No space left"), replace_atomically(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["f"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replace_atomically(tmp_path / "no" / "f"):
        pass


@posix
def test_the_mode_of_the_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with replace_atomically(path):
        pass
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    with replace_atomically(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with replace_atomically(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"new"


# ---- what killed writers leave ---------------------------------------------------------------

STRAY = ".step-1.0123456789abcdef.braces-tmp"


@posix
def test_what_killed_writers_left_is_removed_by_the_next_save_of_anything(
    tmp_path: Path,
) -> None:
    killed = """
import os, signal, sys
from braces.ir.files.atomic_write import replace_atomically
with replace_atomically(sys.argv[1]) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", killed, str(tmp_path / "f")])
        assert done.returncode == -signal.SIGKILL
        assert len(left(tmp_path)) == 1  # the second removed what the first had left
    write_atomically(tmp_path / "other", b"whole")
    assert left(tmp_path) == ["other"]


@posix
def test_files_of_others_and_of_living_writers_stay(tmp_path: Path) -> None:
    others = {".step-1", "step-1.tmp", STRAY[1:], STRAY + "~", STRAY.replace("0", "g")}
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / STRAY).mkdir()
    with replace_atomically(tmp_path / "a") as file:
        file.write(b"a")
        for name in ("a", "b", "b"):
            write_atomically(tmp_path / name, b"b")
    assert (tmp_path / "a").read_bytes() == b"a"
    assert set(left(tmp_path)) == {*others, STRAY, "a", "b"}


@posix
def test_what_is_no_file_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / STRAY).symlink_to(tmp_path / "mine")
    os.mkfifo(tmp_path / STRAY.replace("0", "1"))
    write_atomically(tmp_path / "f", b"whole")
    assert (tmp_path / "mine").read_bytes() == b"mine"
    assert len(left(tmp_path)) == 4


@posix
def test_a_writer_that_looked_abandoned_before_it_was_locked_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, late = atomic_write._lock, [True]

    def others_first(file: IO[bytes], *, wait: bool) -> None:
        if wait and late and late.pop():
            write_atomically(tmp_path / "other", b"other")
        lock(file, wait=wait)

    monkeypatch.setattr(atomic_write, "_lock", others_first)
    write_atomically(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"
    assert left(tmp_path) == ["f", "other"]


@posix
def test_a_file_is_locked_until_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def others_first(source: Path, target: Path) -> None:
        if target.name == "f":
            write_atomically(tmp_path / "other", b"other")
        replace(source, target)

    monkeypatch.setattr(os, "replace", others_first)
    write_atomically(tmp_path / "f", b"whole")
    assert (tmp_path / "f").read_bytes() == b"whole"


def test_writers_of_one_file_and_of_one_folder_never_fail_each_other(tmp_path: Path) -> None:
    writer = """
import sys
from braces.ir.files.atomic_write import write_atomically
for i in range(60):
    write_atomically(f"{sys.argv[1]}/{i % 2 and sys.argv[2]}", sys.argv[2].encode() * 9999)
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", writer, str(tmp_path), str(number)])
        for number in range(1, 4)
    ]
    assert [one.wait(120) for one in writers] == [0, 0, 0]
    assert left(tmp_path) == ["0", "1", "2", "3"]
    assert all(path.stat().st_size == 9999 for path in tmp_path.iterdir())


# ---- what is no file to replace --------------------------------------------------------------


@posix
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    data = os.urandom(1 << 20)  # more than a pipe holds
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, data)
    reader.join(60)
    assert read == [data]
    assert pipe.is_fifo()
    assert left(tmp_path) == ["pipe"]


@posix
def test_a_device_is_written_to_and_stays_one() -> None:
    leader, follower = os.openpty()
    write_atomically(os.ttyname(follower), b"hello")
    assert os.read(leader, 5) == b"hello"
    assert stat.S_ISCHR(os.stat(os.ttyname(follower)).st_mode)
    os.close(leader)
    os.close(follower)


@posix
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_open_file_is_written_to_and_not_replaced(path: str, tmp_path: Path) -> None:
    program = """
import sys
from braces.ir.files.atomic_write import write_atomically
print("before", flush=True)
write_atomically(sys.argv[1], b"written\\n")
"""
    command = [sys.executable, "-c", program, path]
    assert subprocess.run(command, capture_output=True).stdout == b"before\nwritten\n"
    with open(tmp_path / "out", "ab") as out:
        for _ in range(2):
            subprocess.run(command, stdout=out, check=True)
        assert os.fstat(out.fileno()).st_nlink == 1
    assert (tmp_path / "out").read_bytes() == b"before\nwritten\n" * 2


@posix
def test_a_folder_and_a_socket_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name, error in (("folder", IsADirectoryError), ("socket", OSError)):
            with pytest.raises(error) as caught, replace_atomically(tmp_path / name):
                pytest.fail("nothing is there to write to")
            assert caught.value.filename == str(tmp_path / name)
            assert caught.value.errno
    assert left(tmp_path) == ["folder", "socket"]


# ---- errors and interruptions ----------------------------------------------------------------


@posix
def test_an_error_of_the_system_names_the_requested_file(tmp_path: Path) -> None:
    program = """
import resource, sys
from braces.ir.files.atomic_write import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    write_atomically(sys.argv[1], bytes(1 << 20))
except OSError as error:
    print(error.errno, error.filename)
"""
    path = str(tmp_path / "f")
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert done.stdout == f"{errno.EFBIG} {path}\n", done.stderr
    assert left(tmp_path) == []
    (tmp_path / "f").touch()
    with pytest.raises(NotADirectoryError) as caught:
        write_atomically(tmp_path / "f" / "g", b"")
    assert caught.value.filename == str(tmp_path / "f" / "g")


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    for name in ("n" * 255, "ä" * 127):
        write_atomically(tmp_path / name, b"whole")
        assert (tmp_path / name).read_bytes() == b"whole"


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a file that was just opened
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_anywhere_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path, ends = tmp_path / "f", set[bytes]()
    for count in itertools.count(1):
        path.write_bytes(b"old")
        if not interrupted(
            lambda: write_atomically(path, b"new"), count, atomic_write.__file__
        ):
            break
        ends.add(path.read_bytes())
        write_atomically(tmp_path / "other", b"")
        assert left(tmp_path) == ["f", "other"]
    assert count > 30
    assert ends == {b"old", b"new"}
