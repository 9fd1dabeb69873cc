"""Rows whose number the values of a run decide, with room for more than there are.

Code is compiled for sizes. Where a block makes rows of which only the run knows the number, it
is compiled for a rounded number: rows beyond the real ones are copies of the first, and are
left out of what mixes rows, as padding is in row-wise branches. What cannot leave them out, or
reads their number otherwise than as a value, keeps exact sizes.
"""

from __future__ import annotations

from collections.abc import Iterable

from braces.dims import Dim
from braces.dtypes import TensorType
from braces.errors import BracesError
from braces.ir.program import Program
from braces.ir.records import Body, Op, ProgramDef
from braces.ops.build import apply, one, var_of
from braces.ops.control.rows import mask_rows
from braces.ops.define import OPS
from braces.ops.rows_of_lists import length_of


def round_rows(body: Body, whole: Iterable[str]) -> tuple[Body, tuple[str, ...]]:
    """A block that is right where there is room for more rows than there are.

    Args:
        body: The block.
        whole: Variables whose rows must all be real.

    Returns:
        The block, and the dimensions that may be larger than they are; where one is, it has
        one real row at least.
    """
    found, whole = list[str](), set(whole)
    for name in dict.fromkeys(filter(None, map(learned, body.ops))):
        types = (body.vars[n].type for n in whole if n in body.vars)
        if any(isinstance(t, TensorType) and _mentions(t, name) for t in types):
            continue
        try:
            body = _rounded(body, name)
        except BracesError:
            continue
        found.append(name)
    return body, tuple(found)


def learned(op: Op) -> str | None:
    """The dimension of which an operator tells the size."""
    role = OPS.get(op.type).roles.get("Learned")
    size = None if role is None else op.attrs[role]
    return size.name if isinstance(size, Dim) else None


def _mentions(type_: TensorType, name: str) -> bool:
    return any(isinstance(size, Dim) and name in size.names() for size in type_.shape)


def _rounded(body: Body, name: str) -> Body:
    """The block with the padding of one dimension left out."""
    program, rows = Program(ProgramDef(body, {})), Dim.named(name)
    table = program.table
    first = next(i for i, op in enumerate(body.ops) if learned(op) == name)
    source = body.ops[first]
    table.ops = []
    with program.building(table), program.at(source.source):
        count = length_of(var_of(program, table, next(iter(source.reads()))))
        places = apply("arange", {}, {"stop": rows})["out"][0]
        valid = one("less", places, count)
    made, table.ops = table.ops, list(body.ops[first:])
    mask_rows(program, table, rows, valid.name, count.name)
    table.ops = [*body.ops[:first], *made, *table.ops]
    return table.freeze(body.results)
