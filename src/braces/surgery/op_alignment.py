"""Alignment of the operators of two blocks: by content first, then by type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from braces.ir.records import Attr, Body, Op

OpPair: TypeAlias = tuple[Op | None, Op | None]


def align_ops(left: Sequence[Op], right: Sequence[Op]) -> list[OpPair]:
    """Return pairs of corresponding operators in order, with `None` for a missing one.

    Operators that are equal in name, computation and operands are aligned first, then those
    of the same computation (type, attributes, number of inputs), and then those of one type.
    """
    return list(_align(left, right, (_line_key, content_key, _type_key)))


def _align(
    left: Sequence[Op], right: Sequence[Op], keys: Sequence[Callable[[Op], str]]
) -> Iterator[OpPair]:
    """Yield pairs aligned by the first key; the remaining keys align unmatched operators."""
    if not keys or not left or not right:
        yield from ((op, None) for op in left)
        yield from ((None, op) for op in right)
        return
    key, *remaining_keys = keys
    olds, news = [key(op) for op in left], [key(op) for op in right]
    for a, b, c, d, equal in _matching_ranges(olds, news):
        if equal:
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from _align(left[a:b], right[c:d], remaining_keys)


def _matching_ranges(
    olds: Sequence[str], news: Sequence[str]
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield ranges of both sequences, and whether they are equal; equal ends cost no search."""
    least, start, end = min(len(olds), len(news)), 0, 0
    while start < least and olds[start] == news[start]:
        start += 1
    while end < least - start and olds[-1 - end] == news[-1 - end]:
        end += 1
    yield 0, start, 0, start, True
    middle = olds[start : len(olds) - end], news[start : len(news) - end]
    for how, a, b, c, d in SequenceMatcher(None, *middle, False).get_opcodes():
        yield a + start, b + start, c + start, d + start, how == "equal"
    yield len(olds) - end, len(olds), len(news) - end, len(news), True


def content_key(op: Op) -> str:
    """Return the computation of an operator: type, attributes and number of inputs."""
    attrs = sorted((name, _attr_text(value)) for name, value in op.attrs.items())
    slots = sorted((slot, len(names)) for slot, names in op.inputs.items())
    return f"{op.type} {attrs} {slots}"


def _line_key(op: Op) -> str:
    inputs = sorted((slot, *names) for slot, names in op.inputs.items())
    return f"{op.name} {content_key(op)} {inputs}"


def _type_key(op: Op) -> str:
    return op.type


def _attr_text(value: Attr) -> str:
    if isinstance(value, Body):
        return "block"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_attr_text, value))}]"
    return f"{type(value).__name__} {value}"
