"""Keep what the results and updates of a program need.

What is wanted comes first and what it needs after that, so this walks against the order of
execution. Operators that own blocks trim themselves: outputs, memories, captures and sub-block
operators that nobody needs go, at any depth.

    data x: f32[3]                          data x: f32[3]
    y: f32[3] = tanh(x=x)                   y: f32[3] = tanh(x=x)
    z: f32[3] = exp(x=y)            ->      return y
    return y

    i: i64[] = ...                          i: i64[] = ...
    final=[a: f32[], b: f32[]] =            final=[a: f32[]] =
      loop(init=[x, y]) as l                  loop(init=x) as l
      body (t: i64[], p: f32[], q: f32[]) {   body (t: i64[], p: f32[]) {
        r: f32[] = tanh(x=p)        ->          r: f32[] = tanh(x=p)
        s: f32[] = add(x=r, y=q)                return r
        return r, s                           }
      }                                     return a
    return a

A memory stays where a memory, a row or the condition that stays reads it: the first of the two
would stay if the second were wanted.

A size that only a run knows is told by an operator. What computes with it needs that operator,
though it reads none of its values; here that is the gradient of a sum:

    s: f32[m] = list_stack(list=l) {length=size(m)}        s: f32[m] = list_stack(…) {…}
    y: f32[] = sum(x=s)                              ->    g: f32[m] = broadcast_to(…) {…}
    g: f32[m] = broadcast_to(x=one) {shape=[size(m)]}      return g
    return g
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from braces.define.axes import shape_of
from braces.define.decorator import OPS
from braces.dims import Dim
from braces.ir.records import Attr, Body, Op, ProgramDef
from braces.ir.walk import all_bodies, all_ops
from braces.ops.control.base import BlockOp
from braces.passes.pipeline import Pass


def eliminated(program: ProgramDef) -> ProgramDef:
    """A program with only what its results and updates need."""
    results, updates = program.main.results, program.updates
    main = eliminate(program.main, (*results, *updates.values(), *updates))
    return program.with_(main=main.with_(results=results))


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """A block with only what these results need; they become its results."""
    live, sizes = set(results), set[str]()
    kept: list[Op] = []
    tellers = {size: op for op in reversed(body.ops) for size in _told(op)}
    for op in reversed(body.ops):
        trimmed = _trimmed(op, live)
        needed = {size for size in sizes if tellers[size] is op}
        if needed and (trimmed is None or not needed <= _told(trimmed)):
            trimmed = op  # a block is kept whole then
        if trimmed is not None:
            kept.append(trimmed)
            live.update(trimmed.reads())
            if tellers:
                sizes.update(tellers.keys() & _sizes(trimmed))
                sizes -= _told(trimmed)
    ops = tuple(reversed(kept))
    bound = {name for op in ops for name in op.binds()} | set(body.params)
    named = bound | live
    infos = {name: info for name, info in body.vars.items() if name in named}
    return body.with_(results=tuple(results), vars=infos, ops=ops)


def learned_size(op: Op) -> str | None:
    """The dimension of which an operator tells the size, which only a run knows."""
    role = OPS.get(op.type).roles.get("Learned")
    size = None if role is None else op.attrs[role]
    return size.name if isinstance(size, Dim) else None


def _told(op: Op) -> set[str]:
    """The dimensions that an operator tells, or one in its blocks."""
    found = {learned_size(one) for one in _with_inner(op)}
    return {size for size in found if size}


def _with_inner(op: Op) -> Iterator[Op]:
    yield op
    for body in op.bodies().values():
        yield from (one for _, one in all_ops(body))


def _sizes(op: Op) -> set[str]:
    """The dimensions that an operator computes with, in its blocks too."""
    values = (value for one in _with_inner(op) for value in one.attrs.values())
    attrs = (name for value in values for name in _named(value))
    inner = (body for sub in op.bodies().values() for body, _ in all_bodies(sub))
    infos = (info for body in inner for info in body.vars.values())
    types = (name for info in infos for size in shape_of(info.type) for name in _named(size))
    return {*attrs, *types}


def _named(value: Attr) -> Iterator[str]:
    if isinstance(value, Dim):
        yield from value.names()
    elif isinstance(value, tuple):
        for one in value:
            yield from _named(one)


def _trimmed(op: Op, live: set[str]) -> Op | None:
    wanted = frozenset(name for name in op.binds() if name in live)
    if not wanted:
        return None
    definition = OPS.get(op.type)
    if isinstance(definition, BlockOp):
        return definition.trim(op, wanted, eliminate)
    optional = {slot.name for slot in definition.outputs if slot.optional}
    outputs = {
        slot: names
        for slot, names in op.outputs.items()
        if slot not in optional or any(name in wanted for name in names)
    }
    return op if len(outputs) == len(op.outputs) else op.with_(outputs=outputs)


ELIMINATE = Pass(
    "eliminate", eliminated, "Keep what the results and updates need.", trusted=True
)
