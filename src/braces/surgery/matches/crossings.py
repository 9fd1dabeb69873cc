"""Operators of a pattern that lie in different blocks of a program: reasons of near misses.

y = loop(init=x) as loop_0         the pattern tanh(x * 2.0) does not match at `z`: its
  body (t, h) {                    product is `loop_0/body/p`, in another block
    p: f32[n] = multiply(x=h, y=c)
    return p
  }
z: f32[n] = tanh(x=y)
"""

from __future__ import annotations

from collections.abc import Iterator

from braces.ir.records import Op
from braces.ir.views import LoopView, PartitionView, view_of
from braces.passes.core.rewrite import InsertionPoint


def crossing(name: str, type_: str, maker: Op | None, place: InsertionPoint) -> str | None:
    """Return the reason for which a variable is not computed in the block where it is read.

    Args:
        name: The variable.
        type_: The type of the operator that computes it in the pattern.
        maker: The operator that binds it; `None` for a parameter of the block.
        place: The block that reads it.
    """
    path = _around(name, type_, place) if maker is None else None
    if maker is not None and maker.bodies():
        inner = next(_inside(maker, name, type_), None)
        path = None if inner is None else f"{_block_of(name, place)}{maker.name}/{inner}"
    if path is None:
        return None
    return f"`{name}` is computed by `{path}`, in another block; matches do not cross blocks"


def _block_of(name: str, place: InsertionPoint) -> str:
    """Return the prefix of paths of the block that binds a visible variable."""
    while name not in place.table.vars and place.outer is not None:
        place = place.outer
    return f"{place.path}/" if place.path else ""


def _inside(op: Op, name: str, type_: str) -> Iterator[str]:
    """Yield operators of a type, by paths below a construct, that compute an output of it."""
    view = view_of(op)
    if view is None:
        return
    results = [(body, result) for body, result in view.sources(name) if body is not None]
    for label, content in op.bodies().items():
        for body, result in results:
            if body.ops is not content.ops:
                continue
            maker = next((each for each in content.ops if result in each.binds()), None)
            if maker is not None and maker.type == type_:
                yield f"{label}/{maker.name}"
            elif maker is not None and maker.bodies():
                yield from (
                    f"{label}/{maker.name}/{path}" for path in _inside(maker, result, type_)
                )


def _around(name: str, type_: str, place: InsertionPoint) -> str | None:
    """Return the path of an operator of a type whose value is a parameter of a block."""
    outer, owner = place.outer, place.owner
    if outer is None or owner is None:
        return None
    for source in _operands(owner, name):
        source = outer.names.get(source, source)
        maker = outer.maker(source)
        if maker is not None and maker.type == type_:
            return f"{_block_of(source, outer)}{maker.name}"
    return None


def _operands(owner: Op, param: str) -> list[str]:
    """Return the operands of a construct that a parameter of its blocks stands for."""
    view = view_of(owner)
    if isinstance(view, LoopView):
        inits = [memory.init for memory in view.memories if memory.param == param]
        return inits + [part.source for part in view.slices if part.param == param]
    if isinstance(view, PartitionView):
        return [row.source for row in view.rows if param in row.params]
    return []
