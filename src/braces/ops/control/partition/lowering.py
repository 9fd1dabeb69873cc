"""The row-wise branch, compiled.

How many rows a case has is known only at run time, so each case is compiled for a few
capacities, those that the target wants, and a run takes the smallest that holds its rows: they
are gathered, padded with one of them, and scattered to their places. Where they are more than
half of all rows, they stay at their places, and those of other cases are stood in for by one
that is selected. So they do in any case with little to compute, which is compiled just once. A
case without rows does not run. What the cases before it gave is handed on and changed in place,
so that nothing is copied or merged. A single case whose rows stay at their places, as a step
with lengths, has none before it, and is a conditional.

Where the number of rows is a symbol, as where a program is exported, a case is compiled once,
for all rows at their places, and runs where it has any.

Where each row of a case is computed on its own and nothing can be told of it, no row needs to
stand in for another: what is made of rows of other cases is left out at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from zlib import crc32

from braces.dims import Dim
from braces.dtypes import DType, TensorType
from braces.ir.records import Body
from braces.ir.views import PartitionView
from braces.ir.walk import producers
from braces.lazy import extend, jax, jnp, lax
from braces.ops.common.rules import gives_zeros
from braces.ops.control.batch_axis.analysis import is_by_row
from braces.ops.control.core.block_op import Lowering, State, Value
from braces.ops.control.partition.kernel_cost import work_of
from braces.ops.control.partition.per_device import runs_in_parts

Branch = Callable[[list[Value], State], tuple[list[Value], State]]
"""From the results of the cases before and a state to the results and the state after."""
Place = Callable[[Value, Value], Value]
"""From the rows of a case and those of the cases before to both."""


@dataclass(frozen=True)
class LoweredCase:
    """One case of a row-wise branch.

    Attributes:
        lowering: The operator.
        view: The operator taken apart.
        k: Which of its cases.
        body: Its block.
        mask: Which rows are its own.
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
        """How many rows are its own."""
        return jnp.sum(self.mask, dtype="int32")

    @property
    def total(self) -> Any:
        """How many rows all cases have: a number, or a symbol for one."""
        return self.mask.shape[0]

    @property
    def known(self) -> bool:
        """Whether that is a number."""
        return isinstance(self.total, int)

    @property
    def rows(self) -> list[Value]:
        """The rows of all cases."""
        return [self.lowering.read(row.source) for row in self.view.rows]

    def stood_in(self) -> list[Value]:
        """All rows at their places; one that is its own stands in for those that are not."""
        mask = self.mask
        return [jnp.where(along_rows(mask, x), x, first_of(x, mask)) for x in self.rows]

    @cached_property
    def by_row(self) -> bool:
        """Whether nothing is added up, and each row of the results needs one row alone."""
        size = self.lowering.size
        if (
            not self.known
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
        return is_by_row(self.body, types, self.mask.shape[0])

    def run(
        self, valid: Value, rows: Sequence[Value], state: State
    ) -> tuple[list[Value], State]:
        """Run the block on as many rows as `valid` has."""
        count = self.view.cases[self.k].count
        sizes = {str(count): valid.shape[0]} if isinstance(count, Dim) else None
        rows = rows if self.by_row else without_stand_ins(self.view, rows, valid)
        return self.lowering.run(self.label, self.body, [valid, *rows], state, sizes)

    def joined(
        self, found: Sequence[Value], before: Sequence[Value], place: Place
    ) -> list[Value]:
        """Its results with those of the cases before: rows placed, sums added.

        Its rows are zero before, so zeros change nothing.
        """
        made = producers(self.body.ops)
        changes = [place] * len(self.view.outs) + [jnp.add] * len(self.view.sums)
        return [
            old if gives_zeros(made.get(name)) else change(new, old)
            for name, change, new, old in zip(
                self.body.results, changes, found, before, strict=True
            )
        ]


def lower_cases(lowering: Lowering, view: PartitionView) -> dict[str, Value]:
    """The outputs of a row-wise branch, by name; devices that have parts run each its own."""
    rows = {*(case.mask for case in view.cases), *(row.source for row in view.rows)}
    cut = lowering.cut_by(view.cases[0].mask)
    if cut is None or not runs_in_parts(view, lowering.type_of, cut):
        return view.bound(_lower_cases(lowering, view))
    run = partial(_lower_cases, view=view)
    return view.bound(lowering.in_parts(cut, rows, len(view.outs), run))


def _lower_cases(lowering: Lowering, view: PartitionView) -> list[Value]:
    """The results of all cases."""
    results: list[Value] = []
    for k, (case, body) in enumerate(zip(view.cases, view.bodies, strict=True)):
        lowered = LoweredCase(lowering, view, k, body, lowering.read(case.mask))
        results = _lower_case(lowered, results)
    return results


def _lower_case(case: LoweredCase, before: list[Value]) -> list[Value]:
    state = case.lowering.state(case.label)
    whole = _WholeCase.traced(case, state)
    if not case.view.compact and not before:
        results, state = _alone(case, whole, state)
        case.lowering.leave(state)
        return results
    results, number, least = before or whole.nothing(case), case.number, 0
    for capacity, branch in _branches(case, whole):
        if not case.known:
            results, state = _where(case, number > 0, branch, results, state)
        elif capacity > least:
            wanted = (least < number) & (number <= capacity)
            results, state = _where(case, wanted, branch, results, state)
            least = capacity
    case.lowering.leave(state)
    return results


def _branches(case: LoweredCase, whole: _WholeCase) -> list[tuple[int, Branch]]:
    """How many rows the case can run on, and how, from few to all."""
    total = case.total
    in_place = _in_place(case, whole)
    if not case.known or not case.view.compact or case.lowering.is_little(whole.work):
        return [(total, in_place)]
    gathered = [(n, _gathered(case, n)) for n in case.lowering.capacities(total)]
    return [*gathered, (total - 1, in_place), (total, _all_rows(case, whole))]


@dataclass(frozen=True)
class _WholeCase:
    """A case on as many rows as there are, traced once for all that runs it so.

    Attributes:
        code: What JAX traced.
        made: What it gives: results, and the state after it.
        work: How much it computes.
    """

    code: Any
    made: Any
    work: float

    @classmethod
    def traced(cls, case: LoweredCase, state: State) -> _WholeCase:
        """Trace a case. Of no rows a maximum, say, does not exist: there a row is assumed."""
        rows = max(case.total, 1) if case.known and case.view.compact else case.total
        given = [jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype) for x in case.rows]
        valid = jax.ShapeDtypeStruct((rows,), "bool")
        code, made = jax.make_jaxpr(case.run, return_shape=True)(valid, given, state)
        return cls(code, made, work_of(code))

    def run(
        self, valid: Value, rows: Sequence[Value], state: State
    ) -> tuple[list[Value], State]:
        """What `LoweredCase.run` gives for all rows."""
        flat = jax.tree.leaves((valid, rows, state))
        found = extend.jaxpr_as_fun(self.code)(*flat)
        return jax.tree.unflatten(jax.tree.structure(self.made), found)

    @property
    def tells(self) -> bool:
        """Whether something of it may be told: that it fails, or has a NaN."""
        _, state = self.made
        number, code = len(jax.tree.leaves(state)), self.code.jaxpr
        pairs = zip(code.outvars[-number:], code.invars[-number:], strict=True)
        return number > 0 and any(after is not before for after, before in pairs)

    def gives(self, case: LoweredCase) -> list[tuple[tuple[int, ...], DType]]:
        """The shapes and dtypes of the results for all rows."""
        total, outs, (found, _) = case.mask.shape[0], len(case.view.outs), self.made
        shapes = ((total, *r.shape[1:]) if i < outs else r.shape for i, r in enumerate(found))
        return [(shape, r.dtype) for shape, r in zip(shapes, found, strict=True)]

    def nothing(self, case: LoweredCase) -> list[Value]:
        """Zeros of the types that the case gives."""
        return [_zeros(case, i, *given) for i, given in enumerate(self.gives(case))]


def _where(
    case: LoweredCase, wanted: Value, branch: Branch, before: list[Value], state: State
) -> tuple[list[Value], State]:
    """Run a branch or none; `before` are the results where it does not run."""
    return case.lowering.run_if(wanted, lambda carry: branch(*carry), (before, state))


def _gathered(case: LoweredCase, capacity: int) -> Branch:
    """The case on its rows and some padding."""
    mask = case.mask
    total, number = mask.shape[0], case.number

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        valid = jnp.arange(capacity) < number
        (places,) = jnp.nonzero(mask, size=capacity, fill_value=0)
        chosen = jnp.where(valid, places, first_of(places, valid))
        found, state = case.run(valid, [x[chosen] for x in case.rows], state)
        target = jnp.where(valid, chosen, total)  # beyond the end, so dropped

        def put(rows: Value, old: Value) -> Value:
            return old.at[target].set(rows, mode="drop")

        return case.joined(found, before, put), state

    return branch


def _alone(case: LoweredCase, whole: _WholeCase, state: State) -> tuple[list[Value], State]:
    """The first case on all rows at their places, or zeros where none is its own.

    There is nothing before it to hand on, which a conditional would copy.
    """

    def run(state: State) -> tuple[list[Value], State]:
        rows = case.rows if case.by_row and not whole.tells else case.stood_in()
        found, state = whole.run(case.mask, rows, state)
        outs = len(case.view.outs)
        made = [jnp.where(along_rows(case.mask, x), x, jnp.zeros_like(x)) for x in found[:outs]]
        return [*made, *found[outs:]], state

    def skip(state: State) -> tuple[list[Value], State]:
        return [jnp.zeros(shape, dtype) for shape, dtype in whole.gives(case)], state

    results, state = lax.cond(case.number > 0, run, skip, state)
    return results, state


def _in_place(case: LoweredCase, whole: _WholeCase) -> Branch:
    """The case on all rows at their places, those of other cases stood in for."""
    mask = case.mask

    def put(rows: Value, old: Value) -> Value:
        return jnp.where(along_rows(mask, rows), rows, old)

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        found, state = whole.run(mask, case.stood_in(), state)
        return case.joined(found, before, put), state

    return branch


def _all_rows(case: LoweredCase, whole: _WholeCase) -> Branch:
    """The case on all rows, since all are its own."""

    def put(rows: Value, old: Value) -> Value:
        del old
        return rows

    def branch(before: list[Value], state: State) -> tuple[list[Value], Value]:
        found, state = whole.run(jnp.ones(case.mask.shape, bool), case.rows, state)
        return case.joined(found, before, put), state

    return branch


def _zeros(case: LoweredCase, i: int, shape: tuple[int, ...], dtype: DType) -> Value:
    """Zeros for result `i`, to be changed in place.

    Of equal arrays XLA makes one, and then copies of it. These are not equal to it, which does
    not know that no number of rows is negative.
    """
    salt = crc32(f"{case.lowering.op.name} {i}".encode()) >> 1
    return jnp.broadcast_to((case.number < -salt).astype(dtype), shape)


# ---- rows ------------------------------------------------------------------------------------


def along_rows(mask: Value, x: Value) -> Value:
    """A mask of rows that broadcasts against an array of rows."""
    return mask.reshape(-1, *[1] * (x.ndim - 1))


def first_of(x: Value, valid: Value) -> Value:
    """The first real row, to stand in for those that are not; where there are no rows, none."""
    return x[lax.argmax(valid, 0, jnp.int32)] if valid.shape[0] else x[:0]


def without_stand_ins(view: PartitionView, rows: Sequence[Value], valid: Value) -> list[Value]:
    """Rows with zeros for stand-ins where results are linear in them."""
    return [
        jnp.where(along_rows(valid, x), x, 0) if row.linear else x
        for row, x in zip(view.rows, rows, strict=True)
    ]
