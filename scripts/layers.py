"""Equivalents of PyTorch and Keras: the tables of `docs/tables/layers.md`.

python scripts/layers.py            write it, from `scripts/layers.txt`
python scripts/layers.py --check    compare the page

If PyTorch or Keras is installed, a public class that the list lacks is an error.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import ModuleType

import braces as br
from generated import write_or_check

LIST = Path(__file__).with_suffix(".txt")
PAGE = Path(__file__).parents[1] / "docs" / "tables" / "layers.md"

HEAD = """# Equivalents of PyTorch and Keras

`python scripts/layers.py` writes this page from `scripts/layers.txt`: the public classes of
PyTorch and Keras, and the functions of `br` with the same purpose. `help(br.lstm)` prints
arguments and results. Where there is no function, the table has an expression or a reason.
{contents}"""
NOT_YET = "not yet"


@dataclass(frozen=True)
class Row:
    """Some names of another system.

    Attributes:
        theirs: The names.
        ours: The equivalents, by their names in `br`.
        why: An expression or a reason; empty where there are equivalents.
    """

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    why: str

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of `br` that do not exist."""
        return tuple(name for name in self.ours if not _there(name))

    def __str__(self) -> str:
        names = " ".join(f"`{name}`" for name in self.theirs)
        there = [f"`br.{name}`" for name in self.ours if name not in self.missing]
        told = ", ".join(there) or self.why or NOT_YET
        return f"| {names} | {told} |"


def _there(name: str) -> bool:
    try:
        attrgetter(name)(br)
    except AttributeError:
        return False
    return True


def tables() -> Iterator[tuple[str, list[Row]]]:
    """Each table of the list: its title, and its rows."""
    for part in LIST.read_text(encoding="utf-8").strip().split("\n\n"):
        title, *lines = part.splitlines()
        yield title.removeprefix("# "), [row_of(line) for line in lines]


def row_of(line: str) -> Row:
    """A line of the list: `theirs = ours`, or `theirs ! reason`."""
    theirs, ours, given = line.partition(" = ")
    if ours:
        return Row(tuple(theirs.split()), tuple(given.split()), "")
    theirs, _, why = line.partition(" ! ")
    return Row(tuple(theirs.split()), (), why)


def contents() -> str:
    """The list of tables with links to their headings."""
    titles = (title for title, _ in tables())
    return "".join(f"\n- [{title}](#{anchor(title)})" for title in titles) + "\n"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub spells it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def page() -> str:
    """The expected page."""
    parts = [HEAD.format(contents=contents())]
    for title, rows in tables():
        total = sum(len(row.theirs) for row in rows)
        here = sum(len(row.theirs) for row in rows if set(row.ours) - set(row.missing))
        parts.append(f"\n## {title}\n\nBraces has {here} of {total}.\n")
        parts.append("\n| class | Braces |\n|---|---|\n" + "\n".join(map(str, rows)) + "\n")
    return "".join(parts)


def unlisted() -> list[str]:
    """Public classes of installed packages that the list lacks."""
    found = list[str]()
    for title, rows in tables():
        name = title.partition(" ")[0]
        module = pkgutil.resolve_name(name) if find_spec(name.partition(".")[0]) else None
        listed = {one for row in rows for one in row.theirs}
        found += [f"{name}.{one}" for one in sorted(classes(module) - listed)]
    return found


def classes(module: ModuleType | None) -> set[str]:
    """The public classes of a module, if there is one."""
    return {
        name
        for name, value in vars(module or object).items()
        if isinstance(value, type) and not name.startswith("_")
    }


def main() -> int:
    """Write or check the page."""
    left = unlisted()
    for name in left:
        print(f"{name} is not in {LIST.name}")
    return write_or_check(PAGE, page()) or int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
