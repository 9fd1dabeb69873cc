"""What a check tells of a value that is wrong."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from braces.ops.offence import offence, told, worst


@pytest.mark.parametrize("value", [0, 1, -1, 7, -128, 2**30 - 3, 3 - 2**30])
def test_a_value_that_is_wrong_is_told_as_it_is(value: int) -> None:
    small = ("int8",) if abs(value) < 129 else ()
    for dtype in (*small, "int32", "int64"):
        with jax.enable_x64(True):
            found = offence(np.array([False, True]), np.array([5, value], dtype))
            assert told(int(worst(found))) == str(value)


def test_values_that_are_too_far_away_are_told_as_such() -> None:
    with jax.enable_x64(True):
        for value, text in ((2**62, "1073741822 or more"), (-(2**62), "-1073741822 or less")):
            assert told(int(worst(offence(np.True_, np.int64(value))))) == text
        assert told(int(worst(offence(np.True_, np.uint64(2**63))))) == "1073741822 or more"


def test_bools_tell_that_something_is_wrong_and_no_value() -> None:
    assert int(worst(np.array([False, False]))) == int(worst(np.zeros(0, bool))) == 0
    assert told(int(worst(np.array([False, True])))) is None
