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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from braces.dtypes import Type
from braces.ir.records import BLOCK, Body, Op, VarInfo
from braces.ir.views import BlockView, Output
from braces.ir.walk import all_ops


@dataclass(frozen=True, slots=True)
class Shown:
    """A plain block that gives out one variable more.

    Attributes:
        op: The operator.
        type: The type of the variable.
    """

    op: Op
    type: Type


def shown(op: Op, name: str) -> Shown | None:
    """A plain block that gives out what it, or a block in it, binds; `None` where none does."""
    if op.type != BLOCK:
        return None
    view = BlockView.of(op)
    found = _bound(view.body, name)
    if found is None:
        return None
    outputs = (*view.outputs, Output(name, (name,)))
    made = replace(view, contents=(found,), outputs=outputs).to_op()
    return Shown(made, found.vars[name].type)


def _bound(body: Body, name: str) -> Body | None:
    """A block that binds a variable itself, after a block in it gave it out."""
    if name in body.vars:
        return body
    for at, op in enumerate(body.ops):
        found = shown(op, name)
        if found is not None:
            ops = (*body.ops[:at], found.op, *body.ops[at + 1 :])
            return body.with_(ops=ops, vars={**body.vars, name: VarInfo(name, found.type)})
    return None


def with_shown(body: Body, names: Iterable[str]) -> Body:
    """A block that binds these names itself, as far as it or plain blocks in it bind them."""
    for name in names:
        body = _bound(body, name) or body
    return body


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
