"""Residual plan of a block: values to save for its gradient, and values to recompute.

A residual is a value of the forward block that the backward block reads (JAX: residuals,
PyTorch: saved tensors). `plan_keeping` chooses one way for each:

| residual | way | field of `Keeping` |
|---|---|---|
| available to the backward block anyway | read it | `there` |
| array from cheap operators whose operands all have a way | recompute | `recomputed` |
| any other array | save | `values` |
| list filled by a loop inside the block | pass it through | `lists` |
| list of the user | save element by element | `whole` |

`ops/control/loop/residuals.py` shows the corresponding programs. Example of a plan:

    (x) { k = full()  a = matmul(x, w)  b = multiply(a, k)  c = matmul(b, w)  d = tanh(c)  ... }

    available: x    read by the gradient: a, b, d
    values: a, d    recomputed, in this order: k = full()  b = multiply(a, k)

Nothing is saved in order to recompute something else: `d` would need `c`, so `d` itself is
saved. So rematerialization never increases memory. An operator is cheap independent of the
target: reading a saved value costs more than the few operations that compute it.

A gradient that returns the remainder of a residual list reads more values than its results
need, possibly further lists. `fixpoint_keep` iterates until the plan is stable. Values are
saved in the order in which the gradient first reads them, so gradients are deterministic.
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
class ResidualPlan:
    """Residual plan: one way for each value of a forward block that its gradient reads.

    Attributes:
        values: Arrays to save.
        lists: Residual lists of loops inside the block, to pass through.
        whole: Lists of the user, to save element by element.
        there: Names available without saving, or bound by `recomputed`.
        recomputed: Operators to recompute, in order.
    """

    values: list[str] = field(default_factory=list[str])
    lists: list[str] = field(default_factory=list[str])
    whole: list[str] = field(default_factory=list[str])
    there: set[str] = field(default_factory=set[str])
    recomputed: list[Op] = field(default_factory=list[Op])


def _is_cheap(op: Op) -> bool:
    """Return whether recomputing an operator costs no more than reading its saved result."""
    definition = OPS.find(op.type)
    return definition is not None and definition.cheap and not definition.may_fail(op.attrs)


def plan_residuals(
    forward: SymbolTable,
    needed: Iterable[str],
    at_hand: Set[str],
    may_run_again: Callable[[Op], bool] = _is_cheap,
) -> ResidualPlan:
    """Plan the residuals of a block: save those neither available nor recomputable.

    Args:
        forward: The block.
        needed: Names that the gradient reads; names that the block does not bind are ignored.
        at_hand: Names available to the gradient without saving.
        may_run_again: Predicate of operators that may be recomputed.
    """
    producer_of = producers(forward.ops)
    reads = [name for name in dict.fromkeys(needed) if name in forward.vars]
    recomputable = {name for name, op in producer_of.items() if may_run_again(op)}
    saved = {name for name in reads if name not in at_hand | recomputable}
    recompute_memo: dict[str, bool] = {}

    def available(name: str) -> bool:
        if name not in forward.vars or name in at_hand or name in saved:
            return True
        if name not in recompute_memo:
            recompute_memo[name] = False
            recompute_memo[name] = name in recomputable and all(
                map(available, producer_of[name].reads())
            )
        return recompute_memo[name]

    saved |= {name for name in reads if not available(name)}
    plan = ResidualPlan()
    for name in reads:
        if name in saved:
            is_list = isinstance(forward.type_of(name), ListType)
            (plan.lists if is_list else plan.values).append(name)
    _collect_recomputed(
        plan, forward, producer_of, [name for name in reads if name not in saved], saved
    )
    return plan


def prune_and_plan_residuals(
    backward: Body,
    forward: SymbolTable,
    at_hand: Set[str],
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
        plan = plan_residuals(forward, free_names(body), at_hand)
        plan.whole = [name for name in plan.lists if not lists.knows(name)]
        plan.lists = [name for name in plan.lists if lists.knows(name)]
        new_rests = [lists.rest_of(name) for name in plan.lists]
        if new_rests == rests:
            return Body(body.params, backward.results, body.vars, body.ops), plan
        rests = new_rests


def prepend_recomputed(body: Body, forward: SymbolTable, plan: ResidualPlan) -> Body:
    """Return a backward block that begins with the recomputed operators of its plan."""
    infos = dict(body.vars)
    for op in plan.recomputed:
        infos |= {n: VarInfo(n, forward.type_of(n)) for n in op.binds()}
    return body.with_(vars=infos, ops=(*plan.recomputed, *body.ops))


def _collect_recomputed(
    plan: ResidualPlan,
    forward: SymbolTable,
    producer_of: dict[str, Op],
    pending: list[str],
    saved: Set[str],
) -> None:
    """Collect the operators to recompute, with all their operands."""
    op_ids: set[int] = set()
    while pending:
        name = pending.pop()
        if name in saved or name in plan.there or name not in forward.vars:
            continue
        plan.there.add(name)
        if name in producer_of:
            op_ids.add(id(producer_of[name]))
            pending.extend(producer_of[name].reads())
    plan.recomputed = [op for op in forward.ops if id(op) in op_ids]


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

    def started(self, history: str, start: str) -> None:
        """Record the empty list from which a residual list grew."""
        self._starts[history] = start

    def knows(self, history: str) -> bool:
        """Return whether a list can be passed from the forward block to the backward block."""
        return history in self._starts and history in self._rests

    def start_of(self, history: str) -> str:
        """Return the empty list from which a residual list grew."""
        return self._starts[history]

    def left(self, history: str, rest: str) -> None:
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
        value: The value that the forward block pushes and the backward block pops, if this
            loop fills the list itself.
    """

    param: str
    result: str
    source: str
    element: TensorType
    history: str
    value: str = ""


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
