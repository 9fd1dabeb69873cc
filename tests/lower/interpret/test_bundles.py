"""Bundles of operators that run often: equal results in less time."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.target import CPU
from tests.runtime.profiling.profiled import nested
from tests.support.hot_traces import check_same_bits, hot_after

TRIPS, HOT = 12, 5


def looking_up() -> tuple[br.Program, br.Var]:
    """A loop that looks up a row a trip, and an update that counts runs."""
    with br.Program() as prog:
        table, places = br.data("table", [None, 3]), br.data("places", ["t"], dtype="int32")
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            place = step.add_input(places)
            memory = step.add_memory(init=br.zeros([3]))
            row = br.tanh(br.take(table, place * 2, axis=0, name="row") * 0.5)
            memory.update(memory * 0.9 + row)
            step.add_output(memory.pre(1) - row)
        runs = br.state("runs", [], init=0.0)
        prog.update("runs", (runs + 1.0).name)
        return prog, br.sum(rnn()) + br.sum(rnn.final(memory))


def feeds(rows: int = 40, wrong: Mapping[int, int] = {}) -> dict[str, Any]:
    """Places to look up, all of them there but for those that are given."""
    rng = np.random.default_rng(3)
    places = rng.integers(0, rows // 2, TRIPS).astype("int32")
    for trip, place in wrong.items():
        places[trip] = place
    return {"table": rng.normal(size=(rows, 3)).astype("f4"), "places": places}


def started(prog: br.Program) -> tuple[br.Executor, br.Scope]:
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(prog, scope)
    return exe, scope


def test_hot_operators_are_dispatched_together_and_cold_ones_are_not() -> None:
    prog, loss = looking_up()
    exe, scope = started(prog)
    with hot_after(HOT) as together:
        first = exe.run(prog, scope, feed=feeds(), fetch=loss)
        assert len(together) == TRIPS - HOT - 1
        assert exe.run(prog, scope, feed=feeds(), fetch=loss).tobytes() == first.tobytes()
        assert len(together) == 2 * TRIPS - HOT - 1
    assert float(scope.var("runs").value) == 2.0


def test_other_sizes_become_hot_by_themselves_and_large_arrays_never() -> None:
    prog, loss = looking_up()
    exe, scope = started(prog)
    with hot_after(TRIPS) as together:
        for rows, expected in ((40, 0), (50, 0), (40, TRIPS - 1), (40, TRIPS), (50, TRIPS - 1)):
            together.clear()
            exe.run(prog, scope, feed=feeds(rows), fetch=loss)
            assert len(together) == expected
    large = CPU.small // 3 + 2
    assert check_same_bits(prog, feeds(large), {"loss": loss})


@pytest.mark.parametrize("trip", [0, HOT + 2, TRIPS - 1])
def test_a_check_that_fails_among_others_tells_what_it_tells_alone(trip: int) -> None:
    prog, loss = looking_up()
    said = list[str]()
    for runs in (0, HOT):
        exe, scope = started(prog)
        with hot_after(runs):
            exe.run(prog, scope, feed=feeds(), fetch=loss)
            with pytest.raises(br.BracesError) as error:
                exe.run(prog, scope, feed=feeds(wrong={trip: 77}), fetch=loss)
        said.append(str(error.value))
        assert float(scope.var("runs").value) == 1.0
    assert said[0] == said[1]
    assert "154" in said[0]
    assert f"[{trip}]" in said[0]
    assert "test_bundles.py" in said[0]


def branching() -> tuple[br.Program, br.Var]:
    """Rows that look something up, others that do not, and a count of the rows."""
    with br.Program() as prog:
        table, places = br.data("table", [6, 3]), br.data("places", ["b"], dtype="int32")
        x = br.data("x", ["b", 3])
        choice = br.create_if_else(places >= 0)
        with choice.true_block() as some:
            own, place = some.add_input(x), some.add_input(places)
            some.add_output(br.tanh(own + br.take(table, place, axis=0)) * 0.3, own)
        with choice.false_block() as none:
            own = none.add_input(x)
            none.add_output(own * 0.1 - 1.0, own)
        first, second = choice()
        (grad,) = br.gradients([br.sum(br.square(first))], [table])
        return prog, br.sum(first * second) + br.sum(grad)


def rows_looking_up(*places: int) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    table, x = rng.normal(size=(6, 3)), rng.normal(size=(len(places), 3))
    return {
        "table": table.astype("f4"),
        "x": x.astype("f4"),
        "places": np.array(places, "int32"),
    }


@pytest.mark.parametrize("places", [(1, -1, 4, -1), (-1, -1), (3, 0, 0), (5,), (-1, 2, 2)])
def test_a_hot_case_takes_its_rows_runs_and_puts_them_back_at_once(
    places: tuple[int, ...],
) -> None:
    prog, out = branching()
    feed = rows_looking_up(*places)
    check_same_bits(prog, feed, {"out": out})
    exe, scope = started(prog)
    with hot_after(1) as together:
        for _ in range(4):
            exe.run(prog, scope, feed=feed, fetch=out)
    mixed = min(places) < 0 <= max(places)
    assert ("between" in together) == mixed


def test_a_check_that_fails_in_a_hot_case_tells_what_it_tells_alone() -> None:
    prog, out = branching()
    said = list[str]()
    for runs in (0, 1):
        exe, scope = started(prog)
        with hot_after(runs) as together:
            for _ in range(4):
                exe.run(prog, scope, feed=rows_looking_up(1, -1, 2), fetch=out)
            with pytest.raises(br.BracesError) as error:
                exe.run(prog, scope, feed=rows_looking_up(1, -1, 9), fetch=out)
            assert ("between" in together) == bool(runs)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "9" in said[0]
    assert "/cases[1]`" in said[0]


def test_listeners_and_kept_scopes_see_every_operator_also_where_it_is_hot() -> None:
    prog, loss = looking_up()
    exe, scope = started(prog)
    seen = list[tuple[str, str]]()
    with hot_after(1) as together:
        exe.run(prog, scope, feed=feeds(), fetch=loss)
        together.clear()
        listener = [lambda path, op, bound: seen.append((path, op.name))]
        exe.run(prog, scope, feed=feeds(), fetch=loss, listeners=listener)
        exe.run(prog, scope, feed=feeds(), fetch=loss, keep_scopes=True)
        assert not together
    names = {name for path, name in seen if path.endswith("[3]")}
    assert len([one for one in seen if one[0].endswith("[3]")]) == len(names) >= 6
    (path,) = (path for path in exe.step_scopes if path.endswith("[3]"))
    assert exe.step_scopes[path].find_var("row") is not None


def test_a_profile_of_hot_operators_has_each_of_them() -> None:
    prog, loss, feed = nested()
    exe, scope = started(prog)
    cold = exe.profile(prog, scope, feed, fetch=loss, runs=1)
    with hot_after(1) as together:
        hot = started(prog)[0].profile(prog, scope, feed, fetch=loss, runs=1)
        assert together  # by the runs before those that are measured
    calls = [{row.paths: row.calls for row in one.rows()} for one in (hot, cold)]
    assert calls[0] == calls[1]


def test_a_nan_among_hot_operators_is_told_of_the_one_that_made_it() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        out = br.sqrt(br.log(x + 1.0, name="risky") * 2.0)
    exe, scope = started(prog)
    with hot_after(1) as together:
        for _ in range(3):
            exe.run(prog, scope, feed={"x": np.ones(3, "f4")}, fetch=out)
        assert together
        with pytest.raises(br.NaNError, match="`risky`"):
            exe.run(prog, scope, feed={"x": np.full(3, -2.0, "f4")}, fetch=out, check_nan=True)


def endless() -> tuple[br.Program, br.Var]:
    with br.Program() as prog:
        loop = br.create_while()
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0.0))
            body.set_condition(count * 0.0 < 1.0)
            count.update(count + 1.0 * 2.0)
        return prog, loop.final(count)


def test_a_hot_loop_ends_when_its_time_is_over() -> None:
    prog, out = endless()
    exe, scope = started(prog)
    with hot_after(1) as together, pytest.raises(br.RunError, match=r"timeout_s=0\.5") as error:
        exe.run(prog, scope, fetch=out, timeout_s=0.5)
    assert together
    assert "loop_0" in str(error.value)


def test_what_a_handler_of_a_signal_raises_ends_a_hot_loop() -> None:
    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    prog, out = endless()
    exe, scope = started(prog)
    before = signal.signal(signal.SIGALRM, enough)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with hot_after(1) as together, pytest.raises(Enough):
            exe.run(prog, scope, fetch=out)
        assert together
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_prints_does_so_once_a_run_where_it_stands() -> None:
    printed = list[float]()

    def note(value: Any) -> None:
        printed.append(float(value))

    def users_print(x: br.Tensor) -> br.Tensor:
        jax.debug.callback(note, x, ordered=True)
        return x + 1.0

    shown = br.op(axes="... -> ...")(users_print)
    with br.Program() as prog:
        out = shown(br.data("x", []) * 2.0) * 3.0
    exe, scope = started(prog)
    with hot_after(1) as together:
        for run in range(4):
            assert exe.run(prog, scope, feed={"x": float(run)}, fetch=out) == 6.0 * run + 3.0
            jax.effects_barrier()
        assert not together
    assert printed == [0.0, 2.0, 4.0, 6.0]


def test_operators_that_xla_would_compile_as_one_keep_their_own_bits() -> None:
    def users_polynomial(x: br.Tensor) -> br.Tensor:
        return (x * 0.3 + 0.7) * x + jnp.exp(x) * 0.1

    polynomial = br.op(axes="... -> ...")(users_polynomial)
    with br.Program() as prog:
        single, double = br.data("single", ["n"]), br.data("double", ["n"], dtype="float64")
        for _ in range(6):
            single, double = polynomial(single) * 0.4, polynomial(double) * 0.4
        fetch = {"single": single, "double": double, "both": single * 3.0 + single}
    values = np.random.default_rng(0).normal(size=50)
    assert check_same_bits(prog, {"single": values.astype("f4"), "double": values}, fetch)
