"""Programs with nested loops, branches and plain blocks, for tests of searches and edits."""

from __future__ import annotations

import braces as br


def nested_loops() -> br.Program:
    """A plain block with `/` in its names, and a loop in a loop, differentiated."""
    with br.Program() as prog:
        x = br.data("x", ["steps", "batch", 4])
        w = br.parameter("w", [4, 4], init=0.1)
        with br.block("encoder"):
            z = br.matmul(x, w, name="q")
        outer = br.create_rnn()
        with outer.stepnet() as net:
            row = net.add_input(z)
            h = net.add_memory(shape=[4], batch_like=z, batch_axis=1)
            inner = br.create_rnn()
            with inner.stepnet() as step:
                bit = step.add_input(row, axis=1)
                s = step.add_memory(init=br.sum(row, axis=1))
                s.update(br.tanh(s + bit + br.sum(br.mean(s) * w), name="act"))
            h.update(h + br.expand_dims(inner.final(s), -1))
        br.append_backward(br.mean(outer.final(h)))
    return prog


def branches() -> br.Program:
    """A row-wise branch and a switch, each in a loop."""
    with br.Program() as prog:
        x = br.data("x", ["steps", "batch", 4])
        which = br.data("which", [], "int32")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
            choice = br.create_if_else(br.sum(row, axis=1) > 0)
            with choice.true_block() as block:
                block.add_output(br.tanh(block.add_input(row), name="warm"))
            with choice.false_block() as block:
                block.add_output(br.exp(block.add_input(row), name="cold"))
            y = choice()
            z = br.switch(which, [lambda: br.sin(y, name="sine"), lambda: y * 2.0])
            h.update(h + z)
        br.append_backward(br.mean(rnn.final(h)))
    return prog


def swapped(prog: br.Program, old: str, new: str) -> br.Program:
    """The program with the first operator of a type replaced by one of another type."""
    text = str(prog)
    assert f"= {old}(" in text, old
    other = br.parse(text.replace(f"= {old}(", f"= {new}(", 1))
    other.startup = prog.startup
    return other
