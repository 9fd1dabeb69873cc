"""Partitioned branch, compiled.

The number of rows of a case is data-dependent, so a case is compiled for fixed capacities, and
a run selects one. A branch whose rows are sharded runs on each device for its own rows, if
`can_run_per_device`. The code of a case follows from its `Strategy`; see `choose_strategy`.

- Gather: the rows are gathered and padded to the capacity with one of them; results are
  scattered to their positions. The smallest sufficient capacity is selected in each run. The
  target wants capacities up to half of all rows.
- In place: all rows stay at their positions. A row of the case replaces those of other cases,
  and the mask selects the results.
- A case without rows does not run.
- Results of preceding cases are passed on and updated in place, so nothing is copied or merged.
  The first case of a branch that is not compact, such as a ragged step, has none.

If every row is computed independently and no check or NaN can be reported, rows of other cases
need no replacement in `_lower_first`. Their results are discarded at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import Any
from zlib import crc32

from braces.dims import Dim
from braces.dtypes import DType, TensorType
from braces.ir.records import Body
from braces.ir.views import PartitionView
from braces.ir.walk import producers
from braces.lazy import extend, jax, jnp, lax
from braces.ops.common.rules import is_zeros
from braces.ops.control.batch_axis.analysis import is_row_wise
from braces.ops.control.core.block_op import Lowering, State, Value
from braces.ops.control.partition.kernel_cost import estimate_work
from braces.ops.control.partition.per_device import can_run_per_device

Branch = Callable[[list[Value], State], tuple[list[Value], State]]
"""From results of preceding cases and a run state to the results and state after the case."""
MergeRows = Callable[[Value, Value], Value]
"""From the rows of a case and those of preceding cases to the merged rows."""


class Strategy(Enum):
    """Code of a case."""

    FIRST = "in place; zeros if no element is selected"
    IN_PLACE = "in place; results of preceding cases if no element is selected"
    COMPACT = "gathered, in place or the whole batch, depending on the number of elements"


@dataclass(frozen=True)
class LoweredCase:
    """One case of a partitioned branch.

    Attributes:
        lowering: The operator.
        view: The decoded view of the operator.
        k: The position of the case.
        body: Its block.
        mask: The mask of its rows.
    """

    lowering: Lowering
    view: PartitionView
    k: int
    body: Body
    mask: Value

    @property
    def label(self) -> str:
        """The name of the block among those of the operator."""
        return f"cases[{self.k}]"

    @property
    def number(self) -> Value:
        """The number of its rows."""
        return jnp.sum(self.mask, dtype="int32")

    @property
    def total(self) -> Any:
        """The number of rows of all cases: a number, or a symbol for one."""
        return self.mask.shape[0]

    @property
    def has_static_total(self) -> bool:
        """Return whether `total` is a number."""
        return isinstance(self.total, int)

    @property
    def rows(self) -> list[Value]:
        """The rows of all cases."""
        return [self.lowering.read(row.source) for row in self.view.rows]

    def rows_in_place(self) -> list[Value]:
        """Return all rows in place, with a row of the case in the positions of other cases."""
        mask = self.mask
        return [
            jnp.where(reshape_row_mask(mask, x), x, first_valid_row(x, mask)) for x in self.rows
        ]

    @cached_property
    def row_wise(self) -> bool:
        """Return whether each row of the results needs one row only, without sums."""
        size = self.lowering.size
        if (
            not self.has_static_total
            or self.view.compact
            or self.view.sums
            or any(op.bodies() for op in self.body.ops)
        ):
            return False
        types = {n: info.type.map_sizes(size) for n, info in self.body.vars.items()}
        for name in self.view.captures:
            value = self.lowering.read(name)
            if not hasattr(value, "dtype"):
                return False
            types[name] = TensorType(value.dtype, value.shape)
        return is_row_wise(self.body, types, self.mask.shape[0])

    def run(
        self, valid: Value, rows: Sequence[Value], state: State
    ) -> tuple[list[Value], State]:
        """Run the block on as many rows as `valid` has."""
        count = self.view.cases[self.k].count
        sizes = {str(count): valid.shape[0]} if isinstance(count, Dim) else None
        rows = rows if self.row_wise else zero_linear_padding(self.view, rows, valid)
        return self.lowering.run(self.label, self.body, [valid, *rows], state, sizes)

    def merge_results(
        self, results: Sequence[Value], before: Sequence[Value], merge_rows: MergeRows
    ) -> list[Value]:
        """Merge results with those of preceding cases: rows merged, sums added.

        Preceding results are zero at its rows, so constant zeros need no update.
        """
        producer_of = producers(self.body.ops)
        merges = [merge_rows] * len(self.view.outs) + [jnp.add] * len(self.view.sums)
        return [
            old if is_zeros(producer_of.get(name)) else merge(new, old)
            for name, merge, new, old in zip(
                self.body.results, merges, results, before, strict=True
            )
        ]


def lower_cases(lowering: Lowering, view: PartitionView) -> dict[str, Value]:
    """Lower a partitioned branch, per device if sharded; return its outputs by name."""
    rows = {*(case.mask for case in view.cases), *(row.source for row in view.rows)}
    sharded_size = lowering.cut_by(view.cases[0].mask)
    if sharded_size is None or not can_run_per_device(view, lowering.type_of, sharded_size):
        return view.bound(_lower_cases(lowering, view))
    run = partial(_lower_cases, view=view)
    return view.bound(lowering.in_parts(sharded_size, rows, len(view.outs), run))


def _lower_cases(lowering: Lowering, view: PartitionView) -> list[Value]:
    """Return the results of all cases."""
    results: list[Value] = []
    for k, (case, body) in enumerate(zip(view.cases, view.bodies, strict=True)):
        lowered = LoweredCase(lowering, view, k, body, lowering.read(case.mask))
        results = _lower_case(lowered, results)
    return results


def _lower_case(case: LoweredCase, before: list[Value]) -> list[Value]:
    """Return the results of a case, merged with those of preceding cases, if any."""
    state = case.lowering.state(case.label)
    traced = _TracedCase.trace(case, state)
    strategy = choose_strategy(case, traced.work, is_first=not before)
    if strategy is Strategy.FIRST:
        results, state = _lower_first(traced, state)
    else:
        lower = _lower_compact if strategy is Strategy.COMPACT else _lower_in_place
        results, state = lower(traced, before or traced.zero_results(), state)
    case.lowering.leave(state)
    return results


def choose_strategy(case: LoweredCase, work: float, is_first: bool) -> Strategy:
    """Choose the code of a case: the first row of this table that applies.

    | branch | case | number of all rows | strategy |
    |---|---|---|---|
    | not compact | first | any | `FIRST` |
    | not compact | later | any | `IN_PLACE` |
    | compact | any | symbolic, as in an export | `IN_PLACE` |
    | compact | little work | static | `IN_PLACE` |
    | compact | more work | static | `COMPACT` |
    """
    if not case.view.compact:
        return Strategy.FIRST if is_first else Strategy.IN_PLACE
    if not case.has_static_total or case.lowering.is_little(work):
        return Strategy.IN_PLACE
    return Strategy.COMPACT


@dataclass(frozen=True)
class _TracedCase:
    """A case on all rows, traced once for all branches that run it so.

    Attributes:
        case: The case.
        code: The closed jaxpr.
        outputs: The structure of its outputs: results, and the state after it.
        work: Its cost.
    """

    case: LoweredCase
    code: Any
    outputs: Any
    work: float

    @classmethod
    def trace(cls, case: LoweredCase, state: State) -> _TracedCase:
        """Trace a case for all rows, at least one: a maximum of none does not exist."""
        static = case.has_static_total and case.view.compact
        rows = max(case.total, 1) if static else case.total
        row_shapes = [jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype) for x in case.rows]
        valid = jax.ShapeDtypeStruct((rows,), "bool")
        code, outputs = jax.make_jaxpr(case.run, return_shape=True)(valid, row_shapes, state)
        return cls(case, code, outputs, estimate_work(code))

    def run(
        self, valid: Value, rows: Sequence[Value], state: State
    ) -> tuple[list[Value], State]:
        """Evaluate `LoweredCase.run` for all rows."""
        flat = jax.tree.leaves((valid, rows, state))
        flat_results = extend.jaxpr_as_fun(self.code)(*flat)
        return jax.tree.unflatten(jax.tree.structure(self.outputs), flat_results)

    @property
    def changes_state(self) -> bool:
        """Return whether the case changes the run state: reports a failed check or a NaN."""
        _, state = self.outputs
        number, code = len(jax.tree.leaves(state)), self.code.jaxpr
        pairs = zip(code.outvars[-number:], code.invars[-number:], strict=True)
        return number > 0 and any(after is not before for after, before in pairs)

    def result_shapes(self) -> list[tuple[tuple[int, ...], DType]]:
        """Return the shapes and dtypes of the results for all rows."""
        total, outs, (results, _) = self.case.total, len(self.case.view.outs), self.outputs
        shapes = ((total, *r.shape[1:]) if i < outs else r.shape for i, r in enumerate(results))
        return [(shape, r.dtype) for shape, r in zip(shapes, results, strict=True)]

    def zero_results(self) -> list[Value]:
        """Return zeros of the result types, which the branches of the case update in place.

        XLA merges equal constants (CSE) and then copies them. These differ for XLA, which does
        not know that a row count is never negative.
        """
        case, zeros = self.case, list[Value]()
        for i, (shape, dtype) in enumerate(self.result_shapes()):
            salt = crc32(f"{case.lowering.op.name} {i}".encode()) >> 1
            zeros.append(jnp.broadcast_to((case.number < -salt).astype(dtype), shape))
        return zeros


# ---- strategies ------------------------------------------------------------------------------


def _lower_first(traced: _TracedCase, state: State) -> tuple[list[Value], State]:
    """Run the first case in place, or return zeros if it has no rows.

    No preceding results have to be passed on, which a conditional would copy.
    """
    case = traced.case

    def run(state: State) -> tuple[list[Value], State]:
        independent = case.row_wise and not traced.changes_state
        rows = case.rows if independent else case.rows_in_place()
        results, state = traced.run(case.mask, rows, state)
        outs = len(case.view.outs)
        masked_rows = [
            jnp.where(reshape_row_mask(case.mask, x), x, jnp.zeros_like(x))
            for x in results[:outs]
        ]
        return [*masked_rows, *results[outs:]], state

    def skip(state: State) -> tuple[list[Value], State]:
        return [jnp.zeros(shape, dtype) for shape, dtype in traced.result_shapes()], state

    return lax.cond(case.number > 0, run, skip, state)


def _lower_in_place(
    traced: _TracedCase, results: list[Value], state: State
) -> tuple[list[Value], State]:
    """Run a case in place if it has rows."""
    case = traced.case
    if case.has_static_total and not case.total:
        return results, state
    return _run_if(case, case.number > 0, _in_place(traced), results, state)


def _lower_compact(
    traced: _TracedCase, results: list[Value], state: State
) -> tuple[list[Value], State]:
    """Run the branch with the smallest sufficient capacity; none if there are no rows."""
    case, number, total = traced.case, traced.case.number, traced.case.total
    branches = [(n, _gathered(case, n)) for n in case.lowering.capacities(total)]
    branches += [(total - 1, _in_place(traced)), (total, _all_rows(traced))]
    lower_bound = 0
    for capacity, branch in branches:
        if capacity > lower_bound:
            selected = (lower_bound < number) & (number <= capacity)
            results, state = _run_if(case, selected, branch, results, state)
            lower_bound = capacity
    return results, state


def _run_if(
    case: LoweredCase, wanted: Value, branch: Branch, before: list[Value], state: State
) -> tuple[list[Value], State]:
    """Run a branch or skip it; `before` are the results if it is skipped."""
    return case.lowering.run_if(wanted, lambda carry: branch(*carry), (before, state))


# ---- branches --------------------------------------------------------------------------------


def _gathered(case: LoweredCase, capacity: int) -> Branch:
    """Return the branch that gathers rows, pads them to a capacity, and scatters results."""
    total, number = case.total, case.number

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        valid = jnp.arange(capacity) < number
        (places,) = jnp.nonzero(case.mask, size=capacity, fill_value=0)
        chosen = jnp.where(valid, places, first_valid_row(places, valid))
        results, state = case.run(valid, [x[chosen] for x in case.rows], state)
        target = jnp.where(valid, chosen, total)  # out of range, so dropped

        def scatter(rows: Value, old: Value) -> Value:
            return old.at[target].set(rows, mode="drop")

        return case.merge_results(results, before, scatter), state

    return branch


def _in_place(traced: _TracedCase) -> Branch:
    """Return the branch on all rows in place; a row of the case replaces those of others."""
    case, mask = traced.case, traced.case.mask

    def select(rows: Value, old: Value) -> Value:
        return jnp.where(reshape_row_mask(mask, rows), rows, old)

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        results, state = traced.run(mask, case.rows_in_place(), state)
        return case.merge_results(results, before, select), state

    return branch


def _all_rows(traced: _TracedCase) -> Branch:
    """Return the branch for a case that has all rows."""
    case = traced.case

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        results, state = traced.run(jnp.ones(case.mask.shape, bool), case.rows, state)
        return case.merge_results(results, before, lambda rows, _: rows), state

    return branch


# ---- rows ------------------------------------------------------------------------------------


def reshape_row_mask(mask: Value, x: Value) -> Value:
    """Reshape a mask of rows to broadcast against an array of rows."""
    return mask.reshape(-1, *[1] * (x.ndim - 1))


def first_valid_row(x: Value, valid: Value) -> Value:
    """Return the first valid row, used as padding; an empty array if there are no rows."""
    return x[lax.argmax(valid, 0, jnp.int32)] if valid.shape[0] else x[:0]


def zero_linear_padding(
    view: PartitionView, rows: Sequence[Value], valid: Value
) -> list[Value]:
    """Return the rows, zeroed in padding where results are linear in them."""
    return [
        jnp.where(reshape_row_mask(valid, x), x, 0) if row.linear else x
        for row, x in zip(view.rows, rows, strict=True)
    ]
