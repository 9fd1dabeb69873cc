"""onnxruntime: one model with a `Loop`, or a model of the step in a Python loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks.language.task import START, Task
from benchmarks.peers import cores

OPSET, IR_VERSION = 21, 10
MEMORIES = ("h", "c")
INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL
ONNX_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""The order of gates in ONNX: i, o, f, c and z, r, h; ours by number."""


def whole_loop(task: Task) -> Callable[[], list[int]]:
    """A model of the whole loop."""
    memories = MEMORIES[: task.memories]
    carried = [_info("word", INT64, [1]), *(_memory(task, name) for name in memories)]
    after = [_info("said", INT64, [1]), *(_memory(task, f"{name}_after") for name in memories)]
    body = helper.make_graph(
        [
            *_step(task),
            helper.make_node("Equal", ["said", "last_word"], ["ended"]),
            helper.make_node("Not", ["ended"], ["more"]),
            helper.make_node("Squeeze", ["more", "first_axis"], ["goes_on"]),
            helper.make_node("Identity", ["said"], ["row"]),
        ],
        "body",
        [_info("trip", INT64, []), _info("going", BOOL, []), *carried],
        [_info("goes_on", BOOL, []), *after, _info("row", INT64, [1])],
    )
    starts, ends = (
        [f"{name}_{when}" for name in ("word", *memories)] for when in ("start", "end")
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["limit", "yes", *starts], [*ends, "words"], body=body)],
        "whole",
        [_info("limit", INT64, []), _info("word_start", INT64, [1])],
        [_info("words", INT64, ["count", 1])],
        [
            *_initializers(task),
            _tensor("last_word", np.array([task.last_word])),
            _tensor("first_axis", np.array([0])),
            _tensor("yes", np.array(True)),
            *(_tensor(f"{name}_start", _zeros(task)) for name in memories),
        ],
    )
    session = _session(graph)
    feed = {"limit": np.array(task.limit), "word_start": np.array([START])}
    return lambda: session.run(["words"], feed)[0][:, 0].tolist()


def step_loop(task: Task) -> Callable[[], list[int]]:
    """A model of one step."""
    memories = MEMORIES[: task.memories]
    graph = helper.make_graph(
        _step(task),
        "step",
        [_info("word", INT64, [1]), *(_memory(task, name) for name in memories)],
        [_info("said", INT64, [1]), *(_memory(task, f"{name}_after") for name in memories)],
        _initializers(task),
    )
    session, names = _session(graph), ["said", *(f"{name}_after" for name in memories)]

    def run() -> list[int]:
        given, said = [np.array([START]), *[_zeros(task)] * task.memories], list[int]()
        while len(said) < task.limit and (not said or said[-1] != task.last_word):
            given = session.run(names, dict(zip(("word", *memories), given, strict=True)))
            said.append(int(given[0][0]))
        return said

    return run


# ---- the model -------------------------------------------------------------------------------


def _step(task: Task) -> list[Any]:
    """From `word`, `h` and `c` to `said`, `h_after` and `c_after`; the cell is an operator."""
    h_and_c = MEMORIES[: task.memories]
    cell = helper.make_node(
        task.cell.upper(),
        ["x", "wx", "wh", "b", "", *h_and_c],
        ["", *(f"{name}_after" for name in h_and_c)],
        hidden_size=task.hidden,
        **({"linear_before_reset": 1} if task.cell == "gru" else {}),
    )
    return [
        helper.make_node("Gather", ["emb", "word"], ["row_of_word"]),
        helper.make_node("Unsqueeze", ["row_of_word", "step_axis"], ["x"]),
        cell,
        helper.make_node("Squeeze", ["h_after", "step_axis"], ["flat"]),
        helper.make_node("Gemm", ["flat", "wo", "bo"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["said"], axis=1, keepdims=0),
    ]


def _initializers(task: Task) -> list[Any]:
    v, gates = task.values, ONNX_GATES[task.cell]

    def ordered(value: Any) -> Any:
        parts = np.split(value, task.gates, axis=-1)
        return np.concatenate([parts[gate] for gate in gates], axis=-1)

    second = np.zeros_like(v["b"])
    if task.cell == "gru":
        second[-task.hidden :] = v["bn"]
    given = {
        "emb": v["emb"], "wo": v["wo"], "bo": v["bo"],
        "wx": ordered(v["wx"]).T[None], "wh": ordered(v["wh"]).T[None],
        "b": np.concatenate([ordered(v["b"]), ordered(second)])[None],
        "step_axis": np.array([0]),
    }  # fmt: skip
    return [_tensor(name, np.ascontiguousarray(value)) for name, value in given.items()]


def _zeros(task: Task) -> Any:
    return np.zeros((1, 1, task.hidden), "float32")


def _memory(task: Task, name: str) -> Any:
    return _info(name, FLOAT, [1, 1, task.hidden])


def _info(name: str, dtype: int, shape: list[Any]) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def _tensor(name: str, value: Any) -> Any:
    return numpy_helper.from_array(value, name)


def _session(graph: Any) -> Any:
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores()
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers)
