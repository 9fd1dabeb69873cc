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
"""

from __future__ import annotations

from collections.abc import Sequence

from braces.define.decorator import OPS
from braces.ir.records import Body, Op, ProgramDef
from braces.ops.control.base import BlockOp
from braces.passes.pipeline import Pass


def eliminated(program: ProgramDef) -> ProgramDef:
    """A program with only what its results and updates need."""
    results, updates = program.main.results, program.updates
    main = eliminate(program.main, (*results, *updates.values(), *updates))
    return program.with_(main=main.with_(results=results))


def eliminate(body: Body, results: Sequence[str]) -> Body:
    """A block with only what these results need; they become its results."""
    live = set(results)
    kept: list[Op] = []
    for op in reversed(body.ops):
        trimmed = _trimmed(op, live)
        if trimmed is not None:
            kept.append(trimmed)
            live.update(trimmed.reads())
    ops = tuple(reversed(kept))
    bound = {name for op in ops for name in op.binds()} | set(body.params)
    named = bound | live
    infos = {name: info for name, info in body.vars.items() if name in named}
    return body.with_(results=tuple(results), vars=infos, ops=ops)


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
