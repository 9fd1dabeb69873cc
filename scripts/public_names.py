"""The names that users see, as tests/public_names.txt lists them by module.

python scripts/public_names.py            write tests/public_names.txt
python scripts/public_names.py --check    exit with 1 where it would change
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
    """The public modules by what users call them: `br` and those that it lists."""
    inner = {f"br.{name}": getattr(braces, name) for name in dir(braces)}
    return {"br": braces} | {k: v for k, v in inner.items() if isinstance(v, ModuleType)}


def names() -> str:
    """Each public module with what it lists, a line each."""

    def lines() -> Iterator[str]:
        for module, found in modules().items():
            yield module
            yield from (f"    {name}" for name in dir(found))

    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    sys.exit(write_or_check(SNAPSHOT, names()))
