"""The battery as models of ONNX: values, gradients and tangents in another runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.testing.gradients import build_derivatives, feed_with_directions
from tests.control.battery import blocks
from tests.control.battery.programs import CASES
from tests.support.onnx_round_trip import block_names, check_back, check_exported

pytestmark = pytest.mark.unoptimized
BLOCKS = [n for n, case in CASES.items() if case.build.__module__ == blocks.__name__]


@pytest.mark.parametrize("name", CASES)
def test_constructs_and_their_derivatives_give_the_same_elsewhere(
    name: str, tmp_path: Path
) -> None:
    program, feeds, fetch = first_order(name)
    check_exported(program, feeds, fetch, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_constructs_and_their_derivatives_come_back(name: str, tmp_path: Path) -> None:
    program, feeds, fetch = first_order(name)
    again = check_back(program, feeds, fetch, tmp_path)
    assert_same_blocks(name, again, br.prune(program, fetch))


@pytest.mark.parametrize("name", BLOCKS)
def test_plain_blocks_and_their_gradients_come_back(name: str, tmp_path: Path) -> None:
    program, feeds, fetch = first_order(name)
    again = check_back(program, feeds[:1], fetch, tmp_path, ["interpret"])
    assert_same_blocks(name, again, br.prune(program, fetch))


def assert_same_blocks(name: str, again: br.Program, before: br.Program) -> None:
    """A condition of a `While` is asked before the loop, too: its blocks come back twice."""
    twice = ["test"] if name == "blocks_that_run_again_in_a_while" else []
    assert block_names(again) == sorted([*block_names(before), *twice])


def first_order(name: str) -> tuple[br.Program, list[dict[str, Any]], list[br.Var]]:
    """A program of the battery with its derivatives: it, what it is fed, what it gives."""
    case = CASES[name]
    made = build_derivatives(case.build, case.feeds[0], case.shapes, order=1)
    feeds = [feed_with_directions(made, feed) for feed in case.feeds]
    return made.program, feeds, list({var.name: var for var in made.fetches.values()}.values())


@pytest.mark.parametrize("name", list(CASES)[::16])
def test_second_derivatives_give_the_same_elsewhere(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    made = build_derivatives(case.build, case.feeds[0], case.shapes)
    feed = feed_with_directions(made, case.feeds[0])
    fetch = list({var.name: var for var in made.fetches.values()}.values())
    check_exported(made.program, [feed], fetch, tmp_path)
