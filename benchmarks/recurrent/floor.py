"""The lower bound for the products of a step: their operations at the measured peak."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp

from benchmarks.case import Case, Comparison, Measure, clocked
from benchmarks.library import library
from benchmarks.peers import installed
from benchmarks.recurrent.task import Task

FLOOR = "the floor: products at the peak"
SIZE, TINY = 2048, 64
TIMES = 30
UNIT = "GFLOP/s"


def case(tiny: bool) -> Case:
    """The peak: the best of many large products, by each installed library."""
    size = TINY if tiny else SIZE
    names = [name for name in PRODUCTS if name == "JAX" or installed("torch")]
    return Case(
        what=f"peak, the best of {TIMES} products of {size:,}x{size:,}",
        sides={name: lambda name=name: rate(name, size) for name in names},
        comparisons=[Comparison(name) for name in names],
        agree=lambda: None,
        unit=UNIT,
        rounds=1,
        warm=0,
        again=False,
    )


def floor(task: Task, peak: Case) -> Measure:
    """Seconds for the operations of a task at the best rate of the case of peaks."""
    return lambda: task.operations() / (max(side() for side in peak.sides.values()) * 1e9)


@cache
def rate(name: str, size: int) -> float:
    """The best rate of a library in this run."""
    measure = PRODUCTS[name](size)
    return 2 * size**3 / min(measure() for _ in range(TIMES)) / 1e9


def _by_jax(size: int) -> Measure:
    a, product = jnp.ones((size, size)), jax.jit(jnp.matmul)
    return clocked(lambda: jax.block_until_ready(product(a, a)))


def _by_torch(size: int) -> Measure:
    return lambda: library("benchmarks.recurrent.in_torch")("product", size)[1]


PRODUCTS: dict[str, Callable[[int], Measure]] = {"JAX": _by_jax, "PyTorch": _by_torch}
