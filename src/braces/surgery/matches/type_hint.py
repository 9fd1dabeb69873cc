"""Types in annotations of wildcards: `x: "f32[b,3,8,8]"`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from braces.dims import Dim, Size
from braces.dtypes import SHORT_NAMES, DType, TensorType, Type, parse_type

SAMPLE_SIZE = 8


@dataclass(frozen=True)
class TypeHint:
    """Dtype and shape that a wildcard requires.

    Attributes:
        dtype: The dtype; `None` for any.
        shape: The shape; `None` for any. A symbol matches any size, the same one everywhere.
    """

    dtype: DType | None = None
    shape: tuple[Size, ...] | None = None

    def sample(self, dtype: DType, rank: int) -> Type:
        """Return a type with this dtype and shape; otherwise with the given dtype and rank."""
        shape = (SAMPLE_SIZE,) * rank if self.shape is None else self.shape
        return TensorType(self.dtype or dtype, shape)

    def accepts(self, type_: Type, sizes: dict[Any, Size]) -> bool:
        """Return whether a type fits; symbols are bound in `sizes`."""
        if self.dtype is None:
            return True
        if not isinstance(type_, TensorType) or type_.dtype != self.dtype:
            return False
        if self.shape is None:
            return True
        return len(type_.shape) == len(self.shape) and all(
            sizes.setdefault(wanted, size) == size
            if isinstance(wanted, Dim)
            else wanted == size
            for wanted, size in zip(self.shape, type_.shape, strict=True)
        )

    def __str__(self) -> str:
        assert self.dtype is not None
        name = next(key for key, dtype in SHORT_NAMES.items() if dtype == self.dtype)
        shape = "..." if self.shape is None else ",".join(map(str, self.shape))
        return f"{name}[{shape}]"


def read_hint(annotation: Any) -> TypeHint:
    """Return the hint of an annotation; annotations other than types are no hints.

    Raises:
        BracesError: If the text begins like a type, and is malformed.

    Example:
        >>> print(read_hint("f32[b,3]"), read_hint("f16[...]"))
        f32[b,3] f16[...]
        >>> read_hint(int)
        TypeHint(dtype=None, shape=None)
    """
    text = annotation.strip("'\" ") if isinstance(annotation, str) else ""
    name = text.partition("[")[0]
    if "[" not in text or name not in SHORT_NAMES:
        return TypeHint()
    if text == f"{name}[...]":
        return TypeHint(SHORT_NAMES[name])
    type_ = parse_type(text)
    assert isinstance(type_, TensorType)
    return TypeHint(type_.dtype, type_.shape)


def fitting(hints: Sequence[TypeHint], types: Sequence[Type]) -> int | None:
    """Return the index of the first type that does not fit its hint; `None` if all fit."""
    sizes: dict[Any, Size] = {}
    pairs = zip(hints, types, strict=True)
    return next(
        (at for at, (hint, type_) in enumerate(pairs) if not hint.accepts(type_, sizes)), None
    )
