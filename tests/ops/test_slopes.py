"""Slopes where a formula would cancel, overflow or divide by zero, in both directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import braces as br

INF = math.inf


def slopes(op: str, points: list[tuple[float, ...]], mode: str, dtype: str = "f64") -> Any:
    """The derivatives by each input, backward and forward, and those of their sum."""
    with br.Program() as prog:
        xs = [br.data(f"x{i}", ["n"], dtype) for i in range(len(points[0]))]
        out = br.clip(xs[0], max=1.0) if op == "clip" else getattr(br, op)(*xs)
        backward = br.gradients([out], xs)
        forward = [br.jvp([out], [x], [br.ones_like(x)])[0] for x in xs]
        second = [grad for grad in br.gradients(backward, xs) if grad is not None]
    columns = zip(*points, strict=True)
    feed = {f"x{i}": np.array(column) for i, column in enumerate(columns)}
    values = iter(
        br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=[*backward, *forward, *second])
    )
    return {
        "backward": [next(values) for _ in backward],
        "forward": [next(values) for _ in forward],
        "second": list(values),
    }


TABLE: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("logaddexp", (7.5, INF), (0, 1)),
    ("logaddexp", (INF, -INF), (1, 0)),
    ("logaddexp", (INF, INF), (0.5, 0.5)),
    ("logaddexp", (-INF, -INF), (0.5, 0.5)),
    ("logaddexp", (1e300, 1e300), (0.5, 0.5)),
    ("logaddexp", (1e308, -1e308), (1, 0)),
    ("pow", (0.0, 0.0), (0, 0)),
    ("pow", (0.0, 1.0), (1, 0)),
    ("pow", (0.0, 2.0), (0, 0)),
    ("pow", (0.0, 0.5), (INF, 0)),
    ("pow", (0.0, -1.0), (-INF, -INF)),
    ("pow", (-2.0, 3.0), (12, math.nan)),
    ("pow", (-2.0, 0.0), (0, math.nan)),
    ("arctan2", (0.0, 0.0), (0, 0)),
    ("arctan2", (0.0, -2.0), (-0.5, 0)),
    ("arctan2", (1e300, 1e300), (5e-301, -5e-301)),
    ("arctan2", (1e-200, 1e-200), (5e199, -5e199)),
    ("arctan2", (INF, 1.0), (0, 0)),
    ("hypot", (0.0, 0.0), (0, 0)),
    ("hypot", (1e300, 1e300), (math.sqrt(0.5), math.sqrt(0.5))),
    ("elu", (-50.0,), (math.exp(-50),)),
    ("elu", (800.0,), (1,)),
    ("selu", (-50.0,), (1.6732632423543772 * 1.0507009873554805 * math.exp(-50),)),
    ("expm1", (-50.0,), (math.exp(-50),)),
    ("abs", (0.0,), (0,)),
    ("relu", (0.0,), (0,)),
    ("relu6", (6.0,), (0,)),
    ("hard_tanh", (1.0,), (0,)),
    ("maximum", (1.0, 1.0), (0.5, 0.5)),
    ("clip", (1.0,), (1,)),
]


@pytest.mark.parametrize(("op", "point", "want"), TABLE)
def test_the_slope_is_what_the_documentation_says_in_both_directions(
    op: str, point: tuple[float, ...], want: tuple[float, ...], mode: str
) -> None:
    found = slopes(op, [point], mode)
    for way in ("backward", "forward"):
        got = [float(grad[0]) for grad in found[way]]
        np.testing.assert_allclose(got, want, 1e-12, err_msg=way)


FINITE = [
    ("logaddexp", [(7.5, INF), (1e300, 1e300), (INF, INF), (0.0, 0.0)]),
    ("pow", [(0.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, 3.0)]),
    ("arctan2", [(0.0, 0.0), (0.0, 1.0), (1e150, 1e150)]),
    ("hypot", [(0.0, 0.0), (3.0, 0.0)]),
    ("elu", [(-800.0,), (0.0,), (800.0,)]),
    ("selu", [(-800.0,), (0.0,), (800.0,)]),
    ("norm", [(0.0,), (0.0,)]),
    ("std", [(1.0,), (1.0,)]),
    ("prod", [(0.0,), (0.0,)]),
    ("logsumexp", [(-INF,), (-INF,)]),
    ("logsumexp", [(INF,), (1.0,)]),
]


@pytest.mark.parametrize(("op", "points"), FINITE)
def test_a_second_derivative_is_finite(
    op: str, points: list[tuple[float, ...]], mode: str
) -> None:
    found = slopes(op, points, mode)
    assert all(np.isfinite(grad).all() for way in found.values() for grad in way)


@pytest.mark.parametrize("op", ["sigmoid", "tanh", "elu", "selu", "expm1"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_slopes_of_16_bits_do_not_vanish_before_they_must(
    op: str, dtype: str, mode: str
) -> None:
    points = [(-8.0,), (-4.0,), (4.0,), (8.0,)]
    want, got = slopes(op, points, mode), slopes(op, points, mode, dtype)
    for way in ("backward", "forward"):
        exact, narrow = want[way][0], got[way][0].astype("f8")
        np.testing.assert_allclose(narrow, exact, 2e-2, 2e-7, err_msg=way)


def test_infinite_numbers_share_the_gradient_of_a_logsumexp(mode: str) -> None:
    for points, want in (
        ([(INF,), (1.0,), (INF,)], [0.5, 0, 0.5]),
        ([(-INF,), (-INF,)], [0, 0]),
        ([(1e4,), (1e4,)], [0.5, 0.5]),
    ):
        found = slopes("logsumexp", points, mode, "f32")
        assert found["backward"][0].tolist() == want
