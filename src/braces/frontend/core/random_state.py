"""Random numbers: derived from the program's random state, a name and loop indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from braces.builder.append import as_var, call, emit
from braces.builder.builder import Builder, current_program
from braces.builder.var import Operand, Var, tensor_type, var_of
from braces.define.axes.shape_rules import broadcast_shapes
from braces.dims import Dim, Shape, Size
from braces.dtypes import FLOAT32, DType, dtype_of, is_float, parse_type, size_of
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.init import salt_of, seed_state
from braces.frontend.core.variables import persistable
from braces.ir.records import STATE
from braces.ops.common.rules import float_dtype, promote

RANDOM_STATE = "random_state"
_STATE_TYPE = parse_type("u32[2]")
BELOW_ZERO = -math.ulp(0.0)
Low: TypeAlias = "Callable[[np.finfo[Any]], Any]"


# ---- random state ----------------------------------------------------------------------------


def random_state() -> Var:
    """Return the random state of the program being built, u32[2]; created on first use."""
    program = current_program()
    state_info = program.table.find_var(RANDOM_STATE)
    if state_info is None:
        with program.building(program.table) as table, table.naming(""):
            state = persistable(
                RANDOM_STATE, [2], _first_state, "uint32", kind=STATE, trainable=False
            )
    elif state_info.kind != STATE or state_info.type != _STATE_TYPE:
        raise ProgramError(
            f"the variable `{RANDOM_STATE}` has the reserved name of the random state.",
            given=f"{RANDOM_STATE}: {state_info.type}",
            fix="Rename it.",
        )
    else:
        state = var_of(program, program.table, RANDOM_STATE)
    if RANDOM_STATE not in program.updates:
        _count_runs(program, state)
    return state


def _first_state(shape: tuple[int, ...], dtype: object, name: str) -> Var:
    del shape, dtype, name
    return seed_state()


def _count_runs(program: Builder, state: Var) -> None:
    with program.building(program.table) as table, table.naming(""):
        program.update(RANDOM_STATE, emit("next_random_state", state).name)


def iteration_indices() -> list[Var]:
    """Return the iteration index of each enclosing loop, outermost first."""
    program = current_program()
    indices = [
        var_of(program, table, table.trip_index)
        for table in program.current.chain()
        if table.trip_index is not None
    ]
    return indices[::-1]


def draw(op_type: str, *operands: Var, name: str = "", **attrs: Any) -> Var:
    """Append a random operator with the random state, a name, and the iteration indices."""
    state = random_state()
    table = current_program().current
    name = table.prefixed(name) if name else table.names.unique(op_type)
    inputs = (state, *operands, *iteration_indices())
    return call(op_type, *inputs, name=name, salt=salt_of(name), **attrs)


def as_shape(shape: Sequence[Any] | Size) -> Shape:
    """Convert a user's shape: numbers, `Dim`s, or names of symbolic dimensions.

    Raises:
        ShapeError: If an entry is an unnamed size, a variable, or not a size.
    """
    sizes = shape if isinstance(shape, list | tuple) else (shape,)
    for size in sizes:
        if isinstance(size, Var):
            raise ShapeError(
                f"`{size.name}` is a variable; a size must be known before the run.",
                given=f"{size.name}: {size.type}",
                fix=f"For the shape of `{size.name}` write br.zeros_like or {size.name}.shape. "
                'Otherwise use a size of a shape, as x.shape[0], or a name, as "batch".',
            )
    return tuple(size_of(size, _refuse_unnamed) for size in sizes)


def _refuse_unnamed() -> Dim:
    raise ShapeError(
        "each axis of a new array needs a size; one is None or -1.",
        fix='Use an integer, a name as "batch", or a size of a shape: x.shape[0].',
    )


# ---- parameters ------------------------------------------------------------------------------


class DistributionParameters:
    """The parameters of a distribution, broadcast to the shape of the samples.

    Attributes:
        what: The name of the distribution, for messages.
        sizes: The shape of the samples.
        dtype: The dtype of the samples and parameters.
    """

    def __init__(
        self,
        what: str,
        shape: Sequence[Any] | Size | None,
        dtype: object,
        axes: int = 0,
        /,
        **given: Operand,
    ) -> None:
        """Convert the parameters to variables.

        Args:
            what: The name of the distribution.
            shape: The user's shape; that of the parameters if it is `None`.
            dtype: The user's dtype; that of the parameters if it is `None`.
            axes: The number of trailing event axes of a parameter.
            **given: The parameters: numbers, arrays, variables.

        Raises:
            DTypeError: If `dtype` is not a real floating dtype, or a parameter is complex.
            ShapeError: If the parameters do not broadcast to `shape`.
        """
        self.what = what
        self.dtype, self._vars = to_common_dtype(what, dtype, **given)
        shapes = [tensor_type(var).shape for var in self._vars.values()]
        self.sizes = self._sizes(
            shape, [shape_of_param[: len(shape_of_param) - axes] for shape_of_param in shapes]
        )

    def __getitem__(self, name: str) -> Var:
        return self._vars[name]

    def _sizes(self, shape: Sequence[Any] | Size | None, own: Sequence[Shape]) -> Shape:
        unifier = current_program().current.unifier
        common = broadcast_shapes(self.what, unifier, *own)
        if shape is None:
            return common
        sizes = as_shape(shape)
        if (
            len(common) > len(sizes)
            or broadcast_shapes(self.what, unifier, sizes, common) != sizes
        ):
            raise ShapeError(
                f"the parameters of {self.what} do not broadcast to the shape of the draw.",
                given=f"shape: {list(sizes)}   parameters: {list(common)}",
                fix="Pass the whole shape, including that of the parameters, or none.",
            )
        return sizes

    def broadcast(self, name: str) -> Var:
        """Broadcast a parameter to the shape of the samples."""
        return ops.broadcast_to(self[name], self.sizes)

    def noise(self, function: Callable[[Var], Var], low: Low = lambda info: 0.0) -> Var:
        """Transform uniform random numbers from [low, 1) to samples.

        Samples of 16-bit dtypes are computed in float32.

        Args:
            function: From uniform numbers to samples.
            low: From the `np.finfo` of a dtype to the lower bound.
        """
        compute_dtype = np.promote_types(self.dtype, FLOAT32)
        least = float(low(np.finfo(compute_dtype)))
        uniform = draw("random_uniform", shape=self.sizes, low=least, dtype=compute_dtype)
        return ops.cast(function(uniform), self.dtype)


def to_common_dtype(what: str, dtype: object, **given: Operand) -> tuple[DType, dict[str, Var]]:
    """Convert parameters to variables of the user's dtype, or the dtype of the variables.

    Raises:
        DTypeError: If `dtype` is not a real floating dtype, or a parameter is complex.
    """
    float_dtype_ = _float_dtype(what, dtype, given)
    vars = {name: as_var(value, float_dtype_) for name, value in given.items()}
    return float_dtype_, {name: ops.cast(var, float_dtype_) for name, var in vars.items()}


def _float_dtype(what: str, dtype: object, operands: Mapping[str, Operand]) -> DType:
    if dtype is None:
        vars = [var for var in operands.values() if isinstance(var, Var)]
        dtype = float_dtype(promote(*(var.dtype for var in vars))) if vars else FLOAT32
    result = dtype_of(dtype)
    if not is_float(result) or result.kind == "c":
        raise DTypeError(
            f"{what}: expected a real floating dtype, got {result}.",
            fix="Use a floating dtype.",
        )
    return result


def draw_keys(sizes: Shape) -> Var:
    """Draw a random key for each sample, u32[*sizes, 2]."""
    high = int(np.iinfo(np.uint32).max)
    return draw("random_randint", shape=(*sizes, 2), low=0, high=high, dtype=np.uint32)


def check_numbers(what: str, low: float, high: float = np.inf, /, **given: Operand) -> None:
    """Refuse numbers outside of (low, high]; variables are not checked.

    With `BELOW_ZERO` as `low`, 0 is allowed.

    Raises:
        ProgramError: If a number is out of range.
    """
    for name, value in given.items():
        if not isinstance(value, Var) and not _lies(np.asarray(value), low, high):
            least = "0 <=" if low == BELOW_ZERO else f"{low:g} <"
            most = "" if high == np.inf else f" <= {high:g}"
            raise ProgramError(
                f"{name}={value!r:.40} is out of range for {what}.",
                fix=f"Pass {least} {name}{most}.",
            )


def check_one_given(
    what: str, first: str, second: str, parameters: Mapping[str, object]
) -> None:
    """Refuse two alternative parameters that are both given or both missing.

    Args:
        what: The name of the distribution.
        first: The name of one parameter.
        second: The name of the other.
        parameters: Values by name; `None` counts as missing.

    Raises:
        ProgramError: If both parameters are given, or neither.
    """
    has_first, has_second = (parameters.get(name) is not None for name in (first, second))
    if has_first == has_second:
        number = "both" if has_first else "neither"
        raise ProgramError(
            f"{what}: expected either `{first}` or `{second}`, got {number}.",
            fix=f"Pass {first}=... or {second}=...",
        )


def _lies(value: np.ndarray[Any, Any], low: float, high: float) -> bool:
    return bool(np.all((value > low) & (value <= high)))
