"""Links to files outside of docs/: their pages are built as well, so that a site is complete.

Markdown pages are copied to docs/files/ before the build, and read like others. Source files
become pages with highlighted code, folders become lists. Nothing needs the repository.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braces_docs.reference import write_changed

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[2]
ROOT = DOCS.parent
FOLDER = "files"
SITE = "https://files.invalid/"
"""Stands before paths of pages without a source until the depth of a page is known."""
QUIET = ("decisions/", "internals/", "files/")
"""Pages that are not found by the search: they are about the source, not about its use."""
_LINK = re.compile(r"(?P<image>!\[[^\]]*)?\]\((?P<path>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".proto": "protobuf", ".json": "json", ".yml": "yaml"}


def original(docname: str) -> Path:
    """The file that a page was written as."""
    if docname.startswith(f"{FOLDER}/"):
        return ROOT / f"{docname.removeprefix(f'{FOLDER}/')}.md"
    return DOCS / f"{docname}.md"


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a page, and whether they are prose, not fenced blocks."""
    parts = _FENCED.split(text)
    yield from ((part, at % 2 == 0) for at, part in enumerate(parts))


def linked(page: Path) -> Iterator[Path]:
    """The files and folders of the repository to which a page links."""
    for part, is_prose in prose(page.read_text(encoding="utf-8")):
        for link in _LINK.finditer(part) if is_prose else ():
            if link["path"] and "://" not in link["path"] and not link["image"]:
                yield page_of((page.parent / link["path"]).resolve())


def page_of(file: Path) -> Path:
    """The page of a folder, or the file itself."""
    named = (file / name for name in ("index.md", "README.md"))
    return next((page for page in named if page.exists()), file)


@cache
def outside() -> tuple[Path, ...]:
    """All files and folders outside of docs/ to which pages link, over several links."""
    found, waiting = dict[Path, None](), [*own_pages()]
    while waiting:
        page = waiting.pop()
        for file in linked(page):
            if file.exists() and not file.is_relative_to(DOCS) and file not in found:
                found[file] = None
                waiting += [file] if file.suffix == ".md" else []
    return tuple(sorted(found))


def own_pages() -> Iterator[Path]:
    """The Markdown pages of docs/ that are kept in the repository."""
    generated = tuple(DOCS / name for name in (FOLDER, "_build", "reference"))
    for file in DOCS.rglob("*.md"):
        if not any(file.is_relative_to(folder) for folder in generated):
            yield file


def write(app: Sphinx) -> None:
    """Copy the Markdown pages outside of docs/, and remove older copies."""
    folder = Path(app.srcdir, FOLDER)
    wanted = {
        folder / file.relative_to(ROOT): file for file in outside() if file.suffix == ".md"
    }
    for file in folder.rglob("*.md"):
        if file not in wanted:
            file.unlink()
    for copy, file in wanted.items():
        write_changed(copy, file.read_text(encoding="utf-8"))


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Point the links of a page to pages of the site."""
    if app.env.doc2path(docname).suffix != ".md":
        return
    parts = (
        _LINK.sub(lambda link: rewritten(link, docname), part) if is_prose else part
        for part, is_prose in prose(source[0])
    )
    source[0] = "".join(parts)
    if docname.startswith(QUIET):
        orphan = "orphan: true\n" if docname.startswith(FOLDER) else ""
        source[0] = f"---\n{orphan}nosearch: true\n---\n\n{source[0]}"


def rewritten(link: re.Match[str], docname: str) -> str:
    """A link of a page, as its page in the site has it."""
    path, anchor = link["path"], link["anchor"] or ""
    if not path or "://" in path or path.startswith("mailto:"):
        return link[0]
    file = page_of((original(docname).parent / path).resolve())
    if not file.exists() and not file.is_relative_to(DOCS / "reference"):
        return link[0]
    if link["image"]:
        return f"{link['image']}]({os.path.relpath(file, (DOCS / docname).parent)})"
    return f"]({address(file)}{anchor})"


def address(file: Path) -> str:
    """The address of the page of a file, from the root of the site."""
    if file.is_relative_to(DOCS):
        return f"/{file.relative_to(DOCS).as_posix()}"
    path = file.relative_to(ROOT).as_posix()
    if file.suffix == ".md":
        return f"/{FOLDER}/{path}"
    return f"{SITE}{FOLDER}/{path}{'' if file.suffix == '.svg' else '.html'}"


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of source files and folders."""
    for file in outside():
        path = file.relative_to(ROOT).as_posix()
        if file.suffix in (".svg", ".md"):
            continue
        body = listing(file) if file.is_dir() else code(app, file)
        body = f"<h1>{html.escape(path)}</h1>{body}"
        yield f"{FOLDER}/{path}", {"title": path, "body": body}, "page.html"


def code(app: Sphinx, file: Path) -> str:
    """A source file as highlighted HTML."""
    language = _LANGUAGES.get(file.suffix, "text")
    text = file.read_text(encoding="utf-8")
    return app.builder.highlighter.highlight_block(text, language)


def listing(folder: Path) -> str:
    """The files of a folder, with links to those that have pages."""
    names = sorted(file.name for file in folder.iterdir() if file.name[0] not in "._")
    pages = {file.name: file for file in outside() if file.parent == folder}
    items = (
        f'<li><a href="{folder.name}/{name}.html">{name}</a></li>'
        if name in pages and pages[name].suffix != ".md"
        else f"<li>{name}</li>"
        for name in names
    )
    return f"<ul>{''.join(items)}</ul>"


def finish(app: Sphinx, error: Exception | None) -> None:
    """Copy pictures outside of docs/ to which pages link."""
    for file in outside() if error is None else ():
        if file.suffix == ".svg":
            copy = Path(app.outdir, FOLDER, file.relative_to(ROOT))
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def setup(app: Sphinx) -> None:
    """Copy pages before the build, rewrite links while pages are read."""
    app.connect("builder-inited", write)
    app.connect("source-read", read)
    app.connect("html-collect-pages", collect)
    app.connect("build-finished", finish)
