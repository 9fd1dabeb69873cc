"""Functions of numbers as models of ONNX: at zeros of both signs, tiny, huge and infinite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.cli.common.function_help import spelling_of
from braces.extend.operators import OPS
from tests.support.onnx_round_trip import function_of, run_model

pytestmark = pytest.mark.unoptimized

POINTS = np.array([
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, -20.0, 1e-20, -1e-20,
    1e20, -1e20, np.inf, -np.inf, np.nan,
], np.float32)  # fmt: skip
PAIRS = np.stack([grid.ravel() for grid in np.meshgrid(POINTS, POINTS)])
LIKE = {1: OPS.get("elu").axes_rule, 2: OPS.get("add").axes_rule}
"""Functions of one number, and of two."""


def functions_of(count: int) -> dict[str, Any]:
    """What each public function of so many numbers gives."""
    made = {}
    with br.Program() as program:
        given = [br.data(name, ["n"]) for name in ("x", "y")[:count]]
        for name, definition in OPS.definitions.items():
            if definition.axes_rule == LIKE[count] and spelling_of(name):
                try:
                    made[name] = function_of(name)(*given)
                except br.BracesError:  # of integers, or of what more it must be told
                    continue
    return {"program": program, **made}


@pytest.mark.parametrize("count", [1, 2])
def test_functions_give_the_same_in_onnx_runtime_at_zeros_and_extremes(
    count: int, tmp_path: Path
) -> None:
    made = functions_of(count)
    program = made.pop("program")
    made.pop("betaln", None)  # a difference of logarithms that are infinite there
    feed = {"x": POINTS} if count == 1 else dict(zip("xy", PAIRS, strict=True))
    br.to_onnx(program, tmp_path / "model.onnx", fetches=list(made.values()))
    found = run_model(tmp_path / "model.onnx", feed)
    wanted = br.Executor(mode="interpret").run(program, br.Scope(), feed=feed, fetch=made)
    assert len(made) > {1: 50, 2: 15}[count]
    for name, want in wanted.items():
        got = found[made[name].name]
        assert got.dtype == want.dtype
        got, want = got.astype("float64"), want.astype("float64")
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-6, err_msg=name)


def test_the_angle_of_a_point_keeps_the_sign_of_zero(tmp_path: Path) -> None:
    y, x = PAIRS
    with br.Program() as program:
        out = br.atan2(br.data("y", ["n"]), br.data("x", ["n"]))
    br.to_onnx(program, tmp_path / "model.onnx", fetches=[out])
    (found,) = run_model(tmp_path / "model.onnx", {"x": x, "y": y}).values()
    wanted = np.arctan2(y, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    some = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[some], np.signbit(wanted)[some])
