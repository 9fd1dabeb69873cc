"""Bounded reads of files, and stored paths of source files."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from pathlib import PurePath, PureWindowsPath

from braces.errors import FileFormatError, ProgramError, short_text
from braces.ir.limits import LARGEST_FILE
from braces.notebook import cell_of


class NotAFileError(FileFormatError):
    """A path that leads to a folder, a pipe or a device instead of a file."""


def check_path(path: object) -> None:
    """Refuse a value that is not a path.

    Raises:
        ProgramError: If the value is not a string, bytes or a path object.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise ProgramError(
            f"expected a path, got {short_text(path)}.",
            fix="Pass a string or a pathlib.Path.",
        )


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse paths that are no regular files before opening: a pipe may block forever.

    Raises:
        ProgramError: If the value is not a path.
        NotAFileError: If the path is a folder, or another file that is not regular.
        OSError: If the file does not exist.
    """
    check_path(path)
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind):
        what = "a folder, not a regular file" if stat.S_ISDIR(kind) else "not a regular file"
        raise NotAFileError(f"{os.fspath(path)} is {what}.", at=os.fspath(path))


def read_bounded(path: str | os.PathLike[str], limit: int = LARGEST_FILE) -> bytes:
    """Return the content of a regular file of at most `limit` bytes.

    Raises:
        FileFormatError: If the file is larger, or not a regular file.
        OSError: If the file does not exist or is not readable.
    """
    check_regular(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, limit) + 1)  # the buffer has the requested size
        if size < len(data) <= limit:  # for example in /proc
            data += file.read(limit + 1 - len(data))
    if len(data) > limit:
        raise FileFormatError(f"{os.fspath(path)} is larger than {limit} bytes.")
    return data


def stored_path(file: str) -> str:
    """Return the stored form of the path of a source file: never absolute.

    Paths below the working directory are relative to it; of others the last two parts are kept.
    The code of a notebook has its cell in place of a path.

    Example:
        >>> stored_path("/usr/lib/python3/site-packages/models/rnn.py")
        'models/rnn.py'
    """
    cell = cell_of(file)
    if cell is not None:
        return cell
    try:
        here = os.getcwd()
    except OSError:  # the folder was removed
        here = None
    return _stored_from(file, here)


@functools.lru_cache(maxsize=256)
def _stored_from(file: str, here: str | None) -> str:
    """Return the stored form of a path for a working directory; cached for all operators."""
    file = file.encode(errors="replace").decode()
    path = PureWindowsPath(file) if "\\" in file else PurePath(file)
    if path.is_absolute() and here is not None:
        with contextlib.suppress(ValueError):
            return path.relative_to(here).as_posix()
    parts = [part for part in path.parts if part not in (path.anchor, "..")]
    return "/".join(parts[-2:] if path.is_absolute() or ".." in path.parts else parts)
