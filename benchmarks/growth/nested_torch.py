"""Nested Python loops, run by PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.growth.nested_data import values
from benchmarks.peers import cores
from benchmarks.recurrent.task import RATE

torch.set_num_threads(cores())


def step(shape: tuple[int, ...]) -> Callable[[], float]:
    """Each call returns the loss before its update."""
    x, w = map(torch.from_numpy, values(shape))
    weight = torch.nn.Parameter(w)
    optimizer = torch.optim.SGD([weight], lr=RATE, fused=True)

    def last(x: Any, h: Any, depth: int) -> Any:
        for row in x.unbind(0):
            h = (
                last(row, h, depth - 1)
                if depth > 1
                else torch.tanh(torch.addmm(row, h, weight))
            )
        return h

    def run() -> float:
        optimizer.zero_grad()
        loss = last(x, x.new_zeros(x.shape[-2:]), len(shape)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return run
