"""Braces: everything in the step block, in the style of a first version."""

from __future__ import annotations

from collections.abc import Callable

import braces as br
from benchmarks.anew import program_anew
from benchmarks.recurrent.cells import Maths, all_in
from benchmarks.recurrent.task import RATE, Task, Values

MATHS = Maths(br.sigmoid, br.tanh, lambda x, count: br.split(x, count, axis=-1), br.layer_norm)


def training_step(task: Task) -> Callable[[], float]:
    """Each call returns the loss before its update."""
    prog, loss = program(task)
    exe, scope, feeds = br.Executor(), br.Scope(), task.feeds()
    exe.init(prog, scope)
    for name, value in values_of(task).items():
        scope.var(name).set(value)
    return lambda: float(exe.run(prog, scope, feed=feeds, fetch=loss))


def compiling(task: Task) -> Callable[[], None]:
    """From building the program to its executable."""
    return program_anew(lambda: program(task), values_of(task), task.feeds())


def values_of(task: Task) -> Values:
    """The parameters, by their names in this program."""
    return task.gate_by_gate() if task.cell.by_gate else task.values()


def program(task: Task) -> tuple[br.Program, br.Var]:
    """An RNN with everything in the step block, and its loss."""
    with br.Program() as prog:
        ids, labels = (
            br.data(name, [task.sizes.t, task.sizes.b], dtype="int32")
            for name in ("ids", "labels")
        )
        values = values_of(task)
        p = {name: br.parameter(name, value.shape) for name, value in values.items()}
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            shape = [task.sizes.b, task.sizes.h]
            state = [net.add_memory(shape=shape) for _ in range(task.cell.memories)]
            x = br.embedding(net.add_input(ids), p["emb"])
            after = all_in(MATHS, task.cell, x, state, p)
            for memory, value in zip(state, after, strict=True):
                memory.update(value)
            logits = after[0] @ p["wo"] + p["bo"]
            net.add_output(
                br.softmax_cross_entropy(logits, net.add_input(labels), reduction="none")
            )
        loss = br.mean(rnn())
        br.optimizer.sgd(RATE).minimize(loss)
    return prog, loss
