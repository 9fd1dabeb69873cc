"""Rewriting of training steps that were edited, renamed or cut: refused, and never undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

FEED = {"x": np.linspace(-1.0, 1.0, 12, dtype="f").reshape(3, 4)}


def step() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        h = br.tanh(br.fc(x, 4, name="a"), name="h")
        prog.give(br.mean(br.relu(br.fc(h, 4, name="b"), name="r") ** 2, name="loss").name)
        br.optimizer.adam(0.1).minimize(prog.var("loss"))
    return prog


def halve(v: Any) -> Any:
    return v * 0.5


def turned(x: Any) -> Any:
    return br.matrix_transpose(x) * 0.5


EDITS: dict[str, Callable[[br.Program], br.Program]] = {
    "constant of the step": lambda p: p.set_constant("adam/body/adam/constant_2", 0.0),
    "gradient": lambda p: p.insert_after("matmul_3", halve),
    "rule on the step": lambda p: p.rewrite(br.matrix_transpose, turned, exact=True),
    "names of states": lambda p: p.rename({"adam/*": "opt/*"}),
    "name of a parameter": lambda p: p.rename({"a.w": "weight"}),
    "cut": lambda p: br.cut(p, at=["h"])[1],
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_step_that_was_edited_is_not_built_again(edit: str) -> None:
    edited = EDITS[edit](step())
    text = str(edited)
    with pytest.raises(br.ProgramError, match="the part that minimize built has been edited"):
        edited.rewrite(br.relu, br.sigmoid)
    assert str(edited) == text
    loaded = br.Program.from_bytes(edited.to_bytes())
    with pytest.raises(br.ProgramError, match="has been edited since"):
        loaded.rewrite(br.relu, br.sigmoid)


def test_names_of_the_forward_part_may_change(mode: str) -> None:
    prog = step()
    renamed = prog.rename({"h": "hidden"}).rewrite(br.relu, br.sigmoid)
    plain, exe = prog.rewrite(br.relu, br.sigmoid), br.Executor(mode=mode)
    losses = []
    for one in (renamed, plain):
        scope = exe.init(one, br.Scope(), seed=0)
        losses.append([exe.run(one, scope, FEED, "loss") for _ in range(3)])
    np.testing.assert_array_equal(*losses)


def test_handles_follow_a_rename_and_a_rewriting() -> None:
    with br.Program() as prog:
        x, rnn = br.data("x", ["n", 4]), br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(br.tanh(h.pre(1), name="act") * 0.5)
        prog.give(br.identity(rnn.final(h), name="out").name)
    handle = prog["loop_0/body/act"]
    new = prog.rename({"loop_0": "steps"}).rewrite(halve, lambda v: v * 0.25)
    assert new[handle].path == "steps/body/act"


def test_names_that_a_function_asks_for_are_checked() -> None:
    def missing(v: Any, *, place: Any) -> Any:
        return v + place["nope"]

    with pytest.raises(br.UnknownNameError, match="`nope` is not visible"):
        step().replace("r", missing, exact=True)
    with pytest.raises(br.DTypeError, match="got None"):
        step().cast("a.w", None)
