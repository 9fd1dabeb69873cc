"""Ways to damage an exported program of PyTorch: nodes, arguments, metadata, signature, state.

A mutation changes a copy of the program in place. Most copies are invalid exports then.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from torch import fx, nn

Mutation = Callable[[Random, Any], None]

VALUES: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, -7, 2**31, -(2**31), 2**40, 2**63 - 1, 0.0, 0.5, -1.5, math.nan,
    math.inf, True, False, None, "", "none", "x\x1b[31m", (), [], [0], [1, 2], [-1, -1],
    [2**40, 2], [None], torch.float32, torch.int64, torch.bool, torch.complex64,
    torch.device("cpu"), torch.strided,
)  # fmt: skip
"""Arguments that a node may get instead of its own."""


# ---- programs --------------------------------------------------------------------------------


class Branching(nn.Module):
    """A branch on a value."""

    def forward(self, x: Any) -> Any:
        """Either branch."""
        return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))


class Indexing(nn.Module):
    """Views, writes, indices and reductions."""

    def forward(self, x: Any, ids: Any) -> Any:
        """Several results."""
        y = x.clone()
        y[:, 1:3] = x[:, :2] * 2
        top = torch.topk(y, 2, dim=1)
        picked = torch.gather(y, 1, ids)
        return {"rows": y[ids[:, 0]], "top": top.values, "picked": picked.cumsum(1)}


class Tagger(nn.Module):
    """An embedding, a recurrent layer, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(7, 4), nn.GRU(4, 3, batch_first=True)

    def forward(self, ids: Any) -> Any:
        """The loss."""
        rows = self.rnn(self.words(ids))[0]
        return nn.functional.cross_entropy(rows.flatten(0, 1), ids.flatten() % 3)


class Attending(nn.Module):
    """Attention with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        """The attended values."""
        mask = torch.ones(3, 3, dtype=torch.bool).triu(1)
        return self.layer(x, x, x, attn_mask=mask)[0]


def programs() -> list[Any]:
    """Small exports of many kinds of nodes."""
    images = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 3), nn.Dropout(0.5), nn.LayerNorm(3),
    )  # fmt: skip
    sizes = ({0: torch.export.Dim("batch")},)
    ids = torch.randint(0, 3, (2, 3))
    cases: list[tuple[Any, tuple[Any, ...], Any]] = [
        (images, (torch.randn(2, 2, 4, 4),), None),
        (copy.deepcopy(images).eval(), (torch.randn(2, 2, 4, 4),), sizes),
        (Branching(), (torch.randn(2, 3),), None),
        (Indexing(), (torch.randn(3, 4), ids), None),
        (Tagger(), (ids,), None),
        (Attending(), (torch.randn(2, 3, 4),), sizes),
    ]
    return [torch.export.export(m, a, dynamic_shapes=d) for m, a, d in cases]


# ---- mutations -------------------------------------------------------------------------------


def nodes_of(exported: Any) -> list[fx.Node]:
    """The nodes of all graphs that call an operator."""
    graphs = [m.graph for m in exported.graph_module.modules() if isinstance(m, fx.GraphModule)]
    return [node for graph in graphs for node in graph.nodes if node.op == "call_function"]


def change_argument(rng: Random, exported: Any) -> None:
    """Replace an argument, or a part of it, by another value or node."""
    node = rng.choice(nodes_of(exported))
    earlier = [other for other in node.graph.nodes if other < node]
    value = rng.choice(earlier) if earlier and rng.random() < 0.4 else rng.choice(VALUES)
    if node.kwargs and (not node.args or rng.random() < 0.3):
        key = rng.choice(list(node.kwargs))
        node.kwargs = {**node.kwargs, key: value}
    elif node.args:
        at = rng.randrange(len(node.args))
        node.args = _with(node.args, at, _changed(rng, node.args[at], value))


def _changed(rng: Random, old: Any, value: Any) -> Any:
    if isinstance(old, list | tuple) and old and rng.random() < 0.7:
        return list(_with(tuple(old), rng.randrange(len(old)), value))
    return value


def _with(args: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*args[:at], value, *args[at + 1 :])


def drop_argument(rng: Random, exported: Any) -> None:
    """Remove the last arguments, or a keyword."""
    node = rng.choice(nodes_of(exported))
    if node.kwargs and rng.random() < 0.5:
        gone = rng.choice(list(node.kwargs))
        node.kwargs = {key: value for key, value in node.kwargs.items() if key != gone}
    else:
        node.args = node.args[: rng.randint(0, max(len(node.args) - 1, 0))]


def add_argument(rng: Random, exported: Any) -> None:
    """Append an argument, or add a keyword."""
    node = rng.choice(nodes_of(exported))
    if rng.random() < 0.5:
        node.args = (*node.args, rng.choice(VALUES))
    else:
        name = rng.choice(["dim", "dtype", "alpha", "keepdim", "self", "out"])
        node.kwargs = {**node.kwargs, name: rng.choice(VALUES)}


def swap_operator(rng: Random, exported: Any) -> None:
    """Replace an operator by another one of the program."""
    nodes = nodes_of(exported)
    rng.choice(nodes).target = rng.choice(nodes).target


def swap_arguments(rng: Random, exported: Any) -> None:
    """Exchange the order of the arguments of a node."""
    node = rng.choice(nodes_of(exported))
    args = list(node.args)
    rng.shuffle(args)
    node.args = tuple(args)


def change_metadata(rng: Random, exported: Any) -> None:
    """Change or remove what an export records for a node."""
    nodes = list(exported.graph.nodes)
    node, other = rng.choice(nodes), rng.choice(nodes)
    key = rng.choice(["val", "val", "val", "stack_trace", "nn_module_stack"])
    if rng.random() < 0.3:
        node.meta.pop(key, None)
    elif rng.random() < 0.7:
        node.meta[key] = other.meta.get(key)
    else:
        node.meta[key] = rng.choice(VALUES)


def change_signature(rng: Random, exported: Any) -> None:
    """Change the kind or the target of an input or an output."""
    signature = exported.graph_signature
    specs = rng.choice([signature.input_specs, signature.output_specs])
    if not specs:
        return
    at, other = rng.randrange(len(specs)), rng.choice(specs)
    changed = copy.copy(specs[at])  # its constructor refuses a buffer without a flag
    way = rng.randrange(4)
    if way == 0:
        changed.kind = other.kind
    elif way == 1:
        changed.target = rng.choice([None, "", "no.such", other.target])
    elif way == 2:
        changed.arg = other.arg
    specs[at : at + 1] = [changed] if way < 3 else []


def change_state(rng: Random, exported: Any) -> None:
    """Change or remove a parameter, a buffer or a constant."""
    tables = [t for t in (exported.state_dict, exported.constants) if t]
    if not tables:
        return
    table = rng.choice(tables)
    name = rng.choice(list(table))
    made: Sequence[Any] = (
        torch.zeros(()), torch.zeros(0, 3), torch.ones(2, 2, dtype=torch.int32),
        torch.zeros(3, dtype=torch.complex64), torch.eye(3).to_sparse(), 3, None,
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        torch.ones(4).expand(5, 4), torch.zeros(2, device="meta"),
    )  # fmt: skip
    if rng.random() < 0.2:
        del table[name]
    else:
        table[name] = rng.choice(made)


def change_output(rng: Random, exported: Any) -> None:
    """Return other nodes or values."""
    output = next(node for node in exported.graph.nodes if node.op == "output")
    values = list(output.args[0])
    if values:
        nodes = [node for node in exported.graph.nodes if node.op != "output"]
        value = rng.choice(nodes) if rng.random() < 0.6 else rng.choice(VALUES)
        values[rng.randrange(len(values))] = value
        output.args = (tuple(values),)


WAYS: tuple[Mutation, ...] = (
    *[change_argument] * 8, *[drop_argument] * 2, *[add_argument] * 2, *[swap_operator] * 3,
    *[swap_arguments] * 2, *[change_metadata] * 3, *[change_signature] * 2, *[change_state] * 2,
    change_output,
)  # fmt: skip
"""Mutations, each as often as it is chosen."""


def mutated(rng: Random, exported: Any) -> tuple[Any, str]:
    """A damaged copy of a program, and the name of the mutation."""
    damaged = copied(exported)
    way = rng.choice(WAYS)
    way(rng, damaged)
    return damaged, way.__name__


def copied(exported: Any) -> Any:
    """A copy of a program whose graphs, signature and tables may be changed."""
    made = copy.copy(exported)
    made._graph_module = copy.deepcopy(exported.graph_module)
    made._graph_signature = copy.deepcopy(exported.graph_signature)
    made._state_dict, made._constants = dict(exported.state_dict), dict(exported.constants)
    return made
