"""Files that take the place of others at once, however large, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        # The kernel drops the lock when the writer dies, however it dies.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _check_abandoned(path: Path) -> None:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _take_mode(file: IO[bytes], target: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))

    def _sync_folder(folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

else:  # a file that is open cannot be removed there, and folders are not synchronised

    def _lock(file: IO[bytes]) -> None: ...

    def _check_abandoned(path: Path) -> None: ...

    def _take_mode(file: IO[bytes], target: Path) -> None: ...

    def _sync_folder(folder: Path) -> None: ...


_SUFFIX = ".tmp"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when the block ends.

    Nobody ever sees half of it: not where the block fails, nor where the process is killed, nor
    after a power failure. Until it ends, and where it fails, the old file stays.

    Raises:
        OSError: The folder is missing, full, or must not be written to.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}{_SUFFIX}")
    try:
        with open(temporary, "xb") as file:
            _lock(file)
            _take_mode(file, target)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what writers that were killed left behind of files that begin with `prefix`."""
    for path in folder.glob(f".{prefix}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            _check_abandoned(path)
            os.unlink(path)
