"""Files that take the place of others at once, however large, or not at all.

Everything that Braces writes goes through `replacing`. A file grows under a name of its own,
`.NAME.0123456789abcdef.braces-tmp`, beside the one that it replaces, and is locked meanwhile:
the kernel drops the lock when the writer dies, however it dies, so that whoever writes to the
folder next can tell what is abandoned and removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_SUFFIX = ".braces-tmp"
_TEMPORARY = re.compile(r"\..{0,40}\.[0-9a-f]{16}" + re.escape(_SUFFIX), re.DOTALL)

_CLOSED_FIRST = os.name == "nt"
"""There the system refuses to remove a file that is open, and to replace it."""

if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes], *, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _set_mode(file: IO[bytes], mode: int) -> None:
        os.fchmod(file.fileno(), mode)

    def _sync_folder(folder: Path) -> None:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:  # one may write to a folder and not read it
            return
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot
                raise
        finally:
            os.close(handle)

    def _opened(path: Path) -> IO[bytes]:
        # Whatever else has such a name is neither followed nor waited for.
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags), "r+b", buffering=0)

else:

    def _lock(file: IO[bytes], *, wait: bool) -> None: ...

    def _set_mode(file: IO[bytes], mode: int) -> None: ...

    def _sync_folder(folder: Path) -> None: ...

    def _opened(path: Path) -> IO[bytes]:
        return open(path, "r+b", buffering=0)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends.

    Nobody ever sees half of it: not where the block fails, nor where the process is killed, nor
    after a power failure. Until it ends, and where it fails, the old file stays. A new file has
    the mode that the umask gives, one that is replaced keeps its own. A link stays one.

    What is no file to replace is written to as it is: a pipe, a terminal, `/dev/null`,
    `/dev/stdout`. A folder, a disk or a socket is refused.

    Raises:
        OSError: The folder is missing, full, or must not be written to; it names `path`.
    """
    try:
        if _is_special(path):
            with open(path, "ab") as file:
                yield file
        else:
            with _replacing(Path(os.path.realpath(path))) as file:
                yield file
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file as `replacing` does, with this content.

    Raises:
        OSError: The folder is missing, full, or must not be written to.
    """
    with replacing(path) as file:
        file.write(data)


def is_temporary(name: str) -> bool:
    """Return whether a file has the name of one that is being written, or was abandoned."""
    return _TEMPORARY.fullmatch(name) is not None


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise now what `replacing` would raise, as far as that can be told before.

    Raises:
        OSError: The folder is missing, or must not be written to, or `path` is a folder.
    """
    try:
        if not _is_special(path):
            folder = os.path.dirname(os.path.realpath(path))
            os.stat(os.path.join(folder, "."))
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


@contextmanager
def _replacing(target: Path) -> Generator[IO[bytes]]:
    _remove_abandoned(target.parent)
    mode = _mode_of(target)
    with _temporary(target, mode) as (temporary, file):
        yield file
        file.flush()
        if mode is not None:
            _set_mode(file, mode)
        os.fsync(file.fileno())
        if _CLOSED_FIRST:
            file.close()
        os.replace(temporary, target)  # still locked: nobody takes it for abandoned before
    _sync_folder(target.parent)


@contextmanager
def _temporary(target: Path, mode: int | None) -> Generator[tuple[Path, IO[bytes]]]:
    """A new file beside the target, locked, and gone where the block fails."""
    while True:
        temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}{_SUFFIX}")
        try:
            with open(temporary, "xb", opener=_private if mode is not None else None) as file:
                with contextlib.suppress(OSError):  # file systems without locks
                    _lock(file, wait=True)
                if os.path.lexists(temporary):  # else it looked abandoned before it was locked
                    yield temporary, file
                    return
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _private(path: str, flags: int) -> int:
    # What replaces a file that others must not read must not be read by them meanwhile.
    return os.open(path, flags, 0o600)


def _mode_of(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to what is written to and not replaced.

    Raises:
        OSError: It leads to what can be neither.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except FileNotFoundError:
        return False
    if kind in (stat.S_IFCHR, stat.S_IFIFO):
        return True
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind != stat.S_IFREG:
        raise OSError(errno.ENOTSUP, "Neither a file nor a stream")
    return _is_handle(path)


def _is_handle(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for an open file: `/dev/stdout`, `/dev/fd/1`, `/proc/self/fd/1`."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return folder == "/dev" or folder.startswith("/proc/")


def _remove_abandoned(folder: Path) -> None:
    """Remove what writers that were killed left behind in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                _remove_unless_written(folder / entry.name)


def _remove_unless_written(path: Path) -> None:
    with contextlib.suppress(OSError), _opened(path) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            _lock(file, wait=False)
            if _CLOSED_FIRST:
                file.close()
            os.unlink(path)
