"""Declared row rules of operators are true: padding changes nothing, on every example.

Each symbolic size of an example is taken as the number of rows in turn. The operator, masked as
its rule says, sees five rows of which two are padding, and gives what the other three do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from braces import Executor, Var
from braces.errors import ProgramError
from braces.extend.types import BOOL, Dim, TensorType
from braces.ops.control.batch_axis.masking import mask_rows
from tests.ops.cases import Built, Case, build, build_together, cases, run_together, tangled

pytestmark = pytest.mark.unoptimized

VALID = np.array([True, True, False, True, False])
RULED = [case for case in cases() if case.definition.axes_rule and case.symbols]


def axes(var: Var, rows: Dim) -> list[int]:
    """The axes of a variable that are rows."""
    return [axis for axis, size in enumerate(var.shape) if size == rows]


def real(value: Any, along: Sequence[int]) -> Any:
    """A value without its padding."""
    for axis in along:
        value = np.compress(VALID, value, axis)
    return value


def mask(parts: Sequence[Built], name: str) -> None:
    """Leave padding out of a program that computes some examples.

    Raises:
        ProgramError: If a program is refused.
    """
    rows, built = Dim.named(name), parts[0]
    with built.program as program:
        valid = built.declare("valid", TensorType(BOOL, (rows,)))
    given = [var for one in parts for vars_ in one.inputs.values() for var in vars_]
    places = {var.name: axes(var, rows) for var in given}
    mask_rows(program, program.table, rows, places, valid.name)


def is_accepted(case: Case, name: str) -> bool:
    """Return whether an example can be seen with padding."""
    if tangled(case, Dim.named(name)):
        return False
    try:
        mask([build(case)], name)
    except ProgramError:
        return False
    return True


ACCEPTED = [(case, name) for case in RULED for name in case.symbols if is_accepted(case, name)]


class Compared:
    """Some examples of an operator in two programs: with padding, and with the other rows.

    Attributes:
        fetch: What is compared of each example.
        got: What it is with padding.
        want: What it is without.
    """

    def __init__(self, chosen: Sequence[Case], name: str) -> None:
        rows, padded, plain = Dim.named(name), *map(build_together, (chosen, chosen))
        more, fewer = list[Any](), list[Any]()
        for one, other in zip(padded, plain, strict=True):
            sizes = one.case.sizes() | {name: len(VALID)}
            values = one.case.values(sizes)
            kept = {
                slot: tuple(
                    real(v, axes(x, rows)) for v, x in zip(given, one.inputs[slot], strict=True)
                )
                for slot, given in values.items()
            }
            more.append(one.feed(values, {}, sizes))
            fewer.append(other.feed(kept, {}, sizes | {name: int(VALID.sum())}))
        mask(padded, name)
        more[0]["valid"] = VALID
        self.fetch = {one.case: one.fetch for one in plain}
        found = (run_together(Executor(), *pair) for pair in ((padded, more), (plain, fewer)))
        self.got, self.want = (dict(zip(chosen, one, strict=True)) for one in found)


@lru_cache(maxsize=4)
def compared(op: str, name: str) -> Compared:
    """All examples of an operator that can have padding in these rows."""
    return Compared([case for case, rows in ACCEPTED if case.op == op and rows == name], name)


@pytest.mark.parametrize(("case", "name"), ACCEPTED, ids=str)
def test_padding_changes_nothing(case: Case, name: str) -> None:
    rows, both = Dim.named(name), compared(case.op, name)
    got, want = both.got[case], both.want[case]
    for output, var in both.fetch[case].items():
        found = real(got[output], axes(var, rows))
        np.testing.assert_allclose(found, want[output], rtol=2e-3, err_msg=output)


def test_most_examples_are_accepted_with_rows() -> None:
    assert len({case.op for case, _ in ACCEPTED}) > 100
