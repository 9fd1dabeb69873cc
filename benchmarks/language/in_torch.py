"""PyTorch: a Python loop over a step under `inference_mode`, eager or compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.language.task import START, Task
from benchmarks.peers import cores

torch.set_num_threads(cores())


class Step(nn.Module):
    """From a word and the memories to the next ones."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        cell = nn.LSTMCell if task.cell == "lstm" else nn.GRUCell
        self.emb = nn.Embedding(task.words, task.width)
        self.cell = cell(task.width, task.hidden)
        self.out = nn.Linear(task.hidden, task.words)
        self.lstm = task.cell == "lstm"
        v = task.values
        given = {
            "emb.weight": v["emb"], "cell.weight_ih": v["wx"].T, "cell.weight_hh": v["wh"].T,
            "cell.bias_ih": v["b"], "cell.bias_hh": np.zeros_like(v["b"]),
            "out.weight": v["wo"].T, "out.bias": v["bo"],
        }  # fmt: skip
        if not self.lstm:
            given["cell.bias_hh"][-task.hidden :] = v["bn"]
        tensors = {n: torch.from_numpy(np.ascontiguousarray(x)) for n, x in given.items()}
        self.load_state_dict(tensors)

    def forward(self, word: Any, memories: Any) -> tuple[Any, Any]:
        """The next word, [1], and the memories after it."""
        x = self.emb(word)
        after = self.cell(x, memories if self.lstm else memories[0])
        memories = after if self.lstm else (after,)
        return self.out(memories[0]).argmax(-1), memories


def eager(task: Task) -> Callable[[], list[int]]:
    """The eager step."""
    return _loop(task, Step(task).eval())


def compiled(task: Task) -> Callable[[], list[int]]:
    """The step under `torch.compile`, for these shapes."""
    return _loop(task, torch.compile(Step(task).eval(), dynamic=False))


def _loop(task: Task, step: Any) -> Callable[[], list[int]]:
    def run() -> list[int]:
        with torch.inference_mode():
            word, said = torch.tensor([START]), list[int]()
            memories = tuple(torch.zeros(1, task.hidden) for _ in range(task.memories))
            while len(said) < task.limit and (not said or said[-1] != task.last_word):
                word, memories = step(word, memories)
                said.append(word.item())
        return said

    return run
