"""The public names, listed by module in tests/public_names.txt.

python scripts/public_names.py            write tests/public_names.txt
python scripts/public_names.py --check    exit with 1 if it would change
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import braces
from generated import write_or_check

SNAPSHOT = Path(__file__).resolve().parents[1] / "tests/public_names.txt"


def modules() -> dict[str, ModuleType]:
    """The public modules by their public names: `br` and the modules that it lists."""
    inner = {f"br.{name}": getattr(braces, name) for name in dir(braces)}
    return {"br": braces} | {k: v for k, v in inner.items() if isinstance(v, ModuleType)}


def names() -> str:
    """Each public module with its names, one per line."""

    def lines() -> Iterator[str]:
        for module, found in modules().items():
            yield module
            yield from (f"    {name}" for name in dir(found))

    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    sys.exit(write_or_check(SNAPSHOT, names()))
