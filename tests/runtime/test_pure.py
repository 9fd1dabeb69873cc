"""Programs as functions of JAX: the same numbers, and JAX's transformations of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.errors import IndexRangeError, ProgramError, RunError, ShapeError, UnknownNameError

pytestmark = pytest.mark.unoptimized
X = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]], "f")
W = np.array([0.5, 1.5, -1.0], "f")


def recurrent() -> tuple[br.Program, br.Var]:
    """A mean over an RNN, whose state is a step counter too."""
    with br.Program() as prog:
        x, w = br.data("x", ["t", 3]), br.parameter("w", [3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([3]))
            new = br.tanh(net.add_input(x) * w + h)
            h.update(new)
            net.add_output(new)
        loss = br.mean(rnn())
        count = br.state("count", [], dtype="int32")
        prog.update(count, count + 1)
    return prog, loss


def given(**values: Any) -> dict[str, Any]:
    return {"w": W, "count": np.int32(4), **values}


def squares() -> tuple[br.Program, br.Var, br.Var]:
    with br.Program() as prog:
        x = br.data("x", [3])
        loop = br.create_while()
        with loop.block() as body:
            y = body.add_memory(init=x)
            body.set_condition(br.sum(y * y) > 0.5)
            y.update(y * y * 0.25)
        out = br.sum(loop.final(y))
        (grad,) = br.gradients([out], [x])
    return prog, out, grad


def test_results_next_values_and_status_come_out() -> None:
    prog, loss = recurrent()
    function = prog.to_jax(fetches=[loss])
    (found,), after, status = jax.jit(function)(given(), {"x": X})
    scope = br.Scope()
    scope.update(given())
    (wanted,) = br.Executor().run(prog, scope, feed={"x": X}, fetch=[loss])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert {name: int(value) for name, value in after.items()} == {"count": 5}
    assert (status.shape, function.states.keys()) == ((0,), {"count", "w"})
    function.check(status)


def test_jax_differentiates_and_maps_it() -> None:
    prog, loss = recurrent()
    function = prog.to_jax(fetches=[loss])

    def of(w: Any, x: Any) -> Any:
        return function(given(w=w), {"x": x})[0][0]

    with prog:
        (grad,) = br.gradients([loss], [prog.var("w")])
    (mine,), _, _ = prog.to_jax(fetches=[grad])(given(), {"x": X})
    np.testing.assert_allclose(jax.grad(of)(jnp.asarray(W), X), mine, rtol=1e-5)
    mapped = jax.vmap(of, in_axes=(None, 0))(W, np.stack([X, 2 * X]))
    np.testing.assert_allclose(mapped, [of(W, X), of(W, 2 * X)], rtol=1e-6)


def test_a_gradient_through_a_condition_needs_a_capacity_and_its_error_has_it() -> None:
    prog, out, grad = squares()
    with pytest.raises(ProgramError, match="unknown iteration count"):
        prog.to_jax(fetches=[grad])
    x = np.array([2.0, 0.0, 0.0], "f")
    function = prog.to_jax(fetches=[out, grad], room=8)
    (value, slope), _, status = jax.jit(function)({}, {"x": x})
    function.check(status)
    np.testing.assert_allclose((value, *slope), (0.25, 0.5, 0.0, 0.0))
    tight = prog.to_jax(fetches=[grad], room=1)
    with pytest.raises(RunError, match="more than its capacity"):
        tight.check(tight({}, {"x": x})[2])


def test_a_failure_is_in_the_status_and_changes_no_value() -> None:
    with br.Program() as prog:
        table, ids = br.parameter("table", [3]), br.data("ids", [2], dtype="int32")
        prog.update(table, table + br.sum(br.take(table, ids, axis=0)))
        taken = br.take(table, ids, axis=0)
    function = prog.to_jax(fetches=[taken])
    _, after, status = jax.jit(function)({"table": W}, {"ids": np.array([0, 7], "i4")})
    np.testing.assert_array_equal(after["table"], W)
    with pytest.raises(IndexRangeError, match="out of range"):
        function.check(status)


def test_what_does_not_fit_is_refused() -> None:
    prog, loss = recurrent()
    function = prog.to_jax(fetches=[loss.name])
    with pytest.raises(UnknownNameError, match="missing value `w`"):
        function({"count": 1}, {"x": X})
    with pytest.raises(UnknownNameError, match="unknown feed `y`"):
        function(given(), {"x": X, "y": X})
    with pytest.raises(ShapeError, match="shape mismatch of `w`"):
        function(given(w=W[:2]), {"x": X})
    with pytest.raises(UnknownNameError, match="unknown fetch `los`"):
        prog.to_jax(fetches=["los"])


@pytest.mark.parametrize("true", ["some", "all", "none"])
def test_jax_differentiates_row_wise_branches(true: str) -> None:
    with br.Program() as prog:
        x, c = br.data("x", [4, 3]), br.data("c", [4], dtype="bool")
        choice = br.create_if_else(c)
        with choice.true_block() as yes:
            yes.add_output(br.tanh(yes.add_input(x)) * br.max(x))
        with choice.false_block() as no:
            rows = no.add_input(x)
            no.add_output(rows * br.sum(rows))
        loss = br.sum(br.square(choice()))
        (first,) = br.gradients(loss, x)
        (second,) = br.gradients(br.sum(br.sin(first)), x)
    rows = np.sin(np.arange(12.0, dtype="f")).reshape(4, 3)
    mask = {"some": [True, False, False, True], "all": [True] * 4, "none": [False] * 4}[true]
    function = prog.to_jax(fetches=[loss])

    def of_rows(x: Any) -> Any:
        return function({}, {"x": x, "c": np.array(mask)})[0][0]

    def slope(x: Any) -> Any:
        return jnp.sum(jnp.sin(jax.grad(of_rows)(x)))

    feed = {"x": rows, "c": np.array(mask)}
    wanted = br.Executor().run(prog, br.Scope(), feed, [loss, first, second])
    for transformed, want in zip(
        (of_rows, jax.grad(of_rows), jax.grad(slope)), wanted, strict=True
    ):
        for called in (transformed, jax.jit(transformed)):
            np.testing.assert_allclose(called(rows), want, rtol=1e-4, atol=1e-5)
