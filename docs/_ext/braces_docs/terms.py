"""The terms of the field, and where they lead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from braces_docs import equivalents, reference

LIST = Path(__file__).with_suffix(".txt")
MODULES = {"PyTorch": "torch", "Keras": "keras"}


def equivalent_names() -> Iterator[tuple[str, str]]:
    """Each class of PyTorch and Keras with the name of `br` to which it leads."""
    for name, libraries in equivalents.equivalents().items():
        for library, theirs in libraries.items():
            yield from ((f"{MODULES[library]}.{their}", name) for their in theirs)


def words(page: reference.Page) -> Iterator[str]:
    """The words of other libraries in the introduction of a page of the reference."""
    _, _, listed = page.intro[-1].rstrip(".").partition(": ")
    yield from (word.strip("`") for word in re.split(r",\s+", listed))


@cache
def terms() -> tuple[tuple[str, str], ...]:
    """Each term of the list with its page."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    split = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return tuple((term, page) for page, _, listed in split for term in listed.split(", "))
