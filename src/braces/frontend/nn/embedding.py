"""Tables of vectors, looked up by number: one by one, or a bag of them together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var
from braces.dims import NamedSize
from braces.dtypes import BOOL, Extent, is_float, is_integer, named_size
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.block import composed
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import Parameters, refuse_options


@building
def embedding(
    ids: Any,
    size: Sequence[Extent] | Operand,
    *,
    padding_index: int | None = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    dtype: object = None,
) -> Var:
    """Vectors of a table, looked up by number.

        out[..., :] = table[ids[...], :]

    Args:
        ids: integer[...]. Out of range is an error in the run.
        size: For a table that is made: how many vectors, and the size of each; names may stand
            beside both, `[("words", 1000), ("embed", 64)]`, see `parameter`. Or the table
            itself, a matrix.
        padding_index: The id of what is no word, as 0 or -1: it has a vector of zeros, whatever
            stands in the table, and no gradient.
        name: The layer's name; its parameter is `name.w`.
        params: A name for the parameter, `[w]`; it is shared where it exists.
        init: The first value; normal with variance 1 / size[1] where nothing is said.
        dtype: Of the table that is made; float32 where nothing is said.

    Returns:
        [..., size[1]], named `name`.

    Raises:
        DTypeError: The table comes first, the ids after it.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     words = br.data("words", ["batch", "t"], dtype="int32")
        ...     x = br.embedding(words, [1000, 64], name="words_in")
        ...     table = br.get_variable("words_in.w")
        ...     print(x.type, br.embedding(words, table * 2.0).type)
        f32[batch,t,64] f32[batch,t,64]
    """
    ids = operand(ids, "embedding")
    table, called = _table_of("embedding", ids, size, name, params, init, dtype)
    if padding_index is None:
        return one("embedding", table, ids, name=called)
    return composed(name or "embedding", lambda: _padded(table, ids, padding_index))


def _padded(table: Var, ids: Var, padding: int) -> Var:
    """Vectors of ids, zeros for those of padding."""
    words = ops.not_equal(ids, padding)
    found = one("embedding", table, ops.where(words, ids, 0))
    return ops.where(ops.expand_dims(words, axis=-1), found, 0.0)


@building
def embedding_bag(
    ids: Any,
    size: Sequence[Extent] | Operand,
    *,
    mode: str = "mean",
    weights: Operand | None = None,
    mask: Operand | None = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    dtype: object = None,
) -> Var:
    """One vector for each bag of ids: the mean, the sum or the maximum of theirs.

        out[..., :] = mean_j table[ids[..., j], :]

    Args:
        ids: integer[..., n]: bags of n ids. Out of range is an error in the run.
        size: As that of `embedding`.
        mode: `"mean"`, `"sum"` or `"max"`.
        weights: float, of the shape of `ids`: a factor for each, in sums alone.
        mask: bool, of the shape of `ids`; True takes part. What does not may be any id. A bag
            of nothing has a vector of zeros.
        name: The layer's name; its parameter is `name.w`.
        params: A name for the parameter, `[w]`; it is shared where it exists.
        init: The first value; normal with variance 1 / size[1] where nothing is said.
        dtype: Of the table that is made; float32 where nothing is said.

    Returns:
        [..., size[1]].

    Raises:
        ProgramError: An unknown mode, or weights beside another one than sums.
        ShapeError: Weights or a mask of another shape, or ids without an axis.
        DTypeError: The table comes first, the ids after it; or the mask is no bools.
    """
    what = "embedding_bag"
    ids = operand(ids, what)
    if mode not in ("mean", "sum", "max") or (weights is not None and mode != "sum"):
        beside = " with weights" if weights is not None else ""
        raise ProgramError(
            f"{what} has no mode {mode!r:.40}{beside}.",
            fix="Use 'mean', 'sum' or 'max'; weights go with 'sum'.",
        )
    if not ids.ndim:
        raise ShapeError(f"{what} takes bags of ids.", given=f"{ids.name}: {ids.type}")
    kept, factors = _beside(ids, "mask", mask), _beside(ids, "weights", weights)
    if kept is not None and kept.dtype != BOOL:
        raise DTypeError(f"{what} takes a mask of bools, not {kept.type}.")
    table = _table_of(what, ids, size, name, params, init, dtype)[0]

    def built() -> Var:
        real = ids if kept is None else ops.where(kept, ids, 0)
        found = one("embedding", table, real)
        if factors is not None:
            found = found * ops.expand_dims(factors, axis=-1)
        if kept is None:
            return one(mode, found, axis=-2)
        return _bagged(found, ops.expand_dims(kept, axis=-1), mode)

    return composed(name or what, built)


def _beside(ids: Var, role: str, given: Operand | None) -> Var | None:
    """What is given for each id."""
    if given is None:
        return None
    var = as_var(given)
    if var.ndim != ids.ndim or not all(map(same_size, var.shape, ids.shape)):
        raise ShapeError(
            f"embedding_bag takes {role}= of the shape of the ids.",
            given=f"{ids.name}: {ids.type}   {role}={var.name}: {var.type}",
        )
    return var


def _bagged(found: Var, kept: Var, mode: str) -> Var:
    """What takes part of each bag together, zeros of nothing."""
    if mode == "max":
        largest = ops.max(ops.where(kept, found, -math.inf), axis=-2)
        return ops.where(ops.any(kept, axis=-2), largest, 0.0)
    total = ops.sum(ops.where(kept, found, 0.0), axis=-2)
    if mode == "sum":
        return total
    return total / ops.maximum(ops.sum(ops.cast(kept, found.dtype), axis=-2), 1.0)


def _table_of(
    what: str, ids: Var, size: Any, name: str | None, params: Sequence[str] | None, init: Any,
    dtype: object,
) -> tuple[Var, str]:  # fmt: skip
    """The table of a layer, made or given, and the layer's name."""
    if isinstance(size, list | tuple):
        size = [named_size(number) for number in cast("Sequence[Any]", size)]
    if _is_table_size(size):
        made = Parameters(what, name, params, ("w",))
        return _table(made, size, init, dtype), made.name
    made = Parameters(what, name, params)
    ways = f"br.{what}(ids, [1000, 64]), or br.{what}(ids, table)"
    refuse_options(what, ways, {"init": init, "dtype": dtype})
    return _given_table(ids, size), made.name


def _is_table_size(size: Any) -> bool:
    """Whether this says how large a table is; otherwise it is the table.

    Raises:
        ShapeError: It is neither.
    """
    if not isinstance(size, int | str | list | tuple):
        return False
    inner = [size] if isinstance(size, int | str) else cast("Sequence[Any]", size)
    if inner and all(isinstance(row, list | tuple) for row in inner):
        return False
    if [int if type(n) is NamedSize else type(n) for n in inner] != [int, int]:
        raise ShapeError(
            f"embedding cannot take size={size!r}.",
            fix="Give how many vectors and the size of each, br.embedding(ids, [1000, 64]), or "
            "the table itself: br.embedding(ids, table).",
        )
    return True


def _table(made: Parameters, size: Any, init: Any, dtype: object) -> Var:
    table = made.find("w")
    if table is None:
        start = init if init is not None else initializers.normal(max(size[1], 1) ** -0.5)
        return made.new("w", size, "float32" if dtype is None else dtype, start)
    if table.shape != tuple(size):
        raise ShapeError(
            f"embedding needs a table of {list(size)}, and `{table.name}` is {table.type}.",
            fix="Share tables of one size only.",
        )
    return table


def _given_table(ids: Var, given: Any) -> Var:
    table = as_var(given)
    if is_float(ids.dtype) and is_integer(table.dtype):
        raise DTypeError(
            "embedding takes the ids first, then the table.",
            given=f"ids={ids.name}: {ids.type}   table={table.name}: {table.type}",
            fix="Write br.embedding(ids, table).",
        )
    return table
