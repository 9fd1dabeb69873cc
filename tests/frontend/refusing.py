"""Checks of errors: problem, place, given values and fix.

Each error leaves the program, its startup program included, unchanged and usable.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br


@pytest.fixture
def prog() -> br.Program:
    """A small program: `x` and `y` are data, `w` a parameter, `loss` a number."""
    with br.Program() as program:
        x, y = br.data("x", ["batch", 4]), br.data("y", ["batch"])
        w = br.parameter("w", [4, 3])
        br.sum(br.matmul(x, w), name="loss")
        br.sum(y, name="total")
    return program


def refuse(
    program: br.Program, error: type[Exception], do: Callable[[], Any], *parts: str
) -> str:
    """Expect an error with these parts in its message, and a program that nothing changed."""
    before = program.definition, program.startup.definition, str(program)
    with program, pytest.raises(error) as caught:
        do()
    message = str(caught.value)
    assert isinstance(caught.value, br.BracesError)
    for part in parts:
        assert part in message, message
    assert (program.definition, program.startup.definition, str(program)) == before
    check_usable(program)
    return message


def refuse_here(
    program: br.Program, error: type[Exception], do: Callable[[], Any], *parts: str
) -> None:
    """The same for errors at build, whose message has the line of this file."""
    try:
        do_in(program, do)
    except br.BracesError as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        named = [(Path(frame.filename).name, frame.lineno) for frame in frames]
        file, line = [place for place in named if place[0].startswith("test_")][-1]
    else:
        pytest.fail("There was no error.")
    refuse(program, error, do, *parts, f"{file}:{line}")


def do_in(program: br.Program, do: Callable[[], Any]) -> None:
    with program:
        do()


def check_usable(program: br.Program) -> None:
    """Build more, in place, and run it."""
    copy = br.Program.from_bytes(program.to_bytes())
    with copy:
        more = br.get_variable("loss") * 2.0
        assert more.type == br.get_variable("loss").type
    scope, exe = br.Scope(), br.Executor(mode="interpret")
    exe.init(copy, scope)
    feed = {"x": np.ones((2, 4), "f4")}
    needs = {n: v for n, v in feed.items() if n in copy.vars}
    exe.run(copy, scope, needs, fetch=more)


def get(name: str) -> Any:
    return br.get_variable(name)
