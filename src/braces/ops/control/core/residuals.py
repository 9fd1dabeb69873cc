"""Residual plan of a block: values to save for its gradient, and values to recompute.

A residual is a value of the forward block that the backward block reads (JAX: residuals,
PyTorch: saved tensors). `plan_residuals` chooses a `Way` for each:

| residual | way |
|---|---|
| visible to the backward block anyway | `AVAILABLE` |
| array from cheap operators whose operands all have a way | `RECOMPUTE` |
| any other array | `SAVE` |
| list filled by a loop inside the block | `PASS_THROUGH` |
| list of the user | `SAVE_LIST` |

A loop saves in three ways; `ops/control/loop/residuals.py` shows the programs. Example:

    (x) { k = full()  a = matmul(x, w)  b = multiply(a, k)  c = matmul(b, w)  d = tanh(c)  ... }

    read by the gradient: x, a, b, d
    SAVE: a, d    AVAILABLE: x    RECOMPUTE: k = full()  b = multiply(a, k)

No value is saved only for the recomputation of another one: `d` would need `c`, so `d` itself
is saved. So rematerialization never increases memory. An operator is cheap independent of the
target: reading a saved value costs more than the few operations that compute it.

A gradient that returns the remainder of a residual list reads more values than its results
need, possibly further lists. `prune_and_plan_residuals` iterates until the plan is stable.
Values are saved in the order in which the gradient first reads them, so gradients are
deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum

from braces.builder.symbol_table import SymbolTable
from braces.define.decorator import OPS
from braces.dtypes import ListType, TensorType
from braces.ir.records import Body, Op, VarInfo
from braces.ir.views import view_of
from braces.ir.walk import free_names, producers


class Way(Enum):
    """Transfer of a residual to the backward block."""

    AVAILABLE = "read it"
    RECOMPUTE = "recompute it"
    SAVE = "save it"
    SAVE_STACKED = "stack it in a counted loop"
    PUSH = "push it on a list in a loop with a data-dependent trip count"
    CARRY = "carry it from the later iteration"
    SAVE_LIST = "save a list element by element"
    PASS_THROUGH = "pass the residual list of an inner loop through"


@dataclass(frozen=True)
class ResidualPlan:
    """Residual plan of a block.

    Attributes:
        ways: The way of each value that the gradient reads, directly or for recomputation.
        recomputed: The operators to recompute, in order.
    """

    ways: Mapping[str, Way]
    recomputed: Sequence[Op]

    def names(self, *ways: Way) -> list[str]:
        """Return the values with one of these ways, in the order in which they are read."""
        return [name for name, way in self.ways.items() if way in ways]

    def with_ways(self, ways: Mapping[str, Way]) -> ResidualPlan:
        """Return the plan with other ways for some values, or with more values."""
        return replace(self, ways={**self.ways, **ways})


def _is_cheap(op: Op) -> bool:
    """Return whether recomputing an operator costs no more than reading its saved result."""
    definition = OPS.find(op.type)
    return definition is not None and definition.cheap and not definition.may_fail(op.attrs)


def plan_residuals(
    forward: SymbolTable,
    needed: Iterable[str],
    available: Set[str],
    may_recompute: Callable[[Op], bool] = _is_cheap,
) -> ResidualPlan:
    """Plan the residuals of a block: save those neither available nor recomputable.

    Args:
        forward: The block.
        needed: Names that the gradient reads; names that the block does not bind are ignored.
        available: Names visible to the gradient without saving.
        may_recompute: Predicate of operators that may be recomputed.
    """
    producer_of = producers(forward.ops)
    reads = [name for name in dict.fromkeys(needed) if name in forward.vars]
    recomputable = {name for name, op in producer_of.items() if may_recompute(op)}
    saved = {name for name in reads if name not in available | recomputable}
    has_way: dict[str, bool] = {}

    def is_computable(name: str) -> bool:
        if name not in forward.vars or name in available or name in saved:
            return True
        if name not in has_way:
            has_way[name] = False
            has_way[name] = name in recomputable and all(
                map(is_computable, producer_of[name].reads())
            )
        return has_way[name]

    saved |= {name for name in reads if not is_computable(name)}
    ways = {
        name: Way.SAVE_LIST if isinstance(forward.type_of(name), ListType) else Way.SAVE
        for name in reads
        if name in saved
    }
    pending = [name for name in reads if name not in saved]
    while pending:
        name = pending.pop()
        if name in forward.vars and name not in ways:
            ways[name] = Way.RECOMPUTE if name in producer_of else Way.AVAILABLE
            pending.extend(producer_of[name].reads() if name in producer_of else ())
    recomputed = [
        op for op in forward.ops if any(ways.get(n) is Way.RECOMPUTE for n in op.binds())
    ]
    return ResidualPlan(ways, recomputed)


def prune_and_plan_residuals(
    backward: Body,
    forward: SymbolTable,
    available: Set[str],
    lists: ResidualListTable,
    eliminate: Callable[[Body, Sequence[str]], Body],
) -> tuple[Body, ResidualPlan]:
    """Apply dead code elimination to a backward block, and plan its residuals.

    The remainder of a list that passes through must be returned. That keeps operators alive
    that may read more residuals, so both steps repeat until no remainder is added.
    """
    rests: list[str] = []
    while True:
        body = eliminate(backward, [*backward.results, *rests])
        plan = plan_residuals(forward, free_names(body), available)
        passed = [name for name in plan.names(Way.SAVE_LIST) if lists.can_pass(name)]
        new_rests = [lists.rest_of(name) for name in passed]
        if new_rests == rests:
            body = Body(body.params, backward.results, body.vars, body.ops)
            return body, plan.with_ways(dict.fromkeys(passed, Way.PASS_THROUGH))
        rests = new_rests


def prepend_recomputed(body: Body, forward: SymbolTable, plan: ResidualPlan) -> Body:
    """Return a backward block that begins with the recomputed operators of its plan."""
    infos = dict(body.vars)
    for op in plan.recomputed:
        infos |= {n: VarInfo(n, forward.type_of(n)) for n in op.binds()}
    return body.with_(vars=infos, ops=(*plan.recomputed, *body.ops))


# ---- residual lists --------------------------------------------------------------------------


def find_filling_loop(table: SymbolTable, name: str) -> str | None:
    """Return the loop that filled a list, found by tracing the list back to its origin.

    A list created from the elements of an array has no such loop; the loop that pops it names
    it. `None` where the list comes from outside of the visible blocks.
    """
    return _trace_loop([*table.chain()], name)


def _trace_loop(blocks: Sequence[SymbolTable | Body], name: str) -> str | None:
    op = _find_producer(blocks, name)
    if op is None:
        return None
    role, view = OPS.get(op.type).roles.get("History"), view_of(op)
    if role is not None:
        return str(op.attrs[role])
    sources = [] if view is None else view.sources(name)
    inner = (_trace_loop([body, *blocks] if body else blocks, name) for body, name in sources)
    return next((history for history in inner if history is not None), None)


def _find_producer(blocks: Sequence[SymbolTable | Body], name: str) -> Op | None:
    """Return the operator that binds a name in the innermost block; parameters have none."""
    block = next((block for block in blocks if name in block.vars), None)
    ops = () if block is None else block.ops
    return next((op for op in ops if name in op.binds()), None)


class ResidualListTable:
    """Residual lists created by gradients so far."""

    def __init__(self) -> None:
        self._starts: dict[str, str] = {}
        self._rests: dict[str, str] = {}

    def record_start(self, history: str, start: str) -> None:
        """Record the empty list from which a residual list grew."""
        self._starts[history] = start

    def can_pass(self, history: str) -> bool:
        """Return whether a list can be passed from the forward block to the backward block."""
        return history in self._starts and history in self._rests

    def start_of(self, history: str) -> str:
        """Return the empty list from which a residual list grew."""
        return self._starts[history]

    def record_rest(self, history: str, rest: str) -> None:
        """Record the remainder of a residual list after its gradient."""
        self._rests[history] = rest

    def rest_of(self, history: str) -> str:
        """Return the remainder of a residual list after its gradient."""
        return self._rests[history]


@dataclass(frozen=True)
class ResidualList:
    """A residual list that a construct carries for its gradient.

    Attributes:
        param: Its name at entry to the forward block.
        result: Its name at exit from the forward block.
        source: Its name at entry to the backward block.
        element: The type of its elements.
        history: The loop whose iterations fill it.
        way: `PUSH`, `SAVE_LIST` or `PASS_THROUGH`.
        value: The value that the forward block adds and the backward block takes off; none is
            if the list passes through.
        count: The number of elements of a value that is a list.
    """

    param: str
    result: str
    source: str
    element: TensorType
    history: str
    way: Way = Way.PASS_THROUGH
    value: str = ""
    count: str = ""


def detach_list_start(
    lists: ResidualListTable, forward: SymbolTable, name: str
) -> ResidualList:
    """Move the empty list from which a residual list grew out of a block."""
    start = lists.start_of(name)
    op = producers(forward.ops)[start]
    info = forward.vars[start]
    other_vars = {key: item for key, item in forward.vars.items() if key != start}
    forward.exchange([item for item in forward.ops if item is not op], other_vars)
    assert isinstance(info.type, ListType)
    history = str(op.attrs[OPS.get(op.type).roles["History"]])
    return ResidualList(start, name, name, info.type.element, history)
