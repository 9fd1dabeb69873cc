"""Names of other libraries for a function: `PyTorch: nn.Linear · Keras: Dense`."""

from __future__ import annotations

from functools import cache

from braces.hints.classes import sections

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
