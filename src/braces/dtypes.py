"""Dtypes and the types of variables, with their text forms.

    type   := tensor | "list<" tensor ">"
    tensor := dtype "[" (size ("," size)*)? "]"
    dtype  := "bool" | "i8" … "i64" | "u8" … "u64" | "f16" | "bf16" | "f32" | "f64" | "c64" |
    "c128" | "f8e4m3fn" | "f8e4m3fnuz" | "f8e5m2" | "f8e5m2fnuz" | "f8e8m0fnu" | "int2" |
    "int4" | "uint2" | "uint4" | "f4e2m1fn"

The dtypes from the first `f8` on are storage dtypes: arrays of them are moved and converted,
but not computed with. Numbers of less than 8 bits, which no machine addresses, take a byte
each, in files too; the integers among them have their full name, because NumPy's "i4" is int32.

A dtype is a `numpy.dtype`; users may write it as `"float32"`, `"f32"`, `numpy.float32`,
`float`, or a dtype.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast, overload

import ml_dtypes
import numpy as np

from braces.dims import Dim, NamedSize, Shape, Size, Unifier, parse_size, product
from braces.errors import DTypeError, FileFormatError, ShapeError

__all__ = [
    "DType", "ListType", "TensorType", "Type", "dtype_of", "is_float", "is_integer",
    "is_narrow", "is_stored", "parse_type", "short_name",
]  # fmt: skip

DType: TypeAlias = "np.dtype[Any]"

COMPUTED: dict[str, DType] = {
    "bool": np.dtype(np.bool_),
    **{f"i{8 * n}": np.dtype(f"int{8 * n}") for n in (1, 2, 4, 8)},
    **{f"u{8 * n}": np.dtype(f"uint{8 * n}") for n in (1, 2, 4, 8)},
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
ONE_BYTE: dict[str, DType] = {
    f"f8{kind}": np.dtype(getattr(ml_dtypes, f"float8_{kind}"))
    for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
}
NARROW: dict[str, DType] = {
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")},
    "f4e2m1fn": np.dtype(ml_dtypes.float4_e2m1fn),
}
"""Dtypes of less than 8 bits."""
STORED = ONE_BYTE | NARROW
SHORT_NAMES: dict[str, DType] = COMPUTED | STORED
_STORED = frozenset(STORED.values())
CARRIERS: dict[DType, DType] = {
    NARROW["int2"]: COMPUTED["i8"],
    NARROW["int4"]: COMPUTED["i8"],
    NARROW["uint2"]: COMPUTED["u8"],
    NARROW["uint4"]: COMPUTED["u8"],
    NARROW["f4e2m1fn"]: ONE_BYTE["f8e4m3fn"],
}
"""The carrier dtypes that replace dtypes of less than 8 bits in runs, and hold their numbers.
"""
_SHORT_OF = {dtype: name for name, dtype in SHORT_NAMES.items()}
_LONG_NAMES = {dtype.name: dtype for dtype in SHORT_NAMES.values()}
_PYTHON = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}

BOOL = SHORT_NAMES["bool"]
INT32 = SHORT_NAMES["i32"]
INT64 = SHORT_NAMES["i64"]
FLOAT32 = SHORT_NAMES["f32"]
FLOAT64 = SHORT_NAMES["f64"]
COMPLEX64 = SHORT_NAMES["c64"]
COMPLEX128 = SHORT_NAMES["c128"]


def dtype_of(value: object) -> DType:
    """Return the dtype that a user means.

    Raises:
        DTypeError: If the dtype is unknown.

    Example:
        >>> dtype_of("f32") == dtype_of("float32") == dtype_of(float)
        True
    """
    if isinstance(value, np.dtype) and value in _SHORT_OF:
        return cast("DType", value)
    if isinstance(value, type) and value in _PYTHON:
        return _LONG_NAMES[_PYTHON[value]]
    if isinstance(value, str) and (value in SHORT_NAMES or value in _LONG_NAMES):
        return SHORT_NAMES.get(value) or _LONG_NAMES[value]
    try:
        candidate = np.dtype(value)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except (TypeError, ValueError):
        candidate = None
    if candidate is None or candidate not in _SHORT_OF:
        raise DTypeError(
            f"unknown dtype {value!r}.", fix=f"Use one of {', '.join(_LONG_NAMES)}."
        )
    return candidate


def short_name(dtype: DType) -> str:
    """Return the short name of a dtype: `f32` for float32, and so on."""
    return _SHORT_OF[dtype]


def is_float(dtype: DType) -> bool:
    """Return whether gradients exist for this dtype: real floating point, or complex."""
    return (dtype.kind in "fc" and dtype.itemsize > 1) or dtype == SHORT_NAMES["bf16"]


def is_stored(dtype: DType) -> bool:
    """Return whether this is a storage dtype, which is not computed with."""
    return dtype in _STORED


def is_narrow(dtype: DType) -> bool:
    """Return whether numbers of this dtype have less than 8 bits."""
    return dtype in CARRIERS


def carrier_of(dtype: DType) -> DType:
    """Return the dtype that replaces another in runs; from 8 bits on, the same."""
    return CARRIERS.get(dtype, dtype)


def is_integer(dtype: DType) -> bool:
    """Return whether this is an integer dtype, signed or not."""
    return dtype.kind in "iu"


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of an array: dtype and shape.

    Example:
        >>> print(TensorType(FLOAT32, (Dim.named("b"), 4)))
        f32[b,4]
    """

    dtype: DType
    shape: Shape

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return str(self)

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        """Return the same dtype with another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        """Return the same shape with another dtype."""
        return TensorType(dtype, self.shape)

    def map_sizes(self, change: Callable[[Size], Size]) -> TensorType:
        """Return this type with each size replaced."""
        return TensorType(self.dtype, tuple(map(change, self.shape)))


@dataclass(frozen=True, slots=True)
class ListType:
    """The type of a list with a data-dependent length: the history of a loop."""

    element: TensorType

    def __str__(self) -> str:
        return f"list<{self.element}>"

    def __repr__(self) -> str:
        return str(self)

    def map_sizes(self, change: Callable[[Size], Size]) -> ListType:
        """Return this type with each size of its elements replaced."""
        return ListType(self.element.map_sizes(change))


Type: TypeAlias = "TensorType | ListType"
AxisNames: TypeAlias = "tuple[str | None, ...]"
"""For each axis its name, or `None`; empty if no axis has one."""
Extent: TypeAlias = "int | tuple[str, int]"
"""The size of an axis as users write it: a number, or a pair of a name and a number."""


def bytes_of(type_: Type) -> Size:
    """Return the bytes of an array; a list, whose length is data-dependent, counts as none.

    Example:
        >>> bytes_of(parse_type("f64[b,4]")), bytes_of(parse_type("list<f32[2]>"))
        (32*b, 0)
    """
    return 0 if isinstance(type_, ListType) else product((*type_.shape, type_.dtype.itemsize))


def known_bytes(type_: Type) -> int:
    """Return `bytes_of`, with unknown sizes counted as 1."""
    size_bytes = bytes_of(type_.map_sizes(lambda size: size if isinstance(size, int) else 1))
    assert isinstance(size_bytes, int)
    return size_bytes


LARGEST_ARRAY = (1 << 63) - 1
"""The limit of an address, in bytes; XLA aborts the process for larger arrays."""


def count_bytes(shape: Iterable[int], item_bytes: int) -> int:
    """Return the bytes of an array; axes of size 0 count as size 1."""
    return item_bytes * math.prod(max(size, 1) for size in shape)


def too_large(type_: Type) -> bool:
    """Return whether all sizes of a type are known, and no machine can hold such an array.

    Example:
        >>> size = 2**62
        >>> [too_large(parse_type(f"f32[{sizes}]")) for sizes in (size, f"b,{size}", 2**60)]
        [True, False, False]
    """
    tensor = type_.element if isinstance(type_, ListType) else type_
    size_bytes = tensor.dtype.itemsize
    for size in tensor.shape:
        if not isinstance(size, int):
            return False
        size_bytes *= size or 1
    return size_bytes > LARGEST_ARRAY


def unifies(left: Type, right: Type, unifier: Unifier) -> bool:
    """Return whether two types are the same; unnamed dimensions match anything."""
    if left == right:
        return True
    if isinstance(left, ListType) and isinstance(right, ListType):
        return unifies(left.element, right.element, unifier)
    if isinstance(left, ListType) or isinstance(right, ListType):
        return False
    return (
        left.dtype == right.dtype
        and left.rank == right.rank
        and all(
            unifier.unify(a, b) is not None
            for a, b in zip(left.shape, right.shape, strict=True)
        )
    )


_NAMED = re.compile(r"(?:([^=]+)=)?([^=]*)")
_TENSOR = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
HIGHEST_RANK = 32


def parse_type(text: str) -> Type:
    """Parse a type; the inverse of `str`.

    Raises:
        FileFormatError: If the text is an invalid type.

    Example:
        >>> parse_type("list<f32[2*b,4]>")
        list<f32[2*b,4]>
    """
    text = text.strip()
    if text.startswith("list<") and text.endswith(">"):
        return ListType(_parse_tensor(text[5:-1]))
    return _parse_tensor(text)


def _parse_tensor(text: str) -> TensorType:
    match = _TENSOR.fullmatch(text.strip())
    if match is None or match.group(1) not in SHORT_NAMES:
        raise FileFormatError(f"invalid type `{text[:80]}`.", fix="Write as `f32[b,4]`.")
    sizes = _split_sizes(match.group(2))
    if len(sizes) > HIGHEST_RANK:
        raise FileFormatError(f"rank {len(sizes)} exceeds the highest rank, {HIGHEST_RANK}.")
    return TensorType(SHORT_NAMES[match.group(1)], tuple(parse_size(size) for size in sizes))


def _split_sizes(text: str) -> list[str]:
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text.strip() else []


def named_text(type_: Type, names: AxisNames) -> str:
    """Return the text of a type with names of axes.

    Example:
        >>> named_text(parse_type("f32[b,16,32]"), (None, None, "mlp"))
        'f32[b,16,mlp=32]'
    """
    if not names or isinstance(type_, ListType):
        return str(type_)
    pairs = zip(names, type_.shape, strict=True)
    sizes = (f"{size}" if name is None else f"{name}={size}" for name, size in pairs)
    return f"{short_name(type_.dtype)}[{','.join(sizes)}]"


def without_names(text: str) -> tuple[str, AxisNames]:
    """Return the text of a type without the names of its axes; the inverse of `named_text`.

    Example:
        >>> without_names("f32[b,16,mlp=32]")
        ('f32[b,16,32]', (None, None, 'mlp'))
        >>> without_names("f32[b,16]")
        ('f32[b,16]', ())
    """
    match = _TENSOR.fullmatch(text)
    if match is None or "=" not in text:
        return text, ()
    sizes = [_NAMED.fullmatch(size) for size in _split_sizes(match.group(2))]
    if None in sizes:
        return text, ()
    pairs = [size.groups() for size in sizes if size]
    shown = ",".join(size for _, size in pairs)
    return f"{match.group(1)}[{shown}]", tuple(name for name, _ in pairs)


_NAME = re.compile(r"[A-Za-z_][\w.]*")


@overload
def named_size(size: Extent) -> int: ...


@overload
def named_size(size: Extent | None) -> int | None: ...


@overload
def named_size(size: object) -> Any: ...


def named_size(size: Any) -> Any:
    """Return a named size for a pair of name and number; others are returned unchanged.

    Raises:
        ShapeError: If the pair does not consist of a name and a number.

    Example:
        >>> named_size(("mlp", 32)).name, named_size(32)
        ('mlp', 32)
    """
    pair = cast("tuple[Any, ...]", size if isinstance(size, tuple) else ())
    if not (pair and isinstance(pair[0], str)):
        return cast("Any", size)
    counted = len(pair) == 2 and is_number(pair[1]) and pair[1] >= 0
    if not counted or not is_axis_name(pair[0]):
        raise ShapeError(
            f"invalid named size {pair!r:.80}; expected (name, integer).",
            fix='Write ("mlp", 32). A symbolic size is a name alone: "batch".',
        )
    return NamedSize.of(int(pair[1]), pair[0])


def is_number(value: object) -> bool:
    """Return whether this is an integer, of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_axis_name(value: object) -> bool:
    """Return whether this is a valid name of a size or an axis."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def size_of(value: object, fresh: Callable[[], Dim]) -> Size:
    """Return the size for a user's int, name, `None` or -1 for unnamed, or `Dim`."""
    if isinstance(value, Dim):
        return value
    if value is None or (isinstance(value, int | np.integer) and value == -1):
        return fresh()
    if isinstance(value, str):
        if not is_axis_name(value):
            raise ShapeError(
                f"invalid dimension name {value!r}.",
                fix="Use an identifier. A declared size cannot be an expression of others: "
                "for a size such as k - 1, declare `k` and slice the array, as x[1:].",
            )
        return Dim.named(value)
    if isinstance(value, np.integer):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ShapeError(
        f"invalid size {value!r} of an axis.",
        fix="Use an integer, a name for a symbolic dimension, a size of a shape, as "
        "x.shape[0], or None for an unnamed one.",
    )


def __dir__() -> list[str]:
    return sorted(__all__)
