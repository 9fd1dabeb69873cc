"""Braces: the whole loop is a `while` that collects the words as rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import braces as br
from benchmarks.anew import program_anew
from benchmarks.language.task import START, Task, Values


def whole_loop(task: Task) -> Callable[[], list[int]]:
    """All words in one compiled run."""
    prog, words = program(task)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    for name, value in task.values.items():
        scope.var(name).set(value)
    feed = feed_of(task)
    return lambda: exe.run(prog, scope, feed=feed, fetch=words)[:, 0].tolist()


def compiling(task: Task) -> Callable[[], None]:
    """From building the program to its executable."""
    return program_anew(lambda: program(task), task.values, feed_of(task))


def feed_of(task: Task) -> Values:
    """The feeds of a run."""
    return {"first": np.array([START], "int32"), "limit": np.array(task.limit, "int32")}


def program(task: Task) -> tuple[br.Program, br.Var]:
    """The loop, and its words, [count, 1]."""
    with br.Program() as prog:
        p = {name: br.parameter(name, value.shape) for name, value in task.values.items()}
        first = br.data("first", [1], dtype="int32")
        limit = br.data("limit", [], dtype="int32")
        loop = br.create_while()
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0, dtype="int32"))
            word = body.add_memory(init=first)
            memories = [
                body.add_memory(init=br.zeros([1, task.hidden])) for _ in range(task.memories)
            ]
            body.set_condition(br.logical_and(count < limit, word[0] != task.last_word))
            after = CELLS[task.cell](p, br.embedding(word, p["emb"]), *memories)
            for memory, value in zip(memories, after, strict=True):
                memory.update(value)
            said = br.cast(br.argmax(after[0] @ p["wo"] + p["bo"], axis=-1), "int32")
            word.update(said)
            count.update(count + 1)
            body.add_output(said)
        words = loop()
    return prog, words


def _lstm(p: dict[str, br.Var], x: br.Var, h: br.Var, c: br.Var) -> list[br.Var]:
    i, f, g, o = br.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
    c = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(g)
    return [br.sigmoid(o) * br.tanh(c), c]


def _gru(p: dict[str, br.Var], x: br.Var, h: br.Var) -> list[br.Var]:
    xr, xz, xn = br.split(x @ p["wx"] + p["b"], 3, axis=-1)
    hr, hz, hn = br.split(h @ p["wh"], 3, axis=-1)
    z = br.sigmoid(xz + hz)
    n = br.tanh(xn + br.sigmoid(xr + hr) * (hn + p["bn"]))
    return [(1.0 - z) * n + z * h]


CELLS = {"lstm": _lstm, "gru": _gru}
