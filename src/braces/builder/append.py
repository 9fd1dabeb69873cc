"""Appending operators to the block being built.

`apply` converts operands, infers types, and appends one operator to the current block of a
program. All operators are built by it. `call`, `one` and the public operator functions first
sort positional operands into slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from braces.builder.builder import Builder, current_program, program_in_with
from braces.builder.scalar_promotion import as_literal, leading_dtype, scalar_dtype
from braces.builder.source_line import innermost_line, user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, check_visible, declared_var, expose, visible_var
from braces.define.axis_names import output_axis_names
from braces.define.core.kernel_call import call_rule
from braces.define.core.tracer_guard import shorten_traceback
from braces.define.decorator import OPS, OpDef
from braces.define.type_inference import InferenceContext, infer
from braces.dims import Dim
from braces.dtypes import DType, TensorType, Type
from braces.errors import BracesError, ProgramError, ShapeError
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

    Every operator is built here. Steps that cannot fail come last, so that a failure leaves the
    program unchanged.

    Args:
        op: The operator or its type, derived ones included.
        inputs: Slot to operands; numbers and arrays become constants.
        attrs: Attributes; defaults are filled in.
        wanted: The output slots to bind; all by default.
        name: A name for the operator and its output.

    Raises:
        BracesError: If the operands or attributes are invalid; the message names operator, file
            and line.
        ProgramError: If no operand is a variable, and there is no `with br.Program()`.
    """
    definition = OPS.get(op) if isinstance(op, str) else op
    program = program_in_with()
    if program is None:
        program = _program_outside(definition.type, inputs)
    table = program.current
    mark, source = table.mark(), program.source or innermost_line()
    try:
        if table.names.blocks and _reads_closed(inputs):
            with program.transaction():  # reading from a closed block changes it
                inputs = {
                    slot: [_expose(program, x) for x in xs] for slot, xs in inputs.items()
                }
                return _append(definition, program, inputs, attrs or {}, wanted, name, source)
        return _append(definition, program, inputs, attrs or {}, wanted, name, source)
    except BracesError as error:
        shorten_traceback(error)
        table.rewind(mark)
        block = "block 0" if table is program.table else "an inner block"
        suffix = f", built at {source}" if source else ""
        error.located(f"{block}, {definition.type}{suffix}")
        raise


def _explain_partition(error: ShapeError, table: SymbolTable, operands: list[Var]) -> None:
    """Explain an operator on the batch elements of a row-wise block and on the whole batch."""
    for block in table.chain():
        own = block.numbers
        if own is None or not own.block:
            continue
        shapes = {v.name: v.type.shape for v in operands if isinstance(v.type, TensorType)}
        is_own = any(own.rows in shape for shape in shapes.values())
        whole = [name for name, shape in shapes.items() if own.batch in shape]
        if is_own and whole:
            error.fix = (
                f"{own.block} sees its own batch elements only, {own.rows} of {own.batch}; "
                f"`{whole[0]}` has the whole batch. Write block.add_input({whole[0]}) in the "
                f"block, or pass `{whole[0]}` as an operand of br.cond or br.switch."
            )


def _reads_closed(inputs: Mapping[str, Sequence[Any]]) -> bool:
    """Return whether an input is a variable of a closed plain block."""
    for values in inputs.values():
        for value in values:
            if isinstance(value, Var) and value.table.closed:
                return True
    return False


def _expose(program: Builder, value: Any) -> Any:
    return expose(value) if isinstance(value, Var) and value.program is program else value


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
    operands, types = _convert_operands(definition, program, inputs, attrs, source)
    slots = definition.output_names if wanted is None else tuple(wanted)
    try:
        attrs, inferred = _infer_types(definition, table, operands, types, attrs, slots)
    except BracesError as error:
        shown = (s for s in operands if s != CAPTURES or not definition.owns_blocks)
        error.given = error.given or describe_operands({s: operands[s] for s in shown})
        if isinstance(error, ShapeError):
            _explain_partition(
                error, table, [var for slot in operands.values() for var in slot]
            )
        raise
    op_name, outputs = _names_of(definition, table, name, inferred, slots)
    infos = [
        VarInfo(each, type_)
        for slot, names in outputs.items()
        for each, type_ in zip(names, inferred[slot], strict=True)
    ]
    input_names: dict[str, tuple[str, ...]] = {}
    for slot, values in operands.items():
        if values:
            input_names[slot] = tuple(map(_name, values))
    table.append(Op(definition.type, op_name, input_names, outputs, attrs, source), infos)
    if table.root.any_axes:
        _follow_names(definition, table, input_names, outputs, {**inferred, **types}, attrs)
    out_vars: dict[str, tuple[Var, ...]] = {}
    for slot, names in outputs.items():
        for var_name in names:
            handles[var_name] = Var(program, table, var_name)
        out_vars[slot] = tuple(map(handles.__getitem__, names))
    return out_vars


def _names_of(
    definition: OpDef,
    table: SymbolTable,
    name: str,
    types: Mapping[str, Sequence[Type]],
    slots: Iterable[str],
) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Return the name of a new operator, and those of its outputs by slot.

    A generated name is one with which no output has the name of an existing variable.
    """
    counts = {slot: len(types[slot]) for slot in slots}
    if name:
        chosen = table.prefixed(name)
        return chosen, _output_names(chosen, counts)
    taken = table.names.taken
    while True:
        op_name = table.names.unique(definition.stem)
        outputs = _output_names(op_name, counts)
        if not any(n in taken and n != op_name for names in outputs.values() for n in names):
            return op_name, outputs


def _output_names(op_name: str, counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Return the names of outputs by slot: `op`, `op.slot`, `op.0` or `op.slot.0`."""
    outputs: dict[str, tuple[str, ...]] = {}
    for slot, count in counts.items():
        stem = f"{op_name}.{slot}" if len(counts) > 1 else op_name
        outputs[slot] = (stem,) if count == 1 else tuple(f"{stem}.{i}" for i in range(count))
    return outputs


def _follow_names(
    definition: OpDef,
    table: SymbolTable,
    input_names: Slots,
    output_names: Slots,
    types: Mapping[str, tuple[Type, ...]],
    attrs: Mapping[str, Any],
) -> None:
    """Propagate axis names from the inputs to the outputs."""
    input_axes = {
        slot: [table.axis_names(name) for name in names] for slot, names in input_names.items()
    }
    for slot, out_axes in output_axis_names(definition, types, attrs, input_axes).items():
        for name, axes in zip(output_names.get(slot, ()), out_axes, strict=False):
            table.name_axes(name, axes)


def _refuse_in_loops(definition: OpDef, table: SymbolTable) -> None:
    """Refuse a data-dependent size in a loop, where it would differ between iterations."""
    if any(outer_table.trip_index for outer_table in table.chain()):
        raise ProgramError(
            f"{definition.type} has an output of data-dependent size, which is unsupported in "
            "a loop.",
            fix="Compute it before the loop, or after it from the stacked outputs; in an "
            "iteration, select with br.where.",
        )


def _convert_operands(
    definition: OpDef,
    program: Builder,
    inputs: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
    source: Source | None,
) -> tuple[dict[str, tuple[Var, ...]], dict[str, tuple[Type, ...]]]:
    """Return variables and their types by slot; captures of sub-blocks form a slot too."""
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
    """Convert the operands of a slot to variables.

    Python numbers are promoted to the dtype of the other operands. A symbolic size becomes a
    runtime number.
    """
    beside = None
    if slot not in definition.index_slots:
        all_values = chain.from_iterable(inputs.values())
        types = [value.type for value in all_values if isinstance(value, Var | VarInfo)]
        beside = leading_dtype([t.dtype for t in types if isinstance(t, TensorType)])
    constant, vars = OPS.get(_CONSTANT), list[Var]()
    for value in inputs[slot]:
        value = declared_var(program, value)
        if isinstance(value, Var):
            vars.append(value.read())
            continue
        if isinstance(value, Dim):
            attrs = {"value": value, "dtype": scalar_dtype("i", beside)}
            vars.extend(_append(OPS.get(_SIZE), program, {}, attrs, None, "", source)["out"])
            continue
        attrs = {"value": as_literal(value, beside)}
        vars.extend(_append(constant, program, {}, attrs, None, "", source)["out"])
    return tuple(vars)


def _infer_types(
    definition: OpDef,
    table: SymbolTable,
    operands: Mapping[str, tuple[Var, ...]],
    types: Mapping[str, tuple[Type, ...]],
    attrs: dict[str, Any],
    slots: tuple[str, ...],
) -> tuple[dict[str, Any], dict[str, tuple[Type, ...]]]:
    """Return the resolved attributes, and the inferred types of the outputs."""
    if definition.resolve_rule is not None:
        rule, arguments = definition.resolve_rule, definition.arrange(types)
        resolved = call_rule(
            definition.type, "resolved", rule, arguments, attrs, definition.coerced
        )
        attrs = {**attrs, **resolved}
    outer: Mapping[str, Type] = {}
    if definition.owns_blocks:
        names = (var.name for var in operands[CAPTURES])
        outer = dict(zip(names, types[CAPTURES], strict=True))
    context = InferenceContext(definition.type, table.unifier)
    return attrs, infer(definition, types, attrs, slots, context, outer)


def _program_outside(op_type: str, inputs: Mapping[str, Sequence[Any]]) -> Builder:
    """Return the program to build without a `with`: that of the first variable, if any.

    Raises:
        ProgramError: If no operand is a variable.
    """
    input_values = [value for values in inputs.values() for value in values]
    if input_values and not any(isinstance(value, Var | VarInfo) for value in input_values):
        raise ProgramError(
            f"{op_type} has no program to append to: no program is active and no input is a "
            "variable.",
            at=user_line(),
            given="   ".join(" ".join(repr(value).split())[:40] for value in input_values[:4]),
            fix="To compute at once, use NumPy. To build, write `with br.Program() as prog:` "
            "around the call, or pass a variable: br.data(...), br.constant(...).",
        )
    return program_of(inputs)


def program_of(operands: Mapping[str, Sequence[Any]]) -> Builder:
    """Return the program of the innermost `with`; outside any, that of the first variable."""
    inner_program = program_in_with()
    if inner_program is not None:
        return inner_program
    variables = (var for values in operands.values() for var in values if isinstance(var, Var))
    first = next(variables, None)
    return current_program() if first is None else first.program


def describe_operands(operands: Mapping[str, Sequence[Var]]) -> str:
    """Format names and types of operands, for messages."""
    parts = [
        f"{slot} = {var.name}: {var.type}"
        for slot, values in operands.items()
        for var in values
    ]
    return "   ".join(parts) or "no inputs"


def call(op_type: str, /, *operands: Any, name: str = "", **attrs: Any) -> Any:
    """Append an operator with positional inputs; return its output, or a tuple of several."""
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
            f"{op_type} takes {len(definition.inputs)} inputs, got {len(operands)}."
        )
    return unpack_outputs(definition, apply(definition, slots, attrs, name=name))


def unpack_outputs(definition: OpDef, out_vars: Mapping[str, tuple[Var, ...]]) -> Any:
    """Return outputs in public form: one, or a tuple; a variadic output is a list."""
    if len(definition.outputs) == 1:
        slot = definition.outputs[0]
        return list(out_vars[slot.name]) if slot.many else out_vars[slot.name][0]
    return tuple(
        list(out_vars[s.name]) if s.many else out_vars[s.name][0] for s in definition.outputs
    )


emit: Callable[..., Var] = call
"""`call`, typed for operators with one output: append the operator, return its variable."""


def handle_of(value: Any) -> Any:
    """Return the variable that an operator reads for this operand; other values unchanged.

    Use it for an operand that is read later, when a memory may have been updated.

    Raises:
        ProgramError: If the value is a memory that is already updated.
        UnknownNameError: If the value declares a variable that is not visible.
    """
    if isinstance(value, VarInfo):
        return declared_var(current_program(), value)
    return value.read() if isinstance(value, Var) else value


def as_var(value: Any, beside: DType | None = None) -> Var:
    """Convert an operand to a variable: numbers and arrays to constants, sizes to `size` ops.

    Raises:
        DTypeError: If the operand is not a variable, number or array.
    """
    value = handle_of(value)
    if isinstance(value, Var):
        return expose(value) if value.table.closed else value
    if isinstance(value, Dim):
        return emit(_SIZE, value=value, dtype=scalar_dtype("i", beside))
    return emit(_CONSTANT, value=as_literal(value, beside))


def number_of(size: Dim) -> Var:
    """Convert a symbolic size to a runtime number in the current program.

    Raises:
        ProgramError: If no program is being built.
    """
    if program_in_with() is None:
        raise ProgramError(
            f"the size `{size}` can be divided as a number only inside a program.",
            at=user_line(),
            fix="Divide inside `with prog:`; `//` returns a symbolic size.",
        )
    return emit(_SIZE, value=size)


# `Dim` and `Var` are in lower layers than this module, but their Python operators append.
Dim.number = staticmethod(number_of)
Var.op = staticmethod(emit)
