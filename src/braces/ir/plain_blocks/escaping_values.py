"""Escaping values of plain blocks: inner variables become outputs on first use outside.

    do block() as encoder                encoder/y: f32[4] = block() as encoder
      body {                               body {
        encoder/y: f32[4] = tanh(x=x)        encoder/y: f32[4] = tanh(x=x)
      }                                      return encoder/y
                                           }

A plain block is a brace without a `for`. Its variables can be read after it under the same
names, as if there were no brace. A variable becomes an output only when it is read outside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from braces.ir.records import BLOCK, Body, Op, VarInfo
from braces.ir.views import BlockView, Output
from braces.ir.walk import all_ops


@dataclass(frozen=True, slots=True)
class ExportingBlock:
    """A plain block with additional outputs.

    Attributes:
        op: The operator.
        infos: The new outputs, as they are declared outside.
    """

    op: Op
    infos: tuple[VarInfo, ...]


def export_values(op: Op, names: Collection[str]) -> ExportingBlock | None:
    """Return a plain block that exports those of these names that it, or a block in it, binds.

    `None` if it binds none of them.
    """
    if op.type != BLOCK:
        return None
    view = BlockView.of(op)
    body = with_exported(view.body, names)
    exported = tuple(VarInfo(name, body.vars[name].type) for name in names if name in body.vars)
    if not exported:
        return None
    outputs = (*view.outputs, *(Output(info.name, (info.name,)) for info in exported))
    return ExportingBlock(replace(view, contents=(body,), outputs=outputs).to_op(), exported)


def with_exported(body: Body, names: Iterable[str]) -> Body:
    """Return a block in which values of plain blocks with these names are exported."""
    missing = {name: None for name in names if name not in body.vars}
    if not missing:
        return body
    ops, infos = list(body.ops), dict(body.vars)
    for at, op in enumerate(body.ops):
        export = export_values(op, missing) if missing else None
        if export is not None:
            ops[at] = export.op
            for info in export.infos:
                infos[info.name] = info
                del missing[info.name]
    return body if len(infos) == len(body.vars) else body.with_(ops=tuple(ops), vars=infos)


def bound_inside(body: Body) -> Iterator[str]:
    """Yield the names of all variables of plain blocks, nested ones included."""
    for op in body.ops:
        if op.type == BLOCK:
            inner = BlockView.of(op).body
            yield from inner.vars
            yield from bound_inside(inner)


def plain_blocks(body: Body) -> Iterator[str]:
    """Return the names of all plain blocks, at any depth."""
    return (op.name for _, op in all_ops(body) if op.type == BLOCK)
