"""The convolution that kernels compute with, against JAX's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.ops.conv_pool import cpu_algorithms
from braces.ops.conv_pool.conv import convolve
from braces.ops.conv_pool.cpu_algorithms import ALGORITHMS, ConvGeometry
from braces.ops.conv_pool.lax_conv import convolution

CANONICAL = {
    "[b, 0, f]x[0, i, o]->[b, 0, f]",
    "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]",
}
ONES, NO_PADS = (1, 1), ((0, 0), (0, 0))
CASES = {
    "one axis": ((2, 7, 3), (3, 3, 4), ConvGeometry((1,), ((1, 1),), (1,), (1,), 1)),
    "strides": ((2, 7, 6, 2), (3, 2, 2, 3),
        ConvGeometry((2, 3), ((1, 0), (0, 2)), ONES, ONES, 1)),
    "dilations": ((2, 7, 6, 2), (2, 3, 2, 3),
        ConvGeometry((1, 2), ((0, 1),) * 2, ONES, (2, 2), 1)),
    "spacings": ((1, 3, 4, 2), (2, 3, 2, 1),
        ConvGeometry((1, 2), ((-1, 2),) * 2, (2, 3), ONES, 1)),
    "three axes": (
        (1, 3, 4, 3, 2),
        (2, 2, 3, 2, 1),
        ConvGeometry((1, 2, 1), ((1, 1),) * 3, (1,) * 3, (1,) * 3, 1),
    ),
    "few terms": ((2, 5, 4, 6), (2, 3, 2, 9), ConvGeometry((2, 1), NO_PADS, (1, 2), (2, 1), 3)),
    "many terms": ((2, 5, 4, 60), (2, 3, 30, 4),
        ConvGeometry((2, 1), ((1, 0),) * 2, ONES, ONES, 2)),
    "a window of one element": ((2, 3, 4, 5), (1, 1, 5, 3),
        ConvGeometry(ONES, NO_PADS, ONES, (2, 3), 1)),
    "one element, with strides": ((2, 3, 4, 5), (1, 1, 5, 3),
        ConvGeometry((2, 1), NO_PADS, (1, 2), ONES, 1)),
    "an axis of size 1": ((2, 6, 1, 3), (3, 1, 3, 2),
        ConvGeometry((2, 3), ((1, 1), (0, 0)), (1, 2), ONES, 1)),
    "an axis of size 1, padded": ((2, 1, 6, 3), (1, 2, 3, 2),
        ConvGeometry((2, 1), ((1, 0), (0, 0)), ONES, ONES, 1)),
    "axes of size 1": ((2, 1, 1, 3), (1, 1, 3, 2),
        ConvGeometry((2, 2), NO_PADS, ONES, ONES, 1)),
    "no examples": ((0, 5, 4, 2), (2, 3, 1, 4), ConvGeometry(ONES, NO_PADS, ONES, ONES, 2)),
    "no place": ((2, 2, 4, 2), (3, 3, 1, 4), ConvGeometry(ONES, NO_PADS, ONES, ONES, 2)),
}  # fmt: skip


def by_jax(x: Any, kernel: Any, windows: ConvGeometry) -> Any:
    space = "DHW"[-len(windows.strides) :]
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        windows.strides,
        windows.pads,
        windows.spacings,
        windows.dilations,
        (f"N{space}C", f"{space}IO", f"N{space}C"),
        windows.groups,
    )


def derivatives(function: Any, x: Any, kernel: Any, dx: Any, dk: Any) -> Iterator[Any]:
    """The value, and derivatives of first and second order by way of each other."""

    def bent(x: Any, kernel: Any) -> Any:
        return jnp.sum(jnp.sin(function(x, kernel)))

    def along(x: Any, kernel: Any) -> Any:
        return jnp.sum(jnp.cos(jax.jvp(function, (x, kernel), (dx, dk))[1]))

    def sloped(x: Any, kernel: Any) -> Any:
        by_x, by_kernel = grad(x, kernel)
        return jnp.vdot(by_x, dx) + jnp.vdot(by_kernel, dk)

    grad = jax.grad(bent, (0, 1))
    yield function(x, kernel)
    yield jax.jvp(function, (x, kernel), (dx, dk))[1]
    yield from grad(x, kernel)
    yield from jax.jvp(grad, (x, kernel), (dx, dk))[1]
    yield from jax.grad(sloped, (0, 1))(x, kernel)
    yield from jax.grad(along, (0, 1))(x, kernel)


@pytest.mark.unoptimized
@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_every_order_are_those_of_jax(name: str, rng: Any) -> None:
    x_shape, kernel_shape, windows = CASES[name]
    shapes = (x_shape, kernel_shape, x_shape, kernel_shape)
    arrays = [rng.normal(size=shape) for shape in shapes]
    with jax.enable_x64(True):
        got, want = (
            jax.jit(lambda *a, f=f: list(derivatives(lambda x, k: f(x, k, windows), *a)))(
                *arrays
            )
            for f in (convolution, by_jax)
        )
    for ours, other in zip(got, want, strict=True):
        assert ours.dtype == other.dtype
        np.testing.assert_allclose(ours, other, 1e-9, 1e-9)


@pytest.mark.unoptimized
@pytest.mark.parametrize("count", [1, 4, 12, 13])
def test_a_kernel_is_derived_from_pieces_of_the_batch(
    count: int, rng: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_algorithms, "PIECE_BYTES", 1)
    x, out = (rng.normal(size=(count, 5, 4, n)).astype("f4") for n in (2, 3))
    windows = ConvGeometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)

    def derived(platform: str | None) -> Any:
        way = ALGORITHMS[platform]["kernel"]
        return jax.jit(lambda x, out: way(x, out, windows=windows, shape=(3, 3, 2, 3)))(x, out)

    np.testing.assert_allclose(derived("cpu"), derived(None), 1e-4, 1e-4)


def convolutions(platform: str, function: Any, *arrays: Any) -> list[str]:
    """The convolutions that XLA is given for a platform: orders of axes, windows, groups."""
    code = jax.jit(function).trace(*arrays).lower(lowering_platforms=(platform,))
    return re.findall(r"stablehlo.convolution\(.*? dim_numbers = (.*?) : ", code.as_text())


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCW", "NWC"])
@pytest.mark.parametrize("groups", [1, 2])
def test_xla_is_given_the_fast_order_alone(layout: str, groups: int, rng: Any) -> None:
    space, window = (9,) * (len(layout) - 2), (5,) * (len(layout) - 2)
    first = layout[1] == "C"
    x = rng.normal(size=(2, 60, *space) if first else (2, *space, 60))
    per_group = 60 // groups
    weight = rng.normal(size=(4, per_group, *window) if first else (*window, per_group, 4))

    def all_orders(*arrays: Any) -> list[Any]:
        return list(
            derivatives(
                lambda x, k: convolve(x, k, None, (2,), "same", (1,), groups, layout), *arrays
            )
        )

    found = convolutions("cpu", all_orders, x, weight, x, weight)
    assert found
    assert {one.partition(", window")[0] for one in found} <= CANONICAL


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
def test_another_machine_gets_the_convolutions_of_jax_itself(
    name: str, platform: str, rng: Any
) -> None:
    x_shape, kernel_shape, windows = CASES[name]
    shapes = (x_shape, kernel_shape, x_shape, kernel_shape)
    arrays = [rng.normal(size=shape).astype("f4") for shape in shapes]
    ours, theirs = (
        convolutions(
            platform,
            lambda *a, f=f: list(derivatives(lambda x, k: f(x, k, windows), *a))[:4],
            *arrays,
        )
        for f in (convolution, by_jax)
    )
    assert set(ours) == set(theirs)
    assert ours or 0 in x_shape


def test_what_is_not_finite_stays_in_its_group(mode: str) -> None:
    x = np.ones((1, 4, 3, 3), np.float32)
    x[0, 0] = np.nan
    for window in (1, 3):
        weight = np.ones((4, 1, window, window), np.float32)
        with br.Program() as program:
            out = br.conv2d(br.constant(x), br.constant(weight), groups=4)
        got = br.Executor(mode=mode).run(program, br.Scope(), fetch=out)
        np.testing.assert_array_equal(np.isnan(got[0]).any((1, 2)), [True, False, False, False])


def test_half_precision_is_added_up_in_single(rng: Any) -> None:
    x = rng.normal(size=(2, 6, 6, 8)).astype(jnp.bfloat16)
    kernel = rng.normal(size=(5, 5, 1, 8)).astype(jnp.bfloat16)
    windows = ConvGeometry((1, 1), ((2, 2), (2, 2)), (1, 1), (1, 1), 8)
    exact = by_jax(x.astype(np.float32), kernel.astype(np.float32), windows)
    got = convolution(x, kernel, windows)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_array_equal(got, exact.astype(jnp.bfloat16))
