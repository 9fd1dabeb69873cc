"""Training with two programs by turns, accumulation, mixed precision, layouts and jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import BATCH, arrays, bits, data, net, shared_executor

ROOT = Path(__file__).parents[2]


def player(mine: str, other: str) -> br.Program:
    """A program that moves one of two parameters."""
    with br.Program() as program:
        a, b = br.parameter(mine, [], init=1.0), br.parameter(other, [], init=1.0)
        pull = br.data("pull", ["n"])
        loss = br.mean(pull) * a * b + a * a
        br.optimizer.momentum(0.1, momentum=0.9).minimize(loss, [a])
    return program


PULLS: list[Any] = [{"pull": np.full(3, 0.1 * i, np.float32)} for i in range(8)]


def by_hand(rounds: int) -> str:
    """Play some rounds with `exe.run` alone."""
    first, second, exe = player("a", "b"), player("b", "a"), br.Executor()
    scope = exe.init(second, exe.init(first), missing_only=True)
    for pull in (PULLS * 2)[:rounds]:
        exe.run(first, scope, pull)
        exe.run(second, scope, pull)
    return bits(scope)


def test_two_trainings_over_one_scope_take_turns() -> None:
    one = br.training(player("a", "b"), PULLS, epochs=2)
    two = br.training(player("b", "a"), PULLS, epochs=2, scope=one.scope, exe=one.exe)
    for left, right in zip(one, two, strict=True):
        assert left.number == right.number
    assert bits(one.scope) == by_hand(16)


def test_a_second_program_in_the_body_resumes_with_the_same_bits(tmp_path: Path) -> None:
    first, second = player("a", "b"), player("b", "a")
    for stop in (3, 8, 11, 0):
        scope = br.Executor().init(second)
        steps = br.training(first, PULLS, epochs=2, folder=tmp_path, scope=scope)
        for step in steps:
            steps.exe.run(second, steps.scope, PULLS[step.in_epoch - 1])
            if step.number == stop:
                break
    assert bits(steps.scope) == by_hand(16)


def test_accumulation_resumes_between_its_updates(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n", 1])
        loss = br.mean(br.squared_error(br.fc(x, 1, name="fc"), y))
        br.optimizer.multi_steps(br.optimizer.adam(0.1), every=4).minimize(loss)
    exe = br.Executor()
    whole = br.fit(prog, data(), epochs=2, exe=exe, quiet=True)
    for steps in (2, 3):  # neither is a multiple of 4
        walk = iter(br.training(prog, data(), epochs=2, folder=tmp_path, exe=exe))
        for _ in range(steps):
            next(walk)
        walk.close()
    run = br.fit(prog, data(), epochs=2, folder=tmp_path, exe=exe, quiet=True)
    assert bits(run.scope) == bits(whole.scope)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_mixed_precision_trains_through_the_executor(mode: str) -> None:
    prog, _ = net()
    half = br.passes.mixed_precision("bfloat16")
    exe = br.Executor(mode=mode, passes=(*br.passes.default, half))
    run = br.fit(prog, data(), epochs=8, exe=exe, quiet=True)
    plain = br.fit(prog, data(), epochs=8, exe=shared_executor(mode), quiet=True)
    assert run.history["loss"][-1] < run.history["loss"][0]
    assert run.history["loss"] != plain.history["loss"]
    assert run.history["loss"] == pytest.approx(plain.history["loss"], rel=0.1)


def test_a_layout_trains_and_resumes_on_its_devices(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n", 1])
        loss = br.mean(br.squared_error(br.fc(br.fc(x, 8, name="a"), 1, name="b"), y))
        br.optimizer.adam(0.1).minimize(loss)
    layout = br.Layout(br.Mesh({"data": 2}), dims={"n": "data"})
    batches = br.batches(arrays(24), BATCH)
    plain = br.fit(prog, batches, epochs=2, quiet=True)
    whole = br.fit(prog, batches, epochs=2, exe=br.Executor(layout=layout), quiet=True)
    for epochs in (1, 2):
        exe = br.Executor(layout=layout)
        run = br.fit(prog, batches, epochs=epochs, exe=exe, folder=tmp_path, quiet=True)
    assert run.resumed == 6
    assert bits(run.scope) == bits(whole.scope)
    assert whole.history["loss"] == pytest.approx(plain.history["loss"], rel=1e-5)


JOB = """
import sys
import braces as br
br.cluster.start()
from tests.fitting.nets import arrays, bits
with br.Program() as prog:
    x, y = br.data("x", ["n", 4]), br.data("y", ["n", 1])
    loss = br.mean(br.squared_error(br.fc(br.fc(x, 8, name="a"), 1, name="b"), y))
    br.optimizer.adam(0.1).minimize(loss)
exe = br.Executor(layout=br.Layout(br.Mesh({"data": 2}), dims={"n": "data"}))
import jax
mine = {name: array[jax.process_index()::2] for name, array in arrays(24).items()}
batches = br.batches(mine, 2, shuffle=False)
for epochs in (1, 2):
    run = br.fit(prog, batches, epochs=epochs, exe=exe, folder=sys.argv[1], quiet=True)
with open(f"{sys.argv[1]}.{jax.process_index()}", "w") as file:
    print(run.resumed, *run.history["loss"], file=file)
"""


def test_the_processes_of_a_job_train_and_resume_together(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    command = [sys.executable, "-m", "braces", "launch", "-n", "2", str(script)]
    command.append(str(tmp_path / "job"))
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=_environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = ((tmp_path / f"job.{i}").read_text() for i in range(2))
    assert first == second
    assert first.startswith("6 ")


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": path}
