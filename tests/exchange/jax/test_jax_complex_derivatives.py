"""Own derivatives of functions of complex numbers, and their conversions: those of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized

Function = Callable[[Any], Any]
Z = np.array([0.5 + 1.0j, -1.2 + 0.3j], "c8")
X = np.array([0.5, -1.3], "f4")


def by_jvp(f: Function, tangent: Callable[[Any, Any], Any]) -> Function:
    made = jax.custom_jvp(f)
    made.defjvp(lambda x, t: (made(x[0]), tangent(x[0], t[0])))
    return made


def by_vjp(f: Function, cotangent: Callable[[Any, Any], Any]) -> Function:
    made = jax.custom_vjp(f)
    made.defvjp(lambda x: (made(x), x), lambda x, g: (cotangent(x, g),))
    return made


def convert(x: Any, dtype: str) -> Any:
    """Convert as rules of JAX do, which do not warn of imaginary parts."""
    params = {"new_dtype": np.dtype(dtype), "weak_type": False, "sharding": None}
    return jax.lax.convert_element_type_p.bind(x, **params)


def bend(z: Any) -> Any:
    return z * z + jnp.exp(z)


def size(z: Any) -> Any:
    return z.real**2 + z.imag**2


def wave(x: Any) -> Any:
    return jnp.exp(1j * x) * x


FUNCTIONS: dict[str, tuple[Function, Any]] = {
    "complex by jvp": (by_jvp(bend, lambda z, t: t * z * (3 - 1j)), Z),
    "with conjugates by jvp": (by_jvp(bend, lambda z, t: jnp.conj(t) * z * 2j + t), Z),
    "complex by vjp": (by_vjp(bend, lambda z, g: g * z * (2 + 1j)), Z),
    "with conjugates by vjp": (by_vjp(bend, lambda z, g: jnp.conj(g * z) * (2 + 1j)), Z),
    "to real by jvp": (by_jvp(size, lambda z, t: 5 * (jnp.conj(z) * t).real), Z),
    "to real by vjp": (by_vjp(size, lambda z, g: g * jnp.conj(z) * (2 + 1j)), Z),
    "from real by jvp": (by_jvp(wave, lambda x, t: t * x * (3 - 1j)), X),
    "inverse of sinh": (lambda z: jnp.arcsinh(z) * z, Z),
    # JAX's derivative has the wrong sign at negative real parts.
    "inverse of cosh": (lambda z: jnp.arccosh(z) * z, np.where(Z.real < 0, -Z, Z)),
    "inverse of tanh": (lambda z: jnp.arctanh(z) * z, Z),
    "from real by vjp": (by_vjp(wave, lambda x, g: (g * (1 + 2j)).real * x + g.imag), X),
    "from real": (lambda x: convert(x, "complex64") * (1 + 2j) * x, X),
    "to real": (lambda z: convert(z * z, "float32"), Z),
}


def real_loss(z: Any, library: Any) -> Any:
    """A real number of numbers of either kind."""
    if z.dtype.kind != "c":
        return library.sum(z * z * z)
    real, imag = library.real(z), library.imag(z)
    return library.sum(real * real * imag + imag * imag)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_two_orders_of_derivatives_are_those_of_jax(name: str, mode: str) -> None:
    function, x = FUNCTIONS[name]

    def loss(x: Any) -> Any:
        return real_loss(function(x), jnp)

    prog, _ = br.from_jax(function, x)
    with prog:
        given = prog.var(prog.feeds[0])
        (first,) = br.gradients(real_loss(prog.var("out"), br), given)
        (second,) = br.gradients(real_loss(first, br), given)
    fetch = ["out", first, second]
    got = br.Executor(mode=mode).run(prog, br.Scope(), {prog.feeds[0]: x}, fetch)
    slope = jax.grad(loss)
    wanted = [function(x), slope(x), jax.grad(lambda x: real_loss(slope(x), jnp))(x)]
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-4)


def test_complex_numbers_are_converted_as_jax_converts_them(mode: str) -> None:
    z = np.array([1.5 - 2.0j, 0.0, 0.0 + 3.0j], "c8")

    def convert_all(z: Any) -> Any:
        fixed = jnp.asarray([2.5 + 1j, 0.0], "complex64")
        types = ("complex64", "float32", "int32", "bool", "float16")
        return [convert(x, dtype) for x in (z, fixed) for dtype in types]

    prog, _ = br.from_jax(convert_all, z)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"z": z})
    for mine, theirs in zip(got, convert_all(z), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_inverse_functions_are_accurate_at_branch_points_and_in_all_sizes(
    dtype: str, mode: str
) -> None:
    random = np.random.default_rng(0)
    scales = 10.0 ** np.arange(-8, 9)
    points = np.multiply.outer(scales, random.normal(size=20) + 1j * random.normal(size=20))
    grid = np.add.outer([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0], [0.0, 0.5j, 1j, -1j, 2j, -2j])
    near = np.add.outer([1.0, -1.0, 1j, -1j], 1e-3 * points.ravel()[:20])
    z = np.concatenate([points.ravel(), grid.ravel(), near.ravel()]).astype(dtype)
    z = z[(z != 1) & (z != -1)]

    def function(z: Any) -> Any:
        return jnp.arcsinh(z), jnp.arccosh(z), jnp.arctanh(z)

    with jax.enable_x64(True):
        prog, _ = br.from_jax(function, z)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"z": z}, list(prog.fetches))
    wide = z.astype("c16")
    for mine, compute in zip(got, (np.arcsinh, np.arccosh, np.arctanh), strict=True):
        wanted = compute(wide)
        assert mine.dtype == z.dtype
        error = np.abs(mine - wanted) / np.maximum(np.abs(wanted), 1e-30)
        assert error.max() < 20 * np.finfo(z.dtype).eps, (compute, z[error.argmax()])
