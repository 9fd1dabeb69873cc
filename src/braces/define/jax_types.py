"""Types between programs and JAX, whose symbolic sizes are words of one scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from braces.define.decorator import Attrs, Types
from braces.dims import (
    SIZE_FUNCTIONS,
    Call,
    Dim,
    Shape,
    Size,
    calls_in,
    of_atom,
    parse_size,
    substitute,
)
from braces.dtypes import TensorType, Type
from braces.errors import ShapeError
from braces.ir.records import Attr
from braces.ir.walk import dimensions
from braces.lazy import jax


def array_of(given: Type) -> TensorType:
    """The type of an input, which is no list."""
    if not isinstance(given, TensorType):
        raise ShapeError(f"A list ({given}) cannot be an input here.")
    return given


_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)
"""What JAX takes as the name of a size."""


class Translation:
    """Between our dimensions and JAX's, which are plain words of one scope.

    Args:
        types: The types whose dimensions they are.
        attrs: Attributes with dimensions.
        limits: Pairs of sizes of which the first is known not to be larger.
    """

    def __init__(
        self,
        types: Iterable[Type],
        attrs: Mapping[str, Attr] | None = None,
        limits: Iterable[tuple[Size, Size]] = (),
    ) -> None:
        pairs = tuple(limits)
        names = names_in({"": tuple(types)}, attrs or {}) | dimensions(pairs)
        words, self._others = _words(sorted(names))
        self.there = {name: Dim.named(word) for name, word in words.items()}
        self.back: dict[str, Size] = {word: Dim.named(name) for name, word in words.items()}
        self.calls: dict[Call, Size] = {}
        known = [f"{self._text(a)} <= {self._text(b)}" for a, b in pairs]
        self.scope = jax.export.SymbolicScope(known) if names else None

    def _text(self, size: Size) -> str:
        return str(substitute(size, self.there, self.calls))

    def size(self, size: Size) -> Any:
        """A size as JAX has it.

        JAX takes every dimension for 1 or more, and would read `max(t - 1, 0)` as `t - 1`. A
        function of sizes that JAX would change is a word instead.
        """
        if isinstance(size, int):
            return size
        for call in calls_in(size):
            whole = of_atom(call)
            if call not in self.calls and self._ours(self._theirs(whole)) != whole:
                word = next(self._others)
                self.calls[call], self.back[word] = Dim.named(word), whole
        return self._theirs(size)

    def _theirs(self, size: Size) -> Any:
        return jax.export.symbolic_shape(self._text(size), scope=self.scope)[0]

    def _ours(self, size: Any) -> Size:
        if isinstance(size, int):
            return size
        return substitute(parse_size(str(size)), self.back)

    def struct(self, given: Type) -> Any:
        """A type as JAX has it."""
        array = array_of(given)
        return jax.ShapeDtypeStruct(tuple(map(self.size, array.shape)), array.dtype)

    def attr(self, value: Attr) -> Any:
        """An attribute as kernels have it."""
        if isinstance(value, Dim):
            return self.size(value)
        return tuple(map(self.attr, value)) if isinstance(value, tuple) else value

    def type(self, struct: Any) -> TensorType:
        """The type of what JAX has, an array or what is known of one."""
        return TensorType(np.dtype(struct.dtype), self.shape(struct.shape))

    def shape(self, sizes: Iterable[Any]) -> Shape:
        """Sizes of JAX as ours."""
        return tuple(map(self._ours, sizes))


def _words(names: Sequence[str]) -> tuple[dict[str, str], Iterator[str]]:
    """A word of JAX for each name, the name itself where it is one; and further words."""
    plain = {name for name in names if _WORD.fullmatch(name) and name not in SIZE_FUNCTIONS}
    others = (word for i in count() if (word := f"d{i}") not in plain)
    return {name: name if name in plain else next(others) for name in names}, others


def names_in(types: Types, attrs: Attrs) -> set[str]:
    """The names of the symbolic dimensions."""
    sizes = (
        one.shape for given in types.values() for one in given if isinstance(one, TensorType)
    )
    return set[str]().union(*map(dimensions, sizes), *map(dimensions, attrs.values()))
