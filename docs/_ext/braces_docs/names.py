"""Links: `br.softmax(x)` in a text leads to the reference, and files to their pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes

from braces_docs.files import SITE
from braces_docs.reference import result_classes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

CLASSES = {"exe": "Executor", "prog": "Program", "scope": "Scope"}
OWNERS = {"br": "braces"} | {name: f"braces.{owner}" for name, owner in CLASSES.items()}
LINK = {"refdomain": "py", "reftype": "obj", "refexplicit": True, "refwarn": False}
_NAME = re.compile(r"@?(br|exe|prog|scope)((?:\.[A-Za-z]\w*)+)(?:\(.*)?", re.DOTALL)


def target(text: str) -> str | None:
    """The full name of the object of a piece of code: `br.sum(x)` is `braces.sum`."""
    found = _NAME.fullmatch(text)
    return f"{OWNERS[found[1]]}{found[2]}" if found else None


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make names of Braces links, outside of links and headings."""
    del app
    for literal in list(doctree.findall(nodes.literal)):
        name = target(literal.astext())
        if name and not inside(literal, (nodes.reference, nodes.title, addnodes.pending_xref)):
            literal["classes"] += ["py", "py-obj"]
            link = addnodes.pending_xref("", reftarget=name, **LINK)
            literal.replace_self(link)
            link += literal


def inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    """Whether a node is below one of these kinds."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def shorten_names(app: Sphinx, doctree: nodes.document) -> None:
    """Write `br.` in place of `braces.` in headings, and no module of classes of results."""
    del app
    internal = {f"{name.rpartition('.')[0]}." for name in result_classes()}
    for node in doctree.findall(addnodes.desc_addname):
        text = node.astext()
        if text in internal:
            node.children = []
        elif text.startswith("braces."):
            node.children = [nodes.Text(text.replace("braces.", "br.", 1))]


def resolve_sources(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Write links to pages of source files relative to the page."""
    del app
    for link in doctree.findall(nodes.reference):
        if link.get("refuri", "").startswith(SITE):
            link["refuri"] = "../" * docname.count("/") + link["refuri"].removeprefix(SITE)


def setup(app: Sphinx) -> None:
    """Change each page after it was read."""
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", shorten_names)
    app.connect("doctree-resolved", resolve_sources)
