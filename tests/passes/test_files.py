"""The effect of passes on programs as text; `scripts/pass_files.py` writes the files."""

from __future__ import annotations

from collections import Counter

import pytest

import braces as br
from braces.errors import BracesError
from braces.extend.programs import print_program
from braces.passes.core.pipeline import run_pass
from braces.passes.registry import MAKERS, PASSES
from braces.passes.verifier.program import check
from pass_files import AFTER, FOLDER, Case, cases


def refused(case: Case) -> bool:
    """Return whether the file says that the pass refuses the program."""
    after = case.path.read_text("utf-8").partition(AFTER)[2]
    return "Error: " in after.partition("\n")[0]


CASES = {case.path.relative_to(FOLDER).with_suffix("").as_posix(): case for case in cases()}
WELL_FORMED = {name: case for name, case in CASES.items() if not refused(case)}
ONCE = ("gradients/", "jvp/")
"""Passes that do their work again when they are called again, as derivatives do."""
SETTLED = {name: case for name, case in WELL_FORMED.items() if not name.startswith(ONCE)}
EVERY = {
    name: one
    for name, one in {**PASSES, "checkpoint": br.passes.checkpoint(2)}.items()
    if f"{name}/" not in ONCE
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_well_formed = pytest.mark.parametrize("case", WELL_FORMED.values(), ids=WELL_FORMED)
each_settled = pytest.mark.parametrize("case", SETTLED.values(), ids=SETTLED)


@each_case
def test_a_pass_makes_of_a_program_what_the_file_says(case: Case) -> None:
    assert case.written() == case.path.read_text(encoding="utf-8")


@each_well_formed
def test_what_a_pass_makes_is_well_formed_and_its_text_reads_back(case: Case) -> None:
    made = run_pass(case.used, case.before)
    assert check(case.before, None, all=True, types=True) == []
    assert check(made, None, all=True, types=True) == []
    assert br.parse(print_program(made)).definition == made


@each_case
def test_a_pass_changes_nothing_that_it_is_given(case: Case) -> None:
    before = case.before
    text = print_program(before)
    try:
        run_pass(case.used, before)
    except BracesError:
        assert refused(case)
    assert before == case.before
    assert print_program(before) == text


@each_settled
def test_a_pass_has_nothing_to_do_after_itself(case: Case) -> None:
    made = run_pass(case.used, case.before)
    assert print_program(run_pass(case.used, made)) == print_program(made)


@pytest.mark.parametrize("one", EVERY.values(), ids=EVERY)
def test_no_pass_has_anything_to_do_after_itself_on_any_program(one: br.passes.Pass) -> None:
    for case in WELL_FORMED.values():
        made = run_pass(one, case.before)
        assert print_program(run_pass(one, made)) == print_program(made), case.path


def test_every_pass_has_files() -> None:
    found = Counter(path.parent.name for path in FOLDER.rglob("*.braces"))
    assert found.keys() == PASSES.keys() | MAKERS.keys()
    assert min(found.values()) >= 4


def test_every_file_has_a_heading() -> None:
    for case in CASES.values():
        first = case.text.splitlines()[0]
        assert first.startswith("# ")
        assert first.endswith(".")
        assert AFTER in case.path.read_text(encoding="utf-8")
