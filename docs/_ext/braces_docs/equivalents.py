"""Names of other libraries for a function: `PyTorch: nn.Linear · Keras: Dense`.

Those of layers, losses, metrics and optimizers are in the package `hints`, all others in
`others.txt`: `name = PyTorch's | Keras's`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from braces.hints.classes import sections

OTHERS = Path(__file__).with_name("others.txt")
LIBRARIES = {"torch": "PyTorch", "keras": "Keras"}


@cache
def equivalents() -> dict[str, dict[str, list[str]]]:
    """For each name of `br`, the names of each library, with their module."""
    found: dict[str, dict[str, list[str]]] = {}
    for title, rows in sections():
        package, _, short = title.split()[0].partition(".")
        for row in rows:
            for their in row.theirs:
                for name in row.ours_of(their):
                    names = found.setdefault(name, {}).setdefault(LIBRARIES[package], [])
                    names.append(f"{short}.{their}")
    for name, *theirs in others():
        for library, their in zip(LIBRARIES.values(), theirs, strict=True):
            if their:
                short = their.partition(".")[2]
                found.setdefault(name, {}).setdefault(library, []).append(short)
    return found


def others() -> Iterator[tuple[str, str, str]]:
    """The lines of `others.txt`: a name of `br`, PyTorch's name and Keras's name."""
    for line in OTHERS.read_text(encoding="utf-8").splitlines():
        name, _, theirs = line.partition(" = ")
        torch, _, keras = theirs.partition("|")
        yield name, torch.strip(), keras.strip()


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
