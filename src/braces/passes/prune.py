"""The smallest program that still gives its targets.

`eliminate` keeps what the results of one block need. Operators that own blocks trim themselves:
outputs, memories, captures and sub-block operators that nobody needs go, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from braces.ir.records import Body, Op
from braces.ops.control.base import BlockOp
from braces.ops.define import OPS


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
    return Body(body.params, tuple(results), infos, ops)


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


def ancestors(ops: Iterable[Op], names: Iterable[str]) -> set[str]:
    """All names that these names are computed from, themselves included."""
    found = set(names)
    for op in reversed(list(ops)):
        if not found.isdisjoint(op.binds()):
            found.update(op.reads())
    return found
