"""The layout library of the page, from an installed package that ships it."""

from __future__ import annotations

import base64
import gzip
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SHIPPED = (("longeron", "elk.bundled.js"), ("ipyelk", "elk-worker.*.js"))
"""Packages that ship elkjs, and the name of its file; they are not imported."""
HINT = 'Shown without edges: pip install "braces[pictures]" and write the page again.'


@cache
def layout_library() -> str:
    """Return elkjs, compressed and base64-encoded; empty if it is not installed."""
    text = _find_library()
    return base64.b64encode(gzip.compress(text, mtime=0)).decode() if text else ""


def _find_library() -> bytes:
    for name, pattern in SHIPPED:
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if fnmatch(path.name, pattern) and path.is_file():
                return path.read_bytes()
    return b""
