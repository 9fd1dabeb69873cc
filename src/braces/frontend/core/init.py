"""Initializers of parameters.

An initializer is a function of shape, dtype and name that builds the initial value in the
startup program. Random initial values depend on the seed of `Executor.init` and the parameter's
name only, so adding a parameter does not change the others.

Several initializers are scaled by *fans*: the number of inputs of each output of the layer, and
the number of outputs of each input,

    fan_in  = shape[in_axis]  * product of all axes but these two
    fan_out = shape[out_axis] * product of all axes but these two

By default the last axis is out and the one before it in, as in `x @ w` and in convolution
weights of channels-last layouts (`HWIO`). For channels-first weights (`OIHW`) pass
`in_axis=1, out_axis=0`; the layers do so themselves. A vector has one axis for both.

    >>> import braces as br
    >>> with br.Program() as prog:
    ...     w = br.parameter("w", [8, 32], init=br.init.he_normal())
    >>> print(*(op.type for op in prog.startup.block(0).ops))
    constant multiply random_truncated_normal

Initializers combine: `lambda *given: 0.5 * br.init.orthogonal()(*given)`.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from braces.builder.append import call, emit
from braces.builder.builder import SEED, current_program
from braces.builder.scalar_promotion import cast_exactly, number_of, numbers
from braces.builder.source_line import with_user_line
from braces.builder.var import Var, var_of
from braces.dtypes import DType, TensorType, is_float
from braces.errors import ProgramError, ShapeError
from braces.frontend.core.all_or_nothing import module_getattr
from braces.ir.records import DATA, Literal
from braces.ops.common.rules import axis_index

Initializer: TypeAlias = "Callable[[tuple[int, ...], DType, str], Var]"
"""From shape, dtype and name to a variable of the startup program with the initial value."""

SEED_STATE = "seed.state"

_CUT_AT_TWO = 0.87962566103423978
"""The standard deviation of a standard normal distribution truncated at -2 and 2."""


# ---- fixed values ----------------------------------------------------------------------------


def zeros() -> Initializer:
    """Initialize with zeros."""
    return constant(0.0)


def ones() -> Initializer:
    """Initialize with ones."""
    return constant(1.0)


@with_user_line
def constant(value: Any) -> Initializer:
    """Initialize with a constant number, or an array of the parameter's shape.

    Raises:
        ShapeError: If the shape of the array differs from that of the parameter; raised when
            the parameter is created.
    """
    array = numbers(value)

    def init(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        if not array.ndim:
            return emit("full", shape=shape, value=number_of(array), dtype=dtype)
        if array.shape != shape:
            raise ShapeError(
                f"shape mismatch of `{name}` and its initial value.",
                given=f"{name}: {TensorType(dtype, shape)}   init: {Literal.of(array)}",
                fix="An initial value has the shape of its parameter.",
            )
        return emit("constant", value=Literal.of(cast_exactly(array, dtype)))

    return init


@with_user_line
def identity(scale: float = 1.0) -> Initializer:
    """Initialize a matrix with `scale` on the main diagonal, 0 elsewhere.

    A recurrent step with an identity matrix copies its memory.

    Raises:
        ShapeError: If the parameter is not a matrix; raised when the parameter is created.
    """

    def init(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        if len(shape) != 2:
            raise ShapeError(
                f"`{name}` of shape {list(shape)} cannot be an identity matrix.",
                fix="br.init.identity: expected a matrix; use another initializer.",
            )
        matrix = emit("eye", n=shape[0], m=shape[1], dtype=dtype)
        return matrix if scale == 1.0 else matrix * scale

    return init


# ---- random values ---------------------------------------------------------------------------


def salt_of(name: str) -> int:
    """Return the hash of a name, which a random operator mixes into its key."""
    return zlib.crc32(name.encode())


def seed_state() -> Var:
    """Return the random state of the startup program that is being built: u32[2], (seed, 0)."""
    program = current_program()
    table = program.table
    seed_info = table.find_var(SEED)
    if seed_info is None:
        table.new_var(SEED, TensorType(np.dtype(np.uint32), ()), DATA)
        seed = var_of(program, table, SEED)
        return call("multiply", seed, np.asarray([1, 0], np.uint32), name=SEED_STATE)
    if seed_info.kind != DATA:
        raise ProgramError(
            f"the variable `{SEED}` has the reserved name of the startup seed.",
            given=f"{SEED}: {seed_info.type}",
            fix="Rename it.",
        )
    return var_of(program, table, SEED_STATE)


def _random_init(op_type: str, **attrs: Any) -> Initializer:
    def init(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        state = seed_state()
        return emit(op_type, state, shape=shape, dtype=dtype, salt=salt_of(name), **attrs)

    return init


@with_user_line
def uniform(low: float, high: float) -> Initializer:
    """Uniform distribution on [low, high)."""
    return _random_init("random_uniform", low=low, high=high)


@with_user_line
def normal(scale: float = 0.01, *, loc: float = 0.0) -> Initializer:
    """Normal distribution."""
    return _random_init("random_normal", mean=loc, stddev=scale)


@with_user_line
def truncated_normal(
    scale: float = 0.01, *, loc: float = 0.0, low: float = -2.0, high: float = 2.0
) -> Initializer:
    """Normal distribution truncated at a number of standard deviations from the mean.

    Args:
        scale: The standard deviation before truncation.
        loc: The mode of the distribution.
        low: The lower bound, in standard deviations from the mean.
        high: The upper bound, likewise.
    """
    return _random_init("random_truncated_normal", mean=loc, stddev=scale, low=low, high=high)


@with_user_line
def orthogonal(scale: float = 1.0) -> Initializer:
    """Matrix with orthonormal columns, or rows if there are fewer; Saxe et al., 2013.

    All axes but the last are flattened to rows. The parameter has two axes or more.
    """
    return _random_init("random_orthogonal", scale=scale)


# ---- random values scaled by fans ------------------------------------------------------------


def fans(shape: Sequence[int], in_axis: int = -2, out_axis: int = -1) -> tuple[int, int]:
    """Return fan-in and fan-out: inputs per output, and outputs per input.

    Example:
        >>> fans([8, 32]), fans([3, 3, 8, 32]), fans([32])
        ((8, 32), (72, 288), (32, 32))
    """
    if len(shape) < 2:
        size = math.prod(shape)
        return size, size
    in_position, out_position = (
        axis_index(axis, len(shape), "The shape") for axis in (in_axis, out_axis)
    )
    window = math.prod(
        size for axis, size in enumerate(shape) if axis not in (in_position, out_position)
    )
    return shape[in_position] * window, shape[out_position] * window


def _scaled(
    variance: Callable[[int, int], float], distribution: str, in_axis: int, out_axis: int
) -> Initializer:
    def init(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        stddev = math.sqrt(variance(*(max(fan, 1) for fan in fans(shape, in_axis, out_axis))))
        if distribution == "uniform":
            bound = math.sqrt(3.0) * stddev
            return uniform(-bound, bound)(shape, dtype, name)
        return truncated_normal(stddev / _CUT_AT_TWO)(shape, dtype, name)

    return init


def _glorot(fan_in: int, fan_out: int) -> float:
    return 2.0 / (fan_in + fan_out)


def _he(fan_in: int, fan_out: int) -> float:
    del fan_out
    return 2.0 / fan_in


def _lecun(fan_in: int, fan_out: int) -> float:
    del fan_out
    return 1.0 / fan_in


@with_user_line
def glorot_uniform(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Uniform, variance 2 / (fan_in + fan_out), for tanh and sigmoid; Glorot, Bengio, 2010."""
    return _scaled(_glorot, "uniform", in_axis, out_axis)


@with_user_line
def glorot_normal(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Normal truncated at two standard deviations, with variance 2 / (fan_in + fan_out)."""
    return _scaled(_glorot, "normal", in_axis, out_axis)


@with_user_line
def he_uniform(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Uniform with variance 2 / fan_in; He et al., 2015. For relu."""
    return _scaled(_he, "uniform", in_axis, out_axis)


@with_user_line
def he_normal(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Normal truncated at two standard deviations, with variance 2 / fan_in."""
    return _scaled(_he, "normal", in_axis, out_axis)


@with_user_line
def lecun_uniform(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Uniform with variance 1 / fan_in; LeCun et al., 1998. For selu and linear layers."""
    return _scaled(_lecun, "uniform", in_axis, out_axis)


@with_user_line
def lecun_normal(*, in_axis: int = -2, out_axis: int = -1) -> Initializer:
    """Normal truncated at two standard deviations, with variance 1 / fan_in."""
    return _scaled(_lecun, "normal", in_axis, out_axis)


# ---- default ---------------------------------------------------------------------------------


def default(shape: Sequence[int]) -> Initializer:
    """`glorot_uniform` for float parameters with two axes or more, zeros for all others."""

    def init(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        random = len(shape) >= 2 and is_float(dtype)
        return (glorot_uniform() if random else zeros())(shape, dtype, name)

    del shape
    return init


__all__ = [
    "Initializer",
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "zeros",
]

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.init", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
