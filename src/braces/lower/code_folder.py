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
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

VARIABLE, JAX_VARIABLE = "BRACES_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"
"""What names the folder, and what names one for all that JAX compiles, which wins."""
MOST_BYTES, MOST_FILES = 1 << 30, 20_000
"""How much is kept: 1 GiB."""

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
    """Whether a folder is the user's alone to write to; it is made where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return is_private(folder)
    except OSError:
        return False


def is_private(folder: Path) -> bool:
    """Whether a folder that is there is the user's alone to write to.

    Raises:
        OSError: It is not there, or cannot be looked at.
    """
    found = folder.stat()
    if not hasattr(os, "geteuid"):  # Windows: what is in a user's own folders is the user's
        return True
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.geteuid() and not shared and os.access(folder, os.W_OK)


def kept_in(folder: Path) -> list[Kept]:
    """All files of the folder."""
    found = list[Kept]()
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                told = path.lstat()
            except OSError:
                continue  # another process let it go
            found.append(Kept(path, told.st_size, max(told.st_atime, told.st_mtime)))
    return found


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
