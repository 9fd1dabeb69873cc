"""The arithmetic of a step of each cell, over the functions of a library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.recurrent.task import GRU, HIGHWAY, LSTM, PEEPHOLE, Cell

State: TypeAlias = Sequence[Any]
"""The memories; the first one is what the step gives."""
Parameters: TypeAlias = Mapping[str, Any]


def added_product(x: Any, h: Any, w: Any) -> Any:
    """`x + h @ w`, which is one call in some libraries."""
    return x + h @ w


@dataclass(frozen=True)
class Maths:
    """The functions of a library for a step beside `+`, `*` and `@`, along the last axis."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    split: Callable[[Any, int], Sequence[Any]]
    norm: Callable[[Any, Any, Any], Any]
    added_product: Callable[[Any, Any, Any], Any] = added_product


def all_in(m: Maths, cell: Cell, x: Any, state: State, p: Parameters) -> State:
    """A step from its input, in the style of a first version."""
    if not cell.by_gate:
        return step(m, cell, x @ p["wx"] + p["b"], state, p)
    h = state[0]
    gates = [x @ p[f"wx_{g}"] + h @ p[f"wh_{g}"] + p[f"b_{g}"] for g in cell.gates]
    return ARITHMETIC[cell.name](m, gates, state, p)


def step(m: Maths, cell: Cell, x: Any, state: State, p: Parameters) -> State:
    """A step from the product of its input and the bias, with one product for all gates."""
    count, h = len(cell.gates), state[0]
    if cell.apart:
        gates = list(zip(m.split(x, count), m.split(h @ p["wh"], count), strict=True))
    else:
        gates = m.split(m.added_product(x, h, p["wh"]), count)
    return ARITHMETIC[cell.name](m, gates, state, p)


def lstm(m: Maths, gates: Sequence[Any], state: State, p: Parameters) -> State:
    """Long short-term memory."""
    i, f, o, u = gates
    c = m.sigmoid(f) * state[1] + m.sigmoid(i) * m.tanh(u)
    return m.sigmoid(o) * m.tanh(c), c


def gru(m: Maths, gates: Sequence[Any], state: State, p: Parameters) -> State:
    """A gated recurrent unit that resets the product of its memory."""
    (xr, hr), (xz, hz), (xn, hn) = gates
    n = m.tanh(xn + m.sigmoid(xr + hr) * hn)
    return (n + m.sigmoid(xz + hz) * (state[0] - n),)


def peephole(m: Maths, gates: Sequence[Any], state: State, p: Parameters) -> State:
    """An LSTM whose gates read the cell memory (peepholes)."""
    (i, f, o, u), c = gates, state[1]
    c = m.sigmoid(f + p["pf"] * c) * c + m.sigmoid(i + p["pi"] * c) * m.tanh(u)
    return m.sigmoid(o + p["po"] * c) * m.tanh(c), c


def highway(m: Maths, gates: Sequence[Any], state: State, p: Parameters) -> State:
    """One gate between the memory and a new state, both normalised."""
    t = m.sigmoid(m.norm(gates[0], p["scale_t"], p["shift_t"]))
    s = m.tanh(m.norm(gates[1], p["scale_s"], p["shift_s"]))
    return (state[0] + t * (s - state[0]),)


ARITHMETIC: Mapping[str, Callable[[Maths, Sequence[Any], State, Parameters], State]] = {
    LSTM.name: lstm,
    GRU.name: gru,
    PEEPHOLE.name: peephole,
    HIGHWAY.name: highway,
}
