"""The cost and the benefit of sharing and simplification, without effect on results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from tests.support.call_counts import calls_of

BOTH = (br.passes.canonicalize, br.passes.cse)


def slopes(y: br.Var, weights: list[br.Var]) -> list[br.Var]:
    """The gradients of the mean of squares."""
    return [g for g in br.gradients(br.mean(br.square(y)), weights) if g is not None]


def second_order(layers: int = 2) -> tuple[br.Program, br.Var]:
    """A sum over the gradient of the norm of a gradient."""
    with br.Program() as program:
        h = br.data("x", ["b", 4])
        weights = [br.parameter(f"w{i}", [4, 4], init=br.init.normal()) for i in range(layers)]
        for w in weights:
            h = br.tanh(h @ w)
        norm = br.sum(br.stack([br.sum(br.square(g)) for g in slopes(h, weights)]))
        out = br.sum(br.stack(slopes(norm, weights)))
    return program, out


def operators(program: br.Program, out: br.Var, *passes: br.passes.Pass) -> int:
    made = program.explain(fetch=out, passes=(*passes, br.passes.dce)).program
    return sum(1 for _ in all_ops(made.main))


def test_gradients_of_gradients_have_a_seventh_less_to_compute() -> None:
    program, out = second_order()
    assert operators(program, out, *BOTH) < 0.86 * operators(program, out)


@pytest.mark.unoptimized
def test_gradients_of_gradients_stay_the_same_to_the_bit() -> None:
    program, out = second_order()
    feed, found = {"x": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)}, list[bytes]()
    for passes in ((), BOTH, BOTH[:1], BOTH[1:]):
        exe, scope = br.Executor(mode="interpret", passes=passes), br.Scope()
        exe.init(program, scope, seed=1)
        found.append(exe.run(program, scope, feed, out).tobytes())
    assert len(set(found)) == 1


def repeating(times: int) -> br.Program:
    """Build a program with common subexpressions and multiplications by 1."""
    with br.Program() as program:
        x = h = br.data("x", [3])
        for _ in range(times):
            h = br.tanh(x) * h * 1.0
    return program


@pytest.mark.parametrize("one", BOTH, ids=lambda one: one.name)
def test_each_takes_linear_time_however_much_goes(one: br.passes.Pass) -> None:
    few, many = repeating(50), repeating(100)
    assert len(one(few).definition.main.ops) < len(few.definition.main.ops) - 40
    before = calls_of(lambda: one.run(few.definition))
    assert calls_of(lambda: one.run(many.definition)) < 2.2 * before


TRAINED = """program {
  data x: f32[3]
  parameter w: f32[3] trainable
  parameter v: f32[3] trainable
  state s: f32[3]
  one: f32[] = full() {shape=[], value=1.0, dtype=f32}
  before: f32[3] = multiply(x=w, y=one)
  fed: f32[3] = identity(x=x)
  a: f32[3] = add(x=w, y=x)
  b: f32[3] = add(x=x, y=w)
  update w = a
  update v = b
  update s = fed
  return before, a, b, fed
}"""


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize("passes", [(), BOTH], ids=["none", "both"])
def test_what_becomes_one_variable_is_fetched_and_committed_twice(
    mode: str, passes: Any
) -> None:
    program, scope = br.parse(TRAINED), br.Scope()
    for name in ("w", "v", "s"):
        scope.var(name).set(np.zeros(3, "float32"))
    exe, x = br.Executor(mode=mode, passes=passes), np.array([1, -2, 3], "float32")
    for run in range(3):
        found = exe.run(program, scope, {"x": x}, ["before", "a", "b", "fed"])
        for value, wanted in zip(found, (run * x, x + run * x, x + run * x, x), strict=True):
            np.testing.assert_array_equal(value, wanted)
    for name, wanted in (("w", 3 * x), ("v", 3 * x), ("s", x)):
        np.testing.assert_array_equal(np.asarray(scope.var(name).value), wanted)


def test_two_draws_stay_two() -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        program.give((br.dropout(x, 0.5) + br.dropout(x, 0.5)).name)
    made = br.passes.cse(program)
    assert [op.type for op in made.definition.main.ops].count("dropout") == 2
