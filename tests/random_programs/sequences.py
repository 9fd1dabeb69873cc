"""Operators over rows that a loop collected, and activations of slices of symbolic axes."""

from __future__ import annotations

import random
from collections.abc import Callable

import braces as br

Change = Callable[[br.Var], br.Var]

ACTIVATIONS: tuple[Change, ...] = (br.tanh, br.sin, br.cos, br.square)
SLICES: tuple[Change, ...] = (
    lambda x: x[1:],
    lambda x: x[:-1],
    lambda x: x[1:-1],
    lambda x: x[::2],
    lambda x: x[::-1],
    lambda x: x[-2:],
    lambda x: x[:5],
)
OPERATORS: tuple[Change, ...] = (
    *SLICES,
    lambda x: x[1:] - x[:-1],
    lambda x: br.cumsum(x, axis=0),
    lambda x: br.cumsum(x, axis=0, reverse=True),
    lambda x: br.cumprod(x, axis=0),
    lambda x: br.cummax(x, axis=0),
    lambda x: br.flip(x, axis=0),
    lambda x: br.roll(x, 1, axis=0),
    lambda x: br.softmax(x, axis=0),
    lambda x: br.log_softmax(x, axis=0),
    lambda x: br.sort(x, axis=0),
    lambda x: br.concat([x, x], axis=0),
    lambda x: br.sum(br.stack([x, x * x], axis=0), axis=0),
    lambda x: x * br.tanh(br.sum(x * x, axis=0)),
    lambda x: x * br.sin(twice(x)),
)
"""From rows to rows; their number may become another one."""


def twice(x: br.Var) -> br.Var:
    """Products of an array with itself, over its first axis: one variable in two slots."""
    rest = "ijk"[: x.ndim - 1]
    return br.einsum(f"t{rest},t{rest}->{rest}", x, x)


def activate_slice(draw: random.Random, x: br.Var) -> br.Var:
    """The sum of an activation of a slice of the first axis, whose size is symbolic."""
    return br.tanh(br.sum(draw.choice(ACTIVATIONS)(draw.choice(SLICES)(x)), axis=0))


def reduce_rows(draw: random.Random, rows: br.Var) -> br.Var:
    """One or two operators over the rows, and a sum in which their order counts."""
    for _ in range(draw.randint(0, 2)):
        rows = draw.choice(OPERATORS)(br.sin(rows))
    weights = br.cumsum(rows * 0.0 + 0.5, axis=0)
    return br.tanh(br.sum(br.sin(rows) * weights, axis=0))
