"""Reports of run-time checks about a wrong value."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import braces as br
from braces.define.core.check_code import decode_offender, encode_offender, worst_code


@pytest.mark.parametrize("value", [0, 1, -1, 7, -128, 2**30 - 3, 3 - 2**30])
def test_the_message_of_a_check_has_the_invalid_value(value: int) -> None:
    small = ("int8",) if abs(value) < 129 else ()
    for dtype in (*small, "int32", "int64"):
        with jax.enable_x64(True):
            found = encode_offender(np.array([False, True]), np.array([5, value], dtype))
            assert decode_offender(int(worst_code(found))) == str(value)


def told(value: np.generic) -> str | None:
    """Return the message of a check for an invalid value."""
    return decode_offender(int(worst_code(encode_offender(np.True_, value))))


def test_values_beyond_the_range_of_codes_are_reported_as_bounds() -> None:
    with jax.enable_x64(True):
        for value, text in ((2**62, "1073741822 or more"), (-(2**62), "-1073741822 or less")):
            assert told(np.int64(value)) == text
        assert told(np.uint64(2**63)) == "1073741822 or more"


def test_bools_tell_that_something_is_wrong_and_no_value() -> None:
    assert int(worst_code(np.array([False, False]))) == int(worst_code(np.zeros(0, bool))) == 0
    assert decode_offender(int(worst_code(np.array([False, True])))) is None


def test_of_several_failures_the_first_is_reported(mode: str) -> None:
    with br.Program() as prog:
        rows = br.data("rows", ["t"], dtype="int32")
        table = br.constant([1.0, 2.0])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(rows)
            later = br.take(table, row - 5, axis=0)
            net.add_output(later + br.switch(row, {6: lambda: 1.0, 5: lambda: 2.0}))
        out = rnn()
    feed = {"rows": np.array([6, 2, 9], "int32")}
    with pytest.raises(br.IndexRangeError, match=r"given: -3   x: f32\[2\]"):
        br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=out)


def test_an_index_error_has_the_sizes_of_the_run(mode: str) -> None:
    with br.Program() as prog:
        table, at = br.data("table", ["n", 2]), br.data("at", ["k"], dtype="int32")
        _, out = br.scan(lambda _, i: (None, table[i]), None, at)
    feed = {"table": np.ones((5, 2), "float32"), "at": np.array([0, 7], "int32")}
    with pytest.raises(br.IndexRangeError) as caught:
        br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=out)
    assert str(caught.value.given).startswith("7   x: f32[5,2]   indices: i32[")
