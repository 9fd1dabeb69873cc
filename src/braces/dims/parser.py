"""Parser of sizes."""

from __future__ import annotations

import functools
import re

from braces.dims.printer import DEEPEST_NESTING, HIGHEST_POWER, LARGEST_NUMBER, LONGEST_TEXT
from braces.dims.size import SIZE_FUNCTIONS, Dim, Size, Terms, call, product
from braces.errors import FileFormatError

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w.$]*|\?\d+)|([-+*^(),]))")


def parse_size(text: str) -> Size:
    """Read a size; the inverse of `str`.

    Raises:
        FileFormatError: If the text is not a size, or is too long.
        ShapeError: If the size divides by zero, or is too large.

    Example:
        >>> parse_size("2*b + 1") == 2 * Dim.named("b") + 1
        True
    """
    if len(text) > LONGEST_TEXT:
        raise FileFormatError(
            f"a size expression has {len(text)} characters; the limit is {LONGEST_TEXT}."
        )
    return _parse_cached(text)


@functools.lru_cache(maxsize=1024)
def _parse_cached(text: str) -> Size:
    """Parse a size; cached, because a program repeats few sizes at many variables."""
    reader = _Reader(text)
    size = reader.sum(0)
    if reader.peek() is not None:
        raise reader.error()
    return size


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, at = text, list[str](), 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error()
            self.tokens.append(match.group(match.lastindex or 0))
            at = match.end()
        self.at = 0

    def error(self) -> FileFormatError:
        return FileFormatError(
            f"invalid size expression `{self.text:.80}`.", fix="Write it like `2*b + 1`."
        )

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if token is None or (wanted is not None and token != wanted):
            raise self.error()
        self.at += 1
        return token

    def sum(self, depth: int) -> Size:
        if depth > DEEPEST_NESTING:
            raise self.error()
        total = Terms()
        negative = self.peek() == "-" and self.take() == "-"
        total.add(self.product(depth), -1 if negative else 1)
        while self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            total.add(self.product(depth), sign)
        return total.size()

    def product(self, depth: int) -> Size:
        total = self.power(depth)
        while self.peek() == "*":
            self.take()
            total = total * self.power(depth)
        return total

    def power(self, depth: int) -> Size:
        base = self.factor(depth)
        if self.peek() != "^":
            return base
        self.take()
        exponent = self.take()
        if not exponent.isdigit() or len(exponent) > 3 or int(exponent) > HIGHEST_POWER:
            raise self.error()
        return product((base,) * int(exponent))

    def factor(self, depth: int) -> Size:
        token = self.take()
        if token.isdigit():
            return self.number(token)
        if token == "(":
            inside = self.sum(depth + 1)
            self.take(")")
            return inside
        if token in "-+*^),":
            raise self.error()
        if self.peek() == "(" and token in SIZE_FUNCTIONS:
            return self.call(token, depth)
        return Dim.named(token)

    def number(self, token: str) -> int:
        if len(token) > len(str(LARGEST_NUMBER)):
            raise self.error()
        return int(token)

    def call(self, name: str, depth: int) -> Size:
        self.take("(")
        left = self.sum(depth + 1)
        self.take(",")
        right = self.sum(depth + 1)
        self.take(")")
        return call(name, left, right)
