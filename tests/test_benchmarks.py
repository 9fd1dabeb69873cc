"""The benchmarks run at a small size and their sides agree; nothing here is timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import folder, report
from benchmarks.__main__ import main
from benchmarks.case import OURS, Case, Comparison, Goal, Row, clocked, measured, typical
from benchmarks.fresh import fresh
from benchmarks.library import Library, LibraryError
from benchmarks.loop import compilations
from benchmarks.peers import installed
from benchmarks.recurrent.task import LSTM, Sizes, Task
from benchmarks.suite import BENCHMARKS
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized


LONG = ("growth", "compiling", "scaling", "language", "unrolled", "remote")
"""Benchmarks that measure otherwise, or at other sizes, what others do."""


@pytest.mark.parametrize(
    "name", [thorough(name) if name in LONG else name for name in BENCHMARKS]
)
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


def test_a_fresh_interpreter_keeps_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert fresh("import sys; print(1 - sys.dont_write_bytecode)")() == 1


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


# ---- families --------------------------------------------------------------------------------


def in_family(what: str, ratio: float) -> Row:
    return Row(what, OURS, ratio, 0.0, "other", 1.0, Goal(1.1), "s", Goal(0.9), "LSTM")


def test_the_median_over_a_family_is_a_row_with_a_goal_of_its_own() -> None:
    (middle,) = typical([in_family(*given) for given in (("a", 0.7), ("b", 1.05), ("c", 0.8))])
    assert report.cells(middle)[:3] == ("LSTM: median of the 3", OURS, "0.8 ×")
    assert report.cells(middle)[5:] == ("0.80×", "≤ 0.9×", "met")


def test_one_case_has_no_median() -> None:
    assert typical([in_family("a", 0.7)]) == []


def test_a_family_is_a_table_of_cases_and_others() -> None:
    rows = [in_family("a", 0.7), in_family("b", 1.2)]
    assert folder.matrix(rows) == [
        "|  | Braces | ÷ other |",
        "| --- | --- | --- |",
        "| goal |  | ≤ 1.1× |",
        "| a | 700 ms | 0.70× |",
        "| b | 1.2 s | **1.20×** |",
    ]


def test_a_report_is_a_table_and_where_matplotlib_is_a_picture(tmp_path: Path) -> None:
    along = [replace(in_family(f"T {t}", 0.7), family="LSTM, by trips", at=t) for t in (2, 9)]
    for name, rows in (("dots", [in_family("a", 0.7)]), ("lines", along)):
        folder.write(tmp_path / "new", name, "a title", rows, ["today", "versions"])
        text = (tmp_path / "new" / f"{name}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {name}: a title\n\n- today\n- versions\n")
        assert "| ≤ 1.1× | met |" in text
        picture = (tmp_path / "new" / f"{name}.svg").exists()
        assert picture == installed("matplotlib") == (f"({name}.svg)" in text)


# ---- libraries in interpreters of their own --------------------------------------------------


def test_a_case_whose_library_fails_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails() -> float:
        raise LibraryError("it ended by itself")

    def cases(tiny: bool) -> list[Case]:
        sides = {"bad": fails}, {"good": lambda: 0.25}
        return [
            Case(name, side, [Comparison(name)], lambda: None)
            for side in sides
            for name in side
        ]

    monkeypatch.setitem(BENCHMARKS, "overhead", SimpleNamespace(TITLE="a title", cases=cases))
    assert main(["overhead", "--seconds", "0", "--report", str(tmp_path)]) == 1
    assert "it ended by itself" in capsys.readouterr().err
    text = (tmp_path / "overhead.md").read_text(encoding="utf-8")
    assert "Left out, since a library failed: overhead, bad." in text
    assert "| good | good | 250 ms |" in text


@pytest.fixture
def started() -> Iterator[Callable[[str], Library]]:
    """Starts interpreters, and ends them."""
    with ExitStack() as stack:
        yield lambda module: stack.enter_context(closing(Library(module)))


def test_a_library_gives_what_its_step_gives_and_the_seconds(
    started: Callable[[str], Library],
) -> None:
    functools = started("functools")
    given, seconds = functools("partial", pow, 16, 0.5)
    assert given == 4
    assert 0 < seconds < 60
    functools.settle()


def test_a_library_tells_what_went_wrong_and_goes_on(started: Callable[[str], Library]) -> None:
    functools = started("functools")
    with pytest.raises(LibraryError, match="ZeroDivisionError"):
        functools("partial", divmod, 1, 0)
    assert functools("partial", divmod, 7, 2)[0] == (3, 1)


def test_a_library_that_ends_is_named(started: Callable[[str], Library]) -> None:
    with pytest.raises(LibraryError, match="functools ended by itself"):
        started("functools")("partial", os._exit, 1)


# ---- recurrent steps -------------------------------------------------------------------------


def test_gates_are_brought_into_the_order_of_another_library() -> None:
    task = Task(LSTM.name, Sizes(2, 3, 4, 5, 6))
    i, f, o, u = np.split(task.values()["wh"], 4, axis=-1)
    np.testing.assert_array_equal(task.arranged("ifuo")["wh"], np.hstack([i, f, u, o]))
    np.testing.assert_array_equal(task.gate_by_gate()["wh_o"], o)


def test_operations_of_a_step_are_those_of_its_products() -> None:
    task = Task(LSTM.name, Sizes(2, 3, 4, 5, 6))
    forward = 2 * 2 * 3 * (4 * 20 + 5 * 20 + 5 * 6)
    assert task.operations() == 3 * forward
