"""Conditions and breakpoints, without `eval`."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.debugger.recorded.measures import measure
from braces.debugger.recorded.sites import Sites
from braces.debugger.stepped.breakpoints import MOST, Breakpoints
from braces.debugger.stepped.conditions import DEEPEST, LONGEST, ObservedValue, parse_condition
from tests.debugger.programs import nested

VALUE = np.array([3.0, -4.0, np.nan])
MOMENT = ObservedValue(measure(VALUE), VALUE, [("loop_0", 2), ("encoder/loop", 5)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("nan", True),
        ("inf", False),
        ("not inf", True),
        ("max == 3", True),
        ("min <= -4.0", True),
        ("min < -4.0", False),
        ("-5 < min < 0", True),
        ("size != 3", False),
        ("iteration == 5", True),
        ("iteration(loop_0) == 2", True),
        ("iteration(encoder/loop) > 4", True),
        ("iteration(other) >= 0", False),
        ("inf or nan and max > 2", True),
        ("(inf or nan) and max > 5", False),
        ("not (nan or inf)", False),
        ("max > 1e-3 and mean < .5", True),
        ("value > 0", False),
        ("1", True),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert parse_condition(text)(MOMENT) is expected


def test_the_norm_and_the_value_of_numbers() -> None:
    array = np.array([3.0, 4.0])
    assert parse_condition("norm == 5")(ObservedValue(measure(array), array))
    single = np.array(2.5)
    assert parse_condition("value == 2.5")(ObservedValue(measure(single), single))
    assert not parse_condition("norm >= 0")(ObservedValue(measure(array)))  # a list has no norm


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max >", "expected a number or a name, got the end"),
        ("max > 10 20", "got '20'"),
        ("(max > 1", "expected ')'"),
        ("__import__('os')", "__import__"),
        ("max.__class__", "max.__class__"),
        ("lambda: 1", "lambda"),
        ("maximum > 3", "unknown name `maximum`"),
        ("max > 1; nan", "unexpected"),
        ("and", "expected a number or a name"),
        ("iteration(", "name of an operator"),
        ("not " * (DEEPEST + 1) + "nan", "nested too deeply"),
        ("(" * (DEEPEST + 1), "nested too deeply"),
        ("-" * 400 + "1 > " * 10, "expected a number"),
        ("1" * (LONGEST + 1), "characters"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, words: str) -> None:
    with pytest.raises(br.ProgramError) as caught:
        parse_condition(text)
    assert words in str(caught.value)


@pytest.fixture
def breakpoints() -> Breakpoints:
    return Breakpoints(Sites(nested().main_place))


def test_breakpoints_are_written_with_paths_and_conditions(breakpoints: Breakpoints) -> None:
    texts = [
        "loop_1/body/h",
        "loop_1/body/h if max > 10",
        "if nan",
        "loop_1/body[1]/loop_0/body[0]/s if iteration == 2",
    ]
    for text in texts:
        breakpoints.parse(text)
    assert [str(one) for one in breakpoints.all()] == [
        *texts[:3],
        "loop_1/body/loop_0/body/s if iteration == 2",
    ]
    breakpoints.remove(2)
    breakpoints.remove(99)
    assert [one.number for one in breakpoints.all()] == [1, 3, 4]


def test_a_breakpoint_at_an_output_is_one_at_its_operator(breakpoints: Breakpoints) -> None:
    assert breakpoints.add("loop_1.final").path == "loop_1"


def test_an_unknown_operator_is_refused_with_similar_paths(breakpoints: Breakpoints) -> None:
    with pytest.raises(br.UnknownNameError, match="loop_1/body/h"):
        breakpoints.parse("loop_0/body/hh if nan")
    with pytest.raises(br.UnknownNameError, match="unknown operator `h`"):
        breakpoints.parse("h")
    assert len(breakpoints) == 0


def test_a_breakpoint_everywhere_requires_a_condition(breakpoints: Breakpoints) -> None:
    with pytest.raises(br.ProgramError, match="requires a condition"):
        breakpoints.parse("")


def test_the_number_of_breakpoints_is_bounded(breakpoints: Breakpoints) -> None:
    for _ in range(MOST):
        breakpoints.parse("if nan")
    with pytest.raises(br.ProgramError, match="more than"):
        breakpoints.parse("if nan")
