"""Models that tests run on several devices: their feeds and their training."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import braces as br

ROWS, STEPS, WIDTH, CLASSES, IDS = 16, 6, 16, 8, 40
COLLECTIVES = "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"


class Trained(NamedTuple):
    """The state after some steps."""

    losses: list[float]
    scope: br.Scope


def _features(dtype: str, *shape: str | int) -> br.Var:
    return br.data("x", ["batch", *shape], dtype=dtype)


def _ids() -> br.Var:
    return br.data("x", ["batch", "time"], dtype="int32")


def _up(x: br.Var, act: str | None = "relu") -> br.Var:
    return br.fc(x, 32, act=act, name="up")


def perceptron(dtype: str) -> br.Var:
    """One hidden layer."""
    return _up(_features(dtype, WIDTH))


def dropout(dtype: str) -> br.Var:
    """Draws."""
    return br.dropout(_up(_features(dtype, WIDTH)), 0.5)


def recurrent(dtype: str, lengths: bool = False) -> br.Var:
    """Steps, of rows that may end."""
    x = _features(dtype, "time", WIDTH)
    ends = br.data("lengths", ["batch"], dtype="int32") if lengths else None
    rnn = br.create_rnn(lengths=ends)
    with rnn.stepnet() as net:
        xt = net.add_input(x, axis=1)
        h = net.add_memory(shape=[32], batch_like=x, batch_axis=0)
        h.update(br.tanh(_up(xt, None) + br.fc(h, 32, name="again")))
    return rnn.final(h)


def with_lengths(dtype: str) -> br.Var:
    """Steps of rows that end one by one."""
    return recurrent(dtype, lengths=True)


def looping(dtype: str) -> br.Var:
    """A loop that all rows end, and whose gradient keeps more than it has room for."""
    start = _up(_features(dtype, WIDTH))
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int32"))
        s = body.add_memory(init=start)
        body.set_condition((br.mean(br.abs(s)) > 0.01) & (i < 200))
        s.update(br.tanh(br.fc(s, 32, name="again")) * 0.05 + s * 0.9)
        i.update(i + 1)
    return loop.final(s)


def branching(dtype: str, rows: bool = True) -> br.Var:
    """A branch, of rows or of all."""
    h = _up(_features(dtype, WIDTH))
    choice = br.create_if_else(br.mean(h, axis=1 if rows else None) > 0.3)
    with choice.true_block() as t:
        t.add_output(br.tanh(br.fc(t.add_input(h), 32, name="one")))
    with choice.false_block() as f:
        f.add_output(f.add_input(h) * 0.5)
    return choice()


def branching_whole(dtype: str) -> br.Var:
    """A branch of all rows."""
    return branching(dtype, rows=False)


def embedded(dtype: str) -> br.Var:
    """Rows of a table."""
    return br.mean(_table(dtype), axis=1)


def _table(dtype: str) -> br.Var:
    return br.embedding(_ids(), (IDS, 32), name="table", dtype=dtype)


def attending(dtype: str) -> br.Var:
    """Two layers of a transformer."""
    h = _table(dtype)
    for at in range(2):
        h = br.layers.transformer_encoder_layer(h, 4, 64, name=f"layer{at}")
    return br.mean(h, axis=1)


MODELS: dict[str, Callable[[str], br.Var]] = {
    made.__name__: made
    for made in (
        perceptron, dropout, recurrent, with_lengths, looping, branching, branching_whole,
        embedded, attending,
    )
}  # fmt: skip


def classifier(model: str, dtype: str = "float32") -> tuple[br.Program, br.Var]:
    """A model that learns classes with Adam, and its loss.

    What is divided by does not come near zero: else the step of a parameter on which nothing
    depends, as the bias of keys, is that of rounding errors.
    """
    with br.Program() as program:
        labels = br.data("y", ["batch"], dtype="int32")
        scores = br.fc(MODELS[model](dtype), CLASSES, name="down")
        loss = br.softmax_cross_entropy(scores, labels, reduction="mean")
        br.optimizer.adam(1e-2, epsilon=1e-3).minimize(loss)
    return program, loss


def batch(program: br.Program, rng: np.random.Generator) -> dict[str, Any]:
    """A batch of what a program is fed."""
    sizes = {"batch": ROWS, "time": STEPS}
    below = {"x": IDS, "y": CLASSES, "lengths": STEPS + 1}
    fed = dict[str, Any]()
    for name in program.feeds:
        info = program.definition.main.vars[name]
        shape = [sizes.get(str(size), size) for size in info.shape]
        whole = info.dtype.kind == "i"
        fed[name] = rng.integers(0, below[name], shape) if whole else rng.normal(size=shape)
    return fed


MESH = br.Mesh({"data": 4, "model": 2})
DIMS = {"batch": "data"}
PARAMS = {"up.w": (None, "model"), "up.b": ("model",), "down.w": ("model", None)}


def layouts(program: br.Program) -> dict[str, br.Layout]:
    """What is usual: rows apart, everything kept apart, products apart, and all of these."""
    there = {info.name for info in program.persistables}
    kept = {name: rule for name, rule in PARAMS.items() if name in there}
    rows = br.Mesh({"data": -1})
    return {
        "data": br.Layout(rows, DIMS),
        "fsdp": br.Layout(rows, DIMS, fsdp="data"),
        "tensor": br.Layout(MESH, DIMS, kept),
        "both": br.Layout(MESH, DIMS, kept, fsdp="data"),
    }


def train(
    program: br.Program, loss: br.Var, exe: br.Executor, fed: dict[str, Any], steps: int = 3
) -> Trained:
    """Some steps from the same start."""
    scope = br.Scope()
    exe.init(program, scope, seed=0)
    return Trained([exe.run(program, scope, fed, loss).item() for _ in range(steps)], scope)


def code_of(exe: br.Executor, program: br.Program) -> Any:
    """Return the compiled code of the latest run of a program."""
    plan = next(reversed(exe._plans.by_program[program][1].values()))
    *_, made = plan.executables.values()
    return made.code


def collectives(exe: br.Executor, program: br.Program) -> dict[str, int]:
    """Return the number of collectives of each kind in the code of a program."""
    text = code_of(exe, program).as_text()
    found = {one: len(re.findall(rf"= .*? {one}(?:-start)?\(", text)) for one in COLLECTIVES}
    return {one: count for one, count in found.items() if count}
