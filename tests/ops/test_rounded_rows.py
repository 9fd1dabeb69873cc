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
from cases import Case, differentiable_cases
from test_contract import Differentiated

from braces.dims import Dim
from braces.dtypes import BOOL, INT64, TensorType
from braces.errors import ProgramError
from braces.executor.executor import Executor
from braces.ops.build import Var
from braces.ops.control.rows import mask_rows

ROOM, REAL = 5, 3
PAIRS = [
    (case, name)
    for case in differentiable_cases()
    if case.definition.rows_rule
    for name in case.symbols
]

EXACT = {"cumprod", "cumsum", "glu", "roll", "scatter_nd_add", "take_along_axis"}
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


def rounded(case: Case, name: str) -> Differentiated | None:
    """The program with padding left out; `None` where that is refused."""
    rows = Dim.named(name)
    found = Differentiated(case, case.sizes() | {name: ROOM})
    with found.built.program as program:
        valid = found.built.declare("valid", TensorType(BOOL, (rows,)))
        count = found.built.declare("count", TensorType(INT64, ()))
    try:
        mask_rows(program, program.table, rows, valid.name, count.name)
    except ProgramError:
        return None
    return found


def compare(case: Case, name: str, padded: Differentiated) -> None:
    """Hold what is seen with padding against what the real rows alone give."""
    rows, plain = Dim.named(name), Differentiated(case, case.sizes() | {name: REAL})
    declared = {v.name: v for vars_ in padded.built.inputs.values() for v in vars_}
    places = {n: axes(v, rows) for n, v in (declared | padded.built.extra).items()}

    def change(found: Differentiated, how: Any) -> None:
        found.values = {
            slot: tuple(
                how(value, places[var.name])
                for value, var in zip(given, padded.built.inputs[slot], strict=True)
            )
            for slot, given in padded.values.items()
        }
        found.extra = {n: how(v, places[n]) for n, v in padded.extra.items()}

    change(plain, real)
    change(padded, spoilt)
    padded.extra |= {"valid": np.arange(ROOM) < REAL, "count": np.int64(REAL)}
    executor = Executor(mode="interpret")
    got, want = (found.run(executor, found.values) for found in (padded, plain))
    for output, var in plain.built.fetch.items():
        found = real(got[output], axes(var, rows))
        np.testing.assert_allclose(found, want[output], rtol=1e-9, atol=1e-12, err_msg=output)


@pytest.mark.parametrize("op", sorted({case.op for case, _ in PAIRS}))
def test_room_for_more_rows_changes_nothing(op: str) -> None:
    compared = 0
    for case, name in PAIRS:
        if case.op == op and (padded := rounded(case, name)) is not None:
            compare(case, name, padded)
            compared += 1
    assert (compared == 0) == (op in EXACT), f"{compared} examples have padding"
