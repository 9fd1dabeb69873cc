"""The battery: every program in both modes, to second order, against differences and jvp."""

from __future__ import annotations

import pytest
from battery import CASES
from checking import Checked, check, reread

# One program is checked at a time, and its derivatives are read again by the next test.
_LAST: dict[str, Checked] = {}


def checked(name: str) -> Checked:
    if name not in _LAST:
        case = CASES[name]
        _LAST.clear()
        _LAST[name] = check(case.build, *case.feeds, shapes=case.shapes)
    return _LAST[name]


@pytest.mark.parametrize("name", CASES)
def test_values_gradients_second_order_and_forward_mode_agree(name: str) -> None:
    checked(name)


@pytest.mark.parametrize("name", list(CASES)[::4])
def test_gradient_program_is_the_same_saved_loaded_pruned(name: str) -> None:
    reread(checked(name), CASES[name].feeds[0])
