"""The pages of the reference: a table of pages and names, and one autodoc directive a name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import braces as br
from braces_docs import command_line

if TYPE_CHECKING:
    from sphinx.application import Sphinx

RESULTS = "Classes of results. Functions return them; they have no name in ``br``."
TABLE = Path(__file__).with_suffix(".txt")
FOLDER = "reference"
INHERITED = ("Program", "Executor", "Scope", "Model", "Batches")
"""Classes whose methods are shown with those of their bases."""
COMPLETED = {"Program": br.Program}
"""Classes that complete the names for users alone: the others are left out."""
DATA = {
    "Tensor": "Annotation of an input of a custom operator: an array.",
    "Indices": "Annotation of an input of a custom operator: an array of integers.",
    "Learned": "Annotation of an input of a custom operator: a parameter.",
    "Training": "Annotation of a flag of a custom operator.",
    "e": "Base of the natural logarithm.",
    "pi": "Ratio of the circumference of a circle to its diameter.",
    "inf": "Infinity.",
    "nan": "Not a number.",
    "dtypes.DType": "Type of a dtype: `numpy.dtype`.",
    "dtypes.Type": "Type of a variable: a `TensorType` or a `ListType`.",
    "init.Initializer": "Type of an initializer: a function of shape, dtype and name.",
    "passes.default": "The passes of an executor, in order.",
    "newaxis": "A new axis in an index, as in `x[:, br.newaxis]`.",
}


@dataclass(frozen=True)
class Page:
    """A page of the reference.

    Attributes:
        file: Its name without a suffix.
        title: Its heading.
        intro: Its first paragraphs.
        names: The names of `br` that it documents.
        results: Classes of results that have no name in `br`: `scope.variable.Variable`.
    """

    file: str
    title: str
    intro: tuple[str, ...]
    names: tuple[str, ...]
    results: tuple[str, ...]


def pages() -> list[Page]:
    """The pages of the table."""
    parts = TABLE.read_text(encoding="utf-8").strip().split("\n\n")
    return [_page(part.splitlines()) for part in parts]


def _page(lines: list[str]) -> Page:
    file, _, title = lines[0].removeprefix("# ").partition(": ")
    intro = tuple(line.removeprefix("> ") for line in lines if line.startswith(">"))
    words = (word for line in lines[1:] if line[0] not in ">+" for word in line.split())
    results = (word for line in lines if line[0] == "+" for word in line.split()[1:])
    names = (name for word in words for name in _expanded(word))
    return Page(file, title, intro, tuple(names), tuple(results))


def _expanded(word: str) -> Iterator[str]:
    """The names of a word; `linalg.*` is the whole namespace."""
    space, star, _ = word.partition(".*")
    yield from (f"{space}.{name}" for name in dir(getattr(br, space))) if star else (word,)


def directive(name: str) -> list[str]:
    """The lines that document a name."""
    value = attrgetter(name)(br)
    path = f"braces.{name}"
    if name in DATA:
        return [f".. py:data:: {path}", "", f"   {markdown_code(DATA[name])}", ""]
    if isinstance(value, np.dtype):
        return [f".. py:data:: {path}", "", f"   {markdown_code(described(value))}", ""]
    if not inspect.isclass(value):
        return [f".. autofunction:: {path}", ""]
    members = [f"   :members: {members_of(name)}"] if not issubclass(value, Exception) else []
    bases = ["   :inherited-members:"] if name in INHERITED else []
    return [f".. autoclass:: {path}", *members, *bases, ""]


def members_of(name: str) -> str:
    """The members of a class that autodoc shows; empty for all."""
    made = COMPLETED.get(name)
    names = dir(made()) if made else []
    return ", ".join(each for each in names if each[0] != "_" and hasattr(made, each))


def described(dtype: Any) -> str:
    """A sentence about a dtype."""
    return f"Dtype `{dtype}`, written `{br.dtypes.short_name(dtype)}` in programs."


def text(page: Page) -> str:
    """The source of a page."""
    intro = [line for part in page.intro for line in (markdown_code(part), "")]
    head = [page.title, "=" * len(page.title), "", *intro]
    lines = [*head, *(line for name in page.names for line in directive(name))]
    return "\n".join([*lines, *result_lines(page)])


def result_lines(page: Page) -> list[str]:
    """The section of the classes of results."""
    if not page.results:
        return []
    head = ["Results", "-------", "", RESULTS, ""]
    parts = (
        [f".. autoclass:: braces.{name}", "   :members:", "   :inherited-members: tuple", ""]
        for name in page.results
    )
    return [*head, *(line for part in parts for line in part)]


def result_classes() -> set[str]:
    """The full names of all classes of results."""
    return {f"braces.{name}" for page in pages() for name in page.results}


def hide_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: Any, returned: Any
) -> tuple[str, str] | None:
    """Leave out the signature of classes of results: users do not create them."""
    del app, obj, options, signature, returned
    return ("", "") if what == "class" and name in result_classes() else None


def markdown_code(line: str) -> str:
    """A line of the table in reStructuredText."""
    return line.replace("`", "``")


def index() -> str:
    """The source of the first page: a table of the pages with their names."""
    intro = "The functions and classes of ``braces``, by subject."
    lines = ["Reference", "=========", "", intro, ""]
    for page in pages():
        shown = {name: name for name in page.names}
        shown |= {name: name.rpartition(".")[2] for name in page.results}
        names = " · ".join(f":py:obj:`{s} <braces.{name}>`" for name, s in shown.items())
        lines += [f":doc:`{page.title} <{page.file}>`", f"   {names}", ""]
    lines += [
        f":doc:`{command_line.TITLE} <{command_line.FILE}>`",
        "   Commands of ``braces``",
        "",
    ]
    files = [*(page.file for page in pages()), command_line.FILE]
    toctree = [".. toctree::", "   :hidden:", "", *(f"   {file}" for file in files)]
    return "\n".join([*lines, *toctree, ""])


def write(app: Sphinx) -> None:
    """Write the pages that have changed, and remove those that are no longer in the table."""
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(exist_ok=True)
    texts = {f"{page.file}.rst": text(page) for page in pages()} | {"index.rst": index()}
    texts[f"{command_line.FILE}.rst"] = command_line.page()
    for file in folder.iterdir():
        if file.name not in texts:
            file.unlink()
    for name, wanted in texts.items():
        write_changed(folder / name, wanted)


def write_changed(file: Path, wanted: str) -> None:
    """Write a file, unless it has this text: unchanged pages are not built again."""
    if not file.exists() or file.read_text(encoding="utf-8") != wanted:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wanted, encoding="utf-8")


def add_aliases(app: Sphinx, env: Any) -> None:
    """Enter the second names of what has two, such as `br.NaNError`."""
    del app
    objects = env.domains["py"].objects
    for name, entry in list(objects.items()):
        space, _, short = name.removeprefix("braces.").rpartition(".")
        alias = f"braces.{short}"
        if space == "errors" and alias not in objects:
            objects[alias] = entry._replace(aliased=True)


def setup(app: Sphinx) -> None:
    """Write the pages before the build."""
    app.connect("builder-inited", write)
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("env-updated", add_aliases)
