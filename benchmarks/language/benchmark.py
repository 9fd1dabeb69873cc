"""All words of a language model, by every installed library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.case import OURS, Case
from benchmarks.language.task import TASKS, TINY, Task
from benchmarks.sides import Side, Turn, beside

TITLE = "a language model says word after word, batch 1, the likeliest each time"
HERE = "benchmarks.language"
SIDES = {
    OURS: Side(f"{HERE}.in_braces", "whole_loop", alone=False),
    "JAX while_loop": Side(f"{HERE}.in_jax", "whole_loop", alone=False),
    "JAX, a jitted step": Side(f"{HERE}.in_jax", "step_loop", alone=False),
    "PyTorch eager": Side(f"{HERE}.in_torch", "eager", ("torch",)),
    "PyTorch, a compiled step": Side(f"{HERE}.in_torch", "compiled", ("torch",), compiles=True),
    "onnxruntime, Loop": Side(f"{HERE}.in_onnxruntime", "whole_loop", ("onnx", "onnxruntime")),
    "onnxruntime, a step": Side(f"{HERE}.in_onnxruntime", "step_loop", ("onnx", "onnxruntime")),
}


def cases(tiny: bool) -> Iterator[Case]:
    """Two cells, one of them at two sizes, built in their turn."""
    for task in TINY if tiny else TASKS:
        yield beside(task, SIDES, lambda turns, task=task: _agree(task, turns))


def _agree(task: Task, turns: Mapping[str, Turn]) -> None:
    for name, turn in turns.items():
        said, _ = turn()
        assert said == task.said, (name, said, task.said)
