"""Rows whose number the values of a run decide, with room for more than there are.

Code is compiled for sizes. Where a block makes rows of which only the run knows the number, it
is compiled for a rounded number: rows beyond the real ones are copies of the first, and are
left out of what mixes rows, as padding is in row-wise branches. What cannot leave them out, or
reads their number otherwise than as a value, keeps exact sizes.

    data x: f32[b]
    …, final=[l: list<f32[]>], … = loop(…)
    s: f32[m] = list_stack(list=l) {length=size(m)}     # m is what values decide
    y: f32[] = sum(x=s)

    data x: f32[b]
    …, final=[l: list<f32[]>], … = loop(…)
    count: i64[] = list_length(list=l)
    s: f32[m] = list_stack(list=l) {length=size(m), roomy=true}     # copies of the first beyond
    places: i64[m] = arange() {stop=size(m), …}
    valid: bool[m] = less(x=places, y=count)
    kept: f32[m] = where(condition=valid, x=s, y=zero)
    y: f32[] = sum(x=kept)

Where there are as many rows as there is room for, all of this changes nothing. The executor
does it by itself, where it compiles.
"""

from __future__ import annotations

from braces.builder.append import apply, one
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.define.decorator import OPS
from braces.dims import Dim
from braces.dtypes import TensorType
from braces.errors import BracesError
from braces.ir.records import VALUE, Body, Op, ProgramDef
from braces.ops.control.batch_axis.masking import mask_rows
from braces.passes.cleanup.dead_code import learned_size
from braces.passes.cleanup.inline import inline_blocks
from braces.passes.core.pipeline import Note, Pass, note, noting
from braces.passes.verify.program import free_number

EXACT = "keeps exact sizes, each of which is compiled"


def rows_of_run(program: ProgramDef) -> tuple[ProgramDef, tuple[str, ...], list[Note]]:
    """What an executor compiles of a program that has sizes which values decide.

    Plain blocks are inlined, so that rows in them are seen: nothing is differentiated then.

    Returns:
        The program, the dimensions that may be larger than they are, and why others may not.
    """
    whole = inline_blocks(program, always=True)
    with noting() as notes:
        made, found = round_rows(whole, again=True)
    return made, found, notes


def round_rows(program: ProgramDef, again: bool = False) -> tuple[ProgramDef, tuple[str, ...]]:
    """A program that is right where there is room for more rows than there are.

    Rows of what it is fed, and of what persists, are all real.

    Args:
        program: The program.
        again: Whether to see to rows, too, that it says there may be more of: what was added to
            a program after this pass, as its gradient, mixes them.

    Returns:
        The program, and the dimensions that may be larger than they are; where one is, it has
        one real row at least.
    """
    body, found = program.main, list[str]()
    given = [name for name, info in body.vars.items() if info.kind != VALUE]
    whole = [body.vars[name].type for name in (*given, *program.updates.values())]
    tellers = dict[str, Op]()
    for op in body.ops:
        if name := learned(op):
            tellers.setdefault(name, op)
        elif name := learned_size(op):
            note(op.name, f"{EXACT}: `{name}` is whatever {op.type} says")
    for name, op in tellers.items():
        if not again and op.attrs[OPS.get(op.type).roles["Roomy"]]:
            found.append(name)
            continue
        if any(isinstance(type_, TensorType) and _mentions(type_, name) for type_ in whole):
            note(op.name, f"{EXACT}: `{name}` is a size of what is fed or persists")
            continue
        try:
            body = _rounded(body, name)
        except BracesError as error:
            note(op.name, f"{EXACT}: {error.what} {error.at or ''}".rstrip())
            continue
        note(op.name, f"has room for more than `{name}` rows")
        found.append(name)
    return program if body is program.main else program.with_(main=body), tuple(found)


def learned(op: Op) -> str | None:
    """The dimension of which an operator tells the size, where it can make more rows than that.

    What an operator of another kind makes has exact sizes.
    """
    return learned_size(op) if "Roomy" in OPS.get(op.type).roles else None


def _mentions(type_: TensorType, name: str) -> bool:
    return any(isinstance(size, Dim) and name in size.names() for size in type_.shape)


def _rounded(body: Body, name: str) -> Body:
    """The block with the padding of one dimension left out."""
    program, rows = Builder(ProgramDef(body, {})), Dim.named(name)
    table = program.table
    table.unifier.count = free_number(body)
    first = next(i for i, op in enumerate(body.ops) if learned(op) == name)
    source = body.ops[first]
    table.ops = []
    with program.building(table), program.at(source.source):
        count = _count(program, table, source)
        counted, table.ops = table.ops, []
        places = apply("arange", {}, {"stop": rows})["out"][0]
        valid = one("less", places, count)
    roomy = source.with_(attrs={**source.attrs, OPS.get(source.type).roles["Roomy"]: True})
    told, table.ops = table.ops, [roomy, *body.ops[first + 1 :]]
    mask_rows(program, table, rows, {}, valid.name, count.name)
    after = 1 + next(i for i, op in enumerate(table.ops) if op.name == source.name)
    masked = [*table.ops[:after], *told, *table.ops[after:]]  # that op tells the size of `told`
    table.ops = [*body.ops[:first], *counted, *masked]
    return table.freeze(body.results)


def _count(program: Builder, table: SymbolTable, source: Op) -> Var:
    """How many rows an operator makes."""
    definition = OPS.get(source.type)
    rule = definition.count_rule
    assert rule is not None, "what makes room says how many there are"
    given = {
        slot: tuple(var_of(program, table, name) for name in names)
        for slot, names in source.inputs.items()
    }
    return rule(*definition.arrange(given), **source.attrs)


def _program_alone(program: ProgramDef) -> ProgramDef:
    return round_rows(program)[0]


PAD_ROW_COUNT = Pass(
    "pad_row_count",
    _program_alone,
    "Pad data-dependent row counts, and mask the padding in operators that mix rows.",
    trusted=True,
)
