"""The device of a run."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import braces as br
from braces.runtime.devices import device


def test_the_error_of_an_unknown_device_lists_the_devices() -> None:
    with pytest.raises(br.DeviceError, match="cpu:0"):
        br.Executor(device="tpu:7")


def test_devices_of_all_platforms_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"gpu": [Mock(platform="gpu", id=0)], "cpu": [Mock(platform="cpu", id=0)]}
    monkeypatch.setattr(device.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(device.backends, "backends", lambda: {"cpu": None, "gpu": None})
    monkeypatch.setattr(device.jax, "devices", lambda platform: there[platform])
    with pytest.raises(br.DeviceError, match="Use one of gpu:0, cpu:0"):
        device.open_device("gpu:1")


def test_a_device_is_where_values_are(mode: str) -> None:
    with br.Program() as program:
        br.parameter("w", [2])
    scope = br.Scope()
    br.Executor(mode, device="cpu:3").init(program, scope)
    (device,) = scope.var("w").raw.devices()
    assert device == jax.devices("cpu")[3]


WHERE = """
import sys
import jax
import braces as br
_, mode, device = sys.argv
with br.Program() as prog:
    x = br.data("x", [])
executor = br.Executor(mode=mode, device=device or None)
assert executor.run(prog, br.Scope(), feed={"x": 1.0}, fetch=x) == 1.0
print(jax.config.read("jax_cpu_enable_async_dispatch"))
"""


@pytest.mark.parametrize("device", ["", "cpu:0"])
def test_only_a_compiled_run_lets_a_cpu_compute_in_the_calling_thread(
    mode: str, device: str
) -> None:
    command = [sys.executable, "-c", WHERE, mode, device]
    found = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert found.stdout.split() == [str(mode == "interpret")], found.stderr


def test_other_threads_go_on_while_a_run_computes() -> None:
    with br.Program() as prog:
        n = br.data("n", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            x = body.add_memory(init=br.constant(0.5))
            body.set_condition(i < n)
            i.update(i + 1)
            x.update(br.sin(x))
        out = loop.final(x)
    exe, scope = br.Executor(), br.Scope()

    def run(trips: int) -> object:
        return exe.run(prog, scope, feed={"n": np.int32(trips)}, fetch=out)

    run(1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, 3_000_000)
        turns = 0
        while not running.done():
            turns += 1
    assert turns > 1000


def test_a_value_that_was_set_is_handed_to_jax_once() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2])
        out = w * 2.0
    exe, scope, given = br.Executor(), br.Scope(), np.ones(2, "f4")
    scope.var("w").set(given)
    assert exe.run(prog, scope, fetch=out).tolist() == [2.0, 2.0]
    held = scope.var("w").raw
    assert isinstance(held, jax.Array)
    given[:] = 7.0
    assert exe.run(prog, scope, fetch=out).tolist() == [2.0, 2.0]
    assert scope.var("w").raw is held
    scope.var("w").set(np.zeros(2, "f4"))
    assert exe.run(prog, scope, fetch=out).tolist() == [0.0, 0.0]
    scope.var("w").set(np.ones(2, "f8"))
    with pytest.raises(br.ShapeError, match="expected float32, got"):
        exe.run(prog, scope, fetch=out)
    assert scope.var("w").dtype == np.float64
