"""Loop-invariant code motion (LICM): hoist loop-invariant operators out of loops.

    parameter w: f32[3,3]                     parameter w: f32[3,3]
    data x: f32[n,3]                          data x: f32[n,3]
    …, stacked=[s: f32[n,3]], … =             w2: f32[3,3] = multiply(x=w, y=w)
      loop(sliced=x) captures [w] as l        …, stacked=[s: f32[n,3]], … =
      body (t: i64[], r: f32[3]) {              loop(sliced=x) captures [w2] as l
        w2: f32[3,3] = multiply(x=w, y=w) ->    body (t: i64[], r: f32[3]) {
        y: f32[3] = matmul(x=r, y=w2)             y: f32[3] = matmul(x=r, y=w2)
        return y                                  return y
      }                                         }

Operators in nested loops move as far out as possible. Operators that may fail stay: a loop with
trip count zero does not fail. Random operators, operators on lists and operators with blocks
stay too. Nothing moves out of a case, which may never run. `check_nan` then reports a NaN even
before a loop with trip count zero.

No executor runs this pass by default. Reverse mode applies it to the loops that it
differentiates: values before a loop are no residuals of each iteration, and need a single
gradient.

While a block is built, `move_before` moves only the values that its construct requires: for
example the initial value of a memory, computed by a user in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.define.decorator import OPS
from braces.dtypes import ListType, Type
from braces.ir.lineage import Move, Relocation, all_of
from braces.ir.records import BLOCK, CUSTOM_GRADIENT, DATA, Body, Op, ProgramDef
from braces.ir.walk import ancestors, rename_op
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.random_effects import is_random
from braces.passes.core.rewrite import HoistedOp, InsertionPoint, Replacement, rewrite

REPEATED: dict[str, tuple[str, ...]] = {
    BLOCK: (),
    CUSTOM_GRADIENT: (),
    "loop": ("body", "cond"),
    "partition": (),
    "switch": (),
}
"""Sub-blocks that run repeatedly, by the type of the operator that owns them."""


def hoist_invariants(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops compute no loop-invariant values."""
    return rewrite(program, _hoist)


def _hoist(op: Op, place: InsertionPoint) -> Replacement:
    target = place
    while target.outer and _is_repeated(target) and _reads_none_of(target.table.vars, op):
        target = target.outer
    if target is place:
        return op
    reason = reason_not_hoisted(op, lambda name: place.info(name).type)
    if reason is not None:
        note(place.where(op), f"not hoisted: {reason}", "missed")
        return op
    note(place.where(op), hoisted_out_of(place, target))
    return place.lift(op, target)


def hoisted_out_of(place: InsertionPoint, target: InsertionPoint) -> str:
    """Return the remark about an operator that moves to an enclosing block.

    Args:
        place: The block of the operator.
        target: The destination.
    """
    while place.outer is not None and place.outer is not target:
        place = place.outer
    assert place.owner is not None
    return f"hoisted out of `{place.owner.name}`"


def hoist_all(program: Builder, host: SymbolTable, ops: Iterable[Op]) -> None:
    """Hoist loop-invariant operators of a block under construction."""
    for op in ops:
        moves = _hoist_from(host, op) if op.bodies() else ()
        if moves and host is program.table:
            program.lineage = program.lineage.then(all_of(moves))


def _hoist_from(host: SymbolTable, op: Op) -> Sequence[Move]:
    """Hoist operators out of one operator of a block; return the changes of their keys."""
    outside = {name: host.get_var(name).with_(kind=DATA) for name in op.reads()}
    bound = {name: host.vars[name] for name in op.binds()}
    loop_only = Body((), tuple(bound), {**outside, **bound}, (op,))
    hoisted = hoist_invariants(ProgramDef(loop_only, {}))
    hoisted_main = hoisted.main
    if hoisted_main is loop_only:
        return ()
    new_infos = [info for name, info in hoisted_main.vars.items() if name not in loop_only.vars]
    names = {
        item.name: host.names.unique(item.name)
        for item in new_infos
        if host.find_var(item.name)
    }
    for info in new_infos:
        host.new_var(names.get(info.name, info.name), info.type)
    *hoisted_ops, loop = (rename_op(item, names) for item in hoisted_main.ops)
    op_names = {item.name for item in host.ops}
    host.names.take(item.name for item in hoisted_ops)
    new_op_names = {
        item.name: host.names.unique(item.name) for item in hoisted_ops if item.name in op_names
    }
    host.replace(
        op,
        *(item.with_(name=new_op_names.get(item.name, item.name)) for item in hoisted_ops),
        loop,
    )
    return (*hoisted.lineage.moves, Relocation((), (), new_op_names, names))


def move_before(block: SymbolTable, name: str) -> bool:
    """Move a value, and its producers in the block, in front of the block under construction.

    Return whether it was moved: if one operator needs a value of the block, all stay.
    """
    needed, bound = ancestors(block.ops, [name]), set(block.vars)
    moved = [op for op in block.ops if not needed.isdisjoint(op.binds())]
    for op in moved:
        if not _reads_none_of(bound, op):
            return False
        bound.difference_update(op.binds())
    if name in bound:
        return False
    names = dict[str, str]()
    for op in moved:
        names |= _move(rename_op(op, names), block)
    moved_ids = {id(op) for op in moved}
    remaining = [rename_op(op, names) for op in block.ops if id(op) not in moved_ids]
    block.exchange(remaining, {name: block.vars[name] for name in block.vars if name in bound})
    return True


def _move(op: Op, block: SymbolTable) -> dict[str, str]:
    """Move one operator; return the names that changed."""
    outer = block.parent
    assert outer is not None
    lifted = HoistedOp.out_of(block, op, lambda name: outer.find_op(name) is not None)
    outer.append(lifted.op, lifted.binds)
    for old, new in lifted.names.items():
        block.read_outside[new] = None
        _move_handle(block, old, outer, new)
        block.journal.note(partial(_move_handle, outer, new, block, old))
    return {old: new for old, new in lifted.names.items() if old != new}


def _move_handle(giver: SymbolTable, old: str, taker: SymbolTable, new: str) -> None:
    """Move the handle of a variable to another block."""
    handle = giver.handles.pop(old, None)
    if isinstance(handle, Var):
        handle.table, handle.name = taker, new
        taker.handles[new] = handle


def _is_repeated(place: InsertionPoint) -> bool:
    return place.owner is not None and place.label in REPEATED[place.owner.type]


def _reads_none_of(names: Container[str], op: Op) -> bool:
    return not any(name in names for name in op.reads())


def reason_not_hoisted(op: Op, type_of: Callable[[str], Type]) -> str | None:
    """Return the reason not to hoist a loop-invariant operator; `None` if there is none.

    Args:
        op: The operator.
        type_of: Returns the types of its operands and results.
    """
    definition = OPS.get(op.type)
    if op.bodies():
        return "it owns blocks"
    if definition.may_fail(op.attrs):
        return "it may fail, and a loop without iterations does not"
    if is_random(op):
        return "it draws random numbers"
    if any(isinstance(type_of(n), ListType) for n in (*op.reads(), *op.binds())):
        return "it reads or returns a list"
    return None


LICM = Pass(
    "licm", hoist_invariants, "Hoist loop-invariant operators out of loops.", trusted=True
)
