"""Custom gradients: the written gradient is used instead of the operators' own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.extend.programs import Op, all_ops
from tests.support.running import run

pytestmark = pytest.mark.unoptimized

X = np.array([[0.9, 2.2], [-1.4, 0.3], [0.2, -0.7]], "f4")


@br.custom_gradient
def rounded(x: br.Var) -> tuple[br.Var, Callable[[br.Var], br.Var]]:
    """Whole numbers whose gradient goes straight through; by itself there is none."""
    return br.round(x), lambda g: g


@br.custom_gradient
def reversed_gradient(x: br.Var, by: float) -> tuple[br.Var, Callable[[br.Var], br.Var]]:
    """The input itself, with its gradient turned around."""
    return x, lambda g: g * -by


@pytest.mark.parametrize("n", [0, 3])
def test_loops_use_the_gradient_that_is_written(mode: str, n: int) -> None:
    with br.Program() as prog:
        x, count = br.data("x", [2]), br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=br.constant(0, dtype="int32")), body.add_memory(init=x)
            body.set_condition(i < count)
            h.update(rounded(h * 1.5))
            i.update(i + 1)
        rows, _ = br.scan(lambda c, _: (rounded(c * 3.0), c), x, None, length=2)
        grads = br.gradients([br.sum(loop.final(h)), br.sum(rows)], x)
    (grad,) = run(mode, prog, grads, x=X[0], n=np.int32(n))
    np.testing.assert_allclose(grad, [1.5**n + 9.0] * 2, rtol=1e-6)


@pytest.mark.parametrize("count", [0, 3])
def test_rows_use_the_gradient_of_the_branch_that_they_take(mode: str, count: int) -> None:
    with br.Program() as prog:
        x = br.data("x", ["rows", 2])
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as t:
            t.add_output(rounded(t.add_input(x)))
        with choice.false_block() as f:
            f.add_output(reversed_gradient(f.add_input(x), 3.0))
        y = choice()
        (grad,) = br.gradients(br.sum(y * y), x)
    value, slope = run(mode, prog, [y, grad], x=X[:count])
    wanted = np.where(X[:, :1] > 0, np.round(X), X)[:count]
    np.testing.assert_allclose(value, wanted)
    np.testing.assert_allclose(slope, np.where(X[:count, :1] > 0, 2.0, -6.0) * wanted)


def test_differentiated_again_it_is_still_used(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        y = rounded(x)
        (first,) = br.gradients(br.sum(y * y * y), x)
        (second,) = br.gradients(br.sum(first), x)
        (moved,) = br.jvp([first], [x], [br.ones_like(x)])
    found = run(mode, prog, [first, second, moved], x=X[0])
    np.testing.assert_allclose(found, [[3.0, 12.0], [6.0, 12.0], [6.0, 12.0]])


def test_a_gradient_that_reads_its_output_is_one_function_again(mode: str) -> None:
    @br.custom_gradient
    def grown(x: br.Var) -> tuple[br.Var, Callable[[br.Var], br.Var]]:
        y = br.round(br.exp(x))
        return y, lambda g: g * y

    with br.Program() as prog:
        x = br.data("x", [2])
        (first,) = br.gradients(br.sum(grown(x)), x)
        (second,) = br.gradients(br.sum(first), x)
    values = np.round(np.exp(X[0]))
    np.testing.assert_allclose(run(mode, prog, [first, second], x=X[0]), [values, values])


# ---- programs as data ------------------------------------------------------------------------


def clipped_model() -> tuple[br.Program, br.Var]:
    """A model with a gradient that costs something, and is clipped, in a block of its own."""
    with br.Program() as prog:
        x, w = br.data("x", ["b", 2]), br.parameter("w", [2, 2], init=np.eye(2, dtype="f4"))
        own = br.create_custom_gradient("clip")
        with own.block() as f:
            h = f.add_input(x) @ f.add_input(w)
            only_for_the_gradient = br.exp(h)
            f.add_output(h)
        with own.gradient() as g:
            (grad,) = g.cotangents
            small = br.clip(grad * only_for_the_gradient, -1.0, 1.0)
            g.add_output(small @ br.permute_dims(w), br.permute_dims(x) @ small)
        br.sum(br.square(own()), name="loss")
    return prog, prog.var("loss")


def slopes(prog: br.Program, mode: str) -> list[np.ndarray]:
    """The gradients of the loss of such a program, however it came here."""
    made, scope = br.passes.gradients("loss", ["x", "w"])(prog), br.Scope()
    scope.var("w").set(np.eye(2, dtype="f4"))
    return br.Executor(mode=mode).run(made, scope, feed={"x": X}, fetch=["x_grad", "w_grad"])


def test_it_survives_text_bytes_pruning_and_inlining(mode: str) -> None:
    prog, loss = clipped_model()
    small = np.clip(2 * X * np.exp(X), -1.0, 1.0)
    pruned = br.prune(prog, targets=[loss])
    inlined = br.passes.inline(pruned)
    assert "block" not in {op.type for op in inlined.block(0).ops}
    for one in (prog, br.parse(str(pruned)), br.Program.from_bytes(inlined.to_bytes())):
        x_grad, w_grad = slopes(one, mode)
        np.testing.assert_allclose(x_grad, small, rtol=1e-5)
        np.testing.assert_allclose(w_grad, X.T @ small, rtol=1e-5)


def test_a_run_computes_nothing_for_gradients_that_nobody_takes() -> None:
    prog, loss = clipped_model()
    ran = list[str]()

    def listen(_: str, op: Op, __: object) -> None:
        ran.append(op.type)

    for passes in (br.passes.default, ()):
        exe = br.Executor(mode="interpret", passes=passes)
        scope = br.Scope()
        exe.init(prog, scope)
        exe.run(prog, scope, {"x": X}, [loss], listeners=[listen])
    assert {"exp", "custom_gradient", "clip"}.isdisjoint(ran)
    assert "matmul" in ran
    costs = {cost.type for cost in prog.cost(loss).ops}
    assert {"exp", "custom_gradient"}.isdisjoint(costs)
    assert "custom gradient removed" in str(prog.explain(loss))


def test_a_function_of_jax_has_it_too() -> None:
    prog, loss = clipped_model()
    function = prog.to_jax(fetches=[loss])

    def total(x: Any) -> Any:
        ((value,), _, _) = function({"w": np.eye(2, dtype="f4")}, {"x": x})
        return value

    (x_grad, _) = slopes(prog, "compile")
    np.testing.assert_allclose(jax.jit(jax.grad(total))(X), x_grad, rtol=1e-5)


def test_what_is_not_read_has_no_cotangent() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        own = br.create_custom_gradient()
        with own.block() as f:
            f.add_output(br.tanh(f.add_input(x)), br.exp(x))
        with own.gradient() as g:
            by_tanh, by_exp = g.cotangents
            g.add_output(by_tanh + 7.0 * by_exp)
        first, _ = own()
        (grad,) = br.gradients(br.sum(first), x)
    small = br.prune(prog, targets=[first])
    types = [op.type for _, op in all_ops(small.definition.main)]
    assert "exp" not in types
    assert "full" in types
    np.testing.assert_array_equal(run("interpret", prog, [grad], x=X[0]), [[1.0, 1.0]])
    again = br.passes.gradients(first.name, "x")(small)
    np.testing.assert_array_equal(run("interpret", again, "x_grad", x=X[0]), [1.0, 1.0])


# ---- what is refused -------------------------------------------------------------------------


def test_what_would_silently_have_no_gradient_is_refused() -> None:
    with br.Program() as prog:
        x, w = br.data("x", [2]), br.parameter("w", [2])
        before = str(prog)

        @br.custom_gradient
        def captures(x: br.Var) -> Any:
            return x * br.sin(w * 2.0), lambda g: g

        with pytest.raises(
            br.GradientError, match=r"(?s)depends on the captured value `w`.*add_input\(w\)"
        ):
            captures(x)
        assert str(prog) == before
        wide, still = w * 1.0, br.stop_gradient(w) * 2.0

        @br.custom_gradient
        def stops(x: br.Var) -> Any:
            kept = br.stop_gradient(wide) * still
            return x * kept + br.constant(1.0), lambda g: g * wide

        assert br.gradients(br.sum(stops(x)), w) == [None]


def gradient_of(make: Callable[[br.Var], Any], outputs: int = 1) -> Callable[[br.Var], Any]:
    @br.custom_gradient
    def function(x: br.Var) -> Any:
        y = br.tanh(x)
        return (y if outputs == 1 else (y,) * outputs), make

    return function


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            gradient_of(lambda g: (g, g)),
            "expected 1 cotangents, one for each input, got 2.*cotangents: 2   inputs: x",
        ),
        (gradient_of(br.sum), r"type mismatch of `x` and its cotangent.*cotangent: f32\[\]"),
        (gradient_of(lambda g: br.cast(g, "float64")), "type mismatch.*cotangent: f64"),
        (br.custom_gradient(br.tanh), "must return its result and a gradient function"),
        (br.custom_gradient(lambda x: (br.argmax(x), br.tanh)), "no output has a float dtype"),
        (br.custom_gradient(lambda x: ((), br.tanh)), "has no output"),
    ],
)
def test_gradients_that_do_not_fit_are_refused(function: Any, says: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        before = str(prog)
        with pytest.raises(br.BracesError, match=f"(?s){says}") as found:
            function(x)
        assert "test_custom_gradient.py" in str(found.value)
        assert str(prog) == before


def test_parts_in_the_wrong_order_are_refused() -> None:
    with br.Program():
        x = br.data("x", [2])
        own = br.create_custom_gradient()
        with pytest.raises(br.ProgramError, match="defined before its block"):
            own.gradient()
        with pytest.raises(br.ProgramError, match="before its block is defined"):
            own()
        with own.block() as f:
            f.add_output(br.tanh(f.add_input(x)))
        with pytest.raises(br.ProgramError, match="before its gradient is defined"):
            own()
        with pytest.raises(br.ProgramError, match="block is defined twice"):
            own.block()
        with (
            pytest.raises(
                br.GradientError, match="expected 1 cotangents, one for each input, got "
            ),
            own.gradient(),
        ):
            pass
        with own.gradient() as g:
            g.add_output(None)
        with pytest.raises(br.ProgramError, match="gradient is defined twice"):
            own.gradient()
        assert br.gradients(br.sum(own()), x) == [None]
        no_function: Any = x
        with pytest.raises(br.GradientError, match="no argument is a differentiable variable"):
            rounded(X)
        with pytest.raises(br.ProgramError, match="expected a function"):
            br.custom_gradient(no_function)


def test_forward_mode_of_what_is_not_linear_is_refused() -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        y = br.custom_gradient(lambda x: (x * 1.0, lambda g: br.clip(g, -1.0, 1.0)))(x)
        ones = br.ones_like(x)
        before = str(prog)
        with pytest.raises(br.GradientError, match="not known to be linear"):
            br.jvp([y], [x], [ones])
        assert str(prog) == before


def test_files_whose_gradients_do_not_fit_are_refused() -> None:
    text = """program {
      data x: f32[2]
      y: f32[2] = custom_gradient(values=x, sources=x)
        backward (value: f32[2], g: f32[2]) {
          s: f32[2] = tanh(x=g)
          return s
        }
      return y
    }"""
    assert br.parse(text).fetches == ("y",)
    for right, wrong, says in [
        ("return s", "return s, g", "has 2 results; expected 1"),
        ("return s", "return x_0", "x_0"),
        (", g: f32[2])", ", g: f32[3])", "type mismatch between parameter `g`"),
        (
            "s: f32[2] = tanh(x=g)",
            "s: i32[2] = cast(x=g) {dtype=i32}",
            "type mismatch of input 0",
        ),
        ("data x: f32[2]", "data x: i32[2]", "."),
    ]:
        assert right in text
        with pytest.raises(br.BracesError, match=says):
            br.parse(text.replace(right, wrong))
