"""The row-wise branch, compiled.

How many rows a case has is known only at run time, so each case is compiled for a few
capacities, and a run takes the smallest that holds its rows: they are gathered, padded with one
of them, and scattered to their places. Where they are more than half of all rows, they stay at
their places, and those of other cases are stood in for by one that is selected. A case without
rows does not run. What the cases before it gave is handed on and changed in place, so that
nothing is copied or merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from braces.dims import Dim
from braces.ir.records import Body
from braces.ir.walk import producers
from braces.lazy import jax, jnp, lax
from braces.ops.control.base import Lowering
from braces.ops.control.partition_gradient import linear_of, outs_of
from braces.ops.control.switch_gradient import cases_of
from braces.ops.rules import gives_zeros

SHARES = (64, 32, 16, 8, 4, 2)
"""Capacities below all rows are these parts of them."""

Branch = Callable[[list[Any], Any], tuple[list[Any], Any]]
"""From the results of the cases before and a state to the results and the state after."""


@dataclass(frozen=True)
class Case:
    """One case of a row-wise branch.

    Attributes:
        lowering: The operator.
        k: Which of its cases.
        body: Its block.
        mask: Which rows are its own.
    """

    lowering: Lowering
    k: int
    body: Body
    mask: Any

    @property
    def label(self) -> str:
        """The name of the block among those of the operator."""
        return f"cases[{self.k}]"

    @property
    def number(self) -> Any:
        """How many rows are its own."""
        return jnp.sum(self.mask, dtype="int32")

    @property
    def rows(self) -> tuple[Any, ...]:
        """The rows of all cases."""
        return self.lowering.values("rows")

    def run(self, valid: Any, rows: Sequence[Any], state: Any) -> tuple[list[Any], Any]:
        """Run the block on as many rows as `valid` has."""
        counts = self.lowering.op.attrs["counts"]
        assert isinstance(counts, tuple)
        count = counts[self.k]
        sizes = {str(count): valid.shape[0]} if isinstance(count, Dim) else None
        rows = without_stand_ins(rows, valid, linear_of(self.lowering.op))
        return self.lowering.run(self.label, self.body, [valid, *rows], state, sizes)

    def joined(
        self, found: Sequence[Any], before: Sequence[Any], place: Callable[..., Any]
    ) -> list[Any]:
        """Its results with those of the cases before: rows placed, sums added.

        Its rows are zero before, so zeros change nothing.
        """
        outs, made = outs_of(self.lowering.op), producers(self.body.ops)
        changes = [place] * outs + [jnp.add] * (len(found) - outs)
        return [
            old if gives_zeros(made.get(name)) else change(new, old)
            for name, change, new, old in zip(
                self.body.results, changes, found, before, strict=True
            )
        ]


def lower_cases(lowering: Lowering) -> list[Any]:
    """The results of a row-wise branch: rows, then sums."""
    results: list[Any] = []
    masks = lowering.values("masks")
    for k, body in enumerate(cases_of(lowering.op)):
        results = _lower_case(Case(lowering, k, body, masks[k]), results)
    return results


def _lower_case(case: Case, before: list[Any]) -> list[Any]:
    state = case.lowering.state(case.label)
    results, number, least = before or _nothing(case, state), case.number, 0
    for capacity, branch in _branches(case):
        if capacity > least:
            wanted = (least < number) & (number <= capacity)
            results, state = _where(wanted, branch, results, state)
            least = capacity
    case.lowering.leave(state)
    return results


def _branches(case: Case) -> list[tuple[int, Branch]]:
    """How many rows the case can run on, and how, from few to all."""
    total = case.mask.shape[0]
    if not case.lowering.op.attrs["compact"]:
        return [(total, _in_place(case))]
    gathered = [(n, _gathered(case, n)) for n in (-(-total // share) for share in SHARES)]
    return [*gathered, (total - 1, _in_place(case)), (total, _all_rows(case))]


def _where(wanted: Any, branch: Branch, before: list[Any], state: Any) -> tuple[list[Any], Any]:
    """Run a branch or none: a loop of at most one trip, with `before` as its memories.

    A conditional would copy what it hands on.
    """

    def once(carry: Any) -> Any:
        _, before, state = carry
        return False, *branch(before, state)

    _, results, state = lax.while_loop(lambda carry: carry[0], once, (wanted, before, state))
    return results, state


def _gathered(case: Case, capacity: int) -> Branch:
    """The case on its rows and some padding."""
    mask = case.mask
    total, number = mask.shape[0], case.number

    def branch(before: list[Any], state: Any) -> tuple[list[Any], Any]:
        valid = jnp.arange(capacity) < number
        (places,) = jnp.nonzero(mask, size=capacity, fill_value=0)
        chosen = jnp.where(valid, places, first_of(places, valid))
        found, state = case.run(valid, [x[chosen] for x in case.rows], state)
        target = jnp.where(valid, chosen, total)  # beyond the end, so dropped

        def put(rows: Any, old: Any) -> Any:
            return old.at[target].set(rows, mode="drop")

        return case.joined(found, before, put), state

    return branch


def _in_place(case: Case) -> Branch:
    """The case on all rows at their places, those of other cases stood in for."""
    mask = case.mask

    def put(rows: Any, old: Any) -> Any:
        return jnp.where(along_rows(mask, rows), rows, old)

    def branch(before: list[Any], state: Any) -> tuple[list[Any], Any]:
        rows = [jnp.where(along_rows(mask, x), x, first_of(x, mask)) for x in case.rows]
        found, state = case.run(mask, rows, state)
        return case.joined(found, before, put), state

    return branch


def _all_rows(case: Case) -> Branch:
    """The case on all rows, since all are its own."""

    def put(rows: Any, old: Any) -> Any:
        del old
        return rows

    def branch(before: list[Any], state: Any) -> tuple[list[Any], Any]:
        found, state = case.run(jnp.ones(case.mask.shape, bool), case.rows, state)
        return case.joined(found, before, put), state

    return branch


def _nothing(case: Case, state: Any) -> list[Any]:
    """Zeros of the types that the case gives.

    Of no rows a maximum, say, does not exist: there a row is assumed.
    """
    total = case.mask.shape[0]
    least = 1 if case.lowering.op.attrs["compact"] else 0
    rows = [jnp.zeros((max(total, least), *x.shape[1:]), x.dtype) for x in case.rows]
    valid = jnp.ones(max(total, least), bool)
    found, _ = jax.eval_shape(lambda s: case.run(valid, rows, s), state)
    outs = outs_of(case.lowering.op)
    shapes = [(total, *r.shape[1:]) if i < outs else r.shape for i, r in enumerate(found)]
    return [_zeros(case, i, shape, found[i].dtype) for i, shape in enumerate(shapes)]


def _zeros(case: Case, i: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros for result `i`, to be changed in place.

    Of equal arrays XLA makes one, and then copies of it. These are not equal to it, which does
    not know that no number of rows is negative.
    """
    salt = crc32(f"{case.lowering.op.name} {i}".encode()) >> 1
    return jnp.broadcast_to((case.number < -salt).astype(dtype), shape)


# ---- rows ------------------------------------------------------------------------------------


def along_rows(mask: Any, x: Any) -> Any:
    """A mask of rows that broadcasts against an array of rows."""
    return mask.reshape(-1, *[1] * (x.ndim - 1))


def first_of(x: Any, valid: Any) -> Any:
    """The first real row, to stand in for those that are not; where there are no rows, none."""
    return x[jnp.argmax(valid)] if valid.shape[0] else x[:0]


def without_stand_ins(rows: Sequence[Any], valid: Any, linear: Sequence[int]) -> list[Any]:
    """Rows with zeros for stand-ins where results are linear in them."""
    return [
        jnp.where(along_rows(valid, x), x, 0) if i in linear else x for i, x in enumerate(rows)
    ]
