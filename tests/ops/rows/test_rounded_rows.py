"""Room for more rows than there are changes nothing, in no operator and no derivative.

Each symbolic size of an example is taken as a number of rows that the run decides. The
operator, its gradients of both orders and its tangent see five rows, of which the first three
are real and the others are NaN, and give what the three alone do; or exact sizes are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from braces import Executor, Var
from braces.errors import ProgramError
from braces.extend.types import BOOL, INT64, Dim, TensorType
from braces.ops.control.batch_axis.masking import mask_rows
from tests.ops.cases import Case, build_together, differentiable_cases, run_together, tangled
from tests.ops.differentiated import Differentiated

pytestmark = pytest.mark.unoptimized

ROOM, REAL = 5, 3
PAIRS = [
    (case, name)
    for case in differentiable_cases()
    if case.definition.axes_rule
    for name in case.symbols
]

EXACT = {"diag", "dropout", "glu", "roll", "scatter_nd_add"}
"""The operators that keep exact sizes in all their examples."""


def axes(var: Var, rows: Dim) -> list[int]:
    """The axes of a variable that are rows."""
    return [axis for axis, size in enumerate(var.shape) if size == rows]


def real(value: Any, along: Sequence[int]) -> Any:
    """The real rows."""
    for axis in along:
        value = np.take(value, range(REAL), axis)
    return value


def spoilt(value: Any, along: Sequence[int]) -> Any:
    """NaN in all padding, where the dtype has it."""
    if value.dtype.kind != "f":
        return value
    value = value.copy()
    for axis in along:
        np.moveaxis(value, axis, 0)[REAL:] = np.nan
    return value


def differentiated(chosen: Sequence[Case], name: str, rows: int) -> list[Differentiated]:
    """Some examples of an operator with that many rows, in one program."""
    built = build_together(chosen)
    return [Differentiated(one, one.case.sizes() | {name: rows}) for one in built]


def mask(parts: Sequence[Differentiated], name: str) -> None:
    """Leave padding out of their program.

    Raises:
        ProgramError: If an operator of the program requires exact sizes.
    """
    rows, built = Dim.named(name), parts[0].built
    with built.program as program:
        valid = built.declare("valid", TensorType(BOOL, (rows,)))
        count = built.declare("count", TensorType(INT64, ()))
    given = [var for one in parts for vars_ in one.built.inputs.values() for var in vars_]
    given += [var for one in parts for var in one.built.extra.values()]
    places = {var.name: axes(var, rows) for var in given}
    mask_rows(program, program.table, rows, places, valid.name, count.name)


def is_rounded(case: Case, name: str) -> bool:
    """Return whether an example has padding, or is refused."""
    if tangled(case, Dim.named(name)):
        return False
    try:
        mask(differentiated([case], name, ROOM), name)
    except ProgramError:
        return False
    return True


def results(parts: Sequence[Differentiated]) -> list[dict[str, Any]]:
    """What examples of one program give at their inputs, as it runs compiled."""
    feeds = [one.feed(one.values) for one in parts]
    return run_together(Executor(), [one.built for one in parts], feeds)


def compare(chosen: Sequence[Case], name: str) -> None:
    """Hold what is seen with padding against what the real rows alone give."""
    rows, padded = Dim.named(name), differentiated(chosen, name, ROOM)
    plain = differentiated(chosen, name, REAL)
    for one, other in zip(padded, plain, strict=True):
        inputs = [v for vars_ in one.built.inputs.values() for v in vars_]
        places = {v.name: axes(v, rows) for v in (*inputs, *one.built.extra.values())}

        def changed(how: Any, one: Any = one, places: Any = places) -> tuple[Any, Any]:
            values = {
                slot: tuple(
                    how(value, places[var.name])
                    for value, var in zip(given, one.built.inputs[slot], strict=True)
                )
                for slot, given in one.values.items()
            }
            return values, {n: how(v, places[n]) for n, v in one.extra.items()}

        other.values, other.extra = changed(real)
        one.values, one.extra = changed(spoilt)
    mask(padded, name)
    padded[0].extra |= {"valid": np.arange(ROOM) < REAL, "count": np.int64(REAL)}
    for one, got, want in zip(plain, results(padded), results(plain), strict=True):
        for output, var in one.built.fetch.items():
            found, what = real(got[output], axes(var, rows)), f"{one.case} {output}"
            np.testing.assert_allclose(found, want[output], 1e-9, 1e-12, err_msg=what)


@pytest.mark.parametrize("op", sorted({case.op for case, _ in PAIRS}))
def test_room_for_more_rows_changes_nothing(op: str) -> None:
    seen = [pair for pair in PAIRS if pair[0].op == op and is_rounded(*pair)]
    for name in sorted({name for _, name in seen}):
        compare([case for case, rows in seen if rows == name], name)
    assert (not seen) == (op in EXACT), f"{len(seen)} examples have padding"
