"""Assume that symbolic sizes are equal where a model needs them to be, and check it per run.

A net that halves an image five times, doubles it again and adds both is valid only if the
height is a multiple of 32. The model does not declare this constraint. The reader therefore
assumes that both sizes are equal, and each run checks the assumption before it computes
(`br.ensure_shape`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import Dim, Size


def unify_sizes(xs: Sequence[Var]) -> list[Var]:
    """Unify the sizes of operands of an elementwise operator, for axes longer than 1.

    A symbolic size is never broadcast: it equals the size that it is paired with.
    """
    rank = max((x.ndim for x in xs), default=0)
    target = list[Size]()
    for at in range(rank, 0, -1):
        axis_sizes = [x.shape[-at] for x in xs if x.ndim >= at]
        target.append(_representative([size for size in axis_sizes if size != 1]))
    return [_assert_sizes(x, _broadcast_sizes(x, target[rank - x.ndim :])) for x in xs]


def unify_concat_sizes(xs: Sequence[Var], axis: int) -> list[Var]:
    """Unify the sizes of operands of a concatenation, along all axes but `axis`."""
    if len({x.ndim for x in xs}) > 1:
        return list(xs)
    target = [
        _representative(axis_sizes) for axis_sizes in zip(*(x.shape for x in xs), strict=True)
    ]
    return [_assert_sizes(x, [*target[:axis], x.shape[axis], *target[axis + 1 :]]) for x in xs]


def unify_weight_sizes(x: Var, sizes: Mapping[int, Size]) -> Var:
    """Unify the sizes of an array with the known sizes of weights along the given axes."""
    target = list(x.shape)
    for axis, size in sizes.items():
        if isinstance(size, int) and -x.ndim <= axis < x.ndim:
            target[axis] = size
    return _assert_sizes(x, target)


def _representative(equal_sizes: Sequence[Size]) -> Size:
    """Return the representative of equal sizes: a number, or the shortest expression."""
    numbers = (size for size in equal_sizes if isinstance(size, int))
    return next(numbers, min(equal_sizes, key=lambda size: len(str(size)), default=1))


def _broadcast_sizes(x: Var, target: Sequence[Size]) -> list[Size]:
    return [1 if size == 1 else want for size, want in zip(x.shape, target, strict=True)]


def _assert_sizes(x: Var, asserted: Sequence[Size]) -> Var:
    """Assert that the symbolic sizes of an array are these."""
    shape = [w if _may_be_equal(n, w) else n for n, w in zip(x.shape, asserted, strict=True)]
    return x if tuple(shape) == x.shape else ops.ensure_shape(x, shape)


def _may_be_equal(size: Size, other: Size) -> bool:
    """Return whether two sizes may be equal; unnamed sizes are unified without a check."""
    unnamed = any(isinstance(dim, Dim) and dim.unnamed for dim in (size, other))
    return size != other and sizes.symbolic(size, other) and not unnamed
