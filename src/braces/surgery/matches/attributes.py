"""Comparison of attributes between an operator of a pattern and one of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from braces.builder.symbol_table import SymbolTable
from braces.define.decorator import OPS, AttrSpec
from braces.dtypes import TensorType
from braces.ir.records import Attr, Literal, Op
from braces.surgery.matches.pattern import MOST_SAMPLES

IGNORED_ROLES = frozenset({"Salt", "History", "Capacity", "Roomy"})
"""Roles of attributes that distinguish operators of one meaning."""
CLOSE = 1e-5
"""Relative tolerance of scalar constants: files of other systems round them."""


def different_attribute(like: Op, op: Op, table: SymbolTable) -> str | None:
    """Describe the first attribute of an operator that differs from the pattern's."""
    for spec in OPS.get(like.type).attrs:
        if spec.role in IGNORED_ROLES:
            continue
        wanted, value = _value(spec, like), _value(spec, op)
        if value is wanted or value == wanted or _same(spec, value, wanted, op, table):
            continue
        return f"`{op.name}` has {spec.name}={_text(value)}, not {_text(wanted)}"
    return None


def _value(spec: AttrSpec, op: Op) -> Any:
    return op.attrs.get(spec.name, None if spec.required else spec.default)


def _same(spec: AttrSpec, value: Any, wanted: Any, op: Op, table: SymbolTable) -> bool:
    if isinstance(value, Literal) and isinstance(wanted, Literal):
        return _same_number(value, wanted)
    normalize = NORMALIZED.get(spec.kind.removesuffix(" | None"))
    if normalize is None:
        return False
    rank = _rank(op, table)
    return normalize(value, rank) == normalize(wanted, rank)


def _same_number(value: Literal, wanted: Literal) -> bool:
    """Return whether two scalars have the same value, up to the rounding of a float."""
    left, right = value.array(), wanted.array()
    if left.size != 1 or right.size != 1 or left.dtype.kind != right.dtype.kind:
        return False
    if left.dtype.kind not in "fc":
        return bool(left.item() == right.item())
    return bool(np.isclose(left.item(), right.item(), rtol=CLOSE, atol=0.0))


def _rank(op: Op, table: SymbolTable) -> int:
    """Return the rank that axes of an operator count in: the first input's or the output's."""
    names = [*islice(op.reads(), 1), *islice(op.binds(), 1)]
    types = map(table.type_of, names)
    return max((len(t.shape) for t in types if isinstance(t, TensorType)), default=0)


def _axis(value: Any, rank: int) -> Any:
    return value % rank if isinstance(value, int) and -rank <= value < rank else value


def _axes(value: Any, rank: int) -> Any:
    if value is None:
        return None
    axes: Sequence[Any] = (value,) if isinstance(value, int) else value
    return sorted((_axis(axis, rank) for axis in axes), key=repr)


def _order(value: Any, rank: int) -> Any:
    axes: Sequence[Any] = range(rank)[::-1] if value is None else value
    return [_axis(axis, rank) for axis in axes]


NORMALIZED: dict[str, Callable[[Any, int], Any]] = {
    "Axis": _axis,
    "Axes": _axes,
    "Order": _order,
}
"""Normal forms of attributes that count axes, by their kinds."""


def _text(value: Attr) -> str:
    if isinstance(value, Literal):
        array = value.array()
        return f"{array.item()!r}" if array.size == 1 else str(value)
    return f"{value}"


def wildcard_values(names: Sequence[str], ops: Sequence[Op]) -> Iterator[dict[str, Any]]:
    """Yield candidates for attribute wildcards: values of the operators that matched.

    Values of attributes with the name of the wildcard are tried alone, if there are any.
    """
    candidates = [_candidates(name, ops) for name in names]
    for values in islice(product(*candidates), MOST_SAMPLES):
        yield dict(zip(names, values, strict=True))


def _candidates(name: str, ops: Sequence[Op]) -> list[Any]:
    named = [op.attrs[name] for op in ops if name in op.attrs]
    values = named or [value for op in ops for value in op.attrs.values()]
    arrays = (value.array() if isinstance(value, Literal) else value for value in values)
    plain = [v.item() if isinstance(v, np.ndarray) and not v.shape else v for v in arrays]
    return list({repr(value): value for value in plain}.values())
