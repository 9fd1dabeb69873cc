"""Cells of recurrent networks, written as users do: one step in terms of memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import braces as br

WIDTH = 4

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
