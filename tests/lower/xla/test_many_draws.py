"""First values are drawn many by one loop, to the bit as each would be drawn alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.extend.operators import Plan
from braces.lower.xla.fused_initializers import BatchedInitializers
from braces.ops.random.samplers import PIECE
from braces.target import TARGETS


def scaled(init: Any) -> Any:
    """A draw that is no first value itself."""

    def half(shape: Any, dtype: Any, name: str) -> br.Var:
        return 0.5 * init(shape, dtype, name)

    return half


SHAPES = [(3,), (0, 4), (2, PIECE // 2 + 1), (PIECE,)]
KINDS: dict[str, Callable[[int], Any]] = {
    "uniform": lambda i: br.init.uniform(-0.1 * i, 0.3),
    "normal": lambda i: br.init.normal(0.3 * i + 0.1, loc=0.7),
    "truncated": lambda i: br.init.truncated_normal(0.3 * i + 0.1, loc=-0.2),
    "cut_elsewhere": lambda i: br.init.truncated_normal(0.1 * i + 0.1, low=-1.0, high=0.5),
    "scaled": lambda i: scaled(br.init.uniform(-1.0, i + 1.0)),
}


def model(kinds: list[str], dtype: str = "float32", copies: int = 1) -> br.Program:
    with br.Program() as prog:
        for kind in kinds:
            for i, shape in enumerate(SHAPES * copies):
                br.parameter(f"{kind}.{i}", shape, KINDS[kind](i), dtype)
    return prog


def first_values(prog: br.Program, mode: str, seed: int = 5) -> dict[str, Any]:
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=seed)
    return {name: scope.var(name).value for name in scope.names()}


def groups(body: Any, kept: set[str], most: int = 10**6) -> list[list[str]]:
    draws = BatchedInitializers.of(body, kept, most)
    found = {id(group): [op.name for op in group.ops] for group in draws.groups.values()}
    return list(found.values())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_values_drawn_together_are_those_drawn_one_by_one(dtype: str) -> None:
    prog = model(["uniform", "normal", "truncated"], dtype)
    together, alone = first_values(prog, "compile"), first_values(prog, "interpret")
    assert together.keys() == alone.keys()
    for name, value in together.items():
        np.testing.assert_array_equal(value, alone[name], err_msg=name)


def test_what_is_too_large_is_drawn_alone_and_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prog = model(["cut_elsewhere"])
    together = first_values(prog, "compile")
    few = {name: replace(target, drawn=PIECE) for name, target in TARGETS.items()}
    monkeypatch.setattr("braces.target.TARGETS", few)
    for name, value in first_values(prog, "compile").items():
        np.testing.assert_array_equal(value, together[name])


def test_more_parameters_make_no_more_draws_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[Any] = []
    uniform = jax.random.uniform

    def counted(key: Any, shape: Any, *more: Any) -> Any:
        shapes.append(shape)
        return uniform(key, shape, *more)

    monkeypatch.setattr(jax.random, "uniform", counted)
    first_values(model(["uniform"], copies=4), "compile")
    assert shapes.count((PIECE,)) == 1
    assert set(shapes) == {(PIECE,), (0, 4)}


def test_draws_of_a_kind_that_are_handed_out_make_a_group() -> None:
    plan = Plan.of(model(list(KINDS)).startup.definition, ())
    kept = set(plan.updates.values())
    assert [len(group) for group in groups(plan.body, kept)] == [3, 3, 3, 3]  # none is scaled
    assert [len(group) for group in groups(plan.body, kept, most=PIECE)] == [2, 2, 2, 2]


def test_one_loop_draws_no_more_than_memory_is_taken_for() -> None:
    plan = Plan.of(model(["uniform"], copies=20).startup.definition, ())
    kept = set(plan.updates.values())
    assert [len(group) for group in groups(plan.body, kept, most=3)] == [16, 4]


def test_masks_of_dropout_are_drawn_where_they_are_used() -> None:
    with br.Program() as prog:
        x = br.data("x", [4, 4])
        noisy = [x + br.random.uniform([4, 4]) for _ in range(3)]
        out = br.sum(noisy[0] + noisy[1] + noisy[2])
    plan = Plan.of(prog.definition, [out.name])
    assert groups(plan.body, {out.name}) == []


def test_an_operator_elsewhere_with_the_same_name_is_drawn_alone() -> None:
    plan = Plan.of(model(["uniform"]).startup.definition, ())
    draws = BatchedInitializers.of(plan.body, set(plan.updates.values()), 10**6)
    op = next(iter(draws.groups.values())).ops[0]
    assert draws.get(f"loop/body/{op.name}", op, {}) is None
    assert draws.get(op.name, replace(op), {}) is None
