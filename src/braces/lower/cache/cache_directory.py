"""The folder of compiled code: which one it is, whether it is used, and how large it may be.

    BRACES_CACHE_DIR=             none
    BRACES_CACHE_DIR=FOLDER       FOLDER/xla
    else, on Linux                $XDG_CACHE_HOME/braces/xla, or ~/.cache/braces/xla
    else, on macOS                ~/Library/Caches/braces/xla
    else, on Windows              %LOCALAPPDATA%/braces/xla

What is in it is run, so whoever can write there can run anything in the process: a folder that
is not the user's own, or that others can write to, is not used. In it is a folder for each kind
of processor: homes are shared by machines, and XLA makes code for the very processor that it
runs on, which JAX does not surely tell from others. JAX writes the files, and this module lets
those go that were used longest ago. It does not leave that to JAX, whose own limit needs a lock
for each read and stops keeping anything after one write that was interrupted.

The folder may hold a user's files by mistake, as FOLDER/xla of a source tree does. Two rules
protect them. A folder is a cache if it has the marker file, `CACHEDIR.TAG` with a fixed text;
the marker is written only into a folder that has nothing but entries. An entry is a regular
file whose path has the form that JAX and XLA give it. Nothing else is counted or removed,
and links are never followed.
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
"""What names the folder, and what names one for all that JAX compiles, which wins."""
MOST_BYTES, MOST_FILES = 1 << 30, 20_000
"""How much is kept: 1 GiB."""

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
"""By platform: the variable that names where programs keep such files, and where in the home
folder they do without it."""

_ABILITIES = ("model name", "flags", "Features", "CPU implementer", "CPU part")
"""What decides which instructions there are, on x86 and on ARM."""


@dataclass(frozen=True)
class Kept:
    """A file of the folder.

    Attributes:
        path: Where it is.
        size_bytes: How large it is.
        used_s: When it was written or read last, as far as the file system tells.
    """

    path: Path
    size_bytes: int
    used_s: float


def named_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder that is to have compiled code, there or not; `None` for none."""
    named = environment.get(VARIABLE)
    try:
        if named is not None:
            return Path(named).expanduser().absolute() / "xla" if named else None
        variable, usual = _BASES.get(sys.platform, _USUAL)
        base = Path(environment.get(variable, ""))
        return (base if base.is_absolute() else Path.home() / usual) / "braces" / "xla"
    except (OSError, RuntimeError):  # there is no home, or no folder to start from
        return None


@cache
def processor(told: Path = Path("/proc/cpuinfo")) -> str:
    """A name for the kind of processor that XLA makes code for here.

    Args:
        told: What Linux tells of processors, one paragraph each; other systems have none.
    """
    known = [sys.platform, platform.machine(), os.environ.get("PROCESSOR_IDENTIFIER", "")]
    with suppress(OSError), told.open(encoding="utf-8", errors="replace") as lines:
        first = takewhile(str.strip, lines)
        known += [line for line in first if line.partition(":")[0].strip() in _ABILITIES]
    return f"{platform.machine()}-{sha256(repr(known).encode()).hexdigest()[:12]}"


def made_ready(folder: Path) -> bool:
    """Make a folder a cache with a place for this processor, or return `False`.

    A folder that is there and is refused is reported once in the log.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = refusal(folder)
        if reason is not None:
            _report(folder, reason)
            return False
        if not _is_marked(folder):
            write_atomically(folder / MARKER, _MARKER_TEXT)
        place = folder / processor()
        place.mkdir(mode=0o700, exist_ok=True)
        return _is_private(place)
    except OSError:
        return False


@cache
def _report(folder: Path, reason: str) -> None:
    LOGGER.warning(
        "Compiled code is not kept: %s %s. Name another folder with %s.",
        visible(str(folder)),
        reason,
        VARIABLE,
    )


def refusal(folder: Path) -> str | None:
    """The reason why a folder that is there is not used as a cache, as the end of a sentence.

    Raises:
        OSError: It is not there, or cannot be read.
    """
    if not stat.S_ISDIR(folder.lstat().st_mode):
        return "is a link, or no folder"
    if not _is_private(folder):
        return "is somebody else's, or others can write to it"
    other = None if _is_marked(folder) else _first_other(folder)
    if other is None or _is_marked(
        folder
    ):  # another process may have made it a cache meanwhile
        return None
    return f"has content of something else: {visible(other):.200}"


def _is_private(folder: Path) -> bool:
    """Return whether a folder is no link and the user's alone to write to."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "geteuid"):  # Windows: what is in a user's own folders is the user's
        return True
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not shared and os.access(folder, os.W_OK)


def _is_marked(folder: Path) -> bool:
    marker = folder / MARKER
    with suppress(OSError):
        return stat.S_ISREG(marker.lstat().st_mode) and marker.read_bytes() == _MARKER_TEXT
    return False


def _first_other(folder: Path) -> str | None:
    """The path of something in a folder that no cache has; `None` where there is nothing."""
    for path, mode in _walk(folder):
        expected = _FOLDER if stat.S_ISDIR(mode) else _ENTRY
        ours = expected.fullmatch(path) or ("/" not in path and is_temporary(path))
        if not (ours and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))):
            return path
    return None


def _walk(folder: Path) -> Generator[tuple[str, int]]:
    """All paths below a folder, relative and with `/`, and their modes; no link is followed."""
    for place, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            with suppress(OSError):  # another process removed it
                yield path.relative_to(folder).as_posix(), path.lstat().st_mode


def kept_in(folder: Path) -> list[Kept]:
    """The entries of a cache; none of a folder that is no cache."""
    try:
        if refusal(folder) is not None:
            return []
    except OSError:
        return []
    found = list[Kept]()
    for path, mode in _walk(folder):
        if stat.S_ISREG(mode) and _ENTRY.fullmatch(path):
            with suppress(OSError):  # another process let it go
                told = (folder / path).lstat()
                used_s = max(told.st_atime, told.st_mtime)
                found.append(Kept(folder / path, told.st_size, used_s))
    return found


def let_go_of(place: Path, prefix: str) -> None:
    """Remove the entries of a processor whose name begins so."""
    for one in kept_in(place.parent):
        if one.path.parent == place and one.path.name.startswith(prefix):
            let_go(one.path)


def trim(folder: Path, most_bytes: int = MOST_BYTES, most_files: int = MOST_FILES) -> None:
    """Let the files go that were used longest ago, until the rest is no more than that."""
    kept = sorted(kept_in(folder), key=lambda one: one.used_s)
    size_bytes, files = sum(one.size_bytes for one in kept), len(kept)
    for one in kept:
        if size_bytes <= most_bytes and files <= most_files:
            return
        let_go(one.path)
        size_bytes, files = size_bytes - one.size_bytes, files - 1


def let_go(path: Path) -> None:
    """Remove a file, unless it is gone already or in use."""
    try:
        path.unlink()
    except OSError:
        return
