"""Parser of attribute values in the text form; `braces.ir.text.parser` has the grammar."""

from __future__ import annotations

import base64
import binascii
import json
import re
from abc import ABC, abstractmethod

from braces.dims import LONGEST_TEXT, Size
from braces.dtypes import SHORT_NAMES, AxisNames, DType, TensorType, Type, without_names
from braces.ir import limits
from braces.ir.records import Attr, Body, Literal
from braces.ir.text.printer import packed, part_shape, part_type
from braces.ir.text.tokens import Token, Tokens

_TYPE = re.compile(r"(?:list<)?\w+\[[^\]\n]*\]>?")
_WORDS: dict[str, Attr] = {
    "none": None,
    "true": True,
    "false": False,
    "nan": float("nan"),
    "inf": float("inf"),
}
_LONGEST_NUMBER = 400


class Values(Tokens, ABC):
    """Parser of values; subclasses parse blocks among them."""

    @abstractmethod
    def block(self, depth: int) -> Body:
        """Parse a block."""

    def type(self) -> Type:
        """Parse a type."""
        text, token = self._type_text()
        return self.checked(token, lambda: limits.readable_type(text))

    def named_type(self) -> tuple[Type, AxisNames]:
        """Parse a type whose axes may have names."""
        text, token = self._type_text()
        plain, names = without_names(text)
        type_ = self.checked(token, lambda: limits.readable_type(plain))
        return type_, self.checked(token, lambda: limits.readable_axes(type_, names))

    def _type_text(self) -> tuple[str, Token]:
        match, token = self.match(_TYPE)
        if match is None:
            raise self.missing("a type, as `f32[b,4]`,")
        return match.group(), token

    def value(self, depth: int) -> Attr:
        """Parse any value; `depth` is its nesting depth."""
        token = self.peek()
        if token.text == "(":
            return self.block(depth + 1)
        if token.text == "[":
            return self.tuple(depth + 1)
        if token.kind == "string":
            return self.checked(self.next(), lambda: string_of(token.text))
        if token.kind == "number":
            return self.checked(self.next(), lambda: _number(token.text))
        return self.word()

    def tuple(self, depth: int) -> tuple[Attr, ...]:
        """Parse values between brackets."""
        if depth > limits.DEEPEST_NESTING:
            raise self.missing(f"at most {limits.DEEPEST_NESTING} levels of nesting")
        items: list[Attr] = []
        self.take("[")
        self.several("]", lambda: items.append(self.value(depth)))
        return tuple(items)

    def word(self) -> Attr:
        """Parse a value that begins with a word."""
        token = self.peek()
        if token.text in SHORT_NAMES:
            after = self.text[token.end : token.end + 1]
            return self.literal() if after == "[" else SHORT_NAMES[self.next().text]
        if token.text in _WORDS:
            return _WORDS[self.next().text]
        if token.text == "size" and self.peek(1).text == "(":
            return self.size()
        fix = "Put strings in double quotes." if token.kind == "name" else None
        raise self.error(f"expected a value, got {token}.", token, fix)

    def size(self) -> Size:
        """Parse the expression between the parentheses of `size(…)`."""
        token = self.next()
        start = end = self.take("(").end
        depth = 1
        while depth and end < min(len(self.text), start + LONGEST_TEXT + 1):
            depth += (self.text[end] == "(") - (self.text[end] == ")")
            end += 1
        self.jump(end)
        return self.checked(token, lambda: limits.readable_size(self.text[start : end - 1]))

    def literal(self) -> Literal:
        """Parse an array constant, its type first."""
        token = self.peek()
        type_ = self.type()
        if not isinstance(type_, TensorType) or not all(
            isinstance(n, int) for n in type_.shape
        ):
            raise self.error("an array constant needs a shape without symbols.", token)
        shape = tuple(size for size in type_.shape if isinstance(size, int))
        data = self.array_data(type_.dtype, shape)
        return self.checked(token, lambda: limits.checked_literal(type_.dtype, shape, data))

    def array_data(self, dtype: DType, shape: tuple[int, ...]) -> bytes:
        """Parse the numbers of an array constant, written out or as base64."""
        token = self.peek()
        if token.kind == "string":
            return self.checked(self.next(), lambda: bytes_of(token.text))
        numbers: list[float] = []
        self.numbers(numbers, dtype, part_shape(dtype, shape))
        return self.checked(token, lambda: packed(dtype, numbers))

    def numbers(self, into: list[float], dtype: DType, shape: tuple[int, ...]) -> None:
        """Parse nested brackets of numbers according to a shape."""
        if not shape:
            token = self.next()
            into.append(self.checked(token, lambda: _element(token.text, dtype)))
            return
        self.take("[")
        for index in range(shape[0]):
            if index:
                self.take(",")
            self.numbers(into, dtype, shape[1:])
        self.took(",")
        self.take("]")


def string_of(token: str) -> str:
    """Return the text of a string token."""
    text: str = json.loads(token)
    text.encode()  # refuses lone surrogates, which have no stored form
    return text


def _number(text: str) -> float:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("the number is too long")
    if not text.lstrip("-").isdigit():
        return float(text)
    if not -limits.LARGEST_INT - 1 <= int(text) <= limits.LARGEST_NATURAL:
        raise ValueError("integer out of range of 64 bits")
    return int(text)


def _element(text: str, dtype: DType) -> float:
    """Parse a number in an array constant."""
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("the number is too long")
    kind = part_type(dtype).kind
    if kind == "b" and text not in ("true", "false"):
        raise ValueError("expected true or false")
    if kind == "b":
        return text == "true"
    return int(text) if kind in "iu" else float(text)


def bytes_of(token: str) -> bytes:
    """Return the bytes of a string token that holds base64."""
    try:
        return base64.b64decode(json.loads(token), validate=True)
    except binascii.Error:
        raise ValueError("invalid base64") from None
