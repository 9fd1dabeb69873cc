"""Reductions over windows and selections in them: any dilation, padding, rank and function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.lax import windowed_reductions as implementation

import braces as br
from tests.support.from_jax import hold

pytestmark = pytest.mark.unoptimized

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 6)).astype("f")
TIES = np.round(RANDOM.normal(size=(5, 6)) * 2).astype("f")
INF = np.float32(np.inf)
Function = Callable[..., Any]


def slide(
    function: Function, first: Any, window: Sequence[int], *options: Any, **named: Any
) -> Function:
    """A reduction over windows as a function of the array."""
    first = np.float32(first) if isinstance(first, int | float) else first
    return lambda x: lax.reduce_window(x, first, function, window, *options, **named)


def with_options(function: Function, first: Any, dilation: int = 1) -> Function:
    """Overlapping windows with strides, padding on one side, and a dilated array."""
    edges = [(1, 0), (0, 2)]
    return slide(function, first, (2, 3), (1, 2), edges, (2, 1), (dilation, 1))


def in_windows(identity: float, reduce: Function, options: Any) -> Function:
    """The reduction of the elements of each window, from JAX functions with a gradient."""
    window, strides, edges, base, dilation = options

    def function(x: Any) -> Any:
        config = [(*edge, gap - 1) for edge, gap in zip(edges, base, strict=True)]
        x = lax.pad(x, np.float32(identity), config)
        for axis, (size, step, gap) in enumerate(zip(window, strides, dilation, strict=True)):
            at = 2 * axis
            last = x.shape[at] - (size - 1) * gap
            places = jnp.arange(0, last, step)[:, None] + jnp.arange(size) * gap
            x = jnp.take(x, places, axis=at)
        return reduce(x, tuple(range(1, x.ndim, 2)))

    return function


OPTIONS = (2, 3), (1, 2), [(1, 0), (0, 2)], (2, 1), (3, 1)
PLAIN = (2, 2), (1, 1), [(0, 1), (0, 1)], (1, 1), (1, 1)


def pairs(x: Any) -> Any:
    """A reduction of two arrays by a function that mixes them."""

    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[0] * b[1] + a[1]

    first = np.float32(1), np.float32(0)
    return lax.reduce_window((jnp.cos(x), x), first, combine, (2, 2), (1, 1), "SAME")


KNOWN: dict[str, Function] = {
    "sum": with_options(lax.add, 0.0, 3),
    "sum of empty windows": slide(lax.add, 0.0, (7, 2)),
    "sum over four axes": lambda x: lax.reduce_window(
        x[:4].reshape(2, 2, 2, 3), np.float32(0), lax.add, (2, 1, 2, 3), (1, 1, 1, 1), "SAME"
    ),
    "max": with_options(lax.max, -INF),
    "min": with_options(lax.min, INF),
    "max over four axes": lambda x: lax.reduce_window(
        x[:4].reshape(2, 2, 2, 3), -INF, lax.max, (2, 2, 2, 2), (1, 1, 1, 1), "SAME"
    ),
    "max of a dilated array": slide(lax.max, -INF, (3, 1), None, "VALID", (2, 1)),
}
"""Reductions whose gradient JAX has."""
WRITTEN: dict[str, tuple[Function, Function]] = {
    "max with gaps": (with_options(lax.max, -INF, 3), in_windows(-INF, jnp.max, OPTIONS)),
    "product": (with_options(lax.mul, 1.0, 3), in_windows(1.0, jnp.prod, OPTIONS)),
    "sum from 2": (
        with_options(lax.add, 2.0, 3),
        lambda x: 2.0 + in_windows(0.0, jnp.sum, OPTIONS)(x),
    ),
    "logarithm of a sum": (
        slide(jnp.logaddexp, -INF, (2, 2), (1, 1), [(0, 1), (0, 1)]),
        lambda x: jnp.log(in_windows(0.0, jnp.sum, PLAIN)(jnp.exp(x))),
    ),
}
"""Reductions, and equal functions whose gradient JAX has."""


@pytest.mark.parametrize("name", KNOWN)
def test_gradients_of_two_orders_are_those_of_jax(name: str, mode: str) -> None:
    is_compiled = mode == "compile"
    hold(lambda params: KNOWN[name](params["x"]), {"x": TIES}, mode=mode, second=is_compiled)


@pytest.mark.parametrize("name", WRITTEN)
def test_reductions_without_a_gradient_in_jax_have_one(name: str, mode: str) -> None:
    function, reference = WRITTEN[name]
    np.testing.assert_allclose(function(X), reference(X), rtol=1e-5)
    hold(
        lambda params: function(params["x"]), {"x": X}, mode=mode, second=mode == "compile",
        reference=lambda params: reference(params["x"]),
    )  # fmt: skip


def same(function: Function, mode: str, *arrays: Any) -> None:
    """The values are those of JAX, bit for bit."""
    prog, values = br.from_jax(function, *arrays)
    scope = br.Scope()
    scope.update(values)
    feed = dict(zip(prog.feeds, arrays, strict=True))
    got = br.Executor(mode=mode).run(prog, scope, feed, list(prog.fetches))
    for mine, theirs in zip(got, jax.tree.leaves(jax.jit(function)(*arrays)), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_integers_and_bools_are_exact(mode: str) -> None:
    def integers(n: Any) -> Any:
        cases = (lax.add, 0), (lax.max, -(2**31)), (lax.min, 2**31 - 1)
        return [slide(f, np.int32(first), (3,), (1,), "SAME", (2,))(n) for f, first in cases]

    def bools(x: Any) -> Any:
        cases = (lax.max, False), (lax.min, True), (lax.bitwise_and, True)
        return [slide(f, np.bool_(first), (2,), (1,), [(1, 1)])(x) for f, first in cases]

    same(integers, mode, np.array([2**30 + 1, 3, -(2**25) - 1, 7, 9], "i4"))
    same(bools, mode, np.array([True, False, True, True, False]))
    small = slide(lax.add, np.uint8(0), (3,), (1,), "SAME")
    same(small, mode, np.array([200, 100, 50, 3], "u1"))


def test_convolutions_of_integers_are_exact(mode: str) -> None:
    x = np.full((1, 2, 3, 3), 127, "i1")
    weight = np.tile(np.array([127, -126], "i1"), (1, 2, 3, 3))[:, :, :, :3]

    def quantized(x: Any, weight: Any) -> Any:
        wide = [jnp.tile(value, (1, 256, 1, 1)) for value in (x, weight)]
        return lax.conv(*wide, (1, 1), "VALID", preferred_element_type=np.dtype("i4"))

    def wrapping(x: Any, weight: Any) -> Any:
        return lax.conv(x.astype("i4") * 1000003, weight.astype("i4"), (1, 1), "SAME")

    same(lambda x, w: (quantized(x, w), wrapping(x, w)), mode, x, weight)


def test_a_window_has_no_elements_beyond_the_array(mode: str) -> None:
    def differences(x: Any) -> Any:
        edges = [(2, 2)], [(-1, 2)], [(3, -1)]
        cases = [(edge, base) for edge in edges for base in (1, 2)]
        return [slide(lax.sub, 2.0, (2,), (1,), edge, (base,), (2,))(x) for edge, base in cases]

    def of_nothing(x: Any) -> Any:
        options: Any = (2, 1), (1, 1), [(1, 2), (0, 0)], (2, 1)
        firsts = (lax.add, 0.0), (lax.max, -INF), (lax.sub, 2.0)
        return [slide(f, first, *options)(x) for f, first in firsts]

    same(differences, mode, TIES[0])
    same(of_nothing, mode, np.zeros((0, 2), "f"))
    same(slide(lax.sub, 2.0, (9, 1)), mode, TIES)


def test_first_values_and_sizes_may_be_known_to_a_run_only(mode: str) -> None:
    def function(x: Any) -> Any:
        total = lax.reduce_window(x, np.float32(1), lax.mul, (2, 3), (1, 1), "SAME")
        return total, lax.reduce_window(x, x[0, 0], lax.add, (1, 2), (1, 2), "VALID")

    prog, _ = br.from_jax(function, X, sizes={"x": ["rows", None]})
    for rows in (1, 4) if mode == "compile" else (3,):
        got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X[:rows]}, list(prog.fetches))
        for mine, theirs in zip(got, function(X[:rows]), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_functions_of_several_arrays(mode: str) -> None:
    def places(x: Any) -> Any:
        def larger(a: Any, b: Any) -> Any:
            is_first = a[0] >= b[0]
            return jnp.where(is_first, a[0], b[0]), jnp.where(is_first, a[1], b[1])

        at = lax.broadcasted_iota(np.dtype("i4"), x.shape, 1)
        return lax.reduce_window((x, at), (-INF, np.int32(-1)), larger, (2, 3), (2, 1), "SAME")

    same(places, mode, TIES)
    hold(
        lambda p: jax.jvp(pairs, (p["x"],), (jnp.sin(p["x"]),)),
        {"x": X}, mode=mode, gradient=False,
    )  # fmt: skip


# ---- selections ------------------------------------------------------------------------------


def scattered(select: Function, scatter: Function, first: float, window: Any) -> Function:
    """Values at the elements that windows select."""
    shape, strides, edges = window

    def function(x: Any) -> Any:
        count = len(range(0, x.shape[0] + sum(edges[0]) - shape[0] + 1, strides[0]))
        others = len(range(0, x.shape[1] + sum(edges[1]) - shape[1] + 1, strides[1]))
        source = jnp.arange(1.0, 1.0 + count * others, dtype=x.dtype).reshape(count, others)
        init = np.asarray(first, x.dtype)
        return implementation._select_and_scatter(
            x, select, shape, strides, edges, source, init, scatter
        )

    return function


TILES = (2, 2), (2, 2), [(0, 1), (0, 0)]
OVERLAPPING = (2, 3), (1, 2), [(0, 1), (1, 0)]


@pytest.mark.parametrize("window", [TILES, OVERLAPPING], ids=["tiles", "overlapping"])
def test_selections_are_those_of_jax(window: Any, mode: str) -> None:
    same(scattered(lax.ge, lax.add, 0.5, window), mode, TIES)
    same(scattered(lax.le, lax.mul, 2.0, window), mode, TIES)
    same(scattered(lax.gt, lax.add, 0.0, window), mode, TIES.astype("i4"))


def test_selections_of_long_integers(mode: str) -> None:
    with jax.enable_x64(True):
        n = TIES.astype("i8") + 2**60
        window = (2, 3), (1, 2), [(0, 1), (1, 0)]
        source = np.arange(1, 16).reshape(5, 3)
        same(
            lambda n: implementation._select_and_scatter_add(source, n, lax.ge_p, *window),
            mode, n,
        )  # fmt: skip


MET = (
    *KNOWN.values(), pairs, jax.grad(lambda x: KNOWN["max"](x).sum()),
    lambda x: jax.jvp(KNOWN["max"], (x,), (x,)),
    scattered(lax.ge, lax.add, 0.5, TILES),
)  # fmt: skip
"""Functions that have all primitives of this module."""
