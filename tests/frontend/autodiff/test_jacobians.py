"""Jacobians, Hessians and functions of rows are those of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.errors import BracesError, GradientError, ProgramError, ShapeError

pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(0)
FEED = {
    "x": RNG.normal(size=3),
    "w": RNG.normal(size=(3, 2)),
    "rows": RNG.normal(size=(4, 3)),
    "n": np.array([0, 3, 1, 2]),
}


@pytest.fixture(autouse=True, scope="module")
def in_64_bits() -> Any:
    with jax.enable_x64(True):
        yield


def inputs() -> tuple[br.Var, br.Var, br.Var, br.Var]:
    given = [br.data(n, FEED[n].shape, dtype="float64") for n in ("x", "w")]
    rows = br.data("rows", ["batch", 3], dtype="float64")
    return *given, rows, br.data("n", ["batch"], dtype="int64")  # pyright: ignore[reportReturnType]


def run(mode: str, prog: br.Program, fetch: list[br.Var]) -> list[Any]:
    feed = {k: v for k, v in FEED.items() if k in prog.vars}
    return br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch)


def same(found: list[Any], wanted: list[Any]) -> None:
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape, i
        np.testing.assert_allclose(one, other, 1e-9, 1e-11, err_msg=str(i))


def mixed(x: Any, w: Any, tanh: Any) -> Any:
    return tanh(x @ w) * x.sum()


# ---- Jacobians -------------------------------------------------------------------------------


def test_jacobians_are_those_of_jax_in_both_directions(mode: str) -> None:
    with br.Program() as prog:
        x, w, rows, _ = inputs()
        y = br.tanh(x @ w) * br.sum(x)
        turned = br.permute_dims(rows)
        across = br.tanh(br.permute_dims(w) @ turned) * br.sum(turned, axis=0)
        each = br.tanh(rows @ w) * br.sum(rows, axis=1, keepdims=True)
        fetch = [
            *br.jacobian(y, [x, w], mode="reverse"),
            *br.jacobian(y, [x, w], mode="forward"),
            br.jacobian(y, w),
            br.jacobian(each, rows, batch_axis=0),
            br.jacobian(each, rows, batch_axis=0, mode="forward"),
            br.jacobian(across, turned, batch_axis=-1),
            br.jacobian(each, rows),
            br.jacobian(y, rows),
            br.jacobian(br.sum(y), x),
        ]
    assert str(fetch[5].type) == "f64[batch,2,3]"
    both = jax.jacobian(lambda x, w: mixed(x, w, jnp.tanh), (0, 1))(FEED["x"], FEED["w"])
    of_rows = jax.vmap(jax.jacobian(lambda r: mixed(r, FEED["w"], jnp.tanh)))(FEED["rows"])
    whole = np.zeros((4, 2, 4, 3))
    whole[range(4), :, range(4)] = of_rows
    nothing, gradient = np.zeros((2, 4, 3)), both[0].sum(0)
    wanted = [*both, *both, both[1], of_rows, of_rows, of_rows, whole, nothing, gradient]
    same(run(mode, prog, fetch), wanted)


def test_hessians_are_those_of_jax(mode: str) -> None:
    with br.Program() as prog:
        x, w, rows, _ = inputs()
        y = br.tanh(x @ w) * br.sum(x)
        each = br.tanh(rows @ w) * br.sum(rows, axis=1, keepdims=True)
        loss = br.sum(y * y)
        of_both = br.hessian(loss, [x, w])
        fetch = [
            *(one for row in of_both for one in row),
            br.hessian(loss, x, mode="forward"),
            br.hessian(br.sum(each * each, axis=1), rows, batch_axis=0),
            br.hessian(br.sum(w), x),
        ]

    def square(x: Any, w: Any) -> Any:
        return (mixed(x, w, jnp.tanh) ** 2).sum()

    both = jax.hessian(square, (0, 1))(FEED["x"], FEED["w"])
    of_rows = jax.vmap(jax.hessian(lambda r: square(r, FEED["w"])))(FEED["rows"])
    wanted = [one for row in both for one in row]
    same(run(mode, prog, fetch), [*wanted, both[0][0], of_rows, np.zeros((3, 3))])


def test_jacobians_go_through_loops_and_branches(mode: str) -> None:
    with br.Program() as prog:
        x, w, rows, n = inputs()
        gram = w @ br.permute_dims(w)

        def step(carry: Any) -> Any:
            return carry[0] + 1, br.sin(carry[1] @ gram)

        looped = br.while_loop(lambda c: c[0] < n[1], step, (br.constant(0), x))[1]
        _, products = br.scan(lambda c, row: (c * row, c * row), x, rows)
        chosen = br.cond(n[0] > 5, lambda: x * 2.0, lambda: x * x)
        of_rows = br.cond(n > 1, br.exp, br.square, rows)
        fetch = [
            br.jacobian(looped, x, mode="reverse"),
            br.jacobian(looped, x, mode="forward"),
            br.hessian(br.sum(looped * looped), x),
            br.jacobian(products[-1], x),
            br.jacobian(chosen, x),
            br.jacobian(of_rows, rows, batch_axis=0),
        ]

    def loop(x: Any) -> Any:
        for _ in range(3):
            x = jnp.sin(x @ (FEED["w"] @ FEED["w"].T))
        return x

    jac = jax.jacobian(loop)(FEED["x"])
    second = jax.hessian(lambda x: (loop(x) ** 2).sum())(FEED["x"])
    slopes = np.where(FEED["n"][:, None] > 1, np.exp(FEED["rows"]), 2 * FEED["rows"])
    wanted = [jac, jac, second, np.diag(FEED["rows"].prod(0)), np.diag(2 * FEED["x"])]
    same(run(mode, prog, fetch), [*wanted, slopes[:, :, None] * np.eye(3)])


def test_a_jacobian_has_gradients_and_stands_in_loops(mode: str) -> None:
    with br.Program() as prog:
        x, w, rows, _ = inputs()

        def step(carry: Any, row: Any) -> Any:
            return carry, br.sum(br.square(br.jacobian(br.tanh(row @ w), row)))

        penalties = br.scan(step, None, rows)[1]
        with br.block("inner"):
            steep = br.sum(br.square(br.jacobian(br.tanh(x @ w), x)))
        fetch = [*br.gradients(br.sum(penalties), [w]), *br.gradients(steep, [w])]

    def penalty(w: Any, x: Any) -> Any:
        return (jax.jacobian(lambda x: jnp.tanh(x @ w))(x) ** 2).sum()

    of_all = jax.grad(lambda w: jax.vmap(lambda r: penalty(w, r))(FEED["rows"]).sum())
    same(run(mode, prog, fetch), [of_all(FEED["w"]), jax.grad(penalty)(FEED["w"], FEED["x"])])


def test_nothing_is_derived_of_no_rows(mode: str) -> None:
    with br.Program() as prog:
        rows = br.data("rows", ["batch", 3])
        fetch = [br.jacobian(rows * rows, rows, batch_axis=0), br.vmap(br.sum)(rows)]
    feed = {"rows": np.zeros((0, 3), "f4")}
    found = br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch)
    assert [x.shape for x in found] == [(0, 3, 3), (0,)]


# ---- over rows -------------------------------------------------------------------------------


def test_functions_of_rows_are_those_of_jax(mode: str) -> None:
    with br.Program() as prog:
        x, w, rows, n = inputs()

        def steps(row: Any, count: Any) -> Any:
            def step(carry: Any) -> Any:
                return carry[0] + 1, br.sin(carry[1]) @ w @ br.permute_dims(w)

            return br.while_loop(lambda c: c[0] < count, step, (br.constant(0), row))[1]

        looped = br.vmap(steps)(rows, n)
        pair = br.vmap(lambda a, b: {"dot": br.dot(a["r"], b), "sum": a["r"] + b}, (0, None))
        both = pair({"r": rows}, x)
        turned = br.vmap(lambda r: br.linalg.outer(r, r), in_axes=1, out_axes=2)(
            br.permute_dims(rows)
        )
        twice = br.vmap(br.vmap(lambda a: a * a))(rows)
        fetch = [looped, both["dot"], both["sum"], turned, twice]
        fetch += br.gradients(br.sum(looped), [rows, w])
        fetch.append(br.vmap(lambda r: br.jacobian(br.tanh(r @ w), r))(rows))

    def stepped(rows: Any, w: Any) -> Any:
        found = list[Any]()
        for row, count in zip(rows, FEED["n"], strict=True):
            for _ in range(count):
                row = jnp.sin(row) @ w @ w.T
            found.append(row)
        return jnp.stack(found)

    rows, w, x = FEED["rows"], FEED["w"], FEED["x"]
    grads = jax.grad(lambda *given: stepped(*given).sum(), (0, 1))(rows, w)
    outer = jax.vmap(lambda r: jnp.outer(r, r), 1, 2)(rows.T)
    jac = jax.vmap(jax.jacobian(lambda r: jnp.tanh(r @ w)))(rows)
    wanted = [stepped(rows, w), rows @ x, rows + x, outer, rows * rows, *grads, jac]
    same(run(mode, prog, fetch), wanted)


def test_products_of_all_rows_leave_the_loop() -> None:
    with br.Program() as prog:
        _, w, rows, _ = inputs()
        prog.give(br.vmap(lambda r: br.tanh(br.tanh(r @ w) @ br.permute_dims(w)))(rows))
    moved = br.passes.dce(br.passes.vectorize_before(prog))
    assert not any(op.bodies() for op in moved.block(0).ops)


def test_each_row_draws_anew(mode: str) -> None:
    with br.Program() as prog:
        rows = br.data("rows", ["batch", 3])
        y = br.vmap(lambda r: r + br.random.normal([3]))(rows)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=1)
    assert len(np.unique(exe.run(prog, scope, {"rows": np.zeros((4, 3))}, y))) == 12


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x, n: br.jacobian(n, x), GradientError, "dtype is not a float"),
        (lambda x, n: br.jacobian(x, n), GradientError, "dtype is not a float"),
        (lambda x, n: br.jacobian(x, x, mode="back"), GradientError, "unknown mode 'back'"),
        (lambda x, n: br.jacobian(x, x, batch_axis=2), ShapeError, "axis 2 is out of range"),
        (lambda x, n: br.jacobian(x[:2], x, batch_axis=0), ShapeError, "one batch size"),
        (lambda x, n: br.hessian(x, x), ShapeError, "expected a scalar"),
        (
            lambda x, n: br.hessian(br.sum(x), x, batch_axis=0),
            ShapeError,
            "for each batch element",
        ),
        (lambda x, n: br.vmap(3), ProgramError, "expected a function"),
        (lambda x, n: br.vmap(br.exp, (0, 0))(x), ProgramError, "2 entries for 1 arguments"),
        (
            lambda x, n: br.vmap(br.exp, None)(x),
            ProgramError,
            "expected a batched argument, got none",
        ),
        (lambda x, n: br.vmap(br.exp, 2)(x), ShapeError, "vmap: axis 2 is out of range"),
        (lambda x, n: br.vmap(br.add)(x, x[:2]), ShapeError, "2 steps; expected 3"),
    ],
)
def test_what_does_not_fit_is_refused(
    build: Callable[[Any, Any], Any], error: type[BracesError], message: str
) -> None:
    with br.Program() as prog:
        x, n = br.data("x", [3, 3]), br.data("n", [3], dtype="int64")
        with pytest.raises(error, match=message):
            build(x, n)
    assert not any(op.bodies() for op in prog.block(0).ops)
