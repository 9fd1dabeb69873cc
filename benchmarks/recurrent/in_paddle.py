"""Paddle: its `nn.LSTM` and `nn.GRU`, and `nn.RNN` around an own cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle.nn import functional

from benchmarks.recurrent.cells import Maths, step
from benchmarks.recurrent.task import LSTM, RATE, Task

MATHS = Maths(
    functional.sigmoid,
    paddle.tanh,
    lambda x, count: paddle.split(x, count, axis=-1),
    lambda x, scale, shift: functional.layer_norm(x, x.shape[-1:], scale, shift),
)
Run = Callable[[Any], Any]
"""From the embedded ids to the first memory at all steps."""


class OwnCell(paddle.nn.RNNCellBase):
    """A cell that Paddle lacks, on products of the inputs."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task, self.p = task, _parameters(task, ("wh", *task.cell.vectors))

    @property
    def state_shape(self) -> Any:
        """The shape of each memory, without rows."""
        shape = (self.task.sizes.h,)
        return (shape,) * self.task.cell.memories if self.task.cell.memories > 1 else shape

    def forward(self, inputs: Any, states: Any) -> Any:
        """One step."""
        many = self.task.cell.memories > 1
        after = step(MATHS, self.task.cell, inputs, states if many else (states,), self.p)
        return after[0], tuple(after) if many else after[0]


def usual(task: Task) -> Callable[[], float]:
    """A layer between an embedding and a linear layer."""
    s, p = task.sizes, _parameters(task, ("emb", "wo", "bo"))
    run, inner = _run(task)
    optimizer = paddle.optimizer.SGD(RATE, parameters=[*p.values(), *inner])
    feeds = task.feeds()
    ids, labels = (paddle.to_tensor(feeds[name].astype("int64")) for name in ("ids", "labels"))

    def one() -> float:
        hs = run(functional.embedding(ids, p["emb"]))
        logits = functional.linear(hs, p["wo"], p["bo"]).reshape([-1, s.v])
        loss = functional.cross_entropy(logits, labels.reshape([-1]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(loss)

    return one


# ---- parts -----------------------------------------------------------------------------------


def _parameters(task: Task, names: tuple[str, ...]) -> dict[str, Any]:
    values = task.values()
    return {name: _parameter(values[name]) for name in names}


def _parameter(value: Any) -> Any:
    set_to = paddle.nn.initializer.Assign(value)
    return paddle.create_parameter(value.shape, "float32", default_initializer=set_to)


def _run(task: Task) -> tuple[Run, list[Any]]:
    s = task.sizes
    if task.cell.name not in LAYERS:
        p, cell = _parameters(task, ("wx", "b")), OwnCell(task)
        layer = paddle.nn.RNN(cell, time_major=True)
        products = functional.linear
        return (lambda x: layer(products(x, p["wx"], p["b"]))[0]), [
            *p.values(),
            *cell.p.values(),
        ]
    kind, order = LAYERS[task.cell.name]
    layer, values = kind(s.d, s.h, time_major=True), task.arranged(order)
    weights = {name: weight for name, weight in layer.named_parameters() if "." not in name}
    for name, value in (
        ("weight_ih_l0", values["wx"].T),
        ("weight_hh_l0", values["wh"].T),
        ("bias_ih_l0", values["b"]),
        ("bias_hh_l0", values["b"] * 0),
    ):
        weights[name].set_value(value)
    del weights["bias_hh_l0"]  # it would be one more parameter to train and stays 0
    return (lambda x: layer(x)[0]), list(weights.values())


LAYERS = {LSTM.name: (paddle.nn.LSTM, "ifuo"), "GRU": (paddle.nn.GRU, "rzn")}
