"""Sections `Args:` of docstrings from descriptions that functions share."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def describe_arguments(
    shared: Mapping[str, str], **texts: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: its docstring gets the section `Args:`.

    Args:
        shared: Descriptions by argument that functions have in common.
        texts: Descriptions of its other arguments, and of those with another meaning.
    """

    def describe(function: Callable[P, R]) -> Callable[P, R]:
        function.__doc__ = with_arguments(function, {**shared, **texts})
        return function

    return describe


def with_arguments(function: Callable[..., object], texts: Mapping[str, str]) -> str:
    """Return the docstring of a function with a section of its arguments."""
    parameters = inspect.signature(function).parameters
    section = "\n".join(_argument_lines(name, texts[name]) for name in parameters)
    doc = inspect.getdoc(function) or ""
    head = re.split(r"\n\n(?=(?:Returns|Raises|Example):)", doc, maxsplit=1)[0]
    return f"{head}\n\nArgs:\n{section}{doc[len(head) :]}"


def _argument_lines(name: str, text: str) -> str:
    return textwrap.fill(
        f"{name}: {text}", 92, initial_indent=" " * 4, subsequent_indent=" " * 8
    )
