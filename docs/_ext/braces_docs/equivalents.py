"""Names of other libraries for a function: `PyTorch: nn.Linear · Keras: Dense`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

LIST = Path(__file__).parents[3] / "scripts" / "layers.txt"
LIBRARIES = {"torch": "PyTorch", "keras": "Keras"}


@cache
def equivalents() -> dict[str, dict[str, list[str]]]:
    """For each name of `br`, the names of each library, with their module."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in LIST.read_text(encoding="utf-8").strip().split("\n\n"):
        title, *rows = part.splitlines()
        module = title.removeprefix("# ").split()[0]
        library = LIBRARIES[module.partition(".")[0]]
        short = module.partition(".")[2]
        for row in rows:
            theirs, sign, ours = row.partition(" = ")
            for name in ours.split() if sign else ():
                names = found.setdefault(name, {}).setdefault(library, [])
                names += [f"{short}.{their}" for their in theirs.split()]
    return found


def line(name: str) -> str:
    """The line of a function of `br`, in reStructuredText; empty without equivalents."""
    libraries = equivalents().get(name, {})
    parts = (
        f"{library}: {', '.join(f'``{each}``' for each in ordered(names))}"
        for library, names in libraries.items()
    )
    return " · ".join(parts)


def ordered(names: list[str]) -> list[str]:
    """Names without repetition, those of lazy modules last."""
    return sorted(dict.fromkeys(names), key=lambda name: ".Lazy" in name)
