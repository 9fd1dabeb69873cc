"""A data-dependent size is guessed, and a kernel need not accept the guess.

Each size of each example of each operator is taken for such a number, where its kernel refuses
a small one. The run gives what the interpreter gives, and where the number is too small, its
error, which is the one that building a program with this number has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from tests.ops.cases import cases
from tests.ops.sizes.guessed import Told, told_cases

pytestmark = pytest.mark.unoptimized

OPERATORS = sorted({case.op for case in cases()})
PICKY = ("topk", "dynamic_slice")
"""Operators that need more than one number."""


def program(chosen: list[Told]) -> tuple[br.Program, dict[str, br.Var]]:
    """The examples on the places that a mask has, with gradients."""
    with br.Program() as prog:
        mask = br.data("mask", [None], "bool")
        (places,) = br.nonzero(mask)
        fetch = dict[str, br.Var]()
        for k, one in enumerate(chosen):
            given = one.declared(f"of_{k}.", one.number)
            outs = one.apply(one.take(given, places), places.shape[0])
            fetch |= {f"{k}.out.{i}": out for i, out in enumerate(outs)}
            floats = [out for out in outs if out.dtype.kind == "f"]
            wanted = [x for found in given.values() for x in found if x.dtype.kind == "f"]
            if floats and wanted and one.case.definition.differentiable:
                found = br.gradients(floats, wanted)
                fetch |= {f"{k}.grad.{i}": g for i, g in enumerate(found) if g is not None}
    return prog, fetch


def feed(chosen: list[Told], real: int) -> dict[str, Any]:
    """Values for the examples, of which so many places are real."""
    fed: dict[str, Any] = {"mask": np.arange(chosen[0].number) < real}
    for k, one in enumerate(chosen):
        for slot, values in one.values(one.number).items():
            fed |= {f"of_{k}.{slot}.{i}": value for i, value in enumerate(values)}
    return fed


def compare(chosen: list[Told]) -> None:
    """Both modes give the same, at the size of the examples and at one that is too small."""
    prog, fetch = program(chosen)
    both = br.Executor(), br.Executor("interpret")
    small = next((k for k in (1, 0) if not chosen[0].accepts(k)), None)
    for real in (chosen[0].number, small, chosen[0].number):
        if real is None:
            continue
        fed, found = feed(chosen, real), list[Any]()
        for exe in both:
            try:
                found.append(exe.run(prog, br.Scope(), fed, fetch))
            except BracesError as error:
                found.append(error)
        got, want = found
        if isinstance(want, BracesError):
            assert real != chosen[0].number, want
            assert (type(got), str(got)) == (type(want), str(want))
            continue
        assert not isinstance(got, BracesError), f"{chosen[0]}: {got}"
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, 1e-6, 1e-9, err_msg=str(chosen[0]))


@pytest.mark.parametrize("op", PICKY)
def test_the_guess_need_not_be_large_enough(op: str) -> None:
    (one, *_) = (one for one in told_cases(op) if not one.accepts(1))
    compare([one])


@pytest.mark.parametrize("op", OPERATORS)
def test_no_operator_fails_for_a_guessed_size(op: str) -> None:
    for one in told_cases(op):
        if not (one.accepts(1) and one.accepts(0)):
            compare([one])
