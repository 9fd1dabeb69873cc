"""What the gradient of a block reads of the block: kept, or computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from braces.dtypes import ListType, TensorType, Type, is_float
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.walk import free_names, producers
from braces.ops.define import OPS


def differentiable(type_: Type) -> bool:
    """Whether cotangents of this type exist."""
    element = type_.element if isinstance(type_, ListType) else type_
    return is_float(element.dtype)


@dataclass
class Plan:
    """How the values of a forward block reach its gradient.

    Attributes:
        values: Arrays to keep.
        lists: Histories of loops inside the block, to hand through.
        again: What is at hand, or made by `recomputed`.
        recomputed: Operators to run again, in order.
    """

    values: list[str] = field(default_factory=list[str])
    lists: list[str] = field(default_factory=list[str])
    again: set[str] = field(default_factory=set[str])
    recomputed: list[Op] = field(default_factory=list[Op])


def _is_cheap(op: Op) -> bool:
    """Whether running an operator again beats keeping what it gives."""
    definition = OPS.find(op.type)
    return definition is not None and definition.cheap


def plan_keeping(
    forward: SymbolTable,
    needed: Iterable[str],
    at_hand: set[str],
    again: Callable[[Op], bool] = _is_cheap,
) -> Plan:
    """Keep what is needed and neither at hand nor made again of what is kept.

    Args:
        forward: The block.
        needed: Names that the gradient reads; those that the block does not bind are ignored.
        at_hand: Names that the gradient has anyway.
        again: Whether an operator may run again.
    """
    made = producers(forward.ops)
    wanted = [name for name in dict.fromkeys(needed) if name in forward.vars]
    by_again = {name for name, op in made.items() if again(op)}
    kept = {name for name in wanted if name not in at_hand | by_again}
    recomputed: dict[str, bool] = {}

    def available(name: str) -> bool:
        if name not in forward.vars or name in at_hand or name in kept:
            return True
        if name not in recomputed:
            recomputed[name] = False
            recomputed[name] = name in by_again and all(map(available, made[name].reads()))
        return recomputed[name]

    kept |= {name for name in wanted if not available(name)}
    plan = Plan()
    for name in wanted:
        if name in kept:
            is_list = isinstance(forward.type_of(name), ListType)
            (plan.lists if is_list else plan.values).append(name)
    _collect(plan, forward, made, [name for name in wanted if name not in kept], kept)
    return plan


def settle(
    backward: Body,
    forward: SymbolTable,
    at_hand: set[str],
    lists: Lists,
    eliminate: Callable[[Body, Sequence[str]], Body],
) -> tuple[Body, Plan]:
    """Cut a backward block down to what its results need, and plan what it reads.

    What is left of a history that passes through must be handed on, which keeps operators alive
    that may read more; so this goes on until nothing more is asked for.
    """
    rests: list[str] = []
    while True:
        body = eliminate(backward, [*backward.results, *rests])
        plan = plan_keeping(forward, free_names(body), at_hand)
        asked = [lists.rests[name] for name in plan.lists]
        if asked == rests:
            return Body(body.params, backward.results, body.vars, body.ops), plan
        rests = asked


def _collect(
    plan: Plan, forward: SymbolTable, made: dict[str, Op], pending: list[str], kept: set[str]
) -> None:
    """Find the operators to run again, and all that they read."""
    again: set[int] = set()
    while pending:
        name = pending.pop()
        if name in kept or name in plan.again or name not in forward.vars:
            continue
        plan.again.add(name)
        if name in made:
            again.add(id(made[name]))
            pending.extend(made[name].reads())
    plan.recomputed = [op for op in forward.ops if id(op) in again]


def history_of(table: SymbolTable, name: str) -> str | None:
    """The loop whose trips a list records, found by following it back to where it began.

    `None` where it comes from outside of the blocks that are seen from here.
    """
    return _traced([outer.ops for outer in table.chain()], name)


def _traced(blocks: list[Sequence[Op]], name: str) -> str | None:
    found = next((op for ops in blocks for op in ops if name in op.binds()), None)
    if found is None:
        return None
    role = OPS.get(found.type).roles.get("History")
    if role is not None:
        return str(found.attrs[role])
    slot, names = next((s, n) for s, n in found.outputs.items() if name in n)
    position = names.index(name)
    if slot == "final" and found.bodies():
        return _traced(blocks, found.inputs["init"][position])
    inner = (
        _traced([body.ops, *blocks], body.results[position]) for body in found.bodies().values()
    )
    return next((history for history in inner if history is not None), None)


@dataclass
class Lists:
    """The histories that gradients have made so far.

    Attributes:
        origins: A history to the empty list that it grew from.
        rests: A history to what is left of it after its gradient loop.
    """

    origins: dict[str, str] = field(default_factory=dict[str, str])
    rests: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Thread:
    """A history that passes through a construct.

    Attributes:
        param: Its name where the forward block begins.
        result: Its name where the forward block ends.
        source: Its name where the backward block begins.
        element: The type of its values.
        history: The loop whose trips it records.
        value: The value that the forward block pushes and the backward block pops, where the
            history is this loop's own.
    """

    param: str
    result: str
    source: str
    element: TensorType
    history: str
    value: str = ""


def take_list(lists: Lists, forward: SymbolTable, name: str) -> Thread:
    """Take the empty list that a history grew from out of a block; it comes from outside."""
    origin = lists.origins[name]
    op = producers(forward.ops)[origin]
    forward.ops.remove(op)
    info = forward.vars.pop(origin)
    assert isinstance(info.type, ListType)
    history = str(op.attrs[OPS.get(op.type).roles["History"]])
    return Thread(origin, name, name, info.type.element, history)
