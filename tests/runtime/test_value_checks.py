"""`check_nan` and `check_inf`: the first operator at fault, in forward and backward parts."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import braces as br

X = {"x": np.array([1.0, 1000.0], "float32")}


@pytest.fixture(params=["compile", "interpret"])
def exe(request: pytest.FixtureRequest) -> br.Executor:
    """An executor of each mode."""
    return br.Executor(request.param)


def line() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_infinity_is_found_where_it_was_made(exe: br.Executor) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        n = br.state("n", [], init=0.0)
        prog.update("n", (n + 1.0).name)
        at = line() + 1
        large = br.exp(x, name="large")
        y = br.tanh(large * 2.0)
    scope = exe.init(prog)
    with pytest.raises(br.InfinityError, match="exp produced an infinity in `large`") as caught:
        exe.run(prog, scope, X, y, check_inf=True)
    assert f"test_value_checks.py:{at}" in str(caught.value)
    assert "`x` from 1 to 1000" in str(caught.value)
    assert float(scope["n"]) == 0.0
    assert exe.run(prog, scope, X, y, check_nan=True)[1] == 1.0
    assert float(scope["n"]) == 1.0


def test_each_check_reports_its_own_kind_alone(exe: br.Executor) -> None:
    with br.Program() as prog:
        x = br.data("x", [1])
        y = br.log(x, name="y")
        z = y - y
    zero, below = {"x": [0.0]}, {"x": [-1.0]}
    with pytest.raises(br.NaNError, match="subtract produced a NaN"):
        exe.run(prog, br.Scope(), zero, z, check_nan=True)
    with pytest.raises(br.InfinityError, match="log produced an infinity in `y`"):
        exe.run(prog, br.Scope(), zero, z, check_nan=True, check_inf=True)
    with pytest.raises(br.NaNError, match="log produced a NaN in `y`"):
        exe.run(prog, br.Scope(), below, z, check_nan=True, check_inf=True)
    assert np.isnan(exe.run(prog, br.Scope(), below, z, check_inf=True))


def test_constants_and_what_passes_them_on_are_no_failures(exe: br.Executor) -> None:
    with br.Program() as prog:
        x, on = br.data("x", [3]), br.data("on", [3], dtype="bool")
        scores = br.where(on, x, float("-inf"))
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            best = net.add_memory(init=br.full([], float("-inf")))
            best.update(br.maximum(best.pre(1), net.add_input(scores)))
        out = [br.softmax(scores), rnn.final(best), br.max(br.full_like(x, float("-inf")))]
        out += [br.max(br.stack([x, br.exp(scores)])), br.data("more", [2]) * 2.0]
    feed = {"x": [1.0, 2.0, 3.0], "on": [True, False, True], "more": [np.inf, 1.0]}
    got = exe.run(prog, br.Scope(), feed, out, check_nan=True, check_inf=True)
    np.testing.assert_allclose(got[0], [0.119203, 0.0, 0.880797], rtol=1e-5)
    assert (got[1], got[2], got[4][0]) == (3.0, -np.inf, np.inf)


def test_a_nan_of_a_gradient_names_the_value_and_the_line_of_the_forward_operator(
    exe: br.Executor,
) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=1.0)
        at = line() + 1
        scaled = br.multiply(w, br.data("zero", []), name="scaled")
        root = br.sqrt(scaled, name="root")
        loss = br.sum(root)
        br.optimizer.sgd(0.1).minimize(loss)
    scope, feed = exe.init(prog), {"zero": 0.0}
    for checks, said, source in (
        ({"check_nan": True}, "a NaN in `.*`, the gradient of `w`", at),
        ({"check_inf": True}, "an infinity in `.*`, the gradient of `scaled`", at + 1),
    ):
        with pytest.raises(ArithmeticError, match=said) as caught:
            exe.run(prog, scope, feed, loss, **checks)  # pyright: ignore[reportArgumentType]
        assert f"test_value_checks.py:{source}" in str(caught.value)
    np.testing.assert_array_equal(scope["w"], [1.0, 1.0])


def test_a_gradient_in_a_loop_is_named_with_its_iteration(exe: br.Executor) -> None:
    with br.Program() as prog:
        w, s = br.parameter("w", [2], init=1.0), br.data("s", ["t"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            memory = net.add_memory(init=w)
            scaled = br.multiply(memory.pre(1), net.add_input(s), name="scaled")
            at = line() + 1
            memory.update(br.sqrt(scaled, name="root"))
        loss = br.sum(rnn.final(memory))
        br.optimizer.sgd(0.1).minimize(loss)
    with pytest.raises(br.InfinityError, match="the gradient of `scaled`") as caught:
        exe.run(prog, exe.init(prog), {"s": [1.0, 0.0]}, loss, check_inf=True)
    assert f"test_value_checks.py:{at}" in str(caught.value)
    assert "body[" in str(caught.value)


def test_an_optimizer_is_named(exe: br.Executor) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=1.0)
        loss = br.sum(w * w)
        br.optimizer.sgd(3e38).minimize(loss)
    with pytest.raises(br.InfinityError, match="a value of the optimizer"):
        exe.run(prog, exe.init(prog), {}, loss, check_inf=True)


def test_all_calls_of_an_executor_check_infinities(exe: br.Executor) -> None:
    with br.Program() as prog:
        y = br.exp(br.data("x", [2]), name="y")
    calls: list[Any] = [exe.run, exe.evaluate, exe.profile]
    exe.compile(prog, br.Scope(), X, y, check_inf=True)
    for call in calls:
        with pytest.raises(br.InfinityError, match="`y`"):
            call(prog, br.Scope(), X, y, check_inf=True)
