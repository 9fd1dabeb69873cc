"""Random numbers: `br.random.normal([3])`, and `br.dropout`.

Randomness has no hidden state. A program that draws has one persistable variable,
`random_state`: the seed of `Executor.init` and a counter of runs, which each run raises by one.
A draw follows from this state, the operator's own number (made from its name) and the trips of
the loops around it. So each run and each trip draws anew, the same seed gives the same numbers,
and what is pruned, moved or repeated changes no other draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from braces.builder.append import as_var, call, one
from braces.builder.program import Builder, current_program
from braces.builder.var import Var, tensor_type, var_of
from braces.dims import Dim, Shape, Size
from braces.dtypes import parse_type, size_of
from braces.errors import ProgramError, ShapeError
from braces.frontend.guard import building, missing_from, operand
from braces.frontend.init import salt_of, seed_state
from braces.frontend.variables import persistable
from braces.ir.records import STATE
from braces.ops.rules import axis_index, axis_indices, float_dtype

RANDOM_STATE = "random_state"
_STATE_TYPE = parse_type("u32[2]")


# ---- what a draw follows from ----------------------------------------------------------------


def random_state() -> Var:
    """The random state of the program that is being built, u32[2]; made on first use."""
    program = current_program()
    found = program.table.find_var(RANDOM_STATE)
    if found is None:
        with program.building(program.table) as table, table.naming(""):
            state = persistable(
                RANDOM_STATE, [2], _first_state, "uint32", kind=STATE, trainable=False
            )
    elif found.kind != STATE or found.type != _STATE_TYPE:
        raise ProgramError(
            f"A variable called `{RANDOM_STATE}` stands where random numbers have their state.",
            given=f"{RANDOM_STATE}: {found.type}",
            fix="Give it another name.",
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
        program.update(RANDOM_STATE, one("next_random_state", state).name)


def trips() -> list[Var]:
    """The trip of each loop around the block that is being built, outermost first."""
    program = current_program()
    found = [
        var_of(program, table, table.trip_index)
        for table in program.current.chain()
        if table.trip_index is not None
    ]
    return found[::-1]


def _draw(op_type: str, *operands: Var, name: str, **attrs: Any) -> Var:
    state = random_state()
    table = current_program().current
    name = table.prefixed(name) if name else table.names.unique(op_type)
    given = (state, *operands, *trips())
    return call(op_type, *given, name=name, salt=salt_of(name), **attrs)


def sizes_of(shape: Sequence[Any] | Size) -> Shape:
    """The shape that a user means: numbers, `Dim`s, or names of symbolic dimensions.

    Raises:
        ShapeError: A size is unnamed, a variable, or no size at all.
    """
    given = shape if isinstance(shape, list | tuple) else (shape,)
    for size in given:
        if isinstance(size, Var):
            raise ShapeError(
                f"`{size.name}` has a value in a run, and sizes are known before it.",
                given=f"{size.name}: {size.type}",
                fix=f"For the shape of `{size.name}` write br.zeros_like or {size.name}.shape; "
                'else use a size of a shape, as x.shape[0], or name a dimension, as "batch".',
            )
    return tuple(size_of(size, _refuse_unnamed) for size in given)


def _refuse_unnamed() -> Dim:
    raise ShapeError(
        "Each axis that is made needs a size; one is None or -1.",
        fix='Use a number, a name as "batch", or a size found in a shape: x.shape[0].',
    )


# ---- real numbers ----------------------------------------------------------------------------


@building
def uniform(
    shape: Sequence[Any] = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: object = "float32",
    name: str = "",
) -> Var:
    """Numbers that are equally likely everywhere in [low, high).

    Args:
        shape: Of the result: numbers or symbolic dimensions, as `[x.shape[0], 4]`.
        low: The smallest number.
        high: The bound above; not reached.
        dtype: A real floating dtype.
        name: For the operator, which draws from its name.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 4])
        ...     print(br.random.uniform([x.shape[0], 2], -1.0, 1.0).type)
        f32[batch,2]
    """
    attrs = {"shape": sizes_of(shape), "low": low, "high": high, "dtype": dtype}
    return _draw("random_uniform", name=name, **attrs)


@building
def normal(
    shape: Sequence[Any] = (),
    mean: float = 0.0,
    stddev: float = 1.0,
    *,
    dtype: object = "float32",
    name: str = "",
) -> Var:
    """Normally distributed numbers.

    Args:
        shape: Of the result; see `uniform`.
        mean: Where the density is largest.
        stddev: The standard deviation.
        dtype: A real floating dtype.
        name: For the operator, which draws from its name.
    """
    attrs = {"shape": sizes_of(shape), "mean": mean, "stddev": stddev, "dtype": dtype}
    return _draw("random_normal", name=name, **attrs)


@building
def truncated_normal(
    shape: Sequence[Any] = (),
    mean: float = 0.0,
    stddev: float = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    dtype: object = "float32",
    name: str = "",
) -> Var:
    """Normally distributed numbers of which those far from the mean are left out.

    Args:
        shape: Of the result; see `uniform`.
        mean: Where the density is largest.
        stddev: The standard deviation before the cut.
        low: The bound below, in standard deviations from the mean.
        high: The bound above, likewise.
        dtype: A real floating dtype.
        name: For the operator, which draws from its name.
    """
    attrs = {"mean": mean, "stddev": stddev, "low": low, "high": high, "dtype": dtype}
    return _draw("random_truncated_normal", name=name, shape=sizes_of(shape), **attrs)


# ---- choices ---------------------------------------------------------------------------------


@building
def bernoulli(shape: Sequence[Any] = (), probability: float = 0.5, *, name: str = "") -> Var:
    """Bools that are true with a probability.

    Args:
        shape: Of the result; see `uniform`.
        probability: Of true.
        name: For the operator, which draws from its name.
    """
    attrs = {"shape": sizes_of(shape), "probability": probability}
    return _draw("random_bernoulli", name=name, **attrs)


@building
def randint(
    shape: Sequence[Any], low: int, high: int, *, dtype: object = "int64", name: str = ""
) -> Var:
    """Integers that are equally likely everywhere in [low, high).

    Args:
        shape: Of the result; see `uniform`.
        low: The smallest integer.
        high: One more than the largest.
        dtype: An integer dtype that holds both.
        name: For the operator, which draws from its name.
    """
    attrs = {"shape": sizes_of(shape), "low": low, "high": high, "dtype": dtype}
    return _draw("random_randint", name=name, **attrs)


@building
def categorical(logits: Any, *, axis: int = -1, name: str = "") -> Var:
    """Class numbers, i64, each with the probability that softmax(logits) gives it.

    Args:
        logits: A variable with an axis of classes.
        axis: Which axis that is.
        name: For the operator, which draws from its name.
    """
    return _draw("random_categorical", as_var(logits), name=name, axis=axis)


@building
def permutation(x: Any, *, axis: int = 0, name: str = "") -> Var:
    """The numbers below `x` in random order, or a variable with its rows in random order.

    Args:
        x: How many numbers, symbolic or not; or a variable.
        axis: The axis that is shuffled, of a variable.
        name: For the operator, which draws from its name.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.random.permutation(10).type)
        i64[10]
    """
    if not isinstance(x, Var):
        return _draw("random_permutation", name=name, size=sizes_of(x)[0])
    whole = tensor_type(operand(x, "permutation"))
    size = whole.shape[axis_index(axis, whole.rank, "permutation")]
    return one("take", x, _draw("random_permutation", name=name, size=size), axis=axis)


@building
def dropout(
    x: Any, rate: float, *, shared_axes: int | tuple[int, ...] = (), name: str = ""
) -> Var:
    """Drop elements with a probability and scale the others up, so that the mean stays.

        out = x / (1 - rate) with probability 1 - rate, else 0

    `prog.for_test()` drops nothing.

    Args:
        x: What elements are dropped from.
        rate: The probability of dropping, from 0 to 1.
        shared_axes: Axes along which all is dropped or nothing: `(2, 3)` drops whole channels
            of pictures, 1 the same features of all steps, `(1, 2, 3)` whole examples.
        name: For the operator, which draws from its name.

    Raises:
        ProgramError: `rate` is not between 0 and 1.
        ShapeError: There is no such axis.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 16, 28, 28])
        ...     print(br.dropout(x, 0.5, shared_axes=(2, 3)).type)
        f32[batch,16,28,28]
    """
    x = operand(x, "dropout")
    if shared_axes == ():
        return _draw("dropout", x, name=name, rate=rate)
    kept = dropout(apart("dropout", x, shared_axes), rate, name=name and f"{name}.kept")
    return one("multiply", x, kept, name=name)


def apart(what: str, x: Var, axes: int | tuple[int, ...]) -> Var:
    """Ones in the places of what is drawn for `x`, once for all along some axes."""
    shared = axis_indices(axes, x.ndim, what)
    first = tuple(slice(1) if axis in shared else slice(None) for axis in range(x.ndim))
    return one("full_like", x[first], value=1.0, dtype=float_dtype(x.dtype))


__all__ = [
    "bernoulli",
    "categorical",
    "dropout",
    "normal",
    "permutation",
    "randint",
    "truncated_normal",
    "uniform",
]

if not TYPE_CHECKING:
    __getattr__ = missing_from("br.random", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
