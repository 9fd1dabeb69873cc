"""What plain blocks bind inside, seen from outside: it becomes an output where it is used.

    do block() as encoder                encoder/y: f32[4] = block() as encoder
      body {                               body {
        encoder/y: f32[4] = tanh(x=x)        encoder/y: f32[4] = tanh(x=x)
      }                                      return encoder/y
                                           }

A plain block is a brace without a `for`, so what it binds can be read after it as if there were
no brace, under the same name. Nothing of it is an output before somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from braces.ir.records import BLOCK, Body, Op, VarInfo
from braces.ir.views import BlockView, Output
from braces.ir.walk import all_ops


@dataclass(frozen=True, slots=True)
class Shown:
    """A plain block that gives out more variables.

    Attributes:
        op: The operator.
        infos: The variables, as they are declared outside.
    """

    op: Op
    infos: tuple[VarInfo, ...]


def shown(op: Op, names: Collection[str]) -> Shown | None:
    """A plain block that gives out those of these names that it, or a block in it, binds.

    `None` where it binds none of them.
    """
    if op.type != BLOCK:
        return None
    view = BlockView.of(op)
    body = with_shown(view.body, names)
    found = tuple(VarInfo(name, body.vars[name].type) for name in names if name in body.vars)
    if not found:
        return None
    outputs = (*view.outputs, *(Output(info.name, (info.name,)) for info in found))
    return Shown(replace(view, contents=(body,), outputs=outputs).to_op(), found)


def with_shown(body: Body, names: Iterable[str]) -> Body:
    """A block that binds these names itself, as far as it or plain blocks in it bind them."""
    missing = {name: None for name in names if name not in body.vars}
    if not missing:
        return body
    ops, infos = list(body.ops), dict(body.vars)
    for at, op in enumerate(body.ops):
        found = shown(op, missing) if missing else None
        if found is not None:
            ops[at] = found.op
            for info in found.infos:
                infos[info.name] = info
                del missing[info.name]
    return body if len(infos) == len(body.vars) else body.with_(ops=tuple(ops), vars=infos)


def bound_inside(body: Body) -> Iterator[str]:
    """The names of all that plain blocks bind, in each other too."""
    for op in body.ops:
        if op.type == BLOCK:
            inner = BlockView.of(op).body
            yield from inner.vars
            yield from bound_inside(inner)


def plain_blocks(body: Body) -> Iterator[str]:
    """The names of all plain blocks, at any depth."""
    return (op.name for _, op in all_ops(body) if op.type == BLOCK)
