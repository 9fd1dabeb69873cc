"""Schedules: the values of optax, and their representations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import braces as br
from braces import Var
from braces.errors import BracesError
from braces.frontend import optimizer as opt

pytestmark = pytest.mark.unoptimized

COURSES: dict[str, tuple[Callable[..., Var], Callable[[Any], Any]]] = {
    "constant": (opt.constant_schedule(0.1), optax.constant_schedule(0.1)),
    "linear": (opt.linear_schedule(0.1, 0.5, 6, 2), optax.linear_schedule(0.1, 0.5, 6, 2)),
    "polynomial": (
        opt.polynomial_schedule(0.5, 0.1, power=2, transition_steps=6),
        optax.polynomial_schedule(0.5, 0.1, power=2, transition_steps=6),
    ),
    "exponential": (
        opt.exponential_decay(0.5, transition_steps=3, decay_rate=0.5, end_value=0.1),
        optax.exponential_decay(0.5, transition_steps=3, decay_rate=0.5, end_value=0.1),
    ),
    "stairs": (
        opt.exponential_decay(0.5, 3, 0.5, staircase=True, transition_begin=1),
        optax.exponential_decay(0.5, 3, 0.5, staircase=True, transition_begin=1),
    ),
    "cosine": (
        opt.cosine_decay_schedule(init_value=0.5, decay_steps=6, alpha=0.1, exponent=2.0),
        optax.cosine_decay_schedule(init_value=0.5, decay_steps=6, alpha=0.1, exponent=2.0),
    ),
    "warm-up": (
        opt.warmup_cosine_decay_schedule(0.1, 0.5, 3, 8, 0.05),
        optax.warmup_cosine_decay_schedule(0.1, 0.5, 3, 8, 0.05),
    ),
    "pieces": (
        opt.piecewise_constant_schedule(0.5, {6: 0.5, 3: 0.1}),
        optax.piecewise_constant_schedule(0.5, {6: 0.5, 3: 0.1}),
    ),
    "no pieces": (
        opt.piecewise_constant_schedule(0.5), optax.piecewise_constant_schedule(0.5)
    ),
    "joined": (
        opt.join_schedules(
            [opt.linear_schedule(0.0, 0.5, 3), opt.cosine_decay_schedule(0.5, 4)], [3]
        ),
        optax.join_schedules(
            [optax.linear_schedule(0.0, 0.5, 3), optax.cosine_decay_schedule(0.5, 4)], [3]
        ),
    ),
    "of jax": (
        opt.Schedule(optax.cosine_onecycle_schedule(8, 0.5)),
        optax.cosine_onecycle_schedule(8, 0.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COURSES)
def test_schedules_are_those_of_optax(name: str, mode: str) -> None:
    made, wanted = COURSES[name]
    with br.Program() as program:
        counts = br.data("counts", ["n"], "int32")
        values = made(counts)
    steps = np.arange(12, dtype=np.int32)
    run = br.Executor(mode=mode).run
    found = run(program, br.Scope(), feed={"counts": steps}, fetch=values)
    expected = [np.asarray(wanted(step), np.float32) for step in steps]
    np.testing.assert_allclose(found, expected, 1e-6, 1e-7)
    assert found.dtype == np.float32


def test_schedules_say_what_they_are() -> None:
    joined = opt.join_schedules(
        [opt.constant_schedule(0.5), opt.cosine_decay_schedule(0.5, 4)], [3]
    )
    inner = "cosine_decay_schedule(init_value=0.5, decay_steps=4, alpha=0.0, exponent=1.0)"
    assert repr(joined) == f"join_schedules([constant_schedule(value=0.5), {inner}], [3])"
    assert repr(opt.Schedule(abs)) == "Schedule(<built-in function abs>)"


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("one fewer", lambda: opt.join_schedules([opt.constant_schedule(0.1)], [3])),
        ("expected schedules", lambda: opt.join_schedules([optax.constant_schedule(0.1)], [])),
        ("warmup_steps=5", lambda: opt.warmup_cosine_decay_schedule(0.0, 0.1, 5, 5)(0)),
        ("steps of 1 or more, got 0", lambda: opt.linear_schedule(0.1, 0.0, 0)(0)),
        ("steps of 1 or more, got 0", lambda: opt.polynomial_schedule(0.1, 0.0, 2.0, 0)(0)),
        ("steps of 1 or more, got -1", lambda: opt.cosine_decay_schedule(0.1, -1)(0)),
        ("steps of 1 or more, got 0", lambda: opt.exponential_decay(0.1, 0, 0.5)(0)),
        ("0 or more, got", lambda: opt.piecewise_constant_schedule(0.1, {3: -1.0})(0)),
        ("a boundary=0.5", lambda: opt.piecewise_constant_schedule(0.1, {0.5: 0.1})(0)),
        ("a scale='x'", lambda: opt.piecewise_constant_schedule(0.1, {3: "x"})(0)),
        ("integer", lambda: opt.cosine_decay_schedule(0.1, 3)(0.5)),
        ("floating dtypes, got int32", lambda: opt.cosine_decay_schedule(0.1, 3)(1, "int32")),
        ("constant_schedule: invalid argument value=", lambda: opt.constant_schedule("0.1")),
        ("cannot be traced", lambda: opt.Schedule(lambda n: 0.1 if n > 3 else 0.2)(0)),
    ],
)  # fmt: skip
def test_schedules_are_checked(text: str, build: Callable[[], Any]) -> None:
    with pytest.raises(BracesError, match=text) as info, br.Program():
        build()
    assert "test_schedule.py:" in str(info.value)
