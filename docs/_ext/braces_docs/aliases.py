"""What the search finds beside the names of Braces: the terms of the field.

Each term is an object of its own, so a search for `Linear` lists `torch.nn.Linear`, which leads
to `br.fc`. Terms come from the equivalents of PyTorch and Keras, from the words of the pages of
the reference, and from `terms.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from sphinx.domains import Domain, ObjType

from braces_docs import reference
from braces_docs.terms import equivalent_names, terms, words

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TOP = "top"
"""The anchor of every page: browsers go to the top of it."""


class AliasDomain(Domain):
    """Terms of the field as objects that lead to pages and names."""

    name, label = "term", "Terms"
    object_types: ClassVar = {
        **{f"br.{name}": ObjType(f"br.{name}") for _, name in equivalent_names()},
        "topic": ObjType("topic"),
    }
    """The search shows the kind of an object: of `torch.nn.Linear` it is `br.fc`."""

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """All terms: name, shown name, kind, page, anchor, priority of the search."""
        objects = self.env.domains["py"].data["objects"]
        for theirs, name in equivalent_names():
            entry = objects.get(f"braces.{name}")
            if entry:
                yield theirs, theirs, f"br.{name}", entry.docname, entry.node_id, 0
        classes = {theirs.rpartition(".")[2] for theirs, _ in equivalent_names()}
        for page in reference.pages():
            for word in words(page):
                if word in classes:
                    continue
                yield word, word, "topic", f"{reference.FOLDER}/{page.file}", TOP, 1
        for term, page in terms():
            yield term, term, "topic", page, TOP, 0

    def get_type_name(self, type: ObjType, primary: bool = False) -> str:
        """The kind without the name of the domain."""
        return str(type.lname)

    def merge_domaindata(self, *given: object) -> None:
        """Nothing is stored."""

    def resolve_any_xref(self, *given: object) -> list[object]:
        """No text links to a term."""
        return []


def setup(app: Sphinx) -> None:
    """Add the domain."""
    app.add_domain(AliasDomain)
