"""Rules of operators that make arrays, or draw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import BOOL, FLOAT32, INT64, DType
from braces.errors import ProgramError
from braces.exchange import sizes
from braces.exchange.torch_in.convert import in_dtype
from braces.exchange.torch_in.rules.arithmetic import common, operand
from braces.frontend import functions as ops, random
from braces.ir.records import Literal

Sizes = Sequence[Size]


def filled(shape: Sizes, value: Any, *, dtype: DType | None = None) -> Var:
    """One number everywhere."""
    meant = common(value) if dtype is None else dtype
    return ops.broadcast_to(scalar(value, dtype=meant), shape)


def of_value(value: Any) -> Callable[..., Var]:
    """The rule of arrays of one number, by their shape."""

    def made(shape: Sizes, *, dtype: DType = FLOAT32) -> Var:
        return filled(shape, value, dtype=dtype)

    return made


def like(value: Any) -> Callable[..., Var]:
    """The rule of arrays of one number, in the shape of another."""

    def made(x: Var, *, dtype: DType | None = None) -> Var:
        return filled(x.shape, value, dtype=dtype or x.dtype)

    return made


def full_like(x: Var, value: Any, *, dtype: DType | None = None) -> Var:
    """One number everywhere, in the shape of another array."""
    return filled(x.shape, value, dtype=dtype or x.dtype)


def new_of(value: Any) -> Callable[..., Var]:
    """The rule of arrays of one number, in the dtype of another array."""

    def made(x: Var, shape: Sizes, *, dtype: DType | None = None) -> Var:
        return filled(shape, value, dtype=dtype or x.dtype)

    return made


def scalar(value: Any, *, dtype: DType | None = None) -> Var:
    """A number as an array of no axes."""
    meant = common(value) if dtype is None else dtype
    made = operand(value, meant)
    return made if isinstance(made, Var) else one("constant", value=Literal.of(made))


def arange(*bounds: Any, dtype: DType | None = None) -> Var:
    """Numbers from one to another: `stop`, or `start, stop`, or with a step."""
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    meant = common(start, stop, step) if dtype is None else dtype
    if any(isinstance(v, Var) for v in (start, stop, step)):
        raise ProgramError("arange with bounds that a run computes is not read.")
    if not sizes.symbolic(start, stop, step):
        numbers: Any = np.arange(start, stop, step)
        return one("constant", value=Literal.of(np.asarray(numbers).astype(meant)))
    if step != 1:
        raise ProgramError("arange with a step and symbolic sizes is not read.")
    count = sizes.largest(sizes.minus(stop, start), 0)
    counted = one("arange", stop=count)
    if start != 0:
        counted = counted + operand(start, INT64)
    return in_dtype(counted, meant)


def eye(rows: Size, columns: Size | None = None, *, dtype: DType = FLOAT32) -> Var:
    """Ones on a diagonal."""
    return ops.eye(rows, rows if columns is None else columns, dtype=dtype)


def linspace(start: float, stop: float, count: int, *, dtype: DType = FLOAT32) -> Var:
    """Evenly spaced numbers."""
    return ops.linspace(start, stop, num=count, dtype=dtype)


def dropout(x: Var, rate: float, training: bool = True) -> Var:
    """Some numbers dropped, where the module trains."""
    return random.dropout(x, rate) if training and rate else x


def native_dropout(x: Var, rate: float, training: bool | None = True) -> tuple[Var, Var]:
    """Some numbers dropped, and where none was."""
    if not training or not rate:
        return x, ops.ones_like(x, dtype=BOOL)
    made = random.dropout(x, rate)
    return made, ops.not_equal(made, 0)


def bernoulli(x: Var, p: float | None = None) -> Var:
    """1 with a probability, else 0."""
    chance = x if p is None else p
    return in_dtype(random.uniform(x.shape, dtype=FLOAT32) < chance, x.dtype)


def copy(x: Var, source: Any, non_blocking: bool = False) -> Var:
    """Another array's numbers, in the shape and dtype of this one."""
    return filled(x.shape, source, dtype=x.dtype)


def uniform(shape: Sizes, *, dtype: DType = FLOAT32) -> Var:
    """Numbers that are equally likely between 0 and 1."""
    return random.uniform(tuple(shape), dtype=dtype)


def normal(shape: Sizes, *, dtype: DType = FLOAT32) -> Var:
    """Normally distributed numbers."""
    return random.normal(tuple(shape), dtype=dtype)


def new_full(x: Var, shape: Sizes, value: Any, *, dtype: DType | None = None) -> Var:
    """One number everywhere, in the dtype of another array."""
    return filled(shape, value, dtype=dtype or x.dtype)


def drawn_like(draw: Callable[..., Var]) -> Callable[..., Var]:
    """The rule of a draw in the shape of another array."""

    def drawn(x: Var, *, dtype: DType | None = None) -> Var:
        return draw(x.shape, dtype=dtype or x.dtype)

    return drawn


MAKING: Mapping[str, Callable[..., Any]] = {
    "arange": arange,
    "bernoulli": bernoulli,
    "copy": copy,
    "dropout": dropout,
    "empty": of_value(0),
    "empty_like": like(0),
    "eye": eye,
    "fill": full_like,
    "full": filled,
    "full_like": full_like,
    "linspace": linspace,
    "native_dropout": native_dropout,
    "new_empty": new_of(0),
    "new_full": new_full,
    "new_ones": new_of(1),
    "new_zeros": new_of(0),
    "ones": of_value(1),
    "ones_like": like(1),
    "rand": uniform,
    "rand_like": drawn_like(uniform),
    "randn": normal,
    "randn_like": drawn_like(normal),
    "scalar_tensor": scalar,
    "zeros": of_value(0),
    "zeros_like": like(0),
}
