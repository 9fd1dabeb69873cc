"""Constructs and their derivatives: equal bits in bundles and operator by operator."""

from __future__ import annotations

import pytest

from braces.testing.gradients import build_derivatives, feed_with_directions
from tests.control.battery.programs import CASES
from tests.support.hot_traces import check_same_bits

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("name", CASES)
def test_a_construct_gives_the_same_bits_hot_and_one_by_one(name: str) -> None:
    case = CASES[name]
    made = build_derivatives(case.build, case.feeds[0], case.shapes, order=1)
    assert check_same_bits(
        made.program, feed_with_directions(made, case.feeds[0]), made.fetches
    )
