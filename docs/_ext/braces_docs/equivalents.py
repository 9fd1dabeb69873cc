"""Names of other libraries for a function: `PyTorch: nn.Linear · Keras: Dense`."""

from __future__ import annotations

from functools import cache

from layers import tables

LIBRARIES = {"torch": "PyTorch", "keras": "Keras"}


@cache
def equivalents() -> dict[str, dict[str, list[str]]]:
    """For each name of `br`, the names of each library, with their module."""
    found: dict[str, dict[str, list[str]]] = {}
    for title, rows in tables():
        package, _, short = title.split()[0].partition(".")
        for row in rows:
            for name in row.ours:
                names = found.setdefault(name, {}).setdefault(LIBRARIES[package], [])
                names += [f"{short}.{their}" for their in row.theirs]
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
