"""The cost of hoisting, and its benefit before differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.constructs import LoopView
from braces.extend.programs import print_program
from braces.passes.cleanup.loop_invariant_code_motion import hoist_invariants
from tests.support.call_counts import calls_of


def net(loops: int = 1) -> tuple[br.Program, br.Var]:
    """Loops whose steps compute with a product of two parameters."""
    with br.Program() as prog:
        y = br.data("x", [5, 2, 3])
        w = br.parameter("w", [3, 3], init=br.init.constant(0.25))
        u = br.parameter("u", [3, 3], init=br.init.constant(-0.5))
        for _ in range(loops):
            rnn = br.create_rnn()
            with rnn.stepnet() as step:
                h = step.add_memory(init=br.zeros([2, 3]))
                h.update(br.tanh(step.add_input(y) @ (w @ u) + h))
                step.add_output(h.pre(1))
            y = rnn()
        loss = br.mean(br.square(y), name="loss")
    return prog, loss


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_gradients_after_hoisting_are_those_of_the_program(mode: str) -> None:
    plain, loss = net()
    moved = br.passes.licm(plain)
    feed = {"x": np.linspace(-1.0, 1.0, 30, dtype="float32").reshape(5, 2, 3)}
    found = list[list[Any]]()
    for prog in (plain, moved):
        with prog:
            grads = br.gradients(prog.var(loss.name), [prog.var("w"), prog.var("u")])
        scope, exe = br.Scope(), br.Executor(mode=mode)
        exe.init(prog, scope)
        found.append(exe.run(prog, scope, feed, grads))
    for left, right in zip(*found, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def test_a_gradient_moves_out_of_loops_what_is_the_same_on_each_trip() -> None:
    plain, loss = net()
    for prog in (plain, br.passes.licm(plain)):
        sloped = br.passes.gradients(loss.name, ["w", "u"])(prog)
        bodies = [op.bodies() for op in sloped.definition.main.ops if op.type == "loop"]
        inner = [op.type for one in bodies for body in one.values() for op in body.ops]
        assert inner.count("matmul") == 2


def test_so_it_does_to_loops_in_loops_and_names_stay_apart() -> None:
    text = """program {
      data x: f64[3,4]
      data c: f64[]
      a: f64[] = exp(x=c) as same
      final=[], stacked=[s: f64[3,4]], trips=[m: i64[]] = loop(sliced=x) captures [c] as one
        body (t: i64[], r: f64[4]) {
          final=[], stacked=[u: f64[4]], trips=[k: i64[]] = loop(sliced=r) captures [c] as two
            body (t2: i64[], q: f64[]) {
              b: f64[] = tanh(x=c) as same
              v: f64[] = multiply(x=q, y=b)
              return v
            }
          return u
        }
      y: f64[] = sum(x=s)
      z: f64[] = add(x=y, y=a)
      return z
    }"""
    prog = br.parse(text)
    with prog:
        (slope,) = br.gradients([prog.var("z")], [prog.var("c")])
    (_, moved, *_) = prog.definition.main.ops
    assert (moved.type, moved.name != "same") == ("tanh", True)
    x, c = np.arange(12.0).reshape(3, 4), 0.5
    got = br.Executor().run(prog, br.Scope(), feed={"x": x, "c": c}, fetch=slope)
    np.testing.assert_allclose(got, x.sum() * (1 - np.tanh(c) ** 2) + np.exp(c), rtol=1e-12)


def test_moving_out_of_many_loops_takes_linear_time() -> None:
    few, many = net(20)[0].definition, net(40)[0].definition
    hoist_invariants(few)
    assert calls_of(lambda: hoist_invariants(many)) < 2.5 * calls_of(
        lambda: hoist_invariants(few)
    )


def test_operators_that_move_have_names_of_their_own() -> None:
    text = """program {
      data x: f32[4]
      data c: f32[]
      final=[], stacked=[s: f32[4]], trips=[m: i64[]] = loop(sliced=x) captures [c] as one
        body (t: i64[], r: f32[]) {
          a: f32[] = tanh(x=c) as same
          b: f32[] = multiply(x=r, y=a)
          return b
        }
      final=[], stacked=[z: f32[4]], trips=[n: i64[]] = loop(sliced=s) captures [c] as two
        body (t: i64[], r: f32[]) {
          d: f32[] = tanh(x=c) as same
          e: f32[] = multiply(x=r, y=d)
          return e
        }
      return z
    }"""
    made = hoist_invariants(br.parse(text).definition)
    assert [op.name for op in made.main.ops] == ["same", "one", "tanh_0", "two"]
    assert br.parse(print_program(made)).definition == made
    assert all(not LoopView.of(op).body.vars.keys() & {"a", "d"} for op in made.main.ops[1::2])
