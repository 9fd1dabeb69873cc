"""Invariants of runs with control flow: histories, transactions, guards, names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import NoMatchError, TripLimitError
from braces.frontend.nn.linear import fc
from tests.control.checking import constant, integer
from tests.support.comparison import near


def powers(n: br.Var, w: br.Var, x: br.Var) -> tuple[br.While, br.Var]:
    """`n` trips of `h = sin(w h)`, which no bound limits."""
    loop = br.create_while()
    with loop.block() as body:
        i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
        body.set_condition(i < n)
        h.update(br.sin(w * h))
        i.update(i + 1)
    return loop, loop.final(h)


def powers_by_hand(n: int, w: float, x: float) -> tuple[float, float]:
    """The same and its derivative with respect to `w`."""
    h, d = x, 0.0
    for _ in range(n):
        h, d = np.sin(w * h), np.cos(w * h) * (h + w * d)
    return float(h), float(d)


def training() -> tuple[br.Program, dict[str, br.Var]]:
    """Gradient descent through a loop whose trips are fed, with a counter of runs."""
    with br.Program() as program:
        n = br.data("n", [], dtype="int32")
        w = br.parameter("w", [], init=np.float64(1.0), dtype="float64")
        runs = br.state("runs", [], dtype="int64", init=0)
        _, end = powers(n, w, constant(0.9))
        (grad,) = br.gradients([end], [w])
        assert grad is not None
        program.update("w", (w - 0.1 * grad).name)
        program.update("runs", (runs + 1).name)
    return program, {"end": end, "grad": grad}


def test_history_that_overflows_commits_updates_once(mode: str) -> None:
    program, fetches = training()
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    w = 1.0
    counts = (3, 1000, 5, 0, 130, 1) if mode == "compile" else (3, 150, 5, 0)
    for run, n in enumerate(counts, 1):
        found = executor.run(program, scope, feed={"n": n}, fetch=fetches)
        end, grad = powers_by_hand(n, w, 0.9)
        near(found["end"], end, 1e-10, "value")
        near(found["grad"], grad, 1e-9, "gradient")
        w -= 0.1 * grad
        near(scope.var("w").value, w, 1e-10, "parameter")
        assert scope.var("runs").value == run


@pytest.mark.unoptimized
def test_second_order_of_a_long_loop_after_a_short_one() -> None:
    with br.Program() as program:
        n, w = br.data("n", [], dtype="int32"), br.data("w", [], dtype="float64")
        _, end = powers(n, w, constant(0.9))
        (first,) = br.gradients([end], [w])
        (second,) = br.gradients([first], [w])
    executor, scope = br.Executor(), br.Scope()
    for count in (2, 300, 4):
        got = executor.run(program, scope, feed={"n": count, "w": 1.1}, fetch=[first, second])
        up, down = (powers_by_hand(count, 1.1 + d, 0.9)[1] for d in (1e-6, -1e-6))
        near(got[0], powers_by_hand(count, 1.1, 0.9)[1], 1e-9, "gradient")
        near(got[1], (up - down) / 2e-6, 1e-5, "second order")


@pytest.mark.unoptimized
def test_nested_histories_that_overflow_give_right_results() -> None:
    with br.Program() as program:
        n, w = br.data("n", [], dtype="int32"), br.data("w", [], dtype="float64")
        outer = br.create_while()
        with outer.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=constant(0.9))
            body.set_condition(i < n)
            _, end = powers(i, w, h)
            h.update(end + 0.1)
            i.update(i + 1)
        (grad,) = br.gradients([outer.final(h)], [w])

    def by_hand(count: int) -> tuple[float, float]:
        h, d = 0.9, 0.0
        for i in range(count):
            for _ in range(i):
                h, d = np.sin(1.1 * h), np.cos(1.1 * h) * (h + 1.1 * d)
            h += 0.1
        return h, d

    executor, scope = br.Executor(), br.Scope()
    for count in (4, 30, 100, 2):
        value, grad_found = executor.run(
            program, scope, feed={"n": count, "w": 1.1}, fetch=[outer.final(h), grad]
        )
        near(value, by_hand(count)[0], 1e-10, "value")
        near(grad_found, by_hand(count)[1], 1e-9, "gradient")


def test_guard_raises_and_leaves_the_scope_as_it_was(mode: str) -> None:
    with br.Program() as program:
        n = br.data("n", [], dtype="int32")
        w = br.parameter("w", [], init=np.float64(1.0), dtype="float64")
        loop = br.create_while(max_trips=4)
        with loop.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=w)
            body.set_condition(i < n)
            h.update(h * 2.0)
            i.update(i + 1)
        program.update("w", loop.final(h).name)
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    executor.run(program, scope, feed={"n": 4})
    assert scope.var("w").value == 16.0
    for n_trips in (5, 100):
        with pytest.raises(TripLimitError, match="max_trips = 4"):
            executor.run(program, scope, feed={"n": n_trips})
        assert scope.var("w").value == 16.0
    executor.run(program, scope, feed={"n": 1})
    assert scope.var("w").value == 32.0


def test_guard_holds_in_gradients_and_inner_loops(mode: str) -> None:
    with br.Program() as program:
        n, x = br.data("n", [], dtype="int32"), br.data("x", [], dtype="float64")
        rnn = br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            loop = br.create_while(max_trips=5)
            with loop.block() as body:
                i, k = body.add_memory(init=integer(0)), body.add_memory(init=h)
                body.set_condition(i < n)
                k.update(k * k)
                i.update(i + 1)
            h.update(loop.final(k) * 0.5)
        (grad,) = br.gradients([rnn.final(h)], [x])
    executor, scope = br.Executor(mode=mode), br.Scope()
    with pytest.raises(TripLimitError):
        executor.run(program, scope, feed={"n": 6, "x": 0.5}, fetch=[grad])
    (found,) = executor.run(program, scope, feed={"n": 1, "x": 0.5}, fetch=[grad])
    near(found, 8 * 0.5**7 * 0.5**7, 1e-12, "gradient")


def test_switch_without_a_match_is_an_error_of_the_run(mode: str) -> None:
    with br.Program() as program:
        k, x = br.data("k", [], dtype="int32"), br.data("x", [], dtype="float64")
        w = br.state("w", [], init=0, dtype="float64")
        chooser = br.create_switch(k)
        with chooser.case(0) as a:
            a.add_output(x * x)
        with chooser.case(2) as b:
            b.add_output(br.sin(x))
        y = chooser()
        (grad,) = br.gradients([y], [x])
        program.update("w", (w + y).name)
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    assert executor.run(program, scope, feed={"k": 0, "x": 3.0}, fetch=grad) == 6.0
    for wrong in (1, 3, -1):
        with pytest.raises(NoMatchError) as error:
            executor.run(program, scope, feed={"k": wrong, "x": 3.0}, fetch=grad)
        assert error.value.given == str(wrong)
        assert "default" in str(error.value.fix)
        assert "test_running.py" in str(error.value.at)
        assert scope.var("w").value == 9.0
    assert executor.run(program, scope, feed={"k": 2, "x": 0.0}, fetch=grad) == 1.0


def test_switch_without_a_match_where_it_does_not_run_is_no_error(mode: str) -> None:
    with br.Program() as program:
        k, x = br.data("k", [], dtype="int32"), br.data("x", [], dtype="float64")
        choice = br.create_if_else(k < 2)
        with choice.true_block() as t:
            chooser = br.create_switch(k)
            with chooser.case(1) as a:
                a.add_output(x * x)
            t.add_output(chooser())
        with choice.false_block() as f:
            f.add_output(x)
        y = choice()
    executor, scope = br.Executor(mode=mode), br.Scope()
    assert executor.run(program, scope, feed={"k": 5, "x": 3.0}, fetch=y) == 3.0
    assert executor.run(program, scope, feed={"k": 1, "x": 3.0}, fetch=y) == 9.0
    with pytest.raises(NoMatchError):
        executor.run(program, scope, feed={"k": 0, "x": 3.0}, fetch=y)


# ---- rows whose number only the run knows ----------------------------------------------------


def test_rows_of_a_while_change_in_number_from_run_to_run(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", [3], dtype="float64"), br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
            body.set_condition(i < n)
            h.update(h * x)
            i.update(i + 1)
            body.add_output(h.pre(1) * x, i.pre(1))
        rows, numbers = loop()
        (grad,) = br.gradients([br.sum(rows * rows)], [x])
    executor, scope, value = br.Executor(mode=mode), br.Scope(), np.array([0.5, 0.9, 1.1])
    for count in (0, 1, 3, 5, 3, 70):
        found = executor.run(
            program, scope, feed={"x": value, "n": count}, fetch=[rows, numbers, grad]
        )
        wanted = np.array([value ** (k + 2) for k in range(count)]).reshape(count, 3)
        slope = [(2 * k + 4) * value ** (2 * k + 3) for k in range(count)]
        assert found[0].shape == (count, 3)
        near(found[0], wanted, 1e-12, "rows")
        np.testing.assert_array_equal(found[1], np.arange(count, dtype=np.int32))
        near(found[2], np.sum(slope, axis=0) if count else np.zeros(3), 1e-12, "gradient")


def test_rows_that_a_case_collects_have_no_slope_where_another_case_runs(mode: str) -> None:
    with br.Program() as program:
        x, k = br.data("x", [], dtype="float64"), br.data("k", [], dtype="int32")
        choice = br.create_if_else(k > 0)
        with choice.true_block() as t:
            loop = br.create_while()
            with loop.block() as body:
                i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
                body.set_condition(i < k)
                h.update(h * x)
                i.update(i + 1)
                body.add_output(h.pre(1))
            t.add_output(br.sum(loop() ** 2))
        with choice.false_block() as f:
            f.add_output(x**3)
        y = choice()
        (grad,) = br.gradients([y], [x])
        (second,) = br.gradients([grad], [x])
    executor, scope = br.Executor(mode=mode), br.Scope()
    for count, wanted in [(0, (8, 12, 12)), (2, (20, 36, 50)), (0, (8, 12, 12))]:
        found = executor.run(
            program, scope, feed={"x": 2.0, "k": count}, fetch=[y, grad, second]
        )
        near(np.array(found), np.array(wanted, "float64"), 1e-12, f"after {count} trips")


# ---- branches not taken ----------------------------------------------------------------------


def test_no_infinity_of_the_branch_not_taken_reaches_a_gradient(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [], dtype="float64")
        choice = br.create_if_else(x > 0.0)
        with choice.true_block() as t:
            t.add_output(br.sqrt(t.add_input(x)) + br.log(x) + 1.0 / x)
        with choice.false_block() as f:
            f.add_output(f.add_input(x) * 0.0)
        y = choice()
        (grad,) = br.gradients([y], [x])
        (second,) = br.gradients([grad], [x])
    executor = br.Executor(mode=mode)
    for value in (0.0, -1.0, 4.0):
        found = executor.run(program, br.Scope(), feed={"x": value}, fetch=[y, grad, second])
        assert np.all(np.isfinite(found))
        if value <= 0:
            assert found == [0.0, 0.0, 0.0]


def test_no_infinity_of_rows_not_taken_reaches_a_gradient(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"], dtype="float64")
        choice = br.create_if_else(x > 0.0)
        with choice.true_block() as t:
            r = t.add_input(x)
            t.add_output(br.sqrt(r) + br.log(r) + 1.0 / r + br.sum(1.0 / r))
        with choice.false_block() as f:
            f.add_output(f.add_input(x) * 0.0)
        y = choice()
        (grad,) = br.gradients([y], [x])
        (second,) = br.gradients([grad], [x])
    executor = br.Executor(mode=mode)
    for value in ([4.0, 0.0, -1.0], [0.0, 0.0, 0.0], [1.0, 4.0, 9.0], [-1.0, 2.0, 0.0], []):
        feed = {"x": np.array(value)}
        found = executor.run(program, br.Scope(), feed=feed, fetch=[y, grad, second])
        off = feed["x"] <= 0
        for array in found:
            assert np.all(np.isfinite(array))
            assert np.all(array[off] == 0.0)


# ---- structure -------------------------------------------------------------------------------


def test_unreachable_inputs_have_no_gradient() -> None:
    with br.Program():
        x, w, u = (br.data(n, [3], dtype="float64") for n in "xwu")
        loop = br.create_while()
        with loop.block() as body:
            h, other = body.add_memory(init=x), body.add_memory(init=u)
            body.set_condition(br.sum(h * w) < 3.0)
            h.update(h * 2.0 + br.stop_gradient(w))
            other.update(other * w)
        grads = br.gradients([br.sum(loop.final(h))], [x, w, u])
    assert grads[0] is not None
    assert grads[1:] == [None, None]


def test_a_loop_or_branch_that_did_not_run_gives_zeros(mode: str) -> None:
    with br.Program() as program:
        x, w = (br.data(n, [3], dtype="float64") for n in "xw")
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            body.set_condition(br.sum(h) < 0.0)
            h.update(h * w)
        choice = br.create_if_else(br.sum(x) < 0.0)
        with choice.true_block() as t:
            t.add_output(x * w)
        with choice.false_block() as f:
            f.add_output(x)
        grads = br.gradients([br.sum(loop.final(h) * choice())], [x, w])
    feed = {"x": np.array([1.0, 2.0, 3.0]), "w": np.ones(3)}
    found = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=grads)
    np.testing.assert_array_equal(found[0], [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(found[1], np.zeros(3))


def test_parameters_made_in_inner_blocks_are_shared_and_trained(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            choice = br.create_if_else(br.sum(h) > 0.0)
            with choice.true_block() as t:
                t.add_output(fc(h, 3, name="inner", act="tanh"))
            with choice.false_block() as f:
                f.add_output(fc(h, params=["inner.w", "inner.b"]) * 0.5)
            h.update(choice())
        loss = br.mean(rnn.final(h) ** 2)
        pairs = br.append_backward(loss)
        assert {p.name for p in pairs} == {"inner.w", "inner.b"}
        for parameter, grad in pairs.items():
            program.update(parameter.name, (parameter - 0.5 * grad).name)
    assert {info.name for info in program.parameters} == {"inner.w", "inner.b"}
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope, seed=3)
    feed = {"x": np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(4, 3) + 0.2}
    losses = [float(executor.run(program, scope, feed=feed, fetch=loss)) for _ in range(8)]
    assert losses[-1] < 0.7 * losses[0]


# ---- looking inside --------------------------------------------------------------------------


def watched() -> tuple[br.Program, dict[str, Any]]:
    """A loop in an rnn with its gradient."""
    with br.Program() as program:
        x = br.data("x", [3], dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(x), net.add_memory(init=constant(0.5))
            loop = br.create_while()
            with loop.block() as body:
                i, k = body.add_memory(init=integer(0)), body.add_memory(init=h)
                body.set_condition(i < 2)
                product = k * row
                k.update(product)
                i.update(i + 1)
            end = loop.final(k)
            h.update(end)
        names = {"product": product.name, "h": h.name, "end": end.name, "k": k.name}
        (grad,) = br.gradients([rnn.final(h)], [x])
        (forward, _), (inner,) = (
            [op.name for op in ops if op.type == "loop"]
            for ops in (program.block(0).ops, program.block(1).ops)
        )
        names |= {"outer": forward, "inner": inner}
    return program, {"grad": grad, **names}


def test_every_value_of_every_step_and_trip_is_found_by_name() -> None:
    program, names = watched()
    executor, scope = br.Executor(mode="interpret"), br.Scope()
    feed = {"x": np.array([2.0, 3.0, 4.0])}
    executor.run(program, scope, feed=feed, fetch=names["grad"], keep_scopes=True)
    h = 0.5
    for step, x in enumerate(feed["x"]):
        inside = executor.step_scopes[f"{names['outer']}/body[{step}]"]
        assert float(inside.find_local_var(names["h"]).value) == h
        for trip in range(2):
            path = f"{names['outer']}/body[{step}]/{names['inner']}/body[{trip}]"
            trips = executor.step_scopes[path]
            assert float(trips.find_local_var(names["k"]).value) == h
            h *= x
            assert float(trips.find_local_var(names["product"]).value) == h
            assert trips.parent is inside
            assert float(trips.find_var("x").value[step]) == x
        assert float(inside.find_local_var(names["end"]).value) == h


def test_every_value_of_the_gradient_loops_is_found_by_name() -> None:
    program, names = watched()
    executor, scope = br.Executor(mode="interpret"), br.Scope()
    feed = {"x": np.array([2.0, 3.0, 4.0])}
    executor.run(program, scope, feed=feed, fetch=names["grad"], keep_scopes=True)
    (backward,) = [op for op in program.block(0).ops if op.type == "loop" and "grad" in op.name]
    for run in range(3):
        inside = executor.step_scopes[f"{backward.name}/body[{run}]"]
        assert any("grad" in name for name in inside.names())
        (inner,) = [op for op in backward.attrs["body"].ops if op.type == "loop"]
        for trip in range(2):
            path = f"{backward.name}/body[{run}]/{inner.name}/body[{trip}]"
            names_inside = executor.step_scopes[path].names()
            assert any("grad" in name for name in names_inside)
            bound = {n for op in inner.attrs["body"].ops for n in op.binds()}
            assert bound <= set(names_inside)


def test_listeners_see_each_operator_run() -> None:
    program, names = watched()
    seen: list[tuple[str, str, str]] = []

    def listen(path: str, op: Any, values: Any) -> None:
        assert set(values) == set(op.binds())
        seen.append((path, op.type, op.name))

    executor = br.Executor(mode="interpret")
    feed = {"x": np.array([2.0, 3.0, 4.0])}
    executor.run(program, br.Scope(), feed=feed, fetch=names["grad"], listeners=[listen])
    loops = [entry for entry in seen if entry[1] == "loop"]
    assert len(loops) == 2 * (1 + 3)
    products = [p for p, type_, _ in seen if type_ == "multiply" and "grad" not in p]
    assert len(products) == 6
    assert len(set(products)) == 6


def test_one_executor_runs_many_programs_that_come_and_go(mode: str) -> None:
    executor = br.Executor(mode=mode)
    for number in range(30):
        with br.Program() as program:
            x = br.data("x", [], dtype="float64")
            y = x * float(number)
        assert executor.run(program, br.Scope(), feed={"x": 2.0}, fetch=y) == 2.0 * number
        del program, x, y


@pytest.mark.unoptimized
@pytest.mark.parametrize("rows", [False, True])
def test_while_in_branches_to_fourth_order(mode: str, rows: bool) -> None:
    def power(x: br.Var, n: br.Var) -> br.Var:
        choice = br.create_if_else(n > 0)
        with choice.true_block() as t:
            loop = br.create_while()
            with loop.block() as body:
                i, h = body.add_memory(init=integer(0)), body.add_memory(init=x)
                body.set_condition(i < n)
                h.update(h * x)
                i.update(i + 1)
            t.add_output(loop.final(h))
        with choice.false_block() as f:
            f.add_output(x)
        return choice()

    with br.Program() as program:
        x, n = br.data("x", ["b"], dtype="float64"), br.data("n", [], dtype="int32")
        if rows:
            outer = br.create_if_else(x > 0.0)
            with outer.true_block() as yes:
                yes.add_output(power(yes.add_input(x), n))
            with outer.false_block() as no:
                no.add_output(no.add_input(x) * 0.0)
        fetches = [outer() if rows else power(x, n)]
        for _ in range(4):
            (grad,) = br.gradients([br.sum(fetches[-1])], [x])
            fetches.append(grad)
    executor, value = br.Executor(mode=mode), np.array([0.5, 1.5])
    for count in (4, 0, 1):
        found = executor.run(program, br.Scope(), feed={"x": value, "n": count}, fetch=fetches)
        wanted = np.polynomial.Polynomial([0.0] * (count + 1) + [1.0])
        for array in found:
            near(array, wanted(value), 1e-12, "derivative")
            wanted = wanted.deriv()
