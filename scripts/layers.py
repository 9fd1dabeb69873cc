"""Equivalents of PyTorch and Keras: the tables of `docs/tables/layers.md`.

python scripts/layers.py            write it, from `src/braces/hints/tables/classes.txt`
python scripts/layers.py --check    compare the page

If PyTorch or Keras is installed, a public class that the list lacks is an error.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from braces.hints.classes import Equivalent, sections
from generated import write_or_check

PAGE = Path(__file__).parents[1] / "docs" / "tables" / "layers.md"

HEAD = """# Equivalents of PyTorch and Keras

`python scripts/layers.py` writes this page from `src/braces/hints/tables/classes.txt`: the
public classes of PyTorch and Keras, and the functions of `br` with the same purpose.
`help(br.lstm)` prints arguments and results. Where there is no function, the table has an
expression or a reason.
{contents}"""


def line(row: Equivalent) -> str:
    """The line of a row of the list."""
    names = " ".join(f"`{name}`" for name in row.theirs)
    there = ", ".join(f"`br.{name}`" for name in row.ours)
    told = ": ".join(part for part in (there, row.why) if part)
    return f"| {names} | {told} |"


def contents() -> str:
    """The list of tables with links to their headings."""
    titles = (title for title, _ in sections())
    return "".join(f"\n- [{title}](#{anchor(title)})" for title in titles) + "\n"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub spells it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def page() -> str:
    """The expected page."""
    parts = [HEAD.format(contents=contents())]
    for title, rows in sections():
        total = sum(len(row.theirs) for row in rows)
        here = sum(len(row.theirs) for row in rows if row.ours)
        parts.append(f"\n## {title}\n\nBraces has {here} of {total}.\n")
        parts.append("\n| class | Braces |\n|---|---|\n" + "\n".join(map(line, rows)) + "\n")
    return "".join(parts)


def unlisted() -> list[str]:
    """Public classes of installed packages that the list lacks."""
    found = list[str]()
    for title, rows in sections():
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
        print(f"{name} is not in the table")
    return write_or_check(PAGE, page()) or int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
