"""Embedding tables: vectors looked up by id, one by one or reduced over bags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.dims import NamedSize
from braces.dtypes import BOOL, Extent, is_float, is_integer, named_size
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops, init as initializers
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.init import Initializer
from braces.frontend.core.parameters import LayerParameters, refuse_options
from braces.homes import public_path


@transactional
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
    """Embedding: vectors looked up by id in a table.

        out[..., :] = table[ids[...], :]

    Args:
        ids: integer[...]. An id out of range is a run-time error.
        size: For a created table: number and size of the vectors, optionally with names,
            `[("words", 1000), ("embed", 64)]`, see `parameter`. Or the table itself, a matrix.
        padding_index: The id of padding, as 0 or -1: its vector is zero, regardless of the
            table, and has no gradient.
        name: The layer's name; its parameter is `name.w`.
        params: Name of the parameter, `[w]`; an existing one is shared.
        init: Initializer of the table; by default normal with variance 1 / size[1].
        dtype: The dtype of a created table; float32 by default.

    Returns:
        [..., size[1]], named `name`.

    Raises:
        DTypeError: If the table and the ids are exchanged.

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
    table, layer_name = _find_table("embedding", ids, size, name, params, init, dtype)
    if padding_index is None:
        return emit("embedding", table, ids, name=layer_name)
    return compose_block(name or "embedding", lambda: _embed_padded(table, ids, padding_index))


def _embed_padded(table: Var, ids: Var, padding: int) -> Var:
    """Look up vectors, with zeros for padding."""
    is_word = ops.not_equal(ids, padding)
    vectors = emit("embedding", table, ops.where(is_word, ids, 0))
    return ops.where(ops.expand_dims(is_word, axis=-1), vectors, 0.0)


@transactional
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
    """Reduced embeddings: the mean, sum or maximum of the vectors of each bag of ids.

        out[..., :] = mean_j table[ids[..., j], :]

    Args:
        ids: integer[..., n]: bags of n ids. An id out of range is a run-time error.
        size: As for `embedding`.
        mode: `"mean"`, `"sum"` or `"max"`.
        weights: float, of the shape of `ids`: a factor for each vector; only with mode `"sum"`.
        mask: bool, of the shape of `ids`; False excludes an id, which may then be out of range.
            An empty bag gives a vector of zeros.
        name: The layer's name; its parameter is `name.w`.
        params: Name of the parameter, `[w]`; an existing one is shared.
        init: Initializer of the table; by default normal with variance 1 / size[1].
        dtype: The dtype of a created table; float32 by default.

    Returns:
        [..., size[1]].

    Raises:
        ProgramError: If the mode is unknown, or weights are given with a mode other than
            `"sum"`.
        ShapeError: If the shape of weights or mask differs, or the ids are a scalar.
        DTypeError: If the table and the ids are exchanged, or the mask is not bool.
    """
    what = "embedding_bag"
    ids = operand(ids, what)
    if mode not in ("mean", "sum", "max") or (weights is not None and mode != "sum"):
        suffix = " with weights" if weights is not None else ""
        raise ProgramError(
            f"unsupported mode {mode!r:.40}{suffix} of {what}.",
            fix="Use 'mean', 'sum' or 'max'; weights require 'sum'.",
        )
    if not ids.ndim:
        raise ShapeError(
            f"{what}: expected ids of rank 1 or more.", given=f"{ids.name}: {ids.type}"
        )
    included, factors = (
        _check_like_ids(ids, "mask", mask),
        _check_like_ids(ids, "weights", weights),
    )
    if included is not None and included.dtype != BOOL:
        raise DTypeError(f"{what}: expected a bool mask, got {included.type}.")
    table = _find_table(what, ids, size, name, params, init, dtype)[0]

    def build() -> Var:
        valid_ids = ids if included is None else ops.where(included, ids, 0)
        vectors = emit("embedding", table, valid_ids)
        if factors is not None:
            vectors = vectors * ops.expand_dims(factors, axis=-1)
        if included is None:
            return emit(mode, vectors, axis=-2)
        return _reduce_bags(vectors, ops.expand_dims(included, axis=-1), mode)

    return compose_block(name or what, build)


def _check_like_ids(ids: Var, role: str, operand: Operand | None) -> Var | None:
    """Return an argument that must have the shape of the ids."""
    if operand is None:
        return None
    var = as_var(operand)
    if var.ndim != ids.ndim or not all(map(same_size, var.shape, ids.shape)):
        raise ShapeError(
            f"embedding_bag: expected {role}= of the shape of the ids.",
            given=f"{ids.name}: {ids.type}   {role}={var.name}: {var.type}",
        )
    return var


def _reduce_bags(vectors: Var, included: Var, mode: str) -> Var:
    """Reduce the included vectors of each bag; empty bags give zeros."""
    if mode == "max":
        largest = ops.max(ops.where(included, vectors, -math.inf), axis=-2)
        return ops.where(ops.any(included, axis=-2), largest, 0.0)
    total = ops.sum(ops.where(included, vectors, 0.0), axis=-2)
    if mode == "sum":
        return total
    return total / ops.maximum(ops.sum(ops.cast(included, vectors.dtype), axis=-2), 1.0)


def _find_table(
    what: str, ids: Var, size: Any, name: str | None, params: Sequence[str] | None, init: Any,
    dtype: object,
) -> tuple[Var, str]:  # fmt: skip
    """Return the table of a layer, created or given, and the layer's name."""
    if isinstance(size, list | tuple):
        size = [named_size(number) for number in cast("Sequence[Any]", size)]
    if _is_table_size(size):
        parameters = LayerParameters(what, name, params, ("w",))
        return _create_table(parameters, size, init, dtype), parameters.name
    parameters = LayerParameters(what, name, params)
    path = public_path(what)
    ways = f"{path}(ids, [1000, 64]), or {path}(ids, table)"
    refuse_options(what, ways, {"init": init, "dtype": dtype})
    return _check_table(ids, size), parameters.name


def _is_table_size(size: Any) -> bool:
    """Return whether an argument is the size of a table rather than the table itself.

    Raises:
        ShapeError: If the argument is neither a size nor a table.
    """
    if not isinstance(size, int | str | list | tuple):
        return False
    inner = [size] if isinstance(size, int | str) else cast("Sequence[Any]", size)
    if inner and all(isinstance(row, list | tuple) for row in inner):
        return False
    if [int if type(n) is NamedSize else type(n) for n in inner] != [int, int]:
        raise ShapeError(
            f"invalid size={size!r} of embedding.",
            fix="Pass the number and size of vectors, br.embedding(ids, [1000, 64]), or the "
            "table itself: br.embedding(ids, table).",
        )
    return True


def _create_table(parameters: LayerParameters, size: Any, init: Any, dtype: object) -> Var:
    table = parameters.find("w")
    if table is None:
        start = init if init is not None else initializers.normal(max(size[1], 1) ** -0.5)
        return parameters.new("w", size, "float32" if dtype is None else dtype, start)
    if table.shape != tuple(size):
        raise ShapeError(
            f"embedding: expected a table of shape {list(size)}, got {table.type}.",
            given=f"{table.name}: {table.type}",
            fix="Share a table only between embeddings of equal size.",
        )
    return table


def _check_table(ids: Var, value: Any) -> Var:
    table = as_var(value)
    if is_float(ids.dtype) and is_integer(table.dtype):
        raise DTypeError(
            "embedding: expected the ids first, then the table.",
            given=f"ids={ids.name}: {ids.type}   table={table.name}: {table.type}",
            fix="Write br.embedding(ids, table).",
        )
    return table
