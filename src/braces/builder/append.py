"""Appending operators to the block being built.

`apply` converts operands, infers types, and appends one operator to the current block of a
program. It is the only way from operands to an operator: `call` and `one` sort positional
operands into slots before it, and so do the functions that users call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from braces.builder.builder import Builder, current_program, program_in_with
from braces.builder.scalar_promotion import as_literal, leading, scalar_dtype
from braces.builder.source_line import innermost_line, user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, declared_var, shown, visible_var
from braces.define.axis_names import names_of_outputs
from braces.define.core.kernel_call import ask
from braces.define.decorator import OPS, OpDef
from braces.define.type_inference import Context, infer
from braces.dims import Dim
from braces.dtypes import DType, TensorType, Type
from braces.errors import BracesError, ProgramError
from braces.ir.records import CAPTURES, Op, Slots, Source, VarInfo
from braces.ir.walk import captures_of

_CONSTANT = "constant"
_SIZE = "size"
_name: Callable[[Var], str] = attrgetter("name")


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
    if "Learned" in definition.roles and not definition.lists:
        _refuse_in_loops(definition, table)
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
    if table.root.any_axes:
        _follow_names(definition, table, given, outputs, {**inferred, **types}, attrs)
    made: dict[str, tuple[Var, ...]] = {}
    for slot, names in outputs.items():
        for one_name in names:
            handles[one_name] = Var(program, table, one_name)
        made[slot] = tuple(map(handles.__getitem__, names))
    return made


def _follow_names(
    definition: OpDef,
    table: SymbolTable,
    given: Slots,
    bound: Slots,
    types: Mapping[str, tuple[Type, ...]],
    attrs: Mapping[str, Any],
) -> None:
    """Note the names of axes that outputs have of the inputs."""
    named = {slot: [table.axis_names(name) for name in names] for slot, names in given.items()}
    for slot, found in names_of_outputs(definition, types, attrs, named).items():
        for name, axes in zip(bound.get(slot, ()), found, strict=False):
            table.name_axes(name, axes)


def _refuse_in_loops(definition: OpDef, table: SymbolTable) -> None:
    """Refuse a size that only values tell where each trip would have another."""
    if any(one.trip_index for one in table.chain()):
        raise ProgramError(
            f"{definition.type} makes a size that only a run tells, which would change from "
            "trip to trip of a loop.",
            fix="Find it before the loop, or after it in what all trips put out; in a trip, "
            "choose with br.where.",
        )


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
            if type(value) is not Var:
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
    """The operands of a slot as variables; beside floats, Python's numbers are floats too.

    A symbolic size is a number that the run knows.
    """
    beside = None
    if slot not in definition.index_slots:
        given = chain.from_iterable(inputs.values())
        types = [value.type for value in given if isinstance(value, Var | VarInfo)]
        beside = leading([t.dtype for t in types if isinstance(t, TensorType)])
    constant, made = OPS.get(_CONSTANT), list[Var]()
    for value in inputs[slot]:
        value = declared_var(program, value)
        if isinstance(value, Var):
            made.append(value.read())
            continue
        if isinstance(value, Dim):
            attrs = {"value": value, "dtype": scalar_dtype("i", beside)}
            made.extend(_append(OPS.get(_SIZE), program, {}, attrs, None, "", source)["out"])
            continue
        attrs = {"value": as_literal(value, beside)}
        made.extend(_append(constant, program, {}, attrs, None, "", source)["out"])
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
        rule, given = definition.resolve_rule, definition.arrange(types)
        found = ask(definition.type, "resolved", rule, given, attrs, definition.coerced)
        attrs = {**attrs, **found}
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
    if given and not any(isinstance(value, Var | VarInfo) for value in given):
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


def handle_of(value: Any) -> Any:
    """The variable that operators read where this is an operand; other values as they are.

    For what is given now and read later, when a memory may be updated.

    Raises:
        ProgramError: It is a memory that is updated already.
        UnknownNameError: It is the declaration of a variable that is not visible.
    """
    if isinstance(value, VarInfo):
        return declared_var(current_program(), value)
    return value.read() if isinstance(value, Var) else value


def as_var(value: Any, beside: DType | None = None) -> Var:
    """An operand as a variable; numbers and arrays become constants, sizes numbers of a run.

    Raises:
        DTypeError: It is neither a variable nor a number nor an array.
    """
    value = handle_of(value)
    if isinstance(value, Var):
        return shown(value) if value.table.closed else value
    if isinstance(value, Dim):
        return one(_SIZE, value=value, dtype=scalar_dtype("i", beside))
    return one(_CONSTANT, value=as_literal(value, beside))


def number_of(size: Dim) -> Var:
    """A symbolic size as a number to compute with, in the program that is being built.

    Raises:
        ProgramError: No program is being built.
    """
    if program_in_with() is None:
        raise ProgramError(
            f"`{size}` becomes a number in a program, and is divided outside of any.",
            at=user_line(),
            fix="Divide inside `with prog:`; `//` gives a symbolic size.",
        )
    return one(_SIZE, value=size)


Dim.number = staticmethod(number_of)  # sizes stand below what appends, as variables do
Var.op = staticmethod(one)  # variables stand below what appends, and Python's operators append
