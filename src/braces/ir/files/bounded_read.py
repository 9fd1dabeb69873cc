"""Files that are read within bounds, and the paths of source files."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from pathlib import PurePath, PureWindowsPath

from braces.errors import FileFormatError
from braces.ir.limits import LARGEST_FILE


class NotAFileError(FileFormatError):
    """A path that leads to a folder, a pipe or a device where a file is wanted."""


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what is no file to read, before it is opened: opening a pipe may wait for ever.

    Raises:
        NotAFileError: It is a folder, or something else that is not a regular file.
        OSError: There is no such file.
    """
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind):
        what = (
            "a folder, and not a regular file" if stat.S_ISDIR(kind) else "not a regular file"
        )
        raise NotAFileError(f"{os.fspath(path)} is {what}.", at=os.fspath(path))


def read_bounded(path: str | os.PathLike[str], limit: int = LARGEST_FILE) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises:
        FileFormatError: It is larger, or not a regular file.
        OSError: There is no such file, or it must not be read.
    """
    check_regular(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, limit) + 1)  # as much is set aside as is asked for
        if size < len(data) <= limit:  # of /proc, say
            data += file.read(limit + 1 - len(data))
    if len(data) > limit:
        raise FileFormatError(f"{os.fspath(path)} is larger than {limit} bytes.")
    return data


def stored_path(file: str) -> str:
    """How the path of a source file is stored: never absolute.

    Below the working directory it is relative to that; elsewhere the last two parts are kept.

    Example:
        >>> stored_path("/usr/lib/python3/site-packages/models/rnn.py")
        'models/rnn.py'
    """
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        here = None
    return _stored_from(file, here)


@functools.lru_cache(maxsize=256)
def _stored_from(file: str, here: str | None) -> str:
    """How a path is stored in a working directory; every operator asks for that of its file."""
    file = file.encode(errors="replace").decode()
    path = PureWindowsPath(file) if "\\" in file else PurePath(file)
    if path.is_absolute() and here is not None:
        with contextlib.suppress(ValueError):
            return path.relative_to(here).as_posix()
    parts = [part for part in path.parts if part not in (path.anchor, "..")]
    return "/".join(parts[-2:] if path.is_absolute() or ".." in path.parts else parts)
