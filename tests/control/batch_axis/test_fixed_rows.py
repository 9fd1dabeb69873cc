"""A batch that is a number: its rows are tracked, and never taken for another axis as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError, ShapeError

pytestmark = pytest.mark.unoptimized

Step = Callable[[br.Var, br.Var], br.Var]
RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(4, 3, 3)), RNG.normal(size=(3, 3))
LENGTHS = np.array([4, 0, 2])
BATCHES = pytest.mark.parametrize("batch", [3, "b"], ids=["fixed", "named"])


def build(step: Step, batch: Any, stops: bool = False) -> tuple[Any, Sequence[br.Var]]:
    """A program whose step does not run for all rows: its input, weights and results."""
    x = br.data("x", [4, batch, 3], dtype="float64")
    n, w = br.data("n", [batch], dtype="int64"), br.parameter("w", [3, 3], dtype="float64")
    rnn = br.create_rnn(lengths=None if stops else n)
    with rnn.stepnet() as net:
        xt = net.add_input(x)
        h = net.add_memory(shape=[3], batch_like=xt)
        new = h * 0.5 + step(xt @ w, w)
        h.update(new)
        net.add_output(new)
        if stops:
            left = net.add_memory(init=n)
            left.update(left - 1)
            net.stop_when(left.pre(1) < 2)
    return x, [rnn(), rnn.final(h)]


def run(step: Step, batch: Any, mode: str, stops: bool = False) -> list[np.ndarray]:
    """Values, gradients and the gradient of a gradient."""
    with br.Program() as prog:
        x, found = build(step, batch, stops)
        loss = br.sum(found[0] ** 2) + br.sum(found[1])
        w = br.get_variable("w")
        grads = br.gradients([loss], [x, w])
        second = br.gradients([br.sum(grads[0] ** 2)], [x])
    padded = X.copy()
    if not stops:
        for row, length in enumerate(LENGTHS):
            padded[length:, row] = np.nan
    scope = br.Scope()
    scope.new_var("w").set(W)
    feed = {"x": padded, "n": LENGTHS + stops}
    fetch = [*found, *grads, *second]
    return br.Executor(mode=mode).run(prog, scope, feed=feed, fetch=fetch)


# ---- what takes rows for another axis --------------------------------------------------------

MIXING: dict[str, Step] = {
    "einsum over the rows": lambda x, w: br.einsum("ib,ij->bj", x, w),
    "einsum with rows on the right": lambda x, w: br.einsum("bi,ij->bj", w, x),
    "a column beside weights": lambda x, w: x[:, 0] + w,
    "rows beside weights": lambda x, w: x + w,
    "rows under other rows": lambda x, w: br.broadcast_to(x[:, 0], (3, 3)),
    "a product from the left": lambda x, w: w @ x,
    "a transpose": lambda x, w: x.T,
    "rows by rows": lambda x, w: x @ x.T,
    "a branch of weights": lambda x, w: br.cond(br.sum(x) > 0.0, lambda: x, lambda: w),
    "a loop that begins with weights": lambda x, w: br.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] + x), (br.constant(0), w)
    )[1],
}


@pytest.mark.parametrize("stops", [False, True], ids=["lengths", "stops"])
@pytest.mark.parametrize("step", MIXING.values(), ids=MIXING)
def test_rows_that_are_matched_with_a_number_are_refused(step: Step, stops: bool) -> None:
    with br.Program() as prog:
        with pytest.raises((ProgramError, ShapeError), match="mixes batch elements") as caught:
            build(step, 3, stops)
        assert "name the batch dimension" in str(caught.value)
        assert "test_fixed_rows.py" in str(caught.value)
        assert all(op.type != "loop" for op in prog.block(0).ops)


@pytest.mark.parametrize("given", [lambda x, w: x.T, lambda x, w: w @ x.T])
def test_outputs_that_are_as_long_as_the_batch_elsewhere_are_refused(given: Step) -> None:
    with br.Program():
        x, w = br.data("x", [4, 3, 3]), br.parameter("w", [3, 3])
        rnn = br.create_rnn(lengths=br.data("n", [3], dtype="int64"))
        with (
            pytest.raises(ShapeError, match="name the batch dimension"),
            rnn.stepnet() as net,
        ):
            net.add_output(given(net.add_input(x), w))


@BATCHES
def test_columns_of_rows_that_do_not_run_are_zero(batch: Any, mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [4, batch, 3], dtype="float64")
        rnn = br.create_rnn(lengths=br.data("n", [batch], dtype="int64"))
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            net.add_output(xt @ xt.T)
        out = rnn()
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed={"x": X, "n": LENGTHS}, fetch=out)
    for t in range(4):
        runs = t < LENGTHS
        want = np.where(runs[:, None] & runs, X[t] @ X[t].T, 0.0)
        np.testing.assert_allclose(got[t], want)


# ---- what is the same with a number and a name -----------------------------------------------


def looped(x: br.Var, w: br.Var) -> br.Var:
    """A loop and a branch of the step, and what is as large as the rows but not of them."""
    start = br.zeros(x.shape, dtype="float64")
    inner = br.scan(lambda h, _: (br.tanh(h @ w + x), None), start, None, length=2)[0]
    return br.cond(br.sum(x) > 0.0, lambda: inner, lambda: inner * br.ones_like(x))


def everything(x: br.Var, w: br.Var) -> br.Var:
    """Return all operations of a step on batch elements, in one program."""
    shaped = br.reshape(br.reshape(x, (x.shape[0], 3, 1)), x.shape)
    return sum(
        [
            br.tanh(x @ w) + br.einsum("bi,ij->bj", x, w),
            x * br.sum(x) - br.mean(x, axis=0) + br.max(x, axis=0),
            x @ x.T @ x,
            shaped * br.full(x.shape, 2.0, "float64"),
            br.broadcast_to(x[:, :1], x.shape) + br.zeros_like(x),
            br.log(br.abs(x)),
            looped(x, w),
        ],
        br.zeros_like(x),
    )


@pytest.mark.parametrize("stops", [False, True], ids=["lengths", "stops"])
def test_a_number_and_a_name_give_the_same(stops: bool, mode: str) -> None:
    fixed, named = (run(everything, batch, mode, stops) for batch in (3, "b"))
    for got, want in zip(fixed, named, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
        assert np.isfinite(got).all()
        assert got.any()


def test_a_dimension_called_like_the_rows_is_another() -> None:
    with br.Program() as prog:
        x = br.data("x", [4, 3, "rows_0"])
        rnn = br.create_rnn(lengths=br.data("n", [3], dtype="int64"))
        with rnn.stepnet() as net:
            net.add_output(br.sum(net.add_input(x), axis=1))
        out = rnn()
    feed = {"x": np.ones((4, 3, 5), "f4"), "n": LENGTHS}
    got = br.Executor().run(prog, br.Scope(), feed=feed, fetch=out)
    np.testing.assert_array_equal(got[0], [5.0, 0.0, 5.0])


# ---- captures --------------------------------------------------------------------------------


@BATCHES
def test_captured_rows_that_do_not_run_reach_no_gradient(batch: Any, mode: str) -> None:
    with br.Program() as prog:
        c = br.data("c", [batch, 3], dtype="float64")
        encoded, n = c * 1.0, br.data("n", [batch], dtype="int64")
        x = br.stack([encoded] * 4)
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros(c.shape, dtype="float64"))
            h.update(br.tanh(net.add_input(x) * br.sqrt(encoded) + h / encoded))
            net.add_output(encoded)
        (slope,) = br.gradients([br.sum(rnn.final(h)) + br.sum(rnn() ** 3)], [c])
        (second,) = br.gradients([br.sum(slope**2)], [c])
    context = np.full((3, 3), 2.0)
    context[1] = 0.0
    feed = {"c": context, "n": LENGTHS}
    found = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=[slope, second])
    for got in found:
        assert np.isfinite(got).all()
        assert got[[0, 2]].all()
        assert not got[1].any()


def looking_back(axis: int, batch: Any, mode: str) -> list[np.ndarray]:
    """Gradients, and gradients of these, of steps that look at what has its rows anywhere."""
    with br.Program() as prog:
        c = br.data("c", [batch, 3], dtype="float64")
        encoded, n = c * 1.0, br.data("n", [batch], dtype="int64")
        seen = br.moveaxis(br.stack([encoded, encoded * 2.0], axis=1), 0, axis)
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            rows = br.moveaxis(seen, axis, 0)
            h = net.add_memory(init=br.zeros(c.shape, dtype="float64"))
            xt = net.add_input(br.stack([encoded] * 4))
            h.update(br.tanh(br.sum(xt[:, None] * br.sqrt(rows) + h[:, None] / rows, axis=1)))
        (slope,) = br.gradients([br.sum(rnn.final(h))], [c])
        (second,) = br.gradients([br.sum(slope**2)], [c])
    context = np.full((3, 3), 0.3)
    context[1] = 0.0
    feed = {"c": context, "n": LENGTHS}
    return br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=[slope, second])


@BATCHES
@pytest.mark.parametrize("axis", [1, 2])
def test_captures_may_have_their_rows_anywhere(axis: int, batch: Any, mode: str) -> None:
    found, wanted = (looking_back(place, batch, mode) for place in (axis, 0))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
        assert got[[0, 2]].all()
        assert not got[1].any()


def test_a_capture_that_does_not_come_of_the_batch_is_whole(mode: str) -> None:
    with br.Program() as prog:
        x, c = br.data("x", [4, 3, 3], dtype="float64"), br.data("c", [3, 3], dtype="float64")
        rnn = br.create_rnn(lengths=br.data("n", [3], dtype="int64"))
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            net.add_output(xt * br.sum(c) + br.mean(xt @ c, axis=0))
        out = rnn()
        with (
            pytest.raises(ProgramError, match="mixes batch elements"),
            br.create_rnn(lengths=br.get_variable("n")).stepnet() as net,
        ):
            net.add_output(net.add_input(x) + c)
    feed = {"x": X, "c": W, "n": LENGTHS}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=out)
    for t in range(4):
        runs = t < LENGTHS
        want = np.zeros((3, 3))
        if runs.any():
            want[runs] = X[t][runs] * W.sum() + (X[t][runs] @ W).mean(0)
        np.testing.assert_allclose(got[t], want)


# ---- inputs ----------------------------------------------------------------------------------


def spread(x: br.Var, table: br.Var) -> br.Var:
    """Broadcast a value to all batch elements."""
    return br.broadcast_to(br.reshape(table, (4, 1, 3)), x.shape)


INPUTS: dict[str, Step] = {
    "without rows": lambda x, table: table,
    "with rows": spread,
    "with rows behind": lambda x, table: br.moveaxis(spread(x, table), 1, 2),
}
STOPS = pytest.mark.parametrize("stops", [False, True], ids=["lengths", "stops"])


def with_inputs(given: str, stops: bool, mode: str) -> list[np.ndarray]:
    """Values, gradients and gradients of these of steps with inputs of several kinds."""
    with br.Program() as prog:
        x, table = br.data("x", [4, "b", 3], "float64"), br.data("table", [4, 3], "float64")
        scale, n = br.data("scale", [4], "float64"), br.data("n", ["b"], "int64")
        rnn = br.create_rnn(lengths=None if stops else n)
        with rnn.stepnet() as net:
            xt, own = net.add_input(x), net.add_input(INPUTS[given](x, table))
            h = net.add_memory(shape=[3], batch_like=xt)
            own = own.T if given == "with rows behind" else own
            h.update(br.tanh(xt * net.add_input(scale) + h * own + own))
            net.add_output(h.pre(1) * own)
            if stops:
                left = net.add_memory(init=n)
                left.update(left - 1)
                net.stop_when(left.pre(1) < 2)
        found = [rnn(), rnn.final(h)]
        grads = br.gradients([br.sum(rnn() ** 2) + br.sum(found[1])], [x, table, scale])
        second = br.gradients([br.sum(grads[1] ** 2)], [x, table, scale])
    feed = {"x": X, "table": W[[0, 1, 2, 0]], "scale": X[:, 0, 0], "n": LENGTHS + stops}
    return br.Executor(mode=mode).run(prog, br.Scope(), feed, [*found, *grads, *second])


@STOPS
@pytest.mark.parametrize("given", ["without rows", "with rows behind"])
def test_inputs_may_have_no_rows_or_have_them_anywhere(
    given: str, stops: bool, mode: str
) -> None:
    wanted = with_inputs("with rows", stops, mode)
    for got, want in zip(with_inputs(given, stops, mode), wanted, strict=True):
        assert np.isfinite(got).all()
        assert got.any()
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_what_no_row_reads_of_an_input_without_rows_reaches_nothing(mode: str) -> None:
    with br.Program() as prog:
        x, table = br.data("x", [4, "b", 3], "float64"), br.data("table", [4, 3], "float64")
        rnn = br.create_rnn(lengths=br.data("n", ["b"], "int64"))
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3], batch_like=x, batch_axis=1)
            h.update(br.tanh(net.add_input(x) * br.sqrt(net.add_input(table)) + h))
        grads = br.gradients([br.sum(rnn.final(h))], [x, table])
    feed = {"x": X, "table": np.full((4, 3), 2.0), "n": np.array([2, 0, 1])}
    feed["table"][2:] = np.nan
    of_x, of_table = br.Executor(mode=mode).run(prog, br.Scope(), feed, grads)
    assert np.isfinite(of_x).all()
    assert of_table[:2].all()
    assert not of_table[2:].any()
