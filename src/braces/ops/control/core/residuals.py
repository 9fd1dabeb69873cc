"""What the gradient of a block reads of the block: kept, or computed again.

A value is computed again where that is cheap and all that it is made of is there; else it is
kept, and whoever owns the block brings it to the gradient:

    (x) { k = full()  a = matmul(x, w)  b = multiply(a, k)  c = matmul(b, w)  d = tanh(c)  ... }

    at hand: x    the gradient reads: a, b, d
    kept: a, d    run again, in this order: k = full()  b = multiply(a, k)

Nothing is kept so that something else can be run again: `c` would be, for `d`. So what is cheap
never makes a gradient keep more. It is said of the operator and not of a machine: to read a
kept value takes more than the few operations that make it, wherever values are kept in memory.

A gradient that hands on what is left of a history reads more than its results say, and what is
kept for that may be a history again; `fixpoint_keep` goes on until nothing is added. The order
in which values are kept is the order in which the gradient reads them first, so that the same
program has the same gradient on every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field

from braces.builder.symbol_table import SymbolTable
from braces.define.decorator import OPS
from braces.dtypes import ListType, TensorType
from braces.ir.records import Body, Op, VarInfo
from braces.ir.views import view_of
from braces.ir.walk import free_names, producers


@dataclass
class Keeping:
    """How the values of a forward block reach its gradient.

    Attributes:
        values: Arrays to keep.
        lists: Histories of loops inside the block, to hand through.
        whole: Lists of users, to keep value by value.
        there: What is at hand, or made by `recomputed`.
        recomputed: Operators to run again, in order.
    """

    values: list[str] = field(default_factory=list[str])
    lists: list[str] = field(default_factory=list[str])
    whole: list[str] = field(default_factory=list[str])
    there: set[str] = field(default_factory=set[str])
    recomputed: list[Op] = field(default_factory=list[Op])


def _is_cheap(op: Op) -> bool:
    """Whether running an operator again takes no more than reading what it gave, anywhere."""
    definition = OPS.find(op.type)
    return definition is not None and definition.cheap and not definition.may_fail(op.attrs)


def plan_keeping(
    forward: SymbolTable,
    needed: Iterable[str],
    at_hand: Set[str],
    may_run_again: Callable[[Op], bool] = _is_cheap,
) -> Keeping:
    """Keep what is needed and neither at hand nor made again of what is kept.

    Args:
        forward: The block.
        needed: Names that the gradient reads; those that the block does not bind are ignored.
        at_hand: Names that the gradient has anyway.
        may_run_again: Whether an operator may.
    """
    made = producers(forward.ops)
    wanted = [name for name in dict.fromkeys(needed) if name in forward.vars]
    by_again = {name for name, op in made.items() if may_run_again(op)}
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
    plan = Keeping()
    for name in wanted:
        if name in kept:
            is_list = isinstance(forward.type_of(name), ListType)
            (plan.lists if is_list else plan.values).append(name)
    _collect(plan, forward, made, [name for name in wanted if name not in kept], kept)
    return plan


def fixpoint_keep(
    backward: Body,
    forward: SymbolTable,
    at_hand: Set[str],
    lists: Lists,
    eliminate: Callable[[Body, Sequence[str]], Body],
) -> tuple[Body, Keeping]:
    """Cut a backward block down to what its results need, and plan what it reads.

    What is left of a history that passes through must be handed on, which keeps operators alive
    that may read more; so this goes on until nothing more is asked for.
    """
    rests: list[str] = []
    while True:
        body = eliminate(backward, [*backward.results, *rests])
        plan = plan_keeping(forward, free_names(body), at_hand)
        plan.whole = [name for name in plan.lists if not lists.knows(name)]
        plan.lists = [name for name in plan.lists if lists.knows(name)]
        asked = [lists.rest_of(name) for name in plan.lists]
        if asked == rests:
            return Body(body.params, backward.results, body.vars, body.ops), plan
        rests = asked


def with_recomputed(body: Body, forward: SymbolTable, plan: Keeping) -> Body:
    """A backward block that first runs again what it does not get."""
    infos = dict(body.vars)
    for op in plan.recomputed:
        infos |= {n: VarInfo(n, forward.type_of(n)) for n in op.binds()}
    return body.with_(vars=infos, ops=(*plan.recomputed, *body.ops))


def _collect(
    plan: Keeping, forward: SymbolTable, made: dict[str, Op], pending: list[str], kept: Set[str]
) -> None:
    """Find the operators to run again, and all that they read."""
    again: set[int] = set()
    while pending:
        name = pending.pop()
        if name in kept or name in plan.there or name not in forward.vars:
            continue
        plan.there.add(name)
        if name in made:
            again.add(id(made[name]))
            pending.extend(made[name].reads())
    plan.recomputed = [op for op in forward.ops if id(op) in again]


# ---- histories -------------------------------------------------------------------------------


def history_of(table: SymbolTable, name: str) -> str | None:
    """The loop whose trips a list records, found by following it back to where it began.

    A list that began as the rows of an array does not say it; the loop that pops them does.
    `None` where the list comes from outside of the blocks that are seen from here.
    """
    return _traced([*table.chain()], name)


def _traced(blocks: Sequence[SymbolTable | Body], name: str) -> str | None:
    found = _maker(blocks, name)
    if found is None:
        return None
    role, view = OPS.get(found.type).roles.get("History"), view_of(found)
    if role is not None:
        return str(found.attrs[role])
    sources = [] if view is None else view.sources(name)
    inner = (_traced([body, *blocks] if body else blocks, name) for body, name in sources)
    return next((history for history in inner if history is not None), None)


def _maker(blocks: Sequence[SymbolTable | Body], name: str) -> Op | None:
    """The operator that binds a name, seen from the first block; parameters have none."""
    block = next((block for block in blocks if name in block.vars), None)
    ops = () if block is None else block.ops
    return next((op for op in ops if name in op.binds()), None)


class Lists:
    """The histories that gradients have made so far."""

    def __init__(self) -> None:
        self._starts: dict[str, str] = {}
        self._rests: dict[str, str] = {}

    def started(self, history: str, start: str) -> None:
        """Note the empty list that a history grew from."""
        self._starts[history] = start

    def knows(self, history: str) -> bool:
        """Whether a history can be handed from the forward block to the backward one."""
        return history in self._starts and history in self._rests

    def start_of(self, history: str) -> str:
        """The empty list that a history grew from."""
        return self._starts[history]

    def left(self, history: str, rest: str) -> None:
        """Note what is left of a history after its gradient."""
        self._rests[history] = rest

    def rest_of(self, history: str) -> str:
        """What is left of a history after its gradient."""
        return self._rests[history]


@dataclass(frozen=True)
class KeptList:
    """A history that a construct carries for its gradient.

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


def take_list(lists: Lists, forward: SymbolTable, name: str) -> KeptList:
    """Take the empty list that a history grew from out of a block; it comes from outside."""
    start = lists.start_of(name)
    op = producers(forward.ops)[start]
    info = forward.vars[start]
    left = {other: one for other, one in forward.vars.items() if other != start}
    forward.exchange([one for one in forward.ops if one is not op], left)
    assert isinstance(info.type, ListType)
    history = str(op.attrs[OPS.get(op.type).roles["History"]])
    return KeptList(start, name, name, info.type.element, history)
