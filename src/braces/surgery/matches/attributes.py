"""Comparison of attributes between an operator of a pattern and one of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from braces.define.decorator import OPS, AttrSpec
from braces.dims import Dim, Size
from braces.dims.substitution import substitute
from braces.dtypes import TensorType
from braces.ir.records import Attr, Literal, Op
from braces.ir.walk import dimensions
from braces.surgery.matches.levels import Level
from braces.surgery.matches.pattern import MOST_SAMPLES

IGNORED_ROLES = frozenset({"Salt", "History", "Capacity", "Roomy"})
"""Roles of attributes that distinguish operators of one meaning."""
CLOSE = 1e-5
"""Relative tolerance of scalar constants: files of other systems round them."""


@dataclass(frozen=True)
class SizeMatch:
    """Comparison of sizes, some of which exist only within the pattern.

        true_rows_0: the batch elements of a case, in the pattern      true_rows_7: here

    Attributes:
        known: Names of sizes of the wildcards, which are the same in pattern and program.
        found: Sizes of the program by names of sizes of the pattern; extended.
    """

    known: Collection[str]
    found: dict[str, Size]

    def agree(self, wanted: Attr, value: Attr) -> bool:
        """Return whether two attributes are equal up to data-dependent sizes."""
        if isinstance(wanted, tuple) and isinstance(value, tuple):
            return len(wanted) == len(value) and all(map(self.agree, wanted, value))
        if not isinstance(wanted, Dim):
            return bool(wanted == value)
        name = wanted.name
        if name and name not in self.known and isinstance(value, int | Dim):
            return self.found.setdefault(name, value) == value
        return substitute(wanted, self.found) == value


def different_attribute(like: Op, op: Op, level: Level, sizes: SizeMatch) -> str | None:
    """Describe the first attribute of an operator that differs from the pattern's."""
    for spec in OPS.get(like.type).attrs:
        if spec.role in IGNORED_ROLES or spec.holds_blocks:
            continue
        wanted, value = _value(spec, like), _value(spec, op)
        if not dimensions(wanted) and (value is wanted or value == wanted):
            continue
        if _same(spec, value, wanted, op, level) or sizes.agree(wanted, value):
            continue
        return f"`{op.name}` has {spec.name}={_text(value)}, not {_text(wanted)}"
    return None


def _value(spec: AttrSpec, op: Op) -> Any:
    return op.attrs.get(spec.name, None if spec.required else spec.default)


def _same(spec: AttrSpec, value: Any, wanted: Any, op: Op, level: Level) -> bool:
    if isinstance(value, Literal) and isinstance(wanted, Literal):
        return _same_number(value, wanted)
    normalize = NORMALIZED.get(spec.kind.removesuffix(" | None"))
    if normalize is None:
        return False
    rank = _rank(op, level)
    return normalize(value, rank) == normalize(wanted, rank)


def _same_number(value: Literal, wanted: Literal) -> bool:
    """Return whether two scalars have the same value, up to the rounding of a float."""
    left, right = value.array(), wanted.array()
    if left.size != 1 or right.size != 1 or left.dtype.kind != right.dtype.kind:
        return False
    if left.dtype.kind not in "fc":
        return bool(left.item() == right.item())
    return bool(np.isclose(left.item(), right.item(), rtol=CLOSE, atol=0.0))


def _rank(op: Op, level: Level) -> int:
    """Return the rank that axes of an operator count in: the first input's or the output's."""
    names = [*islice(op.reads(), 1), *islice(op.binds(), 1)]
    types = map(level.type_of, names)
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
