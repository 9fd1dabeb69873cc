"""Suites of other projects: verdicts, resumed runs and pages, with a small suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from suites import page
from suites.case import Verdict, brief
from suites.comparison import difference
from suites.runner import Record, chosen, records, run, verdict
from tests.suites import toy_suite

WANTED = {
    "equal": "equal", "differs": "differs", "refused": "refused", "failed": "failed",
    "excluded": "excluded", "dies": "failed", "hangs": "timeout",
}  # fmt: skip
GROUPS = toy_suite.GROUPS


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The records of a run of all cases."""
    path = tmp_path_factory.mktemp("suites") / "toy.jsonl"
    run("tests.suites.toy_suite", GROUPS, chosen(GROUPS, {}), path, workers=2)
    return path


def test_each_case_has_its_verdict(path: Path) -> None:
    found = {name: str(verdict(record)) for (_, name), record in records(path).items()}
    assert found == WANTED


def test_a_process_that_died_says_so_and_the_next_case_runs(path: Path) -> None:
    found = records(path)
    assert found["toy", "dies"]["checks"] == [
        ["case", "failed", "the process ended with status 3"]
    ]
    assert "a message of a library" in path.with_suffix(".log").read_text("utf-8")


def test_a_run_goes_on_where_it_stopped(path: Path, tmp_path: Path) -> None:
    cut = tmp_path / "toy.jsonl"
    lines = path.read_text("utf-8").splitlines()
    cut.write_text("\n".join(lines[:3]) + '\n{"group": "toy", "na', "utf-8")
    known = records(cut)
    assert len(known) == 3
    missing = {name for _, name in chosen(GROUPS, known)}
    assert missing == set(WANTED) - {name for _, name in known}


def test_failures_run_again_and_good_cases_do_not(path: Path) -> None:
    again = {name for _, name in chosen(GROUPS, records(path), "failures")}
    assert again == set(WANTED) - {"equal", "excluded"}
    assert len(chosen(GROUPS, records(path), "all")) == len(WANTED)


def test_the_page_has_shares_and_reasons(path: Path) -> None:
    text = page.page("Toy", "make suite-toy", toy_suite.PACKAGES, GROUPS, records(path))
    assert "| toy | 5 | 1 | 20.0 % | 50 % | 1 | 1 | 2 | 0 | 1 | 0 |" in text
    assert "| slow | 1 | 0 | 0.0 % | 100 % | 0 | 0 | 0 | 1 | 0 | 0 |" in text
    assert "slow: Patience." in text
    assert "| refused | interpreted | no such shape | `refused` |" in text
    assert f"numpy {np.__version__}." in text


def test_the_page_counts_cases_that_have_not_run(path: Path) -> None:
    found = {case: record for case, record in records(path).items() if case[1] != "differs"}
    text = page.page("Toy", "make suite-toy", toy_suite.PACKAGES, GROUPS, found)
    assert "| toy | 4 | 1 | 25.0 % | 50 % | 1 | 0 | 2 | 0 | 1 | 1 |" in text


def test_the_summary_has_the_table_of_each_page(path: Path, tmp_path: Path) -> None:
    text = page.page("Toy", "make suite-toy", toy_suite.PACKAGES, GROUPS, records(path))
    page.write(tmp_path / "toy.md", text)
    for _ in range(2):  # the summary itself is not a page
        page.write_index(tmp_path)
    summary = (tmp_path / page.INDEX).read_text("utf-8")
    assert "## [Toy](toy.md)" in summary
    assert f"numpy {np.__version__}." in summary
    assert summary.count("| toy | 5 |") == summary.count("| slow | 1 |") == 1
    assert "no such shape" not in summary


def test_the_worst_check_is_the_verdict_of_a_case() -> None:
    record: Record = {
        "checks": [["a", "equal", ""], ["b", "refused", "x"], ["c", "differs", "y"]]
    }
    assert verdict(record) is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (np.ones(2, "f"), np.ones(2)),
        (np.ones(2), np.ones((1, 2))),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.array([1.0, np.inf]), np.array([1.0, 2.0])),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([1j]), np.array([1 + 1j])),
    ],
)
def test_other_dtypes_shapes_and_values_differ(made: np.ndarray, wanted: np.ndarray) -> None:
    assert difference(made, wanted)


def test_reasons_name_no_folder() -> None:
    assert brief("no such file: /home/me/x/model.onnx\nmore") == "no such file: model.onnx"
