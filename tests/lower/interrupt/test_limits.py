"""Runs that end from outside: after their time, or by Ctrl-C."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.lower.interrupt.deadline import cancelled_by


def counted(n: br.Var) -> br.Var:
    """Counts from 0 until it meets a number."""
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int64"))
        body.set_condition(i != n)
        i.update(i + 1)
    return loop.final(i)


def counting() -> tuple[br.Program, br.Var]:
    """Counts to `n` and adds 1 to a state each run; -1 has no end."""
    with br.Program() as prog:
        n, runs = br.data("n", [], dtype="int64"), br.state("runs", [], init=0.0)
        out = counted(n)
        prog.update("runs", (runs + 1.0).name)
    return prog, out


def in_an_rnn() -> tuple[br.Program, br.Var]:
    """The same, as the second of the steps of a sequence."""
    with br.Program() as prog:
        n, xs = br.data("n", [], dtype="int64"), br.constant(np.arange(3))
        runs = br.state("runs", [], init=0.0)
        net = br.create_rnn()
        with net.stepnet() as step:
            x = step.add_input(xs)
            loop = br.create_while()
            with loop.block() as body:
                i = body.add_memory(init=x)
                body.set_condition(i != n * x)
                i.update(i + 1)
            step.add_output(loop.final(i))
        out = br.max(net())
        prog.update("runs", (runs + 1.0).name)
    return prog, out


def in_a_while() -> tuple[br.Program, br.Var]:
    """The end is never reached by loops that have ends themselves."""
    with br.Program() as prog:
        n, runs = br.data("n", [], dtype="int64"), br.state("runs", [], init=0.0)
        outer = br.create_while()
        with outer.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int64"))
            body.set_condition(i != n * 10)
            inner = br.create_while()
            with inner.block() as deep:
                j = deep.add_memory(init=i)
                deep.set_condition(j < i + 10)
                j.update(j + 1)
            i.update(inner.final(j))
        out = outer.final(i)
        prog.update("runs", (runs + 1.0).name)
    return prog, out


def in_a_block() -> tuple[br.Program, br.Var]:
    """The same in a plain block, which alone is no reason to ask."""
    with br.Program() as prog:
        n, runs = br.data("n", [], dtype="int64"), br.state("runs", [], init=0.0)
        with br.block("outer"), br.block("inner"):
            out = counted(n)
        prog.update("runs", (runs + 1.0).name)
    return prog, out + 0


ENDLESS = [counting, in_an_rnn, in_a_while, in_a_block]


def started(prog: br.Program, mode: str) -> tuple[br.Executor, br.Scope]:
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(prog, scope)
    return exe, scope


@pytest.mark.parametrize("build", ENDLESS)
def test_a_run_without_end_is_a_run_error_after_its_time(mode: str, build: Any) -> None:
    prog, out = build()
    exe, scope = started(prog, mode)
    want = exe.run(prog, scope, feed={"n": 5}, fetch=out, timeout_s=60.0)
    began = time.monotonic()
    with pytest.raises(br.RunError, match=r"longer than timeout_s=0\.3") as error:
        exe.run(prog, scope, feed={"n": -1}, fetch=out, timeout_s=0.3)
    assert time.monotonic() - began < 5
    assert "test_limits.py" in str(error.value)
    assert scope.var("runs").value == 1.0
    assert exe.run(prog, scope, feed={"n": 5}, fetch=out) == want
    assert scope.var("runs").value == 2.0


SCRIPT = """
import signal, sys
from tests.lower.interrupt import test_limits as here
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
mode, build = sys.argv[1:]
prog, out = getattr(here, build)()
exe, scope = here.started(prog, mode)
want = exe.run(prog, scope, feed={"n": 5}, fetch=out)
print("ready", flush=True)
try:
    exe.run(prog, scope, feed={"n": -1}, fetch=out)
except KeyboardInterrupt:
    assert scope.var("runs").value == 1.0
    assert exe.run(prog, scope, feed={"n": 5}, fetch=out) == want
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("build", ["counting", "in_an_rnn"])
def test_ctrl_c_ends_a_run_without_end(mode: str, build: str) -> None:
    command = [sys.executable, "-c", SCRIPT, mode, build]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[0] == "interrupted\n"
        finally:
            process.kill()
    assert process.returncode == 0


@pytest.mark.parametrize("build", ENDLESS)
def test_a_run_ends_when_another_thread_cancels_it(mode: str, build: Any) -> None:
    prog, out = build()
    exe, scope = started(prog, mode)
    want = exe.run(prog, scope, feed={"n": 5}, fetch=out)
    cancelled = threading.Event()
    threading.Timer(0.3, cancelled.set).start()
    with cancelled_by(cancelled):
        for n in (-1, 5):
            with pytest.raises(br.RunError, match="was cancelled"):
                exe.run(prog, scope, feed={"n": n}, fetch=out)
    assert scope.var("runs").value == 1.0
    assert exe.run(prog, scope, feed={"n": 5}, fetch=out) == want  # it knows nothing of it
    assert scope.var("runs").value == 2.0


def test_a_handler_that_goes_on_does_not_end_a_run() -> None:
    prog, out = counting()
    exe, scope = started(prog, "compile")
    exe.run(prog, scope, feed={"n": 5}, fetch=out)
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    old = signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert exe.run(prog, scope, feed={"n": 10**10}, fetch=out) == 10**10
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, old)
    assert seen == [signal.SIGINT]
    assert scope.var("runs").value == 2.0


@pytest.mark.parametrize("trips", [0, 1, 4095, 4096, 4097, 3 * 4096])
def test_a_loop_may_end_where_it_asks_whether_to_go_on(trips: int) -> None:
    prog, out = counting()
    exe, scope = started(prog, "compile")
    assert exe.run(prog, scope, feed={"n": trips}, fetch=out) == trips


def test_whether_a_loop_goes_on_is_compiled_once() -> None:
    with br.Program() as prog:
        x, loop = br.data("x", []), br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            body.set_condition(br.sin(h) < 0.5)
            h.update(h * 1.5)
        out = loop.final(h)
    exe, scope = br.Executor(), br.Scope()
    exe.run(prog, scope, feed={"x": 0.1}, fetch=out)
    plans = exe._plans.by_program[prog][1].values()
    (made,) = [one for plan in plans for one in plan.executables.values()]
    assert made.loops  # it asks
    assert made.code.as_text().count(" sine(") == 1


def long_sequence() -> tuple[br.Program, br.Var]:
    """Steps enough for minutes, whose number is known."""
    with br.Program() as prog:
        net = br.create_rnn(steps=10**7)
        with net.stepnet() as step:
            h = step.add_memory(init=br.full([64, 64], 0.01))
            for _ in range(8):
                h_next = br.tanh(h @ h)
            h.update(h_next)
        out = br.sum(net.final(h))
    return prog, out


def test_a_long_sequence_is_ended_too(mode: str) -> None:
    prog, out = long_sequence()
    exe, scope = started(prog, mode)
    with pytest.raises(br.RunError, match="timeout_s"):
        exe.run(prog, scope, fetch=out, timeout_s=2.0)


AFTER_JAX = """
import jax.numpy as jnp
(jnp.ones(3) + 1).block_until_ready()  # JAX computes in threads of its own from now on
import braces as br
from tests.lower.interrupt import test_limits as here
prog, out = here.long_sequence()
exe, scope = here.started(prog, "compile")
try:
    exe.run(prog, scope, fetch=out, timeout_s=0.5)
except br.RunError as error:
    print(error)
"""


def test_a_run_is_ended_where_jax_computes_in_another_thread() -> None:
    command = [sys.executable, "-c", AFTER_JAX]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "longer than timeout_s=0.5" in done.stdout


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_a_limit_of_time_changes_no_result(steps: int, reverse: bool, rng: Any) -> None:
    with br.Program() as prog:
        xs, w = br.data("xs", ["t", 3]), br.parameter("w", [3, 3])
        net = br.create_rnn(reverse=reverse)
        with net.stepnet() as step:
            x, h = step.add_input(xs), step.add_memory(init=br.full([3], 0.5))
            h.update(br.tanh(w @ h + x))
            step.add_output(h.pre(1) * x)
        loss = br.sum(net()) + br.sum(net.final(h))
        grads = br.gradients([loss], [xs, w])
    exe, scope = started(prog, "compile")
    feed = {"xs": rng.normal(size=(steps, 3)).astype("float32")}
    want = exe.run(prog, scope, feed=feed, fetch=[loss, *grads])
    found = exe.run(prog, scope, feed=feed, fetch=[loss, *grads], timeout_s=60.0)
    for one, other in zip(want, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("given", [-1.0, float("nan"), "10", True])
def test_a_time_that_is_none_is_refused(mode: str, given: Any) -> None:
    prog, out = counting()
    exe, scope = started(prog, mode)
    with pytest.raises(br.ProgramError, match="timeout_s"):
        exe.run(prog, scope, feed={"n": 5}, fetch=out, timeout_s=given)
    assert scope.var("runs").value == 0.0


def test_memory_that_is_refused_is_a_run_error(mode: str) -> None:
    with br.Program() as prog:
        k, runs = br.data("k", [], dtype="float32"), br.state("runs", [], init=0.0)
        x = br.full([1 << 22, 1 << 22], 1.0) * k
        out = br.sum(br.cumsum(x, axis=0) @ x)
        prog.update("runs", (runs + 1.0).name)
    exe, scope = started(prog, mode)
    with pytest.raises(br.RunError, match="out of memory"):
        exe.run(prog, scope, feed={"k": 1.0}, fetch=out)
    assert scope.var("runs").value == 0.0


def pickled(exe: br.Executor) -> br.Executor:
    return pickle.loads(pickle.dumps(exe))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_of_an_executor_has_its_settings(mode: str, copied: Any) -> None:
    prog, out = counting()
    exe = br.Executor(mode, "cpu:0", max_executables=7)
    scope = br.Scope()
    exe.init(prog, scope)
    again = copied(exe)
    assert (again.mode, again.device_name) == (mode, "cpu:0")
    assert again.run(prog, scope, feed={"n": 3}, fetch=out) == 3


def test_a_model_has_a_limit_of_time_too(mode: str, tmp_path: Path) -> None:
    prog, out = counting()
    _, scope = started(prog, mode)
    br.save_model(tmp_path / "a.model", prog, scope, feeds=["n"], fetches=[out])
    model = br.load_model(tmp_path / "a.model", mode=mode)
    assert model.run(n=5, timeout_s=60.0) == 5
    with pytest.raises(br.RunError, match="timeout_s"):
        model.run(n=-1, timeout_s=0.2)


def test_the_command_ends_after_its_time(tmp_path: Path) -> None:
    prog, out = counting()
    _, scope = started(prog, "compile")
    br.save_model(tmp_path / "a.model", prog, scope, feeds=["n"], fetches=[out])
    command = [
        sys.executable,
        "-m",
        "braces",
        "run",
        str(tmp_path / "a.model"),
        "--feed",
        "n=-1",
    ]
    found = subprocess.run(
        [*command, "--timeout", "3"], capture_output=True, text=True, timeout=100, check=False
    )
    assert found.returncode == 1
    assert "--timeout 3" in found.stderr


FORKED = """
import os
from tests.lower.interrupt import test_limits as here
import braces as br
prog, out = here.counting()
exe, scope = here.started(prog, "compile")
child = os.fork()
if child == 0:
    try:
        exe.run(prog, scope, feed={"n": 3}, fetch=out)
    except br.DeviceError as error:
        os._exit(7 if "spawn" in str(error) else 1)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_is_refused_early() -> None:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.stdout == "7\n", found.stderr
