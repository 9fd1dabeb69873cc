"""Results of plain blocks keep their names after inlining."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br

X = np.array([0.5, -1.0, 2.0, 0.25], "float32")
TWICE = """program {
  data x: f32[4]
  out=[a: f32[4], b: f32[4], c: f32[4]] = block() {recompute=false} captures [x] as step
    body () {
      inner: f32[4] = block() {recompute=false} captures [x] as further
        body () {
          h: f32[4] = tanh(x=x)
          return h
        }
      final=[k: f32[4]], trips=[n: i64[]] = loop(init=x) {length=2} captures [inner] as turns
        body (t: i64[], b: f32[4]) {
          q: f32[4] = block() {recompute=false} captures [b, inner] as deep
            body () {
              m: f32[4] = multiply(x=b, y=inner)
              return m
            }
          return q
        }
      return inner, inner, k
    }
  p: f32[4] = block() {recompute=false} captures [x] as through
    body () {
      h: f32[4] = exp(x=x)
      return x
    }
  return p
}
"""


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_a_fetch_finds_what_it_found_before_blocks_were_inlined(mode: str) -> None:
    program = br.parse(TWICE)
    exe, scope, names = br.Executor(mode=mode), br.Scope(), ["a", "b", "c", "p"]
    inlined = br.passes.inline(program)
    assert not any(op.type == "block" for op in inlined.definition.main.ops)
    for one in (program, inlined):
        got = exe.run(one, scope, feed={"x": X}, fetch=names)
        h = np.tanh(X)
        for value, wanted in zip(got, [h, h, X * h * h, X], strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_values_with_two_names_are_differentiated_as_before(mode: str) -> None:
    found = list[np.ndarray]()
    for program in (br.parse(TWICE), br.passes.inline(br.parse(TWICE))):
        with program:
            a, b, c, p, x = (program.var(name) for name in ("a", "b", "c", "p", "x"))
            (grad,) = br.gradients(br.sum(a * 2.0 + b + c * p), x)
            assert grad is not None
        found += br.Executor(mode=mode).run(program, br.Scope(), feed={"x": X}, fetch=[grad])
    slope = 1 - np.tanh(X) ** 2
    wanted = 3 * slope + 2 * X * np.tanh(X) ** 2 + X**2 * 2 * np.tanh(X) * slope
    np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-5)
