"""The benchmarks run at a small size and their sides agree; nothing here is timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import report
from benchmarks.case import OURS, Case, Comparison, Goal, Row, clocked, measured
from benchmarks.loop import compilations
from benchmarks.suite import BENCHMARKS

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_sides_of_a_benchmark_agree_and_run(name: str) -> None:
    for case in BENCHMARKS[name].cases(True):
        compared = {c.ours for c in case.comparisons} | {c.other for c in case.comparisons}
        assert compared - {""} == set(case.sides), case.what
        if name in ("first_step", "build"):  # their sides are interpreters of their own
            case.agree()
            continue
        for row in measured(case, 0.0):  # which asks first whether the sides agree
            assert row.time >= 0
            assert len(report.cells(row)) == len(report.HEADER)


@pytest.mark.parametrize("name", ["first_step", "build"])
def test_a_benchmark_measures_in_a_fresh_interpreter(name: str) -> None:
    case = BENCHMARKS[name].cases(True)[0]
    for measure in case.sides.values():
        assert measure() > 0


def test_compilations_are_counted() -> None:
    import jax

    def compile_something() -> None:
        jax.jit(lambda x: x * 3 + 1)(2.0)

    count = compilations(compile_something)
    assert count() >= 1


def row(ours: float, other: float | None, goal: Goal | None) -> Row:
    return Row("a case", OURS, ours, 0.1, "other" if other else "", other, goal, "s")


def test_a_goal_is_a_multiple_of_the_other_side_and_an_allowance() -> None:
    assert row(2e-5, 1e-5, Goal(1.2, 1e-5)).met
    assert row(3e-5, 1e-5, Goal(1.2, 1e-5)).met is False
    assert row(0.5, None, Goal(extra=1.0)).met
    assert row(1.0, 2.0, None).met is None


def test_the_table_says_times_ratios_and_goals() -> None:
    text = report.markdown([("name", [row(2e-3, 1e-3, Goal(1.5))])], [])
    assert (
        "| name: a case | Braces | 2 ms ± 10% | other | 1 ms | 2.00× | ≤ 1.5× | missed |"
        in text
    )


def test_sides_take_turns() -> None:
    order: list[str] = []
    sides = {name: clocked(lambda n=name: order.append(n)) for name in "ab"}
    comparisons = [Comparison("a", "b")]
    case = Case("turns", sides, comparisons, lambda: None, rounds=2, warm=1, again=False)
    measured(case, 0.0)
    assert order == ["a", "b", "a", "b", "b", "a"]
