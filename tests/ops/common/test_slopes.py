"""Derivatives at points of cancellation, overflow or division by zero, in both directions."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.frontend.core.functions import FUNCTIONS

pytestmark = pytest.mark.unoptimized

INF = math.inf


Points = list[tuple[float, ...]]
Asked = tuple[str, str, str]
"""An operator, points as text, and a dtype."""


def asked(op: str, points: Points, dtype: str) -> Asked:
    """What is asked, so that it can be looked up; NaN and -0.0 have a text of their own."""
    return op, repr(points), dtype


def derivatives(op: str, xs: list[br.Var]) -> dict[str, list[br.Var]]:
    """The derivatives by each input, backward and forward, and those of their sum."""
    out = br.clip(xs[0], max=1.0) if op == "clip" else FUNCTIONS[op](*xs)
    found = [grad for grad in br.gradients([out], xs) if grad is not None]
    assert len(found) == len(xs)
    return {
        "backward": found,
        "forward": [br.jvp([out], [x], [br.ones_like(x)])[0] for x in xs],
        "second": [grad for grad in br.gradients(found, xs) if grad is not None],
    }


@cache
def all_slopes(mode: str) -> dict[Asked, dict[str, list[Any]]]:
    """Whatever the tests here ask, in one program."""
    feed, fetch = dict[str, Any](), dict[Asked, dict[str, list[br.Var]]]()
    with br.Program() as prog:
        for k, (op, points, dtype) in enumerate(ASKED):
            columns = {f"x{k}_{i}": list(x) for i, x in enumerate(zip(*points, strict=True))}
            feed |= {name: np.array(column) for name, column in columns.items()}
            xs = [br.data(name, [f"n{k}"], dtype) for name in columns]
            fetch[asked(op, points, dtype)] = derivatives(op, xs)
    flat = [var for ways in fetch.values() for vars_ in ways.values() for var in vars_]
    values = iter(br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=flat))
    return {
        key: {way: [next(values) for _ in vars_] for way, vars_ in ways.items()}
        for key, ways in fetch.items()
    }


def slopes(op: str, points: Points, mode: str, dtype: str = "f64") -> dict[str, list[Any]]:
    """The derivatives of an operator at some points."""
    return all_slopes(mode)[asked(op, points, dtype)]


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
    ("hard_shrink", (0.5,), (0,)),
    ("softshrink", (-0.5,), (0,)),
    ("celu", (-50.0,), (math.exp(-50),)),
    ("celu", (800.0,), (1,)),
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


FINITE: list[tuple[str, Points]] = [
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


VANISHING = ["sigmoid", "tanh", "elu", "selu", "expm1"]
EIGHTS: Points = [(-8.0,), (-4.0,), (4.0,), (8.0,)]


@pytest.mark.parametrize("op", VANISHING)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_slopes_of_16_bits_do_not_vanish_before_they_must(
    op: str, dtype: str, mode: str
) -> None:
    want, got = slopes(op, EIGHTS, mode), slopes(op, EIGHTS, mode, dtype)
    for way in ("backward", "forward"):
        exact, narrow = want[way][0], got[way][0].astype("f8")
        np.testing.assert_allclose(narrow, exact, 2e-2, 2e-7, err_msg=way)


SHARED: list[tuple[Points, list[float]]] = [
    ([(INF,), (1.0,), (INF,)], [0.5, 0, 0.5]),
    ([(-INF,), (-INF,)], [0, 0]),
    ([(1e4,), (1e4,)], [0.5, 0.5]),
]


def test_infinite_numbers_share_the_gradient_of_a_logsumexp(mode: str) -> None:
    for points, want in SHARED:
        found = slopes("logsumexp", points, mode, "f32")
        assert found["backward"][0].tolist() == want


ASKED = [
    *((op, [point], "f64") for op, point, _ in TABLE),
    *((op, points, "f64") for op, points in FINITE),
    *((op, EIGHTS, dtype) for op in VANISHING for dtype in ("f64", "f16", "bf16")),
    *(("logsumexp", points, "f32") for points, _ in SHARED),
]
"""The cases in the single program of each mode."""
