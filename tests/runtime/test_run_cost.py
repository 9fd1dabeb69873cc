"""What a run costs beside what XLA computes, told in calls: a machine's load changes none."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import braces as br

HERE = Path(__file__)
RUN = inspect.unwrap(br.Executor.run)
"""The method itself: while tests run, it is noted what ran."""


def frames_of(run: Callable[[], Any]) -> list[Path]:
    """Where the functions of Python are that a run calls, once all is made."""
    run(), run(), run()
    found = list[Path]()

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            found.append(Path(frame.f_code.co_filename))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
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
    assert len(frames) <= 20
    assert not [one for one in frames if "jax" in one.parts]


def test_a_run_without_state_takes_few_calls() -> None:
    with br.Program() as prog:
        out = br.tanh(br.data("x", [4]))
    exe, scope, value = br.Executor(), br.Scope(), np.ones(4, np.float32)
    frames = frames_of(lambda: RUN(exe, prog, scope, feed={"x": value}, fetch=[out]))
    assert len(frames) <= 18
