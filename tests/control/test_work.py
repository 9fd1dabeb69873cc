"""The operation count of a computation follows from its trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from braces.ops.control.partition.kernel_cost import UNKNOWN_WORK, estimate_work

X, W = np.ones((4, 5), "f4"), np.ones((5, 6), "f4")


def test_each_number_that_is_made_counts() -> None:
    assert work(lambda x: jnp.sin(x) * 2 + x, X) == 3 * 20
    assert work(lambda x: (x + x).sum(), X) == 20 + 1


def test_a_product_counts_all_that_it_multiplies() -> None:
    assert work(jnp.matmul, X, W) == 4 * 5 * 6
    images, kernel = np.ones((2, 3, 8, 8), "f4"), np.ones((7, 3, 2, 2), "f4")

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv(x, w, (1, 1), "VALID")

    assert work(convolve, images, kernel) == 2 * 7 * 7 * 7 * 3 * 2 * 2


def test_what_is_inside_counts_as_often_as_it_runs() -> None:
    once = work(jax.jit(lambda x: jnp.sin(x) + x), X)
    assert once >= 40

    def steps(x: Any) -> Any:
        return lax.scan(lambda h, _: (jnp.sin(h) + h, None), x, None, length=7)[0]

    assert work(steps, X) >= 7 * 40


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, jax.checkpoint])
def test_nobody_knows_what_a_loop_does_before_it_ran(around: Callable[..., Any]) -> None:
    def loop(x: Any) -> Any:
        return lax.while_loop(lambda h: h.sum() < 9, lambda h: h + 1, x)

    assert work(around(loop), X) == UNKNOWN_WORK


def work(function: Callable[..., Any], *arrays: Any) -> float:
    return estimate_work(jax.make_jaxpr(function)(*arrays))
