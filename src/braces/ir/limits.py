"""Limits of untrusted programs, checked before records are built.

Both readers, of bytes and of text, run these checks. So no file can create a program that the
other form could not hold, or allocate more memory than its own length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from braces.dims import LARGEST_NUMBER, SIZE_FUNCTIONS, Size, parse_size
from braces.dtypes import (
    HIGHEST_RANK,
    LARGEST_ARRAY,
    AxisNames,
    DType,
    TensorType,
    Type,
    count_bytes,
    is_axis_name,
    parse_type,
)
from braces.errors import BracesError, FileFormatError, ProgramError, ShapeError
from braces.ir.names import LONGEST_NAME, check_name
from braces.ir.records import Attr, Body, Literal, Op, VarInfo

DEEPEST_NESTING = 24
"""Nesting depth of blocks and tuples; protobuf's own limit is a few levels higher."""
LARGEST_FILE = 1 << 28
"""Bytes; larger arrays must be parameters, which are stored beside a program."""
LARGEST_INT = LARGEST_NUMBER
LARGEST_NATURAL = 2 * LARGEST_INT + 1
"""Largest unsigned 64-bit integer."""
LARGEST_UNKNOWN = 1 << 20
"""Bytes of fields of a later schema, in one record."""

NESTING = (Body, tuple)

T = TypeVar("T")

_MODULE = re.compile(r"[\w./<>() -]{1,200}")
_GROUP = re.compile(r"(?<![\w.$])(\w*)\(")


def check_depth(depth: int, error: type[FileFormatError | ProgramError]) -> None:
    """Refuse blocks and tuples that nest too deep."""
    if depth > DEEPEST_NESTING:
        raise error(
            f"blocks and tuples are nested deeper than {DEEPEST_NESTING} levels.",
            fix="Move operators out of inner blocks; a branch counts as two levels.",
        )


def check_nesting(ops: Iterable[Op]) -> None:
    """Refuse operators whose blocks and tuples nest deeper than a file can hold.

    All recursion over blocks relies on it: new operators are checked here.

    Raises:
        ProgramError: If the nesting exceeds the limit.
    """
    pending: list[tuple[Body | tuple[Attr, ...], int]] = []
    for op in ops:
        for value in op.attrs.values():
            if isinstance(value, NESTING):
                pending.append((value, 1))
    while pending:
        value, depth = pending.pop()
        if depth > DEEPEST_NESTING:
            check_depth(depth, ProgramError)
        inside: Iterable[Attr] = value if isinstance(value, tuple) else _attributes(value)
        for item in inside:
            if isinstance(item, NESTING):
                pending.append((item, depth + 1))


def _attributes(body: Body) -> Iterator[Attr]:
    """Yield the attributes of all operators of a block."""
    return (value for op in body.ops for value in op.attrs.values())


def readable_name(name: str) -> str:
    """Return `name` if it is valid for a variable, operator, slot or attribute."""
    try:
        return check_name(name)
    except BracesError as error:
        raise FileFormatError(error.what, fix=error.fix) from None


def readable_module(text: str) -> str:
    """Return `text` if it is valid for a module or the file of a script."""
    if not _MODULE.fullmatch(text):
        raise FileFormatError(f"invalid module name {text!r:.80}.")
    return text


def readable_size(text: str) -> Size:
    """Parse a size from the form that `str` writes."""
    _check_expressions(text)
    try:
        return axis_size(parse_size(text))
    except ShapeError as error:
        raise FileFormatError(error.what) from None


def readable_type(text: str) -> Type:
    """Parse a type from the form that `str` writes."""
    _check_expressions(text)
    try:
        return parse_type(text).map_sizes(axis_size)
    except ShapeError as error:
        raise FileFormatError(error.what) from None


def are_axes(type_: Type, names: AxisNames) -> bool:
    """Return whether these are valid axis names of a type; see `VarInfo`."""
    try:
        return readable_axes(type_, names) == names
    except FileFormatError:
        return False


def readable_axes(type_: Type, names: AxisNames) -> AxisNames:
    """Return the axis names of a type, if only axes with numbers have names."""
    if not any(names):
        return ()
    shape = type_.shape if isinstance(type_, TensorType) else ()
    if len(names) != len(shape):
        raise FileFormatError(
            f"expected {len(shape)} axis names for {type_}, got {names!r:.80}."
        )
    for name, size in zip(names, shape, strict=True):
        if name and not (is_axis_name(name) and len(name) <= LONGEST_NAME):
            raise FileFormatError(f"invalid axis name {name!r:.80}.")
        if name and not isinstance(size, int):
            raise FileFormatError(
                f"cannot name the symbolic axis {name!r:.80}.",
                fix="Name only axes with a number; a symbolic size is a name.",
            )
    return tuple(name or None for name in names)


def _check_expressions(text: str) -> None:
    """Refuse sums in parentheses: `str` never writes them, and their powers are unbounded."""
    groups = _GROUP.findall(text)
    if any(name not in SIZE_FUNCTIONS for name in groups):
        raise FileFormatError(
            f"invalid dimension `{text:.80}`.", fix="Write it like `2*b + 1`."
        )


def axis_size(size: Size) -> Size:
    """Return `size` if it is valid for an axis: symbolic, or an integer from 0 to 2^63 - 1."""
    if isinstance(size, int) and not 0 <= size <= LARGEST_INT:
        raise FileFormatError(f"axis size {size} is out of range.")
    return size


def readable_rank(rank: int) -> int:
    """Return `rank` if an array may have so many axes."""
    if rank > HIGHEST_RANK:
        raise FileFormatError(f"rank {rank} is out of range; expected at most {HIGHEST_RANK}.")
    return rank


def checked_literal(dtype: DType, shape: tuple[int, ...], data: bytes) -> Literal:
    """Return an array constant after checking the length of its data."""
    readable_rank(len(shape))
    for size in shape:
        axis_size(size)
    if count_bytes(shape, dtype.itemsize) > LARGEST_ARRAY:
        raise FileFormatError(f"an array of shape {list(shape)} is too large.")
    count = math.prod(shape)
    if count * dtype.itemsize != len(data):
        raise FileFormatError(
            f"expected {count * dtype.itemsize} bytes for an array constant of "
            f"{dtype.name}{list(shape)}, got {len(data)}.",
        )
    if dtype.kind == "b" and data.strip(b"\0\1"):
        raise FileFormatError("invalid bytes in an array constant of bool: expected 0 and 1.")
    return Literal(dtype, shape, data)


def reachable(value: Attr) -> Attr:
    """Return `value` if `Op.bodies` finds all blocks in it: itself, or elements of a tuple."""
    if isinstance(value, tuple) and any(
        isinstance(item, tuple) and _owns_blocks(item) for item in value
    ):
        raise FileFormatError(
            "unsupported block in a nested tuple.",
            fix="Use a block, or a tuple of blocks, as attribute.",
        )
    return value


def _owns_blocks(values: tuple[Attr, ...]) -> bool:
    return any(
        isinstance(v, Body) or (isinstance(v, tuple) and _owns_blocks(v)) for v in values
    )


def unique_items(pairs: Iterable[tuple[str, T]], what: str) -> dict[str, T]:
    """Return a dictionary; a duplicate key, or one that is no name, is an error."""
    items: dict[str, T] = {}
    for name, value in pairs:
        if readable_name(name) in items:
            raise FileFormatError(f"duplicate name `{name}` among {what}.")
        items[name] = value
    return items


def checked_body(
    params: Iterable[str],
    results: Iterable[str],
    infos: Iterable[VarInfo],
    ops: Iterable[Op],
    unknown: bytes,
) -> Body:
    """Return a block, if all names are valid and unique among variables and operators."""
    variables = unique_items(((info.name, info) for info in infos), "variables of a block")
    operators = unique_items(((op.name, op) for op in ops), "operators of a block")
    names = readable_names(params), readable_names(results)
    return Body(*names, variables, tuple(operators.values()), unknown)


def readable_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return `names` if each of them is valid."""
    return tuple(readable_name(name) for name in names)
