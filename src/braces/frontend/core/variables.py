"""Variables of programs: data, parameters, states, constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from braces.builder.append import emit
from braces.builder.builder import Builder, current_program
from braces.builder.scalar_promotion import as_array, cast_literal, number_of, numbers
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Operand, Var, named_var, var_of
from braces.dims import Size, axis_name
from braces.dtypes import AxisNames, DType, Extent, TensorType, dtype_of, named_size, size_of
from braces.errors import DTypeError, DuplicateNameError, ProgramError, ShapeError, array_fix
from braces.frontend.core import init as initializers
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.init import Initializer as Initializer, salt_of as salt_of
from braces.ir.names import check_name
from braces.ir.records import DATA, PARAMETER, STATE, Literal, VarInfo


@transactional
def data(name: str, shape: Sequence[Any], dtype: object = "float32") -> Var:
    """Declare a variable that every run feeds.

    Args:
        name: Its name in the feed.
        shape: The size of each axis: a number, a name for a symbolic dimension, `None` for an
            unnamed one, or a pair of an axis name for layouts and a number, as `("embed", 16)`;
            see `parameter`.
        dtype: The dtype of the fed array.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.data("x", ["batch", 8]))
        <Var x: f32[batch,8]>
    """
    program = current_program()
    check_name(name)
    sizes, axes = _sizes(program, shape)
    if program.current is not program.table:
        raise ProgramError(
            f"data `{name}` is declared in an inner block.",
            fix="Declare data outside of all `with` blocks of loops and branches.",
        )
    program.table.new_var(name, TensorType(dtype_of(dtype), sizes), DATA, axes=axes)
    return var_of(program, program.table, name)


def _sizes(program: Builder, shape: Any) -> tuple[tuple[Size, ...], AxisNames]:
    """Return the sizes of a shape, and the axis names of numbers."""
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise ShapeError(
            f"invalid shape {shape!r}.", fix='Write a list of sizes, as ["batch", 8].'
        )
    named_sizes = [named_size(size) for size in cast("Sequence[Any]", shape)]
    names = tuple(map(axis_name, named_sizes))
    sizes = (size_of(size, program.table.unifier.fresh) for size in named_sizes)
    plain = tuple(int(size) if isinstance(size, int) else size for size in sizes)
    return plain, names if any(names) else ()


@transactional
def parameter(
    name: str | None,
    shape: Sequence[Extent],
    init: Initializer | Any = None,
    dtype: object = "float32",
    *,
    trainable: bool = True,
) -> Var:
    """Create a parameter: a persistable variable that optimizers train.

    Args:
        name: Its name in scopes and files; generated if it is `None`.
        shape: Numbers, each alone or in a pair with an axis name: `[("embed", 16), ("mlp",
            32)]`. A `br.Layout` shards the parameter by these names; they do not affect the
            computation. Several axes may have the same name.
        init: An initializer of `br.init`, or an array or number; by default `glorot_uniform`
            for two axes or more, zeros otherwise.
        dtype: The dtype; a trainable parameter needs a float dtype.
        trainable: False freezes it.

    Raises:
        DuplicateNameError: If a variable of this name exists.
        ShapeError: If a size is not a number.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     w = br.parameter("up.w", [("embed", 16), ("mlp", 32)])
        >>> print(prog.parameters[0].shown_type)
        f32[embed=16,mlp=32]
    """
    return persistable(name, shape, init, dtype, kind=PARAMETER, trainable=trainable)


@transactional
def state(
    name: str | None,
    shape: Sequence[Extent],
    init: Initializer | Any = 0.0,
    dtype: object = "float32",
) -> Var:
    """Create a persistable variable that no optimizer trains: a counter, a running mean."""
    return persistable(name, shape, init, dtype, kind=STATE, trainable=False)


def persistable(
    name: str | None,
    shape: Sequence[Extent],
    init: Any,
    dtype: object,
    *,
    kind: str,
    trainable: bool,
) -> Var:
    """Define a persistable variable, and its initial value in the startup program."""
    program = current_program()
    dtype_ = dtype_of(dtype)
    sizes, axes = _sizes(program, shape)
    type_ = TensorType(dtype_, _fixed_sizes(name, sizes))
    here = program.current
    full_name = here.persistable_name(name) if name else here.names.unique(kind)
    return _define(program, here, VarInfo(full_name, type_, kind, trainable, axes), init)


def _define(
    program: Builder,
    here: SymbolTable,
    info: VarInfo,
    init: Any,
) -> Var:
    """Define the variable; in a block with parameters per step, return its slice."""
    table, name = program.table, info.name
    for block in here.chain():
        if block.owning is not None and block.parent is not None:
            count, outer = block.owning.count, block.parent
            type_ = TensorType(info.dtype, (count, *info.shape))
            stacked_info = info.with_(type=type_, axes=info.axes and (None, *info.axes))
            stacked = _define(program, outer, stacked_info, stacked_initializer(init, count))
            slice_ = block.owning.cut(stacked)
            slice_.table.name_axes(slice_.name, info.axes)
            return slice_
    if table.find_var(name) is not None:
        raise DuplicateNameError(
            f"duplicate variable `{name}`.",
            given=f"{name}: {table.type_of(name)}",
            fix=f"Use br.get_variable({name!r}) to share it.",
        )
    table.new_var(name, info.type, info.kind, trainable=info.trainable, axes=info.axes)
    _initialize(program, info, init)
    return var_of(program, table, name)


def stacked_initializer(init: Any, count: int) -> Initializer:
    """Return an initializer that stacks `count` independent initial values."""

    def stacked(shape: tuple[int, ...], dtype: DType, name: str) -> Var:
        names = [f"{name}@{at}" for at in range(count)]
        return emit(
            "stack", *(_initial_value(init, shape[1:], dtype, each) for each in names), axis=0
        )

    return stacked


def _initial_value(init: Any, shape: tuple[int, ...], dtype: DType, name: str) -> Var:
    """Return an initial value: the result of an initializer, or the given value."""
    init = initializers.default(shape) if init is None else init
    value: Any = init(shape, dtype, name) if callable(init) else init
    return value if isinstance(value, Var) else _first_value(value, shape, dtype)


def _fixed_sizes(name: str | None, sizes: tuple[Size, ...]) -> tuple[int, ...]:
    fixed = tuple(size for size in sizes if isinstance(size, int))
    if len(fixed) != len(sizes):
        raise ShapeError(
            f"parameter `{name or ''}` has a symbolic size.",
            given=f"shape: {list(sizes)}",
            fix="Use integers; only data and computed values may have symbolic sizes.",
        )
    return fixed


def _initialize(program: Builder, info: VarInfo, init: Any) -> None:
    startup, name = program.startup, info.name
    shape = tuple(size for size in info.shape if isinstance(size, int))
    with startup.building(startup.table):
        startup.table.new_var(name, info.type, STATE, axes=info.axes)
        value = _initial_value(init, shape, info.dtype, name)
        if value.type != info.type:
            raise ShapeError(
                f"type mismatch of `{name}` and its initial value.",
                given=f"{name}: {info.type}   init: {value.type}",
                fix="An initial value has the dtype and shape of its parameter.",
            )
        _refuse_strangers(program, name)
        startup.update(name, value.name)


def _refuse_strangers(program: Builder, name: str) -> None:
    """Refuse an initializer that makes persistable variables, as `br.random` does.

    Such variables are defined after the variable itself; all earlier ones have been checked.
    """
    for info in reversed(program.startup.table.vars.values()):
        if info.name == name:
            return
        if info.persistable and info.name not in program.table.vars:
            raise ProgramError(
                f"the initializer of `{name}` creates the persistable variable `{info.name}`.",
                fix="Use br.init.normal() and other initializers, not br.random; they "
                "combine: lambda *given: 0.5 * br.init.normal()(*given).",
            )


def _first_value(init: Any, shape: tuple[int, ...], dtype: DType) -> Var:
    try:
        array = cast_literal(init, dtype)
    except DTypeError as error:
        usual = "Pass an initializer of br.init, or numbers of the dtype of the parameter."
        error.fix = array_fix(ValueError(error.given), usual)
        raise
    if isinstance(init, bool | int | float):
        return emit("full", shape=shape, value=number_of(numbers(init)), dtype=dtype)
    return emit("constant", value=Literal.of(array))


def Variable(
    shape: Sequence[Extent],
    dtype: object = "float32",
    name: str | None = None,
    init: Any = None,
) -> Var:
    """Create a parameter with a generated name; the spelling of the design documents.

    This is a function that returns a `br.Var`, which is the class for `isinstance`. It is
    unrelated to `braces.scope.Variable`, which holds a value of a scope.
    """
    return parameter(name, shape, init, dtype)


@with_user_line
def get_variable(name: str) -> Var:
    """Look up a variable by name, in the current block and all enclosing ones.

    In a plain block its prefix may be omitted: there `q.w` means `encoder/q.w`, if it exists.

    Raises:
        UnknownNameError: If the variable does not exist; the error suggests similar names.
    """
    program = current_program()
    known = program.current.look_up(name) or name
    own = program.current.own_part(known)
    return named_var(program, known) if own is None else own


@with_user_line
def constant(
    value: Operand, dtype: object = None, shape: Sequence[int] | int | None = None
) -> Var:
    """Create a constant: a number, a nested list, or an array.

    Dtype promotion of literals, here and in expressions such as `x * 0.5`:

    - A *number* is a Python number, a NumPy scalar, an array without axes, or a nested list of
      Python numbers. In an expression it takes the dtype of the variable (weak typing):
      `x + np.float64(0.1)` equals `x + 0.1`. If the variable's dtype is of a lower kind, a
      fraction is a float32, an integer an int64, a complex number a complex64 (complex128 with
      float64).
    - An *array* with axes keeps its dtype, and promotes as a variable does.
    - *Alone*, as here, a value with a dtype keeps it; Python integers are int64, Python floats
      float32.
    - A fraction is rounded to its dtype. Overflow is refused, and so are values that an integer
      dtype cannot represent: 300 in int8, -1 in uint8, 0.5, NaN.

    Args:
        value: The value.
        dtype: Another dtype that can represent the value.
        shape: Fill this shape with the number.

    Raises:
        DTypeError: If the value is not a number, or its dtype cannot represent it.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     print(br.constant([1, 2]).type, br.constant(3, "i8").type)
        i64[2] i8[]
    """
    if isinstance(value, Var):
        raise DTypeError(
            f"expected a constant, got the variable `{value.name}`.",
            fix="Use it directly, or br.cast it.",
        )
    array = as_array(value) if dtype is None else cast_literal(value, dtype_of(dtype))
    if shape is None:
        return emit("constant", value=Literal.of(array))
    if array.ndim:
        raise ShapeError("`shape`: expected a scalar value.", fix="Omit `shape`.")
    return emit("full", shape=shape, value=array.item(), dtype=array.dtype)
