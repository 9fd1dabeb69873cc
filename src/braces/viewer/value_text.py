"""Short texts of attributes and types; `braces.ir.text.printer` writes the exact ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import cast

import numpy as np

from braces.dtypes import short_name
from braces.ir.records import Attr, Body, Literal, Op
from braces.ir.text.printer import quoted

LONGEST = 2000
"""The length to which the text of an attribute is cut."""
MOST_NUMBERS = 8
_WORDS = {None: "none", True: "true", False: "false"}


def attribute_text(value: Attr) -> str:
    """Return the text of an attribute, with blocks as `{…}` and long texts cut.

    Example:
        >>> attribute_text((1, 2.5, "a", None))
        '[1, 2.5, "a", none]'
    """
    text = _format_attr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _format_attr(value: Attr) -> str:
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Body):
        return "{…}"
    if isinstance(value, Literal):
        return _literal(value)
    if isinstance(value, np.dtype):
        return short_name(value)
    if isinstance(value, tuple):
        values = cast("tuple[Attr, ...]", value)
        return f"[{', '.join(_format_attr(item) for item in values[:LONGEST])}]"
    return str(value)


def _literal(value: Literal) -> str:
    numbers = value.array().reshape(-1)
    first = ", ".join(str(number) for number in islice(numbers, MOST_NUMBERS))
    more = ", …" if numbers.size > MOST_NUMBERS else ""
    return f"{value} {{{first}{more}}}"


def plain_attrs(op: Op) -> Iterator[tuple[str, str]]:
    """Return name and text of the attributes that are not blocks."""
    bodies = {label.partition("[")[0] for label in op.bodies()}
    return (
        (name, attribute_text(value)) for name, value in op.attrs.items() if name not in bodies
    )
