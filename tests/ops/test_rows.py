"""What a definition says of rows is true: padding changes nothing, on every example.

Each symbolic size of an example is taken as the number of rows in turn. The operator, masked as
its rule says, sees five rows of which two are padding, and gives what the other three do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases import Built, Case, build, cases

from braces.dims import Dim
from braces.dtypes import BOOL, TensorType
from braces.errors import ProgramError
from braces.executor.executor import Executor
from braces.ops.build import Var
from braces.ops.control.rows import mask_rows

VALID = np.array([True, True, False, True, False])
RULED = [case for case in cases() if case.definition.rows_rule and case.symbols]


def axes(var: Var, rows: Dim) -> list[int]:
    """The axes of a variable that are rows."""
    return [axis for axis, size in enumerate(var.shape) if size == rows]


def real(value: Any, along: Sequence[int]) -> Any:
    """A value without its padding."""
    for axis in along:
        value = np.compress(VALID, value, axis)
    return value


def masked(case: Case, rows: Dim) -> Built | None:
    """The operator in a program that leaves padding out; `None` where that is refused."""
    built = build(case)
    with built.program:
        valid = built.declare("valid", TensorType(BOOL, (rows,)))
    try:
        mask_rows(built.program, built.program.table, rows, valid.name)
    except ProgramError:
        return None
    return built


ACCEPTED = [
    (case, name) for case in RULED for name in case.symbols if masked(case, Dim.named(name))
]


@pytest.mark.parametrize(("case", "name"), ACCEPTED, ids=str)
def test_padding_changes_nothing(case: Case, name: str) -> None:
    rows, padded, plain = Dim.named(name), masked(case, Dim.named(name)), build(case)
    assert padded is not None
    more, fewer = (case.sizes() | {name: n} for n in (len(VALID), int(VALID.sum())))
    values = case.values(more)
    kept = {
        slot: tuple(
            real(v, axes(x, rows)) for v, x in zip(given, plain.inputs[slot], strict=True)
        )
        for slot, given in values.items()
    }
    extra = {"sizes": np.zeros([more[s] for s in case.symbols], bool), "valid": VALID}
    executor = Executor(mode="interpret")
    got = padded.run(executor, padded.feed(values, extra, {}))
    want = plain.run(executor, plain.feed(kept, {}, fewer))
    for output, var in plain.fetch.items():
        found = real(got[output], axes(var, rows))
        np.testing.assert_allclose(found, want[output], rtol=2e-3, err_msg=output)


def test_most_examples_are_accepted_with_rows() -> None:
    assert len({case.op for case, _ in ACCEPTED}) > 100
