"""The cost of a run beside XLA's code, in calls, independent of the load of the machine."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np
from jax._src import compiler

import braces as br
from braces.extend.types import TensorType
from tests.support.call_counts import files_of

HERE = Path(__file__)
RUN = inspect.unwrap(br.Executor.run)
"""The method itself: while tests run, it is noted what ran."""


def frames_of(run: Callable[[], Any]) -> list[Path]:
    """Where the functions of Python are that a run calls, once all is made."""
    run(), run(), run()
    found = map(Path, files_of(run))
    return [one for one in found if one != HERE]


def trained(width: int) -> Callable[[], Any]:
    """A step that moves a few parameters."""
    with br.Program() as prog:
        x = br.data("x", ["b", width])
        loss = br.mean(br.square(br.fc(br.fc(x, width, act="tanh"), 1)))
        for parameter, grad in br.append_backward(loss).items():
            prog.update(parameter, parameter - 0.1 * grad)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    value = np.ones((2, width), np.float32)
    return lambda: RUN(exe, prog, scope, feed={"x": value}, fetch=[loss])


def test_a_step_of_training_takes_few_calls_and_none_of_jax() -> None:
    frames = frames_of(trained(4))
    assert len(frames) <= 19
    assert not [one for one in frames if "jax" in one.parts]


def test_a_run_without_state_takes_few_calls() -> None:
    with br.Program() as prog:
        out = br.tanh(br.data("x", [4]))
    exe, scope, value = br.Executor(), br.Scope(), np.ones(4, np.float32)
    frames = frames_of(lambda: RUN(exe, prog, scope, feed={"x": value}, fetch=[out]))
    assert len(frames) <= 17


def test_a_run_of_a_loop_of_which_the_rows_tell_the_trips_takes_few_calls() -> None:
    with br.Program() as prog:
        n, table = br.data("n", [], dtype="int32"), br.data("table", [9])
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            body.set_condition(i < n)
            i.update(i + 1)
            body.add_output(br.take(table, i.pre(1), axis=0))
        out = loop()
    exe, scope = br.Executor(), br.Scope()
    feed = {"n": np.array(3, "int32"), "table": np.arange(9, dtype="float32")}
    frames = frames_of(lambda: RUN(exe, prog, scope, feed=feed, fetch=out))
    assert len(frames) <= 57


def interpreted(trips: int) -> Callable[[], Any]:
    """A loop of so many trips with a row-wise branch, three operators and two constants."""
    with br.Program() as prog:
        given, mask = br.data("x", ["t", "b", 3]), br.data("mask", ["b"], dtype="bool")
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            x = step.add_input(given)
            memory = step.add_memory(init=br.zeros([mask.shape[0], 3]))
            branch = br.create_if_else(mask)
            with branch.true_block() as yes:
                yes.add_output(br.tanh(yes.add_input(x)) * 2.0)
            with branch.false_block() as no:
                no.add_output(no.add_input(x) * 0.5)
            memory.update(memory + branch())
        out = rnn.final(memory)
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    feed = {"x": np.ones((trips, 3, 3), "f4"), "mask": np.array([True, False, True])}
    return lambda: RUN(exe, prog, scope, feed=feed, fetch=[out])


def test_a_trip_that_is_interpreted_takes_few_calls_and_no_more_of_jax_than_sizes() -> None:
    few, many = (Counter(frames_of(interpreted(trips))) for trips in (4, 24))
    more = many - few
    assert more.total() <= 20 * 126
    assert {one.name for one in more if "jax" in one.parts} == {"array.py"}


def test_interpreting_compiles_nothing_after_the_first_run() -> None:
    run, compiled = interpreted(6), list[str]()
    run()
    with mock.patch.object(compiler, "compile_or_get_cached", compiled.append):
        run()
    assert not compiled


def test_what_reads_nothing_is_computed_once_in_an_interpreted_run() -> None:
    computed = list[int]()

    def users_ones(*, size: int) -> br.Tensor:
        computed.append(size)
        return jnp.ones(size, "float32")

    ones = br.op(users_ones)
    ones.infer(lambda context, *, size: TensorType(np.dtype("f4"), (size,)))
    with br.Program() as prog:
        x = br.data("x", ["t", 3])
        out = br.scan(lambda carried, x: (carried + ones(size=3) * x, ()), br.zeros([3]), x)[0]
    exe, feed = br.Executor(mode="interpret"), {"x": np.ones((5, 3), "f4")}
    computed.clear()
    for runs in (1, 2):
        assert exe.run(prog, br.Scope(), feed=feed, fetch=out).tolist() == [5.0] * 3
        assert len(computed) == runs


def test_compiled_runs_take_over_what_an_interpreted_run_made_once() -> None:
    with br.Program() as prog:
        first, second = (br.state(name, [3], init=0.0) for name in ("first", "second"))
        loop, x = br.create_rnn(), br.data("x", ["t", 3])
        with loop.stepnet() as step:
            step.add_input(x)
            new, old = step.add_memory(init=first), step.add_memory(init=second)
            old.update(new)
            new.update(br.full([3], 2.0))
        prog.update("first", loop.final(new).name)
        prog.update("second", loop.final(old).name)
    scope, feed = br.Scope(), {"x": np.ones((4, 3), "f4")}
    br.Executor().init(prog, scope)
    for mode in ("interpret", "compile", "interpret", "compile"):
        br.Executor(mode=mode).run(prog, scope, feed=feed)
        assert [scope.var(n).value.tolist() for n in ("first", "second")] == [[2.0] * 3] * 2
