"""Atomic replacement of files of any size: completely or not at all.

All files that Braces writes are written by `replacing`. A new file has a temporary name,
`.NAME.0123456789abcdef.braces-tmp`, beside the file that it replaces. It is locked while it is
written. The kernel releases the lock when the writer dies, for any reason. The next writer
in the folder thus recognizes abandoned files and removes them.
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

from braces.ir.files.bounded_read import check_path

_SUFFIX = ".braces-tmp"
_TEMPORARY = re.compile(r"\..{0,40}\.[0-9a-f]{16}" + re.escape(_SUFFIX), re.DOTALL)

_CLOSED_FIRST = os.name == "nt"
"""True on systems that refuse to remove or replace an open file."""

if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes], *, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _set_mode(file: IO[bytes], mode: int) -> None:
        os.fchmod(file.fileno(), mode)

    def _sync_folder(folder: Path) -> None:
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:  # a folder may be writable and not readable
            return
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported here
                raise
        finally:
            os.close(handle)

    def _opened(path: Path) -> IO[bytes]:
        # Neither follow links nor wait for pipes of such a name.
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags), "r+b", buffering=0)

else:

    def _lock(file: IO[bytes], *, wait: bool) -> None: ...

    def _set_mode(file: IO[bytes], mode: int) -> None: ...

    def _sync_folder(folder: Path) -> None: ...

    def _opened(path: Path) -> IO[bytes]:
        return open(path, "r+b", buffering=0)


@contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Yield a file to write to, which replaces `path` when the block ends.

    No reader ever sees a partial file: not if the block fails, if the process is killed, or
    after a power failure. Until the end, and on failure, the old file stays. A new file has the
    mode of the umask; a replaced file keeps its own. A link stays a link.

    Pipes, terminals, `/dev/null` and `/dev/stdout` cannot be replaced and are written to
    directly. Folders, disks and sockets are refused.

    Raises:
        ProgramError: If the value is not a path.
        OSError: If the folder is missing, full, or not writable; the error names `path`.
    """
    check_path(path)
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
    """Write a file with this content as `replacing` does.

    Raises:
        OSError: If the folder is missing, full, or not writable.
    """
    with replace_atomically(path) as file:
        file.write(data)


def is_temporary(name: str) -> bool:
    """Return whether a file name is that of a file being written, or abandoned."""
    return _TEMPORARY.fullmatch(name) is not None


def refuse_unwritable(path: str | os.PathLike[str]) -> None:
    """Raise the predictable errors of `replacing` early.

    Raises:
        OSError: If the folder is missing or not writable, or `path` is a folder.
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
        os.replace(temporary, target)  # still locked: not seen as abandoned
    _sync_folder(target.parent)


@contextmanager
def _temporary(target: Path, mode: int | None) -> Generator[tuple[Path, IO[bytes]]]:
    """Yield a new file beside the target, locked; it is removed if the block fails."""
    while True:
        temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}{_SUFFIX}")
        try:
            with open(temporary, "xb", opener=_private if mode is not None else None) as file:
                with contextlib.suppress(OSError):  # file systems without locks
                    _lock(file, wait=True)
                if os.path.lexists(temporary):  # else it was removed before it was locked
                    yield temporary, file
                    return
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _private(path: str, flags: int) -> int:
    # The replacement of a private file must be private from the start.
    return os.open(path, flags, 0o600)


def _mode_of(target: Path) -> int | None:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether a path leads to a stream, which is written to and not replaced.

    Raises:
        OSError: If the path leads to neither a file nor a stream.
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
        raise OSError(errno.ENOTSUP, "Not a regular file or a stream")
    return _is_handle(path)


def _is_handle(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is an open file: `/dev/stdout`, `/dev/fd/1`, `/proc/self/fd/1`."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    return folder == "/dev" or folder.startswith("/proc/")


def _remove_abandoned(folder: Path) -> None:
    """Remove files that killed writers left in a folder."""
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
