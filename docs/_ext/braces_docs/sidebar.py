"""The sidebar, from the links of index pages, which GitHub shows as they are.

A page `index.md` or `README.md` owns the pages of its folder, and the index pages of folders
below. Its links to these become a hidden toctree, in their order; on the first page one for
each section, with the heading as its caption. A list below `<!-- cards -->` becomes cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from braces_docs import notebooks
from braces_docs.files import DOCS, original

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INDEXES = ("index", "README")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(/(?P<page>[^)\s#]+)\.(?:md|ipynb)\)")
_CARDS = re.compile(r"^<!-- cards -->\n+(?P<items>(?:(?:<!-- )?- .*\n)+)", re.MULTILINE)
_CARD = re.compile(
    r"- \*\*\[(?P<title>.*?)\]\(/(?P<page>[^)]+)\.md\)\*\*:? *(?P<text>.*?)(?: -->)?$",
    re.MULTILINE,
)
CARD = """\
:::{{grid-item-card}} {title}
:link: /{page}
:link-type: doc

{text}
:::
"""


def owner(page: str) -> str:
    """The index page that has a page in its toctree."""
    path = PurePosixPath(page)
    folders = path.parents if path.stem not in INDEXES else path.parents[1:]
    for folder in map(str, folders):
        prefix = "" if folder == "." else f"{folder}/"
        for name in INDEXES:
            if folder == "reference" or (DOCS / f"{prefix}{name}.md").exists():
                return f"{prefix}{name}"
    return "index"


def own_links(docname: str, text: str) -> list[str]:
    """The pages to which an index links, and that it owns, in order."""
    pages = dict.fromkeys(link["page"] for link in _LINK.finditer(text))
    return [page for page in pages if page != docname and owner(page) == docname]


def toctree(pages: list[str], caption: str) -> str:
    """A hidden toctree."""
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    names = "\n".join(f"{short_title(page)} </{page}>" for page in pages)
    return f"\n```{{toctree}}\n{options}\n{names}\n```\n"


def short_title(page: str) -> str:
    """The heading of a page without what follows a colon."""
    file = original(page)
    notebook = file.with_suffix(notebooks.SUFFIX)
    if notebook.exists():
        return notebooks.title(notebook).partition(": ")[0]
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    titles = (line.removeprefix("# ") for line in lines if line.startswith("# "))
    return next(titles, "Reference").partition(": ")[0].replace("`", "")


def toctrees(docname: str, text: str) -> Iterator[str]:
    """The toctrees of an index: one, or one for each section of the first page."""
    if docname != "index":
        pages = own_links(docname, text)
        yield toctree(pages, "") if pages else ""
        return
    seen = {"index"}
    for section in text.split("\n## ")[1:]:
        pages = [page for page in own_links(docname, section) if page not in seen]
        seen.update(pages)
        yield toctree(pages, section.partition("\n")[0]) if pages else ""


def cards(text: str) -> str:
    """A text with its lists of cards as cards."""

    def grid(found: re.Match[str]) -> str:
        items = (CARD.format(**item.groupdict()) for item in _CARD.finditer(found["items"]))
        return "::::{grid} 1 2 2 3\n:gutter: 3\n\n" + "\n".join(items) + "::::\n"

    return _CARDS.sub(grid, text)


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the toctrees and the cards of an index page."""
    if docname.rpartition("/")[2] in INDEXES and app.env.doc2path(docname).suffix == ".md":
        source[0] = cards(source[0]) + "".join(toctrees(docname, source[0]))


def setup(app: Sphinx) -> None:
    """Change index pages after their links were rewritten."""
    app.connect("source-read", read, priority=600)
