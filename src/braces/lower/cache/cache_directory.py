"""Directory of the compilation cache: its location, its protection and its size limit.

    BRACES_CACHE_DIR=             none
    BRACES_CACHE_DIR=FOLDER       FOLDER/xla
    else, on Linux                $XDG_CACHE_HOME/braces/xla, or ~/.cache/braces/xla
    else, on macOS                ~/Library/Caches/braces/xla
    else, on Windows              %LOCALAPPDATA%/braces/xla

Entries are executed, so anyone who can write there can run code in the process. A folder that
is not the user's own, or that others can write to, is not used. The cache has a subfolder for
each kind of processor: machines share home folders, and XLA compiles for the exact processor
that it runs on, which the cache keys of JAX do not reliably distinguish. JAX writes the files;
this module evicts the least recently used ones. The size limit of JAX is not used: it needs a
lock for each read, and stops caching after one interrupted write.

The folder may hold a user's files by mistake, as FOLDER/xla of a source tree does. Two rules
protect them. A folder is a cache if it has the marker file, `CACHEDIR.TAG` with a fixed text;
the marker is written only into a folder that has nothing but entries. An entry is a regular
file whose path has the form that JAX and XLA give it. Nothing else is counted or removed, and
links are never followed.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from braces.errors import visible
from braces.ir.files.atomic_write import is_temporary, write_atomically

LOGGER = logging.getLogger("braces")

VARIABLE, JAX_VARIABLE = "BRACES_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"
"""The variable with the folder, and the one of JAX for all its compilations, which wins."""
MAX_BYTES, MAX_FILES = 1 << 30, 20_000
"""The limits of the cache; the size is 1 GiB."""

MARKER = "CACHEDIR.TAG"
_MARKER_TEXT = b"""Signature: 8a477f597d28d172789f06886806bc55
# This folder is a cache of compiled code, written by Braces; `braces cache --clear` empties it.
# Backups leave out folders with this file: https://bford.info/cachedir/
"""

_TUNING = "xla_gpu_per_fusion_autotune_cache_dir"
_PROCESSOR = r"\w+-[0-9a-f]{12}"
_FOLDER = re.compile(rf"{_PROCESSOR}(?:/{_TUNING}(?:/tmp)?)?")
_ENTRY = re.compile(
    rf"{_PROCESSOR}/(?:[^/]+-[0-9a-f]{{64}}-(?:cache|atime)|xla_gpu_kernel_cache_file"
    rf"|{_TUNING}/(?:[\w-]{{43}}=?|tmp/tmp_per_fusion_cache_[\w=-]+)\.textproto)"
)
"""The paths of a cache's folders and entries: compiled code and, for a GPU, measurements."""

_USUAL = ("XDG_CACHE_HOME", ".cache")
_BASES = {"darwin": ("", "Library/Caches"), "win32": ("LOCALAPPDATA", "AppData/Local")}
"""By platform: the variable with the folder of caches, and its default in the home folder."""

_ABILITIES = ("model name", "flags", "Features", "CPU implementer", "CPU part")
"""The fields that determine the instruction set, on x86 and on ARM."""


@dataclass(frozen=True)
class CacheEntry:
    """Cache entry: a file of the folder.

    Attributes:
        path: Its path.
        size_bytes: Its size.
        used_s: The time of its last write or read, as recorded by the file system.
    """

    path: Path
    size_bytes: int
    used_s: float


def find_cache_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder for compiled code, which may not exist; `None` for none."""
    value = environment.get(VARIABLE)
    try:
        if value is not None:
            return Path(value).expanduser().absolute() / "xla" if value else None
        variable, usual = _BASES.get(sys.platform, _USUAL)
        base = Path(environment.get(variable, ""))
        return (base if base.is_absolute() else Path.home() / usual) / "braces" / "xla"
    except (OSError, RuntimeError):  # no home folder, or no current folder
        return None


@cache
def processor_name(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """Return a name for the kind of processor that XLA compiles for here.

    Args:
        cpu_info: The file in which Linux describes processors, one paragraph each; other
            systems have none.
    """
    known = [sys.platform, platform.machine(), os.environ.get("PROCESSOR_IDENTIFIER", "")]
    with suppress(OSError), cpu_info.open(encoding="utf-8", errors="replace") as lines:
        first = takewhile(str.strip, lines)
        known += [line for line in first if line.partition(":")[0].strip() in _ABILITIES]
    return f"{platform.machine()}-{sha256(repr(known).encode()).hexdigest()[:12]}"


def prepare_cache(folder: Path) -> bool:
    """Create a cache with a subfolder for this processor; return `False` if that fails.

    A rejected folder is reported once in the log.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = reason_not_cache(folder)
        if reason is not None:
            _report(folder, reason)
            return False
        if not _is_marked(folder):
            write_atomically(folder / MARKER, _MARKER_TEXT)
        place = folder / processor_name()
        place.mkdir(mode=0o700, exist_ok=True)
        return _is_private(place)
    except OSError:
        return False


@cache
def _report(folder: Path, reason: str) -> None:
    LOGGER.warning(
        "Compiled code is not cached: %s %s. Set another folder with %s.",
        visible(str(folder)),
        reason,
        VARIABLE,
    )


def reason_not_cache(folder: Path) -> str | None:
    """Return the reason why an existing folder is not a cache, as the end of a sentence.

    Raises:
        OSError: If the folder does not exist, or cannot be read.
    """
    if not stat.S_ISDIR(folder.lstat().st_mode):
        return "is a symbolic link, or not a folder"
    if not _is_private(folder):
        return "belongs to another user, or is writable by others"
    other = None if _is_marked(folder) else _find_foreign_path(folder)
    if other is None or _is_marked(
        folder
    ):  # another process may have made it a cache meanwhile
        return None
    return f"has a file of another program: {visible(other):.200}"


def _is_private(folder: Path) -> bool:
    """Return whether a folder is not a link, and writable by the user only."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows: a user's own folders are private
        return True
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not shared and os.access(folder, os.W_OK)


def _is_marked(folder: Path) -> bool:
    marker = folder / MARKER
    with suppress(OSError):
        return stat.S_ISREG(marker.lstat().st_mode) and marker.read_bytes() == _MARKER_TEXT
    return False


def _find_foreign_path(folder: Path) -> str | None:
    """Return the path of the first foreign file or folder, or `None`."""
    for path, mode in _walk(folder):
        expected = _FOLDER if stat.S_ISDIR(mode) else _ENTRY
        ours = expected.fullmatch(path) or ("/" not in path and is_temporary(path))
        if not (ours and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))):
            return path
    return None


def _walk(folder: Path) -> Generator[tuple[str, int]]:
    """Yield the relative paths below a folder, with `/`, and their modes; skip links."""
    for place, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            with suppress(OSError):  # another process removed it
                yield path.relative_to(folder).as_posix(), path.lstat().st_mode


def list_entries(folder: Path) -> list[CacheEntry]:
    """Return the entries of a cache; none for a folder that is not a cache."""
    try:
        if reason_not_cache(folder) is not None:
            return []
    except OSError:
        return []
    entries = list[CacheEntry]()
    for path, mode in _walk(folder):
        if stat.S_ISREG(mode) and _ENTRY.fullmatch(path):
            with suppress(OSError):  # another process removed it meanwhile
                status = (folder / path).lstat()
                used_s = max(status.st_atime, status.st_mtime)
                entries.append(CacheEntry(folder / path, status.st_size, used_s))
    return entries


def remove_entries(place: Path, prefix: str) -> None:
    """Remove the entries of a processor whose names start with `prefix`."""
    for entry in list_entries(place.parent):
        if entry.path.parent == place and entry.path.name.startswith(prefix):
            remove_file(entry.path)


def evict_entries(
    folder: Path, most_bytes: int = MAX_BYTES, most_files: int = MAX_FILES
) -> None:
    """Remove the least recently used files until the others are within the limits."""
    entries = sorted(list_entries(folder), key=lambda entry: entry.used_s)
    size_bytes, files = sum(entry.size_bytes for entry in entries), len(entries)
    for entry in entries:
        if size_bytes <= most_bytes and files <= most_files:
            return
        remove_file(entry.path)
        size_bytes, files = size_bytes - entry.size_bytes, files - 1


def remove_file(path: Path) -> None:
    """Remove a file, unless it is removed already or in use."""
    try:
        path.unlink()
    except OSError:
        return
