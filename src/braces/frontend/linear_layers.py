"""Layers that are products with a matrix: fully connected ones, and tables of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var
from braces.dtypes import is_float, is_integer
from braces.errors import DTypeError, ShapeError
from braces.frontend import init as initializers
from braces.frontend.guard import building, operand
from braces.frontend.init import Initializer
from braces.frontend.parameters import (
    Activation,
    Parameters,
    Weight,
    activated,
    count_of,
    fixed_size,
    is_given,
    named,
    refuse_options,
    to_make,
)
from braces.ops.rules import float_dtype


@building
def fc(
    x: Any,
    size: int | Operand | None = None,
    *,
    act: Activation = None,
    name: str | None = None,
    params: Sequence[str] | None = None,
    bias: Weight = None,
    init: Initializer | Any = None,
    bias_init: Initializer | Any = 0.0,
) -> Var:
    """A fully connected layer.

        out = act(x @ w + b)

    Args:
        x: [..., taken]. The last axis is contracted.
        size: The size of the last axis of the result; where it is not said, that of the shared
            parameter, else that of `x`. Or w itself, [taken, size].
        act: The name of an operator, as "tanh", or a function.
        name: The layer's name; its parameters are `name.w` and `name.b`.
        params: Names for the parameters that are made, `[w, b]` or `[w]`; those that exist are
            shared.
        bias: b itself, [size]; or whether one is made, which it is beside a w that is made
            where nothing is said.
        init: The first value of w, [taken, size]; Glorot's uniform where nothing is said.
        bias_init: The first value of b, [size].

    Returns:
        [..., size], named `name`.

    Raises:
        ShapeError: The last axis has a symbolic size, or a shared parameter has other sizes.
        DuplicateNameError: There is a layer of this name already.
        ProgramError: w is given, and options of one that is made.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 8])
        ...     print(br.fc(x, 32, act="tanh", name="fc1"))
        ...     print([p.name for p in prog.parameters])
        ...     print(br.fc(x, br.get_variable("fc1.w") * 2.0, name="twice"))
        <Var fc1: f32[batch,32]>
        ['fc1.w', 'fc1.b']
        <Var twice: f32[batch,32]>
    """
    x, count = operand(x, "fc"), count_of(size)
    makes = size is None or count is not None
    made = Parameters("fc", name, params, to_make({"w": True if makes else size, "b": bias}))
    if makes:
        w, b = _made_product(made, x, count, init, bias_init)
    else:
        ways = "br.fc(x, 32), or br.fc(x, w, bias=b)"
        refuse_options("fc", ways, {"init": init, "bias=True": bias is True or None})
        w, b = size, None
    b = bias if is_given(bias) else b
    if b is None:
        out = one("matmul", x, w, name=named(act, made.name))
    else:
        out = one("add", one("matmul", x, w), b, name=named(act, made.name))
    return out if act is None else activated(out, act, made.name)


def _made_product(
    made: Parameters, x: Var, size: int | None, init: Any, bias_init: Any
) -> tuple[Var, Var | None]:
    """The matrix of a product, made or shared, and the bias where there is one."""
    dtype = float_dtype(x.dtype)
    w = made.find("w")
    if w is None:
        taken = fixed_size(x, -1, "fc")
        w = made.new("w", [taken, taken if size is None else size], dtype, init)
    return w, made.get("b", [_size_of(w, size)], dtype, bias_init)


def _size_of(w: Var, size: int | None) -> int:
    """The size of the result of a product with `w`, which must be the one asked for."""
    shape = w.shape
    if len(shape) != 2 or not isinstance(shape[1], int):
        raise ShapeError(f"fc needs a matrix, and `{w.name}` is {w.type}.")
    if size is not None and shape[1] != size:
        raise ShapeError(
            f"fc is to give {size} numbers, but the shared `{w.name}` gives {shape[1]}.",
            given=f"{w.name}: {w.type}   size={size}",
            fix="Leave size= away, or use another parameter.",
        )
    return shape[1]


@building
def embedding(
    ids: Any,
    size: Sequence[int] | Operand,
    *,
    name: str | None = None,
    params: Sequence[str] | None = None,
    init: Initializer | Any = None,
    dtype: object = None,
) -> Var:
    """Vectors of a table, looked up by number.

        out[..., :] = table[ids[...], :]

    Args:
        ids: integer[...]. Out of range is an error in the run.
        size: For a table that is made: how many vectors, and the size of each. Or the table
            itself, a matrix.
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
    if _is_table_size(size):
        made = Parameters("embedding", name, params, ("w",))
        table = _table(made, size, init, dtype)
    else:
        made = Parameters("embedding", name, params)
        ways = "br.embedding(ids, [1000, 64]), or br.embedding(ids, table)"
        refuse_options("embedding", ways, {"init": init, "dtype": dtype})
        table = _given_table(ids, size)
    return one("embedding", table, ids, name=made.name)


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
    if [type(number) for number in inner] != [int, int]:
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
