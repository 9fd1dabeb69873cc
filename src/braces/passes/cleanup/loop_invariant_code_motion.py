"""Compute before a loop what is the same on each of its trips.

    parameter w: f32[3,3]                     parameter w: f32[3,3]
    data x: f32[n,3]                          data x: f32[n,3]
    …, stacked=[s: f32[n,3]], … =             w2: f32[3,3] = multiply(x=w, y=w)
      loop(sliced=x) captures [w] as l        …, stacked=[s: f32[n,3]], … =
      body (t: i64[], r: f32[3]) {              loop(sliced=x) captures [w2] as l
        w2: f32[3,3] = multiply(x=w, y=w) ->    body (t: i64[], r: f32[3]) {
        y: f32[3] = matmul(x=r, y=w2)             y: f32[3] = matmul(x=r, y=w2)
        return y                                  return y
      }                                         }

From loops in loops it moves as far out as it can. What may fail stays: a loop of no trips does
not fail. So does what draws, what lists hold, and what owns blocks. Out of a case nothing
moves: that case may never run. `check_nan` then sees a NaN before a loop of no trips, too.
No executor does it by itself; a gradient does, to the loops that it goes through: what stands
before a loop is not kept for each trip, and has one gradient, not one for each trip.

While a block is built, `move_before` moves just what its construct asks for: the initial value
of a memory say, which a user computed in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import partial

from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.define.decorator import OPS
from braces.dtypes import ListType, Type
from braces.ir.records import BLOCK, CUSTOM_GRADIENT, DATA, Body, Op, ProgramDef
from braces.ir.walk import ancestors, rename_op
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.random_effects import is_random
from braces.passes.core.rewrite import Change, Lifted, Place, rewrite

REPEATED: dict[str, tuple[str, ...]] = {
    BLOCK: (),
    CUSTOM_GRADIENT: (),
    "loop": ("body", "cond"),
    "partition": (),
    "switch": (),
}
"""The sub-blocks that run again and again, by the type of the operator that owns them."""


def hoisted(program: ProgramDef) -> ProgramDef:
    """A program whose loops compute nothing that is the same on each trip."""
    return rewrite(program, _hoist)


def _hoist(op: Op, place: Place) -> Change:
    target = place
    while target.outer and _repeats(target) and _needs_none_of(target.table.vars, op):
        target = target.outer
    if target is place:
        return op
    reason = kept_for(op, lambda name: place.info(name).type)
    if reason is not None:
        note(place.where(op), f"stays in its loop: {reason}")
        return op
    note(place.where(op), "is the same on each trip, and runs once before the loop")
    return place.lift(op, target)


def hoist_all(host: SymbolTable, ops: Iterable[Op]) -> None:
    """Do it to operators of a block that is being built."""
    for op in ops:
        if op.bodies():
            _hoist_from(host, op)


def _hoist_from(host: SymbolTable, op: Op) -> None:
    outside = {name: host.get_var(name).with_(kind=DATA) for name in op.reads()}
    bound = {name: host.vars[name] for name in op.binds()}
    alone = Body((), tuple(bound), {**outside, **bound}, (op,))
    made = hoisted(ProgramDef(alone, {})).main
    if made is alone:
        return
    moved = [info for name, info in made.vars.items() if name not in alone.vars]
    names = {one.name: host.names.unique(one.name) for one in moved if host.find_var(one.name)}
    for info in moved:
        host.new_var(names.get(info.name, info.name), info.type)
    *lifted, loop = (rename_op(one, names) for one in made.ops)
    taken = {one.name for one in host.ops}
    host.names.take(one.name for one in lifted)
    anew = {one.name: host.names.unique(one.name) for one in lifted if one.name in taken}
    host.replace(op, *(one.with_(name=anew.get(one.name, one.name)) for one in lifted), loop)


def move_before(block: SymbolTable, name: str) -> bool:
    """Move a value, and all that it is computed from there, in front of the block being built.

    Whether it was: what needs something of the block stays, and so does all the rest then.
    """
    needed, bound = ancestors(block.ops, [name]), set(block.vars)
    moved = [op for op in block.ops if not needed.isdisjoint(op.binds())]
    for op in moved:
        if not _needs_none_of(bound, op):
            return False
        bound.difference_update(op.binds())
    if name in bound:
        return False
    names = dict[str, str]()
    for op in moved:
        names |= _move(rename_op(op, names), block)
    gone = {id(op) for op in moved}
    kept = [rename_op(op, names) for op in block.ops if id(op) not in gone]
    block.exchange(kept, {name: block.vars[name] for name in block.vars if name in bound})
    return True


def _move(op: Op, block: SymbolTable) -> dict[str, str]:
    """Move one operator; those names that are others now."""
    outer = block.parent
    assert outer is not None
    lifted = Lifted.out_of(block, op, lambda name: outer.find_op(name) is not None)
    outer.append(lifted.op, lifted.binds)
    for old, new in lifted.names.items():
        block.read_outside[new] = None
        _hand_over(block, old, outer, new)
        block.journal.note(partial(_hand_over, outer, new, block, old))
    return {old: new for old, new in lifted.names.items() if old != new}


def _hand_over(giver: SymbolTable, old: str, taker: SymbolTable, new: str) -> None:
    """Let the handle of a variable follow it into another block."""
    handle = giver.handles.pop(old, None)
    if isinstance(handle, Var):
        handle.table, handle.name = taker, new
        taker.handles[new] = handle


def _repeats(place: Place) -> bool:
    return place.owner is not None and place.label in REPEATED[place.owner.type]


def _needs_none_of(names: Container[str], op: Op) -> bool:
    return not any(name in names for name in op.reads())


def kept_for(op: Op, type_of: Callable[[str], Type]) -> str | None:
    """Why an operator stays though it is the same on each trip.

    Args:
        op: The operator.
        type_of: Of what it reads and binds.
    """
    definition = OPS.get(op.type)
    if op.bodies():
        return "it owns blocks"
    if definition.may_fail(op.attrs):
        return "it may fail, and a loop of no trips does not"
    if is_random(op):
        return "it draws random numbers"
    if any(isinstance(type_of(n), ListType) for n in (*op.reads(), *op.binds())):
        return "it handles lists"
    return None


LICM = Pass("licm", hoisted, "Hoist loop-invariant operators out of loops.", trusted=True)
