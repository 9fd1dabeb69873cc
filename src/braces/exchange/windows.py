"""Windows that systems slide over arrays in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from braces.builder.var import Var
from braces.dims import Dim, Size, divide_exactly
from braces.errors import ShapeError
from braces.frontend import functions as ops


def adaptive(op_type: str, rank: int) -> Callable[..., Var]:
    """A pool to a size that is said, axis by axis."""

    def computed(x: Var, wanted: Sequence[Size | None] | Size) -> Var:
        given = [wanted] * rank if isinstance(wanted, int | Dim) else list(wanted)
        places = range(x.ndim - rank, x.ndim)
        if all(n is not None and _same(n, 1) for n in given):
            return ops.function_of(op_type)(x, axis=tuple(places), keepdims=True)
        for at, size in zip(places, given, strict=True):
            x = x if size is None or _same(size, x.shape[at]) else _parts(op_type, x, at, size)
        return x

    return computed


def _same(x: Size, y: Size) -> bool:
    return isinstance(x, int) == isinstance(y, int) and x == y


def _parts(op_type: str, x: Var, at: int, count: Size) -> Var:
    """An axis brought to so many parts, which may overlap by one."""
    whole, function = x.shape[at], ops.function_of(op_type)
    part = divide_exactly(whole, count)
    if part is not None:
        shape = (*x.shape[:at], count, part, *x.shape[at + 1 :])
        return function(ops.reshape(x, shape), axis=at + 1)
    if not isinstance(whole, int) or not isinstance(count, int):
        raise ShapeError(f"An axis of {whole} is not brought to {count} parts.")
    index = [slice(i * whole // count, -(-(i + 1) * whole // count)) for i in range(count)]
    front = [slice(None)] * at
    made = [function(x[(*front, one_part)], axis=at, keepdims=True) for one_part in index]
    return ops.concat(made, axis=at)
