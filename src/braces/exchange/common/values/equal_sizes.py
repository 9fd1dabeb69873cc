"""Sizes that are equal in every run that makes sense, though nothing in a model says so.

A net halves an image five times, doubles it again, and adds both: that is right where its
height is a multiple of 32, and no other image was ever meant. So a model is read as if both
were equally long, and each run looks whether they are before it computes (`br.ensure_shape`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.frontend.core import functions as ops


def alike(xs: Sequence[Var]) -> list[Var]:
    """Arrays that meet number by number, equally long where both are longer than 1.

    A symbolic size is stretched in no run: it is as long as what it meets.
    """
    rank = max((x.ndim for x in xs), default=0)
    wanted = list[Size]()
    for at in range(rank, 0, -1):
        found = [x.shape[-at] for x in xs if x.ndim >= at]
        wanted.append(_one_of([size for size in found if size != 1]))
    return [_said(x, _stretched(x, wanted[rank - x.ndim :])) for x in xs]


def as_long(xs: Sequence[Var], axis: int) -> list[Var]:
    """Arrays that follow one another along an axis, equally long along all others."""
    if len({x.ndim for x in xs}) > 1:
        return list(xs)
    wanted = [_one_of(found) for found in zip(*(x.shape for x in xs), strict=True)]
    return [_said(x, [*wanted[:axis], x.shape[axis], *wanted[axis + 1 :]]) for x in xs]


def as_weights(x: Var, sizes: Mapping[int, Size]) -> Var:
    """An array, as long along these axes as weights are that meet it there, where they say."""
    wanted = list(x.shape)
    for axis, size in sizes.items():
        if isinstance(size, int) and -x.ndim <= axis < x.ndim:
            wanted[axis] = size
    return _said(x, wanted)


def _one_of(found: Sequence[Size]) -> Size:
    """What all of these are, where they are one size: a number, or what is written shortest."""
    numbers = (size for size in found if isinstance(size, int))
    return next(numbers, min(found, key=lambda size: len(str(size)), default=1))


def _stretched(x: Var, wanted: Sequence[Size]) -> list[Size]:
    return [1 if size == 1 else want for size, want in zip(x.shape, wanted, strict=True)]


def _said(x: Var, wanted: Sequence[Size]) -> Var:
    """An array whose symbolic sizes are said to be these."""
    shape = [w if _only_a_run_tells(n, w) else n for n, w in zip(x.shape, wanted, strict=True)]
    return x if tuple(shape) == x.shape else ops.ensure_shape(x, shape)


def _only_a_run_tells(size: Size, other: Size) -> bool:
    """Whether two sizes may be one; those without a name become what they meet."""
    unnamed = any(isinstance(one, Dim) and one.unnamed for one in (size, other))
    return size != other and sizes.symbolic(size, other) and not unnamed
