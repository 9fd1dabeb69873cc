"""Symbolic variables, the operands of users and gradient rules, and their look-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from braces.builder.builder import Builder
from braces.builder.numpy_dispatch import NumPyDispatch, missing_attribute_error
from braces.builder.operator_overloads import Arithmetic
from braces.builder.source_line import user_line
from braces.builder.symbol_table import SymbolTable
from braces.dims import Shape
from braces.dtypes import AxisNames, DType, ListType, TensorType, Type
from braces.errors import (
    DTypeError,
    ProgramError,
    SymbolicValueError,
    UnknownNameError,
    suggest,
)
from braces.ir.records import VarInfo
from braces.notebook import TextView

Operand: TypeAlias = "Var | float | int | bool | np.ndarray[Any, Any] | Sequence[Any]"


_INTERNAL = ("composed", "info", "op", "read", "shown_type", "table")
"""Names that Braces itself uses, which completion does not offer."""


class Var(Arithmetic, NumPyDispatch, TextView):
    """A symbolic variable of a program: a name in a block, with a type.

    Python's operators build programs: `x @ w + b`, `x[..., 0]`, `a < b`. `==` is elementwise,
    and the hash is the identity. All symbolic values have this class: those of `br.data`,
    `br.parameter` and its alias `br.Variable`, and the outputs of operators. `br.var` is the
    variance.

    Attributes:
        program: The program of the variable.
        table: The block that binds it.
        name: Unique in that block.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["n", 4])
        ...     y = x[:, :2] @ br.parameter("w", [2, 3])
        >>> y.type, y.shape, y.dtype
        (f32[n,3], (n, 3), dtype('float32'))
    """

    __slots__ = ("__weakref__", "name", "program", "table")

    op: ClassVar[Callable[..., Any]]
    """Append an operator with one output; set by `builder.append`."""

    def __init__(self, program: Builder, table: SymbolTable, name: str) -> None:
        self.program = program
        self.table = table
        self.name = name

    def read(self) -> Var:
        """Return the variable that an operator reads if this handle is its operand."""
        return self

    @property
    def info(self) -> VarInfo:
        """The declaration."""
        return self.table.vars[self.name]

    @property
    def type(self) -> Type:
        """Dtype and shape, or the type of a list."""
        return self.table.type_of(self.name)

    @property
    def shape(self) -> Shape:
        """The size of each axis; symbolic ones are `Dim`s."""
        return tensor_type(self).shape

    @property
    def dtype(self) -> DType:
        """The dtype, a `numpy.dtype`."""
        return tensor_type(self).dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def persistable(self) -> bool:
        """True if the value outlives a run."""
        return self.info.persistable

    @property
    def kind(self) -> str:
        """`value`, `data`, `parameter`, `state` or `argument`; see `VarInfo`."""
        return self.info.kind

    @property
    def trainable(self) -> bool:
        """True for a parameter that optimizers update."""
        return self.info.trainable

    @property
    def axes(self) -> AxisNames:
        """The declared name of each axis, or `None`; empty if no axis has a name."""
        return self.info.axes

    @property
    def shown_type(self) -> str:
        """The type as text, with axis names: `f32[embed=16,mlp=32]`."""
        return self.info.shown_type

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _INTERNAL]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing_attribute_error(name, dir(type(self)))

    def __getitem__(self, index: Any) -> Var:
        # The module of the indexing operators registers this function.
        return INDEXING["getitem"](self, index)

    # ---- operations that need a value --------------------------------------------------------

    def _no_value(self, wanted: str, fix: str) -> NoReturn:
        raise SymbolicValueError(
            f"`{self.name}` is a symbolic variable and has no value yet, so it cannot be "
            f"{wanted}.",
            at=user_line(),
            given=f"{self.name}: {self.type}",
            fix=fix,
        )

    def __bool__(self) -> bool:
        self._no_value(
            "used as a condition of Python's `if`, `while`, `and`, `or`, `not` or `in`",
            "Use br.create_if_else, br.create_while or br.where; `&`, `|`, `~` for logic.",
        )

    def __int__(self) -> int:
        self._no_value("converted to an int", "Use br.cast(x, 'int64') inside the program.")

    def __float__(self) -> float:
        self._no_value("converted to a float", "Use br.cast, or fetch it with exe.run.")

    def __index__(self) -> int:
        self._no_value("used as a Python index", "Use br.take, or x[i] on a variable.")

    def __iter__(self) -> Any:
        self._no_value(
            "iterated over", "Use br.split or br.unstack, br.scan, or br.create_rnn for steps."
        )

    def __len__(self) -> int:
        self._no_value("passed to len()", "Use x.shape[0], which may be symbolic.")

    def __contains__(self, item: object) -> bool:
        self._no_value("searched with `in`", "Use br.any(x == item).")

    def __array__(self, *args: object, **kwargs: object) -> Any:
        self._no_value(
            "converted to a NumPy array", "Fetch it: exe.run(prog, scope, fetch=[x])."
        )

    def __setitem__(self, index: object, value: object) -> None:
        self._no_value(
            "assigned to", "Use br.scatter_add or br.where; variables are immutable."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {self.type}>"


INDEXING: dict[str, Any] = {}
"""Registry of the function behind `x[...]`, filled by the module of indexing operators."""


def tensor_type(var: Var) -> TensorType:
    """Return the type of a variable that must be an array."""
    type_ = var.type
    if isinstance(type_, ListType):
        raise DTypeError(f"expected an array, got the list `{var.name}` ({type_}).")
    return type_


# ---- look-up ---------------------------------------------------------------------------------


def var_of(program: Builder, table: SymbolTable, name: str) -> Var:
    """Return the handle of a variable, always the same object."""
    var = table.handles.get(name)
    if var is None:
        var = table.handles[name] = Var(program, table, name)
    return var


def visible_var(program: Builder, table: SymbolTable, name: str) -> Var:
    """Return the handle of a variable visible in a block: its own, or of an enclosing one.

    Raises:
        UnknownNameError: If there is none.
    """
    owner = table.table_of(name)
    if owner is None:
        raise UnknownNameError(
            f"`{name}` is not visible in this block.", fix=suggest(name, table.vars)
        )
    return var_of(program, owner, name)


def main_var(program: Builder, name: str) -> Var:
    """Return the variable of this name in the main block.

    Raises:
        UnknownNameError: If the variable does not exist.
    """
    table = program.table
    if name not in table.vars and not table.show(name):
        message = f"unknown variable `{name}` in the main block."
        raise UnknownNameError(message, fix=suggest(name, program.infos))
    return var_of(program, table, name)


def expose(var: Var) -> Var:
    """Return a variable, or the block output for it if its plain block is closed.

    The block gets the variable as an output if needed.
    """
    table = var.table.outside
    is_output = table is not var.table and table.show(var.name)
    return var_of(var.program, table, var.name) if is_output else var


def named_var(program: Builder, name: str) -> Var:
    """Return the visible variable of this name, or that of a closed block, as its output.

    Raises:
        UnknownNameError: If the variable does not exist; the error suggests similar names.
    """
    current = program.current
    table = current.table_of(name) or next((t for t in current.chain() if t.show(name)), None)
    if table is None:
        current.get_var(name)
    assert table is not None
    return var_of(program, table, name)


def declared_var(program: Builder, value: Any) -> Any:
    """Return the variable of a declaration; any other value unchanged.

    Raises:
        UnknownNameError: If no variable of this name is visible.
    """
    return named_var(program, value.name) if isinstance(value, VarInfo) else value


def check_visible(program: Builder, var: Var) -> None:
    """Refuse variables of other programs, and of blocks that do not enclose the current one."""
    if var.program is not program:
        raise ProgramError(
            f"`{var.name}` belongs to another program.",
            given=f"{var.name}: {var.type}",
            fix="Use variables of one program; scopes share parameters by name.",
        )
    if var.table not in program.current.chain():
        raise ProgramError(
            f"`{var.name}` is local to a block that is closed, so it cannot be read here.",
            given=f"{var.name}: {var.type}",
            fix="Return it from its block: add_output(...) and a call, or final(...).",
        )
    visible = program.current.table_of(var.name)
    if visible is not var.table:
        raise ProgramError(
            f"`{var.name}` is shadowed by an inner variable of the same name.",
            fix="Rename one of them.",
        )
