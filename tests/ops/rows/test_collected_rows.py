"""Every operator on rows that a While collects: few compilations, and the interpreter's values.

Each size of each example of each operator is taken for the number of rows. Where an operator,
or its gradient, is not padded, `explain()` says so, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from tests.ops.cases import cases
from tests.ops.sizes.guessed import Told, told_cases

pytestmark = pytest.mark.unoptimized

MOST, COMPILATIONS = 12, 5
COUNTS = (3, 1, 12, 8, 9, 2)
OPERATORS = sorted({case.op for case in cases()})
EASY = ("cumsum", "softmax", "sort", "argmax", "flip", "roll", "logsumexp", "cumprod")
"""Operators that look at all rows at once, and yet leave room for more than there are."""
Wanted = dict[str, br.Var]


def collected(n: br.Var) -> br.Var:
    """The numbers below `n`, one for each trip."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        body.set_condition(i < n)
        body.add_output(i)
        i.update(i + 1)
    return loop()


def program(chosen: Sequence[tuple[Told, bool]]) -> tuple[br.Program, Wanted]:
    """Examples on rows that are collected; with gradients, where that is said."""
    with br.Program() as prog:
        places, fetch = collected(br.data("n", [], dtype="int32")), Wanted()
        for k, (one, derived) in enumerate(chosen):
            given = one.declared(f"of_{k}.", MOST)
            outs = one.apply(one.take(given, places), places.shape[0])
            fetch |= {f"{k}.out.{i}": out for i, out in enumerate(outs)}
            floats = [out for out in outs if out.dtype.kind == "f"]
            wanted = [x for found in given.values() for x in found if x.dtype.kind == "f"]
            if derived and floats and wanted and one.case.definition.differentiable:
                found = br.gradients([br.sum(out * out) for out in floats], wanted)
                fetch |= {f"{k}.grad.{i}": g for i, g in enumerate(found) if g is not None}
    return prog, fetch


def is_exact(one: Told, derived: bool) -> bool:
    """Return whether an example is compiled for each number of rows, as `explain()` says."""
    prog, fetch = program([(one, derived)])
    return "not padded" in str(prog.explain(list(fetch.values())))


def rounded(op: str) -> list[tuple[Told, bool]]:
    """The examples of an operator that leave room for more rows, with gradients if these do."""
    found = list[tuple[Told, bool]]()
    for one in told_cases(op):
        derived = next(
            (derived for derived in (True, False) if not is_exact(one, derived)), None
        )
        if derived is not None and one.accepts(1) and one.accepts(MOST):
            found.append((one, derived))
    return found


def compare(chosen: Sequence[tuple[Told, bool]]) -> None:
    """Both modes give the same for many numbers of rows, of few compilations."""
    prog, fetch = program(chosen)
    fed = {
        f"of_{k}.{slot}.{i}": value
        for k, (one, _) in enumerate(chosen)
        for slot, values in one.values(MOST).items()
        for i, value in enumerate(values)
    }
    compiler, interpreter, again = br.Executor(), br.Executor("interpret"), 0
    for n in COUNTS:
        feed, before = {**fed, "n": np.int32(n)}, compiler.stats.compilations
        with np.errstate(all="ignore"):
            got, want = (_run(exe, prog, feed, fetch) for exe in (compiler, interpreter))
        if isinstance(want, BracesError):  # too few rows, which exact sizes then tell
            assert type(got) is type(want), chosen[0][0]
            again += compiler.stats.compilations - before
            continue
        assert not isinstance(got, BracesError), f"{chosen[0][0]}: {got}"
        for name, value in want.items():
            what = f"{chosen[int(name.partition('.')[0])][0]} {name}, {n} rows"
            assert got[name].shape == value.shape, what
            np.testing.assert_allclose(got[name], value, 1e-6, 1e-9, err_msg=what)
    assert compiler.stats.compilations - again <= COMPILATIONS, str(compiler.stats)


def _run(exe: br.Executor, prog: br.Program, feed: Any, fetch: Wanted) -> Any:
    """The results of a run, or its error."""
    try:
        return exe.run(prog, br.Scope(), feed, fetch)
    except BracesError as error:
        return error


@pytest.mark.parametrize("op", EASY)
def test_what_looks_at_all_rows_compiles_for_few_numbers_of_them(op: str) -> None:
    chosen = rounded(op)
    assert chosen
    compare(chosen)


@pytest.mark.parametrize("op", OPERATORS)
def test_every_operator_compiles_for_few_numbers_of_rows_or_says_so(op: str) -> None:
    chosen = rounded(op)
    if chosen:
        compare(chosen)
