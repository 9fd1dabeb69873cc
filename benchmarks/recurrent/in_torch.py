"""PyTorch: its fused `nn.LSTM` and `nn.GRU`, and a loop over the steps of an own cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.peers import cores
from benchmarks.recurrent.cells import Maths, step
from benchmarks.recurrent.task import LSTM, RATE, Task, Values

MATHS = Maths(
    torch.sigmoid,
    torch.tanh,
    lambda x, count: x.chunk(count, -1),
    lambda x, scale, shift: functional.layer_norm(x, x.shape[-1:], scale, shift),
    torch.addmm,
)
Run = Callable[[Any], Any]
"""From the embedded ids to the first memory at all steps."""

torch.set_num_threads(cores())


def fused(task: Task) -> Callable[[], float]:
    """The layer of PyTorch; its second bias, an additional parameter, stays 0."""
    s = task.sizes
    kind, order = (
        (torch.nn.LSTM, "ifuo") if task.cell is LSTM else (torch.nn.GRU, task.cell.gates)
    )
    values, layer = task.arranged(order), kind(s.d, s.h)
    given = (values["wx"].T, values["wh"].T, values["b"], np.zeros_like(values["b"]))
    with torch.no_grad():
        for part, value in zip(layer.parameters(), given, strict=True):
            part.copy_(_tensor(value))
    layer.bias_hh_l0.requires_grad_(False)
    return _training_step(task, lambda x: layer(x)[0], list(layer.parameters()))


def step_loop(task: Task) -> Callable[[], float]:
    """A Python loop, with the products of the inputs before it, for all steps."""
    run, p = _own(task, lambda *given: step(MATHS, task.cell, *given))
    return _training_step(task, run, list(p.values()))


def compiled_step(task: Task) -> Callable[[], float]:
    """The same loop with a step under `torch.compile`."""
    torch.compiler.reset()  # it would give up at the ninth size
    compiled = torch.compile(lambda *given: step(MATHS, task.cell, *given), dynamic=False)
    run, p = _own(task, compiled)
    return _training_step(task, run, list(p.values()))


def compiled_loop(task: Task) -> Callable[[], float]:
    """The whole loop under `torch.compile`, which unrolls it."""
    torch.compiler.reset()
    run, p = _own(task, lambda *given: step(MATHS, task.cell, *given))
    return _training_step(task, torch.compile(run, dynamic=False), list(p.values()))


def product(size: int) -> Callable[[], float]:
    """A product of two square matrices; it returns 0."""
    a, b = torch.randn(size, size), torch.randn(size, size)

    def run() -> float:
        torch.mm(a, b)
        return 0.0

    return run


# ---- parts -----------------------------------------------------------------------------------


def _tensor(value: Any) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(value))


def _own(task: Task, one_step: Callable[..., Any]) -> tuple[Run, dict[str, Any]]:
    names, s = ("wx", "wh", "b", *task.cell.vectors), task.sizes
    values: Values = task.values()
    p = {name: torch.nn.Parameter(_tensor(values[name])) for name in names}

    def run(x: Any) -> Any:
        state, hs = (x.new_zeros(s.b, s.h),) * task.cell.memories, []
        for gates in functional.linear(x, p["wx"].T, p["b"]).unbind(0):
            state = one_step(gates, state, p)
            hs.append(state[0])
        return torch.stack(hs)

    return run, p


def _training_step(task: Task, run: Run, inner: list[Any]) -> Callable[[], float]:
    """`run` between an embedding and a linear layer."""
    s, values, feeds = task.sizes, task.values(), task.feeds()
    emb, out = torch.nn.Embedding(s.v, s.d), torch.nn.Linear(s.h, s.v)
    parts = [*emb.parameters(), *out.parameters()]
    with torch.no_grad():
        for part, value in zip(
            parts, (values["emb"], values["wo"].T, values["bo"]), strict=True
        ):
            part.copy_(_tensor(value))
    trained = [part for part in [*parts, *inner] if part.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE, fused=True)
    ids, labels = (torch.from_numpy(feeds[name]).long() for name in ("ids", "labels"))

    def one() -> float:
        optimizer.zero_grad()
        logits = out(run(emb(ids))).reshape(-1, s.v)
        loss = functional.cross_entropy(logits, labels.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return one
