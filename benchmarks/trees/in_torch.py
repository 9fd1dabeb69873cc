"""PyTorch: Python's own loops, branches and lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.trees.task import MOST_TRIPS, STILL, Task

torch.set_num_threads(1)
"""Vectors are too short for two."""


def eager(task: Task) -> Callable[[], list[Any]]:
    """The loss, its gradients, and the gradients of the sum of their squares."""
    p = [torch.from_numpy(value).requires_grad_() for value in task.values.values()]
    weights = torch.from_numpy(task.weights)

    def run() -> list[Any]:
        loss = (roots(task, *p) ** 2 * weights).sum()
        first = torch.autograd.grad(loss, p, create_graph=True)
        second = torch.autograd.grad(sum((grad**2).sum() for grad in first), p)
        return [value.detach().numpy() for value in (loss, *first, *second)]

    return run


def roots(task: Task, emb: Any, join: Any, read: Any) -> Any:
    """The converged roots."""
    context, moved, trips = torch.zeros(task.rows, task.width, dtype=emb.dtype), 1e9, 0
    while moved > STILL and trips < MOST_TRIPS:
        reads = context @ read
        each = zip(task.trees, reads, strict=True)
        after = torch.stack([one_tree(tree, row, emb, join) for tree, row in each])
        moved, context, trips = (after - context).abs().max().item(), after, trips + 1
    return context


def one_tree(tree: list[int], read: Any, emb: Any, join: Any) -> Any:
    """The root of a tree."""
    stack = list[Any]()
    for step in tree:
        if step >= 0:
            stack.append(torch.tanh(emb[step] + read))
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(torch.tanh(torch.cat([left, right]) @ join))
    return stack.pop()
