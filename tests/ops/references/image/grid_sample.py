"""References of sampled images: place by place, by the weights of all pixels."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from tests.ops.reference import Array, Reference, between, floating


def reflected(at: float, size: int, align_corners: bool) -> float:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if low == high:
        return 0.0
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def brought_in(at: float, size: int, padding_mode: str, align_corners: bool) -> float:
    if padding_mode == "reflection":
        at = reflected(at, size, align_corners)
    return at if padding_mode == "zeros" else min(max(at, 0.0), size - 1.0)


def curve(distance: float, mode: str) -> float:
    a, d = -0.75, abs(distance)
    if mode == "linear":
        return max(1 - d, 0.0)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights_of(
    coordinate: float, size: int, mode: str, padding_mode: str, align_corners: bool
) -> Array:
    middle = ((coordinate + 1) * size - 1) / 2
    at = (coordinate + 1) / 2 * (size - 1) if align_corners else middle
    found = np.zeros(size)
    if mode != "cubic":
        at = brought_in(at, size, padding_mode, align_corners)
    if mode == "nearest":
        if 0 <= round(at) < size:
            found[round(at)] = 1
        return found
    for place in range(math.floor(at) - 2, math.floor(at) + 4):
        put = round(brought_in(place, size, padding_mode, align_corners))
        if 0 <= put < size:
            found[put] += curve(place - at, mode)
    return found


def grid_sample(x: Array, grid: Array, **attrs: Any) -> Array:
    x, grid = floating(x), floating(grid)
    places = grid.shape[1:-1]
    out = np.zeros((*x.shape[:2], *places), np.promote_types(x.dtype, grid.dtype))
    if 0 in x.shape:
        return out
    for n, at in product(range(len(x)), np.ndindex(*places)):
        made = x[n].astype(np.float64)
        for axis, size in enumerate(x.shape[2:]):
            coordinate = float(grid[(n, *at, x.ndim - 3 - axis)])
            weights = weights_of(coordinate, size, **attrs)
            made = np.tensordot(made, weights, (1, 0))
        out[(n, slice(None), *at)] = made
    return out


REFERENCES = {"grid_sample": Reference(grid_sample, inputs={"grid": between(-1.6, 1.6)})}
