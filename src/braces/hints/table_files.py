"""The tables of hints, read from text files on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("tables")
SUBJECTS = ("arrays", "networks", "training", "programs")
"""The tables of functions."""


def table_lines(table: str) -> list[str]:
    """Return the lines of a table."""
    return (FOLDER / f"{table}.txt").read_text(encoding="utf-8").splitlines()


def pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Return the names and hints of lines `name|name hint`."""
    for line in lines:
        names, _, hint = line.partition(" ")
        yield from ((name, hint) for name in names.split("|") if name)


@cache
def habits() -> Mapping[str, str]:
    """Return the hints for functions by name, in lower case: `amax`, `losses.mae`."""
    return dict(pair for table in SUBJECTS for pair in pairs(table_lines(table)))


@cache
def namespaces() -> Mapping[str, str]:
    """Return the hints for modules of other libraries by name, in lower case."""
    return dict(pairs(table_lines("namespaces")))


@cache
def objects() -> Mapping[str, Mapping[str, str]]:
    """Return the hints for attributes by the class of the object: `Var`, `Program`."""
    tables: dict[str, dict[str, str]] = {}
    for line in table_lines("objects"):
        if line.startswith("["):
            tables[line.strip("[]")] = {}
        else:
            tables[next(reversed(tables))].update(pairs([line]))
    return tables
