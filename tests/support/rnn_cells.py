"""Cells of recurrent networks, written as users do: one step in terms of memories.

`tagger` makes a net of one, with everything in its step, and `ran` runs such a net.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import braces as br

WIDTH, IDS, CLASSES = 4, 9, 5

Cell = Callable[[Any, Sequence[Any], Callable[..., Any]], tuple[Any, ...]]
"""From the step's input, the memories, and what gives parameters, to the next memories."""


def simple(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    (h,) = memories
    return (br.tanh(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + p(WIDTH)),)


def lstm(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    h, c = memories
    gates = x @ p(WIDTH, 4 * WIDTH) + h @ p(WIDTH, 4 * WIDTH) + p(4 * WIDTH)
    i, f, o, u = br.split(gates, 4, axis=-1)
    after = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(u)
    return br.sigmoid(o) * br.tanh(after), after


def gates(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """An LSTM whose gates are written one by one."""
    h, c = memories

    def gate() -> Any:
        return x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + p(WIDTH)

    after = br.sigmoid(gate()) * c + br.sigmoid(gate()) * br.tanh(gate())
    return br.sigmoid(gate()) * br.tanh(after), after


def put_together(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """An LSTM with one weight for all, whose input and memory are put together before."""
    h, c = memories
    gates = br.concat([x, h], axis=-1) @ p(2 * WIDTH, 4 * WIDTH) + p(4 * WIDTH)
    i, f, o, u = br.split(gates, 4, axis=-1)
    after = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(u)
    return br.sigmoid(o) * br.tanh(after), after


def boxed(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """A cell that is a block, as one composes them."""
    with br.block("cell"):
        return lstm(x, memories, p)


def two_layers(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """Gates of a memory and of what the layer below gives, both of the same trip."""
    h, low = memories
    low = br.tanh(x @ p(WIDTH, WIDTH) + low @ p(WIDTH, WIDTH))
    one, two, three = (low @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) for _ in range(3))
    return br.tanh(one) * br.sigmoid(two) + three, low


def peephole(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    h, c = memories

    def gate(seen: Any) -> Any:
        return br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + seen * p(WIDTH))

    after = gate(c) * c + gate(c) * br.tanh(x @ p(WIDTH, WIDTH))
    return gate(after) * br.tanh(after), after


def gru(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    (h,) = memories
    reset = br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH))
    update = br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH))
    new = br.tanh(x @ p(WIDTH, WIDTH) + (reset * h) @ p(WIDTH, WIDTH))
    return (update * h + (1.0 - update) * new,)


def highway(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """One weight twice in a step, and a product of weights, which is the same on each trip."""
    (h,) = memories
    w = br.tanh(p(WIDTH, WIDTH) @ p(WIDTH, WIDTH))
    for _ in range(2):
        gate = br.sigmoid(h @ w + x)
        h = gate * br.tanh(h @ w) + (1.0 - gate) * h
    return (h,)


def attention(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """The memory looks at keys that do not change."""
    (h,) = memories
    keys = br.tanh(p(6, WIDTH))
    looked = br.softmax((h @ p(WIDTH, WIDTH)) @ br.matrix_transpose(keys), axis=-1) @ keys
    return (br.tanh(x @ p(WIDTH, WIDTH) + looked),)


CELLS: dict[str, tuple[Cell, int]] = {
    "simple": (simple, 1),
    "lstm": (lstm, 2),
    "gates": (gates, 2),
    "put together": (put_together, 2),
    "boxed": (boxed, 2),
    "two layers": (two_layers, 2),
    "peephole": (peephole, 2),
    "gru": (gru, 1),
    "highway": (highway, 1),
    "attention": (attention, 1),
}


def tagger(
    cell: str, order: int, *, rows: Any = "b", padded: bool = False, **options: Any
) -> tuple[br.Program, list[Any]]:
    """A net with everything in the step: ids and labels in; the loss, what steps give, slopes.

    Args:
        cell: Which one.
        order: How many times the loss is differentiated.
        rows: How many there are.
        padded: Whether there are lengths; and a scale, which has no logarithm where it is
            padding.
        options: Of the RNN.
    """
    parameters, scales = list[Any](), list[Any]()

    def parameter(*shape: int) -> Any:
        parameters.append(br.parameter(f"p{len(parameters)}", shape, dtype="float64"))
        return parameters[-1]

    with br.Program() as prog:
        ids, labels = (br.data(n, ["t", rows], dtype="int32") for n in ("ids", "labels"))
        if padded:
            scales.append(br.data("scale", ["t", rows, WIDTH], dtype="float64"))
            options["lengths"] = br.data("lengths", [rows], dtype="int32")
        rnn = br.create_rnn(**options)
        table = parameter(IDS, WIDTH)
        with rnn.stepnet() as net:
            x = br.embedding(net.add_input(ids), table)
            for scale in scales:
                x = x * br.log(net.add_input(scale))
            kept, nexts = recurring(net, cell, x, ids.shape[1], parameter)
            logits = nexts[0] @ parameter(WIDTH, CLASSES) + parameter(CLASSES)
            net.add_output(
                br.softmax_cross_entropy(logits, net.add_input(labels), reduction="none")
            )
            net.add_output(nexts[0])
        losses, states = rnn()
        loss = br.sum(losses) + br.sum(br.sin(rnn.final(kept[0])))
        return prog, [loss, losses, states, *slopes(loss, [*parameters, *scales], order)]


def recurring(
    net: Any, cell: str, x: Any, rows: Any, parameter: Callable[..., Any]
) -> tuple[list[Any], tuple[Any, ...]]:
    """The memories of a cell in a step, and their next values."""
    step, memories = CELLS[cell]
    first = [br.zeros([rows, WIDTH], dtype="float64") for _ in range(memories)]
    kept = [net.add_memory(init=one) for one in first]
    nexts = step(x, kept, parameter)
    for memory, after in zip(kept, nexts, strict=True):
        memory.update(after)
    return kept, nexts


def slopes(loss: Any, by: Sequence[Any], order: int) -> list[Any]:
    """The gradients of a loss, and those of what bends with it and them."""
    found = br.gradients(loss, by)
    if order == 1:
        return found
    curved = sum((br.sum(br.sin(slope)) for slope in found), start=br.sum(br.sin(loss)))
    return found + br.gradients(curved, by)


def fed(name: str, trips: Sequence[int], *shape: int, dtype: str = "f8") -> list[Any]:
    """A feed for each number of trips."""
    rngs = map(np.random.default_rng, trips)
    rows = (rng.normal(size=(n, *shape)) for n, rng in zip(trips, rngs, strict=True))
    return [{name: array.astype(dtype)} for array in rows]


def ran(
    prog: br.Program, fetch: Any, feeds: Iterable[dict[str, Any]], **options: Any
) -> list[list[Any]]:
    """Return the results of one executor for each feed."""
    exe, scope = br.Executor(**options), br.Scope()
    exe.init(prog, scope, seed=1)
    return [exe.run(prog, scope, feed=feed, fetch=fetch) for feed in feeds]


def close(found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]]) -> None:
    """Return whether the runs of two executors gave the same, but for the order of sums."""
    for run, other in zip(found, wanted, strict=True):
        for one, two in zip(run, other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)
