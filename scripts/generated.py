"""Generated files in the repository."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str) -> int:
    """Write a file, or check it with `--check`; return the exit status."""
    if "--check" not in sys.argv[1:]:
        path.write_text(text, encoding="utf-8")
        return 0
    same = path.exists() and path.read_text(encoding="utf-8") == text
    print(f"{path.name} is " + ("up to date" if same else "out of date: make stubs"))
    return 0 if same else 1
