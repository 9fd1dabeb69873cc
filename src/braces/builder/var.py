"""Building programs: symbolic variables, and appending operators to the block being built.

`Var` is what users hold and what gradient rules compute with. `apply` converts operands, infers
types, and appends one operator to the current block of a program. It is the only way from
operands to an operator: `call` and `one` sort positional operands into slots before it, and so
do the functions that users call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NoReturn, TypeAlias

import numpy as np

from braces.builder.arithmetic import Arithmetic
from braces.builder.numpy_calls import NumPyCalls, no_attribute
from braces.builder.program import Builder, current_program, program_in_with
from braces.builder.scalars import as_literal, leading
from braces.builder.source import innermost_line, user_line
from braces.builder.table import SymbolTable
from braces.define.decorator import OPS, OpDef
from braces.define.inference import Context, infer
from braces.dims import Shape
from braces.dtypes import DType, ListType, TensorType, Type
from braces.errors import (
    BracesError,
    DTypeError,
    ProgramError,
    SymbolicValueError,
    UnknownNameError,
    suggest,
)
from braces.ir.records import CAPTURES, Op, Source, VarInfo
from braces.ir.walk import captures_of

_CONSTANT = "constant"
_name: Callable[[Var], str] = attrgetter("name")

Operand: TypeAlias = "Var | float | int | bool | np.ndarray[Any, Any] | Sequence[Any]"


class Var(Arithmetic, NumPyCalls):
    """A symbolic variable of a program: a name in a block, with a type.

    Python's operators build programs: `x @ w + b`, `x[..., 0]`, `a < b`. `==` is elementwise,
    and the hash is the identity. This is the class of all that is built, whatever made it:
    `br.data`, `br.parameter` and its other spelling `br.Variable`, or an operator; `br.var` is
    the variance.

    Attributes:
        program: The program that it belongs to.
        table: The block that binds it.
        name: Unique in that block.
    """

    __slots__ = ("__weakref__", "name", "program", "table")

    def __init__(self, program: Builder, table: SymbolTable, name: str) -> None:
        self.program = program
        self.table = table
        self.name = name

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
        """Whether the value outlives a run."""
        return self.info.persistable

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise no_attribute(name, dir(type(self)))

    @staticmethod
    def op(op_type: str, *operands: Any, **attrs: Any) -> Var:
        """Append an operator with one output; below, for Python's operators stand above it."""
        return call(op_type, *operands, **attrs)

    def __getitem__(self, index: Any) -> Var:
        # Indexing is an operator family of its own, registered by the module that defines it.
        return INDEXING["getitem"](self, index)

    # ---- what a symbolic variable is not -----------------------------------------------------

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
            "a condition of Python's `if`, `while`, `and`, `or`, `not` or `in`",
            "Use br.create_if_else, br.create_while or br.where; `&`, `|`, `~` for logic.",
        )

    def __int__(self) -> int:
        self._no_value("turned into an int", "Use br.cast(x, 'int64') inside the program.")

    def __float__(self) -> float:
        self._no_value("turned into a float", "Use br.cast, or fetch it with exe.run.")

    def __index__(self) -> int:
        self._no_value("an index of a Python sequence", "Use br.take, or x[i] on a variable.")

    def __iter__(self) -> Any:
        self._no_value(
            "iterated over", "Use br.split or br.unstack, br.scan, or br.create_rnn for steps."
        )

    def __len__(self) -> int:
        self._no_value("measured with len()", "Use x.shape[0], which may be symbolic.")

    def __contains__(self, item: object) -> bool:
        self._no_value("searched with `in`", "Use br.any(x == item).")

    def __array__(self, *args: object, **kwargs: object) -> Any:
        self._no_value("a NumPy array", "Fetch it: exe.run(prog, scope, fetch=[x]).")

    def __setitem__(self, index: object, value: object) -> None:
        self._no_value("assigned to", "Use br.scatter_add or br.where; values never change.")

    def __repr__(self) -> str:
        return f"<Var {self.name}: {self.type}>"


INDEXING: dict[str, Any] = {}
"""The function behind `x[...]`, filled in by the operators that index."""


def tensor_type(var: Var) -> TensorType:
    """The type of a variable that must be an array."""
    found = var.type
    if isinstance(found, ListType):
        raise DTypeError(f"`{var.name}` is a list ({found}), not an array.")
    return found


# ---- finding the place -----------------------------------------------------------------------


def var_of(program: Builder, table: SymbolTable, name: str) -> Var:
    """The handle of a variable, always the same object."""
    found = table.handles.get(name)
    if found is None:
        found = table.handles[name] = Var(program, table, name)
    return found


def visible_var(program: Builder, table: SymbolTable, name: str) -> Var:
    """The handle of a variable that is visible in a block: its own, or of one around it."""
    owner = table.table_of(name)
    assert owner is not None, f"{name} is not visible"
    return var_of(program, owner, name)


def main_var(program: Builder, name: str) -> Var:
    """The variable of this name in the main block.

    Raises:
        UnknownNameError: There is none.
    """
    table = program.table
    if name not in table.vars and not table.show(name):
        what = f"There is no variable `{name}` in the main block."
        raise UnknownNameError(what, fix=suggest(name, program.vars))
    return var_of(program, table, name)


# ---- operands --------------------------------------------------------------------------------


def as_var(value: Any, beside: DType | None = None) -> Var:
    """An operand as a variable; numbers and arrays become constants.

    Raises:
        DTypeError: It is neither a variable nor a number nor an array.
    """
    if isinstance(value, Var):
        return shown(value) if value.table.closed else value
    return one(_CONSTANT, value=as_literal(value, beside))


def shown(var: Var) -> Var:
    """A variable as it is seen now: where its plain block is closed, the output of that block.

    Reading it makes it an output.
    """
    table = var.table.outside
    found = table is not var.table and table.show(var.name)
    return var_of(var.program, table, var.name) if found else var


def named_var(program: Builder, name: str) -> Var:
    """The variable of this name that is visible now, or that a closed block gives out.

    Raises:
        UnknownNameError: There is none; near misses are suggested.
    """
    current = program.current
    table = current.table_of(name) or next((t for t in current.chain() if t.show(name)), None)
    if table is None:
        current.get_var(name)
    assert table is not None
    return var_of(program, table, name)


def check_visible(program: Builder, var: Var) -> None:
    """Refuse variables of other programs, and of blocks that do not enclose the current one."""
    if var.program is not program:
        raise ProgramError(
            f"`{var.name}` belongs to another program.",
            given=f"{var.name}: {var.type}",
            fix="Build with variables of one program; scopes share parameters by name.",
        )
    if var.table not in program.current.chain():
        raise ProgramError(
            f"`{var.name}` is a variable of a block that is closed, so it cannot be read here.",
            given=f"{var.name}: {var.type}",
            fix="Return it from its block: add_output(...) and a call, or final(...).",
        )
    visible = program.current.table_of(var.name)
    if visible is not var.table:
        raise ProgramError(
            f"An inner variable has the name `{var.name}` too and hides this one.",
            fix="Give one of them another name.",
        )


# ---- appending -------------------------------------------------------------------------------


def apply(
    op: str | OpDef,
    inputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any] | None = None,
    *,
    wanted: Iterable[str] | None = None,
    name: str = "",
) -> dict[str, tuple[Var, ...]]:
    """Append one operator to the current block and return its outputs by slot.

    All that builds comes through here. What cannot fail comes last, so that an operator that
    does not fit leaves nothing behind.

    Args:
        op: The operator or its type, derived ones included.
        inputs: Slot to operands; numbers and arrays become constants.
        attrs: Attributes; defaults are filled in.
        wanted: The output slots to bind; all by default.
        name: A name for the operator and its output.

    Raises:
        BracesError: It does not fit; the message names operator, file and line.
        ProgramError: It has operands, none is a variable, and there is no `with br.Program()`.
    """
    definition = OPS.get(op) if isinstance(op, str) else op
    program = program_in_with()
    if program is None:
        program = _program_outside(definition.type, inputs)
    table = program.current
    mark, source = table.mark(), program.source or innermost_line()
    try:
        if table.names.blocks and _reads_closed(inputs):
            with program.transaction():  # closed blocks change, of which something is read
                inputs = {slot: [_seen(program, x) for x in xs] for slot, xs in inputs.items()}
                return _append(definition, program, inputs, attrs or {}, wanted, name, source)
        return _append(definition, program, inputs, attrs or {}, wanted, name, source)
    except BracesError as error:
        table.rewind(mark)
        where = "block 0" if table is program.table else "an inner block"
        built = f", built at {source}" if source else ""
        error.located(f"{where}, {definition.type}{built}")
        raise


def _reads_closed(inputs: Mapping[str, Sequence[Any]]) -> bool:
    """Whether there is a variable of a plain block that is closed."""
    for values in inputs.values():
        for value in values:
            if isinstance(value, Var) and value.table.closed:
                return True
    return False


def _seen(program: Builder, value: Any) -> Any:
    return shown(value) if isinstance(value, Var) and value.program is program else value


def _append(
    definition: OpDef,
    program: Builder,
    inputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
    wanted: Iterable[str] | None,
    name: str,
    source: Source | None,
) -> dict[str, tuple[Var, ...]]:
    table, handles = program.current, program.current.handles
    attrs = definition.bind_attrs(attrs)
    operands, types = _operands(definition, program, inputs, attrs, source)
    slots = definition.output_names if wanted is None else tuple(wanted)
    try:
        attrs, inferred = _inferred(definition, table, operands, types, attrs, slots)
    except BracesError as error:
        shown = (s for s in operands if s != CAPTURES or not definition.owns_blocks)
        error.given = error.given or describe_operands({s: operands[s] for s in shown})
        raise
    op_name = table.prefixed(name) if name else table.names.unique(definition.stem)
    infos: list[VarInfo] = []
    outputs: dict[str, tuple[str, ...]] = {}
    for slot in slots:
        stem = f"{op_name}.{slot}" if len(slots) > 1 else op_name
        found = inferred[slot]
        names = (stem,) if len(found) == 1 else tuple(f"{stem}.{i}" for i in range(len(found)))
        outputs[slot] = names
        infos.extend(map(VarInfo, names, found))
    given: dict[str, tuple[str, ...]] = {}
    for slot, values in operands.items():
        if values:
            given[slot] = tuple(map(_name, values))
    table.append(Op(definition.type, op_name, given, outputs, attrs, source), infos)
    made: dict[str, tuple[Var, ...]] = {}
    for slot, names in outputs.items():
        for one_name in names:
            handles[one_name] = Var(program, table, one_name)
        made[slot] = tuple(map(handles.__getitem__, names))
    return made


def _operands(
    definition: OpDef,
    program: Builder,
    inputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
    source: Source | None,
) -> tuple[dict[str, tuple[Var, ...]], dict[str, tuple[Type, ...]]]:
    """Variables by slot, and their types; what sub-blocks read of outside is a slot, too."""
    table = program.current
    operands: dict[str, tuple[Var, ...]] = {}
    types: dict[str, tuple[Type, ...]] = {}
    for slot, values in inputs.items():
        for value in values:
            if not isinstance(value, Var):
                values = _as_vars(definition, program, inputs, slot, source)
                break
        for var in values:
            if var.table is not table:
                check_visible(program, var)
        if values:
            operands[slot] = tuple(values)
            types[slot] = tuple(map(table.type_of, map(_name, values)))
    if definition.owns_blocks:
        captured = tuple(visible_var(program, table, name) for name in captures_of(attrs))
        operands[CAPTURES], types[CAPTURES] = captured, tuple(var.type for var in captured)
    return operands, types


def _as_vars(
    definition: OpDef,
    program: Builder,
    inputs: Mapping[str, Sequence[Any]],
    slot: str,
    source: Source | None,
) -> tuple[Var, ...]:
    """The operands of a slot as variables; beside floats, Python's numbers are floats too."""
    beside = None
    if slot not in definition.index_slots:
        types = [v.type for v in chain.from_iterable(inputs.values()) if isinstance(v, Var)]
        beside = leading([t.dtype for t in types if isinstance(t, TensorType)])
    constant, made = OPS.get(_CONSTANT), list[Var]()
    for value in inputs[slot]:
        if not isinstance(value, Var):
            attrs = {"value": as_literal(value, beside)}
            (value,) = _append(constant, program, {}, attrs, None, "", source)["out"]
        made.append(value)
    return tuple(made)


def _inferred(
    definition: OpDef,
    table: SymbolTable,
    operands: Mapping[str, tuple[Var, ...]],
    types: Mapping[str, tuple[Type, ...]],
    attrs: dict[str, Any],
    slots: tuple[str, ...],
) -> tuple[dict[str, Any], dict[str, tuple[Type, ...]]]:
    """The attributes, made definite, and the types of the outputs."""
    if definition.resolve_rule is not None:
        attrs = {**attrs, **definition.resolve_rule(*definition.arrange(types), **attrs)}
    outer: Mapping[str, Type] = {}
    if definition.owns_blocks:
        names = (var.name for var in operands[CAPTURES])
        outer = dict(zip(names, types[CAPTURES], strict=True))
    context = Context(definition.type, table.unifier)
    return attrs, infer(definition, types, attrs, slots, context, outer)


def _program_outside(op_type: str, inputs: Mapping[str, Sequence[Any]]) -> Builder:
    """The program to build where there is no `with`: that of the first variable, if any.

    Raises:
        ProgramError: There are values, and none is a variable.
    """
    given = [value for values in inputs.values() for value in values]
    if given and not any(isinstance(value, Var) for value in given):
        raise ProgramError(
            f"{op_type} builds a program, and is given values outside of any.",
            at=user_line(),
            given="   ".join(" ".join(repr(value).split())[:40] for value in given[:4]),
            fix="To compute at once, use NumPy. To build, write `with br.Program() as prog:` "
            "around it, or give it a variable: br.data(...), br.constant(...).",
        )
    return program_of(inputs)


def program_of(operands: Mapping[str, Sequence[Any]]) -> Builder:
    """The program of the innermost `with`; outside of all, the one of the first variable."""
    found = program_in_with()
    if found is not None:
        return found
    given = (var for values in operands.values() for var in values if isinstance(var, Var))
    first = next(given, None)
    return current_program() if first is None else first.program


def describe_operands(operands: Mapping[str, Sequence[Var]]) -> str:
    """Names and types, for messages."""
    shown = [
        f"{slot} = {var.name}: {var.type}"
        for slot, values in operands.items()
        for var in values
    ]
    return "   ".join(shown) or "no inputs"


def call(op_type: str, /, *operands: Any, name: str = "", **attrs: Any) -> Any:
    """Append an operator with positional inputs; one output, or a tuple of several."""
    definition = OPS.get(op_type)
    slots: dict[str, Sequence[Any]] = {}
    used = 0
    for slot in definition.inputs:
        if slot.many:
            slots[slot.name], used = operands[used:], len(operands)
        elif used < len(operands):
            value, used = operands[used], used + 1
            if value is not None or not slot.optional:
                slots[slot.name] = (value,)
    if used < len(operands):
        raise ProgramError(
            f"{op_type} takes {len(definition.inputs)} inputs, not {len(operands)}."
        )
    return unpacked(definition, apply(definition, slots, attrs, name=name))


def unpacked(definition: OpDef, made: Mapping[str, tuple[Var, ...]]) -> Any:
    """The outputs of an operator as users get them: one, or a tuple; many are a list."""
    if len(definition.outputs) == 1:
        slot = definition.outputs[0]
        return list(made[slot.name]) if slot.many else made[slot.name][0]
    return tuple(list(made[s.name]) if s.many else made[s.name][0] for s in definition.outputs)


one: Callable[..., Var] = call
"""`call` for operators with one output, which a type checker is to know."""
