"""Conversion of types between programs and JAX; symbolic sizes share one scope."""

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
from braces.errors import DTypeError, ShapeError
from braces.ir.records import Attr
from braces.ir.walk import dimensions
from braces.lazy import jax


def require_array(input_type: Type) -> TensorType:
    """Return the type of an array input; reject lists."""
    if not isinstance(input_type, TensorType):
        raise ShapeError(f"expected an array, got the list {input_type}.")
    return input_type


_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)
"""Format of a symbolic size name in JAX."""


class JaxTypeConverter:
    """Conversion between dimensions of Braces and of JAX, which are plain names in one scope.

    Args:
        types: The types with the dimensions.
        attrs: Attributes with dimensions.
        limits: Pairs of sizes with a known order: the first is at most the second.
    """

    def __init__(
        self,
        types: Iterable[Type],
        attrs: Mapping[str, Attr] | None = None,
        limits: Iterable[tuple[Size, Size]] = (),
    ) -> None:
        pairs = tuple(limits)
        names = symbolic_names({"": tuple(types)}, attrs or {}) | dimensions(pairs)
        words, self._others = _jax_names(sorted(names))
        self.there = {name: Dim.named(word) for name, word in words.items()}
        self.back: dict[str, Size] = {word: Dim.named(name) for name, word in words.items()}
        self.calls: dict[Call, Size] = {}
        known = [f"{self._text(a)} <= {self._text(b)}" for a, b in pairs]
        self.scope = jax.export.SymbolicScope(known) if names else None

    def _text(self, size: Size) -> str:
        return str(substitute(size, self.there, self.calls))

    def size(self, size: Size) -> Any:
        """Convert a size to JAX.

        JAX assumes that every dimension is at least 1, and would simplify `max(t - 1, 0)` to `t
        - 1`. A function of sizes that JAX would change is replaced by a name.
        """
        if isinstance(size, int):
            return size
        for call in calls_in(size):
            call_size = of_atom(call)
            if call not in self.calls and self._from_jax(self._to_jax(call_size)) != call_size:
                name = next(self._others)
                self.calls[call], self.back[name] = Dim.named(name), call_size
        return self._to_jax(size)

    def _to_jax(self, size: Size) -> Any:
        return jax.export.symbolic_shape(self._text(size), scope=self.scope)[0]

    def _from_jax(self, size: Any) -> Size:
        if isinstance(size, int):
            return size
        return substitute(parse_size(str(size)), self.back)

    def struct(self, input_type: Type) -> Any:
        """Convert a type to a `jax.ShapeDtypeStruct`."""
        array = require_array(input_type)
        return jax.ShapeDtypeStruct(tuple(map(self.size, array.shape)), array.dtype)

    def attr(self, value: Attr) -> Any:
        """Convert an attribute for kernels."""
        if isinstance(value, Dim):
            return self.size(value)
        return tuple(map(self.attr, value)) if isinstance(value, tuple) else value

    def type(self, struct: Any) -> TensorType:
        """Return the type of a JAX array or abstract array.

        Raises:
            DTypeError: If the dtype is one that a library defines for itself.
        """
        if not isinstance(struct.dtype, np.dtype | type):
            raise DTypeError(f"unsupported dtype {struct.dtype} of JAX.")
        return TensorType(np.dtype(struct.dtype), self.shape(struct.shape))

    def shape(self, sizes: Iterable[Any]) -> Shape:
        """Convert sizes of JAX."""
        return tuple(map(self._from_jax, sizes))


def _jax_names(names: Sequence[str]) -> tuple[dict[str, str], Iterator[str]]:
    """Return a JAX name for each name, the same if valid; and an iterator of new names."""
    plain = {name for name in names if _WORD.fullmatch(name) and name not in SIZE_FUNCTIONS}
    others = (word for i in count() if (word := f"d{i}") not in plain)
    return {name: name if name in plain else next(others) for name in names}, others


def symbolic_names(types: Types, attrs: Attrs) -> set[str]:
    """Return the names of symbolic dimensions."""
    sizes = (
        type_.shape
        for slot_types in types.values()
        for type_ in slot_types
        if isinstance(type_, TensorType)
    )
    return set[str]().union(*map(dimensions, sizes), *map(dimensions, attrs.values()))
