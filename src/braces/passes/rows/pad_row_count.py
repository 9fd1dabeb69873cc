"""Padding of data-dependent sizes: capacity for more elements than there are.

Code is compiled for fixed sizes. A block with a data-dependent number of rows is compiled for a
rounded number: rows beyond the real ones are copies of the first. Operators that mix rows mask
them, as in partitioned branches. A program keeps exact sizes if an operator has no mask, or
reads the size other than as a value.

    data x: f32[b]
    …, final=[l: list<f32[]>], … = loop(…)
    s: f32[m] = list_stack(list=l) {length=size(m)}     # m is data-dependent
    y: f32[] = sum(x=s)

    data x: f32[b]
    …, final=[l: list<f32[]>], … = loop(…)
    count: i64[] = list_length(list=l)
    s: f32[m] = list_stack(list=l) {length=size(m), roomy=true}     # padding: copies of first
    places: i64[m] = arange() {stop=size(m), …}
    valid: bool[m] = less(x=places, y=count)
    kept: f32[m] = where(condition=valid, x=s, y=zero)
    y: f32[] = sum(x=kept)

Without padding, this changes no result. The executor applies it when it compiles.
"""

from __future__ import annotations

from braces.builder.append import apply, emit
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.define.decorator import OPS
from braces.dims import Dim
from braces.dtypes import TensorType
from braces.errors import BracesError
from braces.ir.records import VALUE, Body, Op, ProgramDef
from braces.ops.control.batch_axis.masking import mask_rows
from braces.passes.cleanup.dead_code import data_dependent_size
from braces.passes.cleanup.inline import inline_blocks
from braces.passes.core.pipeline import Note, Pass, collect_notes, note
from braces.passes.verifier.program import next_dim_number

EXACT = "not padded, so each size is compiled"


def pad_for_run(
    program: ProgramDef, causes: dict[str, str] | None = None
) -> tuple[ProgramDef, tuple[str, ...], list[Note]]:
    """Pad the data-dependent sizes of a program for a compiled run.

    Plain blocks are inlined, so that sizes in them are visible; gradients are already built
    then.

    Args:
        program: The program.
        causes: Receives the cause for each dimension that keeps exact sizes.

    Returns:
        The program, the dimensions that may be padded, and the reasons against others.
    """
    inlined = inline_blocks(program, always=True)
    with collect_notes() as notes:
        padded, padded_dims = pad_data_dependent_sizes(inlined, True, causes)
    return padded, padded_dims, notes


def pad_data_dependent_sizes(
    program: ProgramDef, again: bool = False, causes: dict[str, str] | None = None
) -> tuple[ProgramDef, tuple[str, ...]]:
    """Return a program that is correct if data-dependent sizes are padded.

    Fed values and persistable variables have no padding.

    Args:
        program: The program.
        again: Whether to process sizes that the program already marks as padded: operators
            added after this pass, as a gradient, mix their rows.
        causes: Receives the cause for each dimension that keeps exact sizes.

    Returns:
        The program, and the dimensions that may be padded, with at least one real row.
    """
    body, padded_dims = program.main, list[str]()
    causes = {} if causes is None else causes
    input_names = [name for name, info in body.vars.items() if info.kind != VALUE]
    fixed_types = [body.vars[name].type for name in (*input_names, *program.updates.values())]
    size_ops = dict[str, Op]()
    for op in body.ops:
        if name := padded_size(op):
            size_ops.setdefault(name, op)
        elif name := data_dependent_size(op):
            note(op.name, f"{EXACT}: `{op.type}` supports no padding of `{name}`", "missed")
            causes[name] = op.describe()
    for name, op in size_ops.items():
        if not again and op.attrs[OPS.get(op.type).roles["Roomy"]]:
            padded_dims.append(name)
            continue
        if any(
            isinstance(type_, TensorType) and _mentions(type_, name) for type_ in fixed_types
        ):
            causes[name] = "a feed or a persistable variable"
            note(op.name, f"{EXACT}: {causes[name]} has the size `{name}`", "missed")
            continue
        try:
            body = _mask_dim(body, name)
        except BracesError as error:
            note(op.name, f"{EXACT}: {error.what} {error.at or ''}".rstrip(), "missed")
            causes[name] = error.at or error.what
            continue
        note(op.name, f"padded: `{name}` becomes a capacity")
        padded_dims.append(name)
    return program if body is program.main else program.with_(main=body), tuple(padded_dims)


def padded_size(op: Op) -> str | None:
    """Return the data-dependent dimension of an operator that supports padding of it.

    Other operators with a data-dependent size keep it exact.
    """
    return data_dependent_size(op) if "Roomy" in OPS.get(op.type).roles else None


def _mentions(type_: TensorType, name: str) -> bool:
    return any(isinstance(size, Dim) and name in size.names() for size in type_.shape)


def _mask_dim(body: Body, name: str) -> Body:
    """Return the block with the padding of one dimension masked."""
    program, rows = Builder(ProgramDef(body, {})), Dim.named(name)
    table = program.table
    table.unifier.count = next_dim_number(body)
    first = next(i for i, op in enumerate(body.ops) if padded_size(op) == name)
    source = body.ops[first]
    table.ops = []
    with program.building(table), program.at(source.source):
        count = _count(program, table, source)
        count_ops, table.ops = table.ops, []
        places = apply("arange", {}, {"stop": rows})["out"][0]
        valid = emit("less", places, count)
    padded_op = source.with_(attrs={**source.attrs, OPS.get(source.type).roles["Roomy"]: True})
    mask_ops, table.ops = table.ops, [padded_op, *body.ops[first + 1 :]]
    mask_rows(program, table, rows, {}, valid.name, count.name)
    after = 1 + next(i for i, op in enumerate(table.ops) if op.name == source.name)
    masked = [
        *table.ops[:after],
        *mask_ops,
        *table.ops[after:],
    ]  # that operator defines the size in `mask_ops`
    table.ops = [*body.ops[:first], *count_ops, *masked]
    return table.freeze(body.results)


def _count(program: Builder, table: SymbolTable, source: Op) -> Var:
    """Return the number of rows of the result of an operator."""
    definition = OPS.get(source.type)
    rule = definition.count_rule
    assert rule is not None, "an operator with padding has a count rule"
    operands = {
        slot: tuple(var_of(program, table, name) for name in names)
        for slot, names in source.inputs.items()
    }
    return rule(*definition.arrange(operands), **source.attrs)


def _pad_rows(program: ProgramDef) -> ProgramDef:
    return pad_data_dependent_sizes(program)[0]


PAD_ROW_COUNT = Pass(
    "pad_row_count",
    _pad_rows,
    "Pad data-dependent sizes, and mask the padding.",
    trusted=True,
)
