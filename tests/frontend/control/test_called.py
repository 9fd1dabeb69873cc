"""Programs that call other programs: copied parts, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import prog as prog, refuse_here

pytestmark = pytest.mark.unoptimized

X = np.arange(8, dtype="float32").reshape(2, 4)


@pytest.fixture
def encoder() -> br.Program:
    """`y` is what is read, `doubled` too."""
    with br.Program() as program:
        x = br.data("x", ["n", 4])
        y = br.fc(x, 3, act="tanh", name="q")
        program.give(y.name)
        br.multiply(y, 2.0, name="doubled")
    return program


def run(program: br.Program, scope: br.Scope, fetch: Any, mode: str, **feed: Any) -> Any:
    return br.Executor(mode=mode).run(program, scope, feed=feed, fetch=fetch)


def begun(program: br.Program) -> br.Scope:
    scope = br.Scope()
    br.Executor().init(program, scope, seed=3)
    return scope


def weights(scope: br.Scope) -> dict[str, np.ndarray]:
    return {name: scope.var(name).value for name in ("q.w", "q.b")}


def test_a_called_program_computes_what_it_does_alone(encoder: br.Program, mode: str) -> None:
    with br.Program() as host:
        src = br.data("src", ["s", 4])
        y = br.call(encoder, src, name="encoder")
        doubled = br.call(encoder, x=src + 0.0, name="encoder", fetch="doubled")
    assert [p.name for p in host.parameters] == ["encoder/q.w", "encoder/q.b"]
    assert [op.name for op in host.block(0).ops if op.type == "block"] == [
        "encoder",
        "encoder_1",
    ]
    assert str(y.type) == "f32[s,3]"
    alone, scope = begun(encoder), br.Scope()
    scope.update(weights(alone), prefix="encoder/")
    (wanted,) = run(encoder, alone, list(encoder.fetches), mode, x=X)
    found = run(host, scope, [y, doubled], mode, src=X)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(found[1], 2 * wanted, rtol=1e-6)


def test_calls_of_two_names_have_parameters_of_their_own(encoder: br.Program) -> None:
    with br.Program() as host:
        x = br.data("x", ["n", 4])
        left, right = (br.call(encoder, x, name=name) for name in ("left", "right"))
    scope = begun(host)
    assert not np.array_equal(scope.var("left/q.w").value, scope.var("right/q.w").value)
    one, other = run(host, scope, [left, right], "interpret", x=X)
    assert not np.allclose(one, other)
    small = br.prune(host, [left])
    assert [p.name for p in small.parameters] == ["left/q.w", "left/q.b"]
    assert set(small.startup.updates) == {"left/q.w", "left/q.b"}


def test_a_called_program_learns_where_it_is_called(
    encoder: br.Program, tmp_path: Path, mode: str
) -> None:
    with br.Program() as host:
        src = br.data("src", ["s", 4])
        y = br.call(encoder, src, name="encoder")
        loss = br.mean(br.square(y - 0.5), name="loss")
        br.optimizer.sgd(0.5).minimize(loss)
    scope, exe = begun(host), br.Executor(mode=mode)
    losses = [float(exe.run(host, scope, {"src": X / 8}, loss)) for _ in range(8)]
    assert losses[-1] < losses[0] / 2
    file = tmp_path / "host.model"
    br.save_model(file, host, scope, feeds=["src"], fetches=[y])
    (wanted,) = run(host.for_test(), scope, [y], mode, src=X)
    np.testing.assert_allclose(br.load_model(file).run(src=X), wanted, rtol=1e-6)


def test_a_program_is_called_in_a_loop_with_a_gradient(mode: str) -> None:
    with br.Program() as step:
        h = br.data("h", ["n", 2])
        w = br.parameter("w", [2, 2], init=np.array([[0.5, 0.1], [0.0, 0.5]], "f4"))
        step.give(br.tanh(h @ w).name)
    with br.Program() as host:
        start = br.data("start", ["rows", 2])
        loop = br.create_while()
        with loop.block() as body:
            trip, h = body.add_memory(init=br.constant(0)), body.add_memory(init=start)
            body.set_condition(trip < 3)
            trip.update(trip + 1)
            h.update(br.call(step, h, name="step"))
        last = loop.final(h)
        grads = br.gradients([br.sum(last)], [start, br.get_variable("step/w")])
    scope, given = begun(host), np.array([[0.3, -0.2]], "f4")
    found = run(host, scope, [last, *grads], mode, start=given)

    def loss(x: np.ndarray, w: np.ndarray) -> float:
        for _ in range(3):
            x = np.tanh(x @ w)
        return float(x.sum())

    at = given.astype("float64"), scope.var("step/w").value.astype("float64")
    for moved, grad in ((0, found[1]), (1, found[2])):
        args = [array.copy() for array in at]
        args[moved][0, 1] += 1e-6
        np.testing.assert_allclose(grad[0, 1], (loss(*args) - loss(*at)) / 1e-6, rtol=1e-4)


def test_a_program_may_use_the_names_of_the_one_that_calls_it(mode: str) -> None:
    with br.Program() as inner:
        x = br.data("x", ["n"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(x), net.add_memory(init=br.constant(0.0))
            h.update(h + row)
            net.add_output(h.pre() + row)
        inner.give(rnn().name)
    with br.Program() as host:
        x, n = br.data("x", ["m"]), br.data("n", ["n"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(n), net.add_memory(init=br.zeros([x.shape[0]]))
            h.update(br.call(inner, h + row, name="sums"))
        twice = br.call(inner, br.call(inner, x, name="sums"), name="sums")
    given = np.array([1, 2, 3], "f4")
    found = run(
        host, br.Scope(), [rnn.final(h), twice], mode, x=given, n=np.array([1, 1], "f4")
    )
    np.testing.assert_allclose(found[0], np.cumsum(np.cumsum(np.ones(3)) + 1))
    np.testing.assert_allclose(found[1], np.cumsum(np.cumsum(given)))


def test_what_a_called_program_draws_and_moves_goes_on(mode: str) -> None:
    with br.Program() as inner:
        x = br.data("x", ["n", 2])
        count = br.state("count", [])
        inner.update(count, count + 1.0)
        noise = br.random.uniform([x.shape[0], 2])
        inner.give((x + noise + count * 0.0).name)
    with br.Program() as host:
        x = br.data("x", ["rows", 2])
        with br.block("outer"):
            drawn = br.call(inner, x, name="noise")
        again = br.call(inner.for_test(), x, name="other")
    scope, exe = begun(host), br.Executor(mode=mode)
    assert set(host.updates) == {"outer/noise/count", "random_state"}
    zeros = np.zeros((2, 2), "float32")
    first, second = (exe.run(host, scope, {"x": zeros}, [drawn, again]) for _ in range(2))
    assert scope.var("outer/noise/count").value == 2
    assert len({array.tobytes() for array in (*first, *second)}) == 4


def test_rows_of_the_called_program_are_its_own(mode: str) -> None:
    with br.Program() as inner:
        x = br.data("x", ["rows"])
        choice = br.create_if_else(x > 0)
        with choice.true_block() as block:
            block.add_output(br.sqrt(block.add_input(x)))
        choice.pass_through(x)
        inner.give(choice().name)
    with br.Program() as host:
        x = br.data("x", ["rows"])
        choice = br.create_if_else(x < 9)
        with choice.true_block() as block:
            block.add_output(br.call(inner, block.add_input(x), name="root"))
        choice.pass_through(x)
        out = br.call(inner, choice(), name="root")
    (found,) = run(host, br.Scope(), [out], mode, x=np.array([4, -1, 16], "f4"))
    np.testing.assert_allclose(found, [np.sqrt(2), -1, 4], rtol=1e-6)


def test_sizes_that_a_run_or_the_host_tells_are_those_of_each_call(mode: str) -> None:
    with br.Program() as inner:
        x, y = br.data("x", [None]), br.data("y", [None])
        (places,) = br.nonzero(x > 0)
        inner.give(br.take(x, places).name)
        inner.give((x + y).name)
    with br.Program() as host:
        a, b = br.data("a", [None]), br.data("b", ["n"])
        first, both = br.call(inner, a, b, name="inner")
        second, twice = br.call(inner, b, both, name="inner")
        total = br.sum(first) + br.sum(second)
        grads = br.gradients([total], [a, b])
    assert both.type == twice.type == b.type
    assert len({str(first.type), str(second.type)}) == 2
    given = np.array([1, -1, 2], "f4"), np.array([3, 4, -4], "f4")
    found = run(host, br.Scope(), [first, second, *grads], mode, a=given[0], b=given[1])
    for array, wanted in zip(found, ([1, 2], [3, 4], [1, 0, 1], [1, 1, 0]), strict=True):
        np.testing.assert_array_equal(array, np.array(wanted, "f4"))


def test_a_program_that_was_read_from_a_file_is_called_by_a_program_that_is(
    encoder: br.Program,
) -> None:
    with br.Program() as middle:
        with br.block("deep"):
            y = br.call(encoder, br.zeros([2, 4]), name="encoder")
        middle.give(y.name)
    kept = br.Program.from_bytes(middle.to_bytes())
    with br.Program() as host:
        out = br.call(kept, name="middle")
    names = ["middle/deep/encoder/q.w", "middle/deep/encoder/q.b"]
    assert [p.name for p in host.parameters] == list(host.startup.updates) == names
    (found,) = run(host, begun(host), [out], "interpret")
    np.testing.assert_array_equal(found, np.zeros((2, 3), "f4"))


# ---- what is refused -------------------------------------------------------------------------


def test_what_cannot_be_called_is_refused(prog: br.Program, encoder: br.Program) -> None:
    def refuse(error: type[Exception], *given: Any, says: str, **named: Any) -> None:
        refuse_here(prog, error, lambda: br.call(*given, **{"name": "enc", **named}), says)

    refuse(br.ProgramError, "encoder", says="expected a program")
    refuse(br.ProgramError, prog, says="cannot call itself")
    refuse(br.ProgramError, encoder, says="missing value for the feed `x`")
    refuse(br.ProgramError, encoder, 1.0, 2.0, says="takes 1 positional values here, got 2")
    refuse(br.UnknownNameError, encoder, z=1.0, says="no feed `z`")
    refuse(br.UnknownNameError, encoder, 1.0, fetch="yy", says="unknown variable `yy`")
    refuse(br.ProgramError, encoder, 1.0, name="a/b", says="slashes")
    refuse(br.ProgramError, br.Program(), says="has no result")
    refuse_here(prog, br.ShapeError, lambda: br.call(encoder, get("y"), name="e"), "f32[batch]")
    refuse_here(
        prog, br.ShapeError, lambda: br.call(encoder, get("loss"), name="e"), "shape mismatch"
    )
    with prog:
        br.data("k", ["batch", 4], dtype="int64")
    refuse_here(prog, br.DTypeError, lambda: br.call(encoder, get("k"), name="e"), "br.cast")


def get(name: str) -> br.Var:
    return br.get_variable(name)


def test_values_have_a_prefix_or_none_are_set() -> None:
    scope = br.Scope()
    for prefix, values in ((3, {"w": 1.0}), ("net/", {3: 1.0}), ("a\n", {"w": 1.0})):
        with pytest.raises(br.BracesError, match="name"):
            scope.update(values, prefix=prefix)  # pyright: ignore[reportArgumentType]
    assert scope.names() == []


def test_a_parameter_of_another_shape_is_not_shared(
    prog: br.Program, encoder: br.Program
) -> None:
    with prog:
        br.parameter("enc/q.w", [2, 2])
    refuse_here(
        prog,
        br.DuplicateNameError,
        lambda: br.call(encoder, get("x"), name="enc"),
        "f32[2,2] here, f32[4,3]",
    )


def test_what_moves_a_state_is_not_called_twice(prog: br.Program) -> None:
    with br.Program() as inner:
        count = br.state("count", [])
        inner.update(count, count + 1.0)
        inner.give((br.data("x", ["n", 4]) + count).name)
    with prog:
        br.call(inner, get("x"), name="count")
    refuse_here(
        prog, br.ProgramError, lambda: br.call(inner, get("x"), name="count"), "for_test()"
    )
