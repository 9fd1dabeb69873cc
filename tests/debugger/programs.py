"""Programs that the debugger is tested with, and their runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import braces as br
from braces.debugger.session import DebugSession


def nested() -> br.Program:
    """A loop in a loop: `s` doubles in each inner iteration."""
    with br.Program() as prog:
        x = br.data("x", ["outer", "inner"])
        outer = br.create_rnn()
        with outer.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(shape=[])
            before = h.pre(1)
            inner = br.create_rnn()
            with inner.stepnet() as step:
                number = step.add_input(row)
                s = step.add_memory(init=before)
                s.update(br.add(s.pre(1) * 2.0, number, name="s"))
            h.update(br.identity(inner.final(s), name="h"))
        br.identity(outer.final(h), name="y")
    return prog


NESTED_FEED = {"x": np.arange(6, dtype="float32").reshape(2, 3)}


def branches() -> br.Program:
    """A row-wise branch and a switch in a loop, differentiated."""
    with br.Program() as prog:
        x = br.data("x", ["steps", "batch", 2])
        which = br.data("which", [], "int32")
        w = br.parameter("w", [2], init=1.0)
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(shape=[2], batch_like=x, batch_axis=1)
            choice = br.create_if_else(br.sum(row, axis=1) > 0)
            with choice.true_block() as block:
                block.add_output(br.tanh(block.add_input(row) * w, name="warm"))
            with choice.false_block() as block:
                block.add_output(br.exp(block.add_input(row), name="cold"))
            y = choice()
            z = br.switch(which, [lambda: br.sin(y, name="sine"), lambda: y * 2.0])
            h.update(br.add(h.pre(1), z, name="total"))
        loss = br.mean(rnn.final(h), name="loss")
        br.optimizer.sgd(0.1).minimize(loss)
    return prog


def branches_feed() -> dict[str, Any]:
    x = np.array([[[1, 1], [-1, -1], [1, 0]], [[-1, 0], [-2, 0], [-3, 0]]], "float32")
    return {"x": x, "which": 0}


def nan_in_loop() -> br.Program:
    """A loop whose third iteration computes the logarithm of a negative number."""
    with br.Program() as prog:
        x = br.data("x", ["t"])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            number = net.add_input(x)
            h = net.add_memory(shape=[])
            h.update(br.add(h.pre(1), br.log(number, name="logarithm"), name="sum"))
        br.identity(rnn.final(h), name="y")
    return prog


NAN_FEED = {"x": np.array([1.0, 2.0, -1.0, 3.0], "float32")}


def halving() -> br.Program:
    """A while loop that halves a number until it is below one."""
    with br.Program() as prog:
        x = br.data("x", [])
        br.while_loop(lambda v: v > 1.0, lambda v: br.multiply(v, 0.5, name="half"), x)
    return prog


def run(prog: br.Program, feed: dict[str, Any], **options: Any) -> DebugSession:
    """A session that has run to the end."""
    scope = br.Executor().init(prog, br.Scope())
    with_defaults = {"paused": False, **options}
    return DebugSession(prog, scope, feed, **with_defaults).finish()
