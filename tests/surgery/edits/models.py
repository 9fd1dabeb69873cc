"""A model with every construct, and training runs of it, for tests of edits."""

from __future__ import annotations

from typing import Any

import numpy as np

import braces as br

DRAW = np.random.default_rng(0)
FEED = {
    "x": DRAW.normal(size=(5, 6, 4)).astype("f"),
    "lens": np.array([1, 6, 3, 2, 4], "int32"),
}
ACT = "loop_0/body/partition_0/cases[0]/act"


def model() -> br.Program:
    """A plain block, an RNN with lengths, a row-wise branch, a switch, a while in an RNN."""
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 4]), br.data("lens", ["b"], "int32")
        with br.block("encoder"):
            z = br.fc(x, 6, name="proj", act="tanh")
        rnn, outer = br.create_rnn(lengths=lens), br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(z, axis=1), net.add_memory(shape=[6], batch_like=x)
            cell = br.fc(br.concat([row, h.pre(1)], axis=-1), 6, name="cell")
            h.update(br.tanh(cell, name="act"))
        choice = br.create_if_else(br.sum(rnn.final(h), axis=1) > 0.0)
        with choice.true_block() as case:
            case.add_output(br.sigmoid(case.add_input(rnn.final(h)), name="warm"))
        with choice.false_block() as case:
            case.add_output(br.multiply(case.add_input(rnn.final(h)), 2.0, name="cold"))
        chosen = choice()
        cases = [lambda: br.sin(chosen, name="sine"), lambda: chosen * 0.5]
        y = br.switch(br.size(x.shape[1] // 6 - 1, dtype="int32"), cases)
        with outer.stepnet() as net:
            start, loop = br.sum(br.abs(net.add_input(x, axis=1))), br.create_while()
            with loop.block() as body:
                q = body.add_memory(init=start)
                body.set_condition(q > 1.0)
                q.update(br.multiply(q, 0.5, name="half"))
            net.add_output(loop.final(q))
        prog.give(br.add(br.mean(y**2), br.mean(outer()), name="loss"))
    return prog


def minimized(prog: br.Program) -> br.Program:
    """The program with an optimizer, in place."""
    with prog:
        br.optimizer.sgd(0.1).minimize(prog.var("loss"))
    return prog


def losses(prog: br.Program, mode: str, steps: int = 3, feed: Any = None) -> list[float]:
    """The losses of some runs, updates included."""
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    return [float(exe.run(prog, scope, feed or FEED, "loss")) for _ in range(steps)]


def same(left: list[float], right: list[float], tolerance: float = 1e-5) -> None:
    """Losses agree."""
    np.testing.assert_allclose(left, right, rtol=tolerance)


def read_again(prog: br.Program) -> None:
    """Text and bytes of a program read back the same."""
    assert str(br.parse(str(prog))) == str(prog)
    assert str(br.Program.from_bytes(prog.to_bytes())) == str(prog)


def types_of(prog: br.Program, path: str) -> list[str]:
    """The types of the operators of a block."""
    handle = prog[path] if path else None
    body = handle.body if handle is not None else prog.definition.main
    assert body is not None
    return [op.type for op in body.ops]
