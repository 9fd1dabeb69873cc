"""Functions of complex numbers: values at cuts and infinities, and derivatives of JAX."""

from __future__ import annotations

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br

pytestmark = pytest.mark.unoptimized
INVERSES = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
NAMES = (
    *INVERSES, "abs", "cos", "cosh", "exp", "exp2", "expm1", "log", "log1p", "logistic",
    "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
PARTS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 1e-5, 30.0, np.inf, -np.inf, np.nan)
GRID = np.array([complex(*parts) for parts in product(PARTS, PARTS)])
POINTS = np.array([0.3 + 0.4j, -0.3 + 0.4j, 2 - 1j, -2 - 1j, 0.5 + 3j, -0.5 - 3j])


def parts_of(x: Any) -> Any:
    """Real and imaginary parts, in the last axis."""
    flat = np.asarray(x).reshape(-1, 1)
    return flat.view(flat.real.dtype)


def hold_parts(mine: Any, theirs: Any) -> None:
    """Each part is that of JAX, up to an error relative to the modulus."""
    found, wanted = parts_of(mine), parts_of(theirs)
    assert found.dtype == wanted.dtype
    modulus = np.abs(np.asarray(theirs)).ravel()
    scale = 50 * np.finfo(found.dtype).eps
    finite = np.isfinite(modulus)
    np.testing.assert_allclose(found[~finite], wanted[~finite], rtol=scale)
    errors = np.abs(found[finite] - wanted[finite]).max(axis=-1)
    np.testing.assert_array_less(errors, scale * modulus[finite] + np.finfo("f4").tiny)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_values_are_those_of_jax(dtype: str, mode: str) -> None:
    z = GRID.astype(dtype)

    def functions(z: Any) -> list[Any]:
        values = [getattr(lax, name)(z) for name in NAMES]
        return [*values, z**3, z**-2, lax.pow(z, z + 1)]

    with jax.enable_x64(True):
        prog, _ = br.from_jax(functions, z)
        wanted = jax.jit(functions)(z)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"z": z}, list(prog.fetches))
    for mine, theirs in zip(got, wanted, strict=True):
        hold_parts(mine, theirs)


def test_operators_have_the_branch_cuts_of_numpy(mode: str) -> None:
    """On a cut they have the values of XLA, which ignores the signs of zeros there."""
    z = np.array([complex(*parts) for parts in product((2.0, -2.0, 0.0), (0.0, 2.0, -2.0))])
    with br.Program() as prog:
        x = br.data("x", [len(z)], "complex128")
        fetches = [getattr(br, name)(x) for name in INVERSES]
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"x": z}, fetches)
    for name, mine in zip(INVERSES, got, strict=True):
        wanted = getattr(np, name.replace("a", "arc", 1))(z)
        np.testing.assert_allclose(mine, wanted, rtol=1e-14, atol=1e-15)


def real_loss(z: Any, library: Any) -> Any:
    """A real number of numbers of either kind."""
    if z.dtype.kind != "c":
        return library.sum(z * z * z)
    real, imag = library.real(z), library.imag(z)
    return library.sum(real * real * imag + imag * imag)


def arccosh(z: Any) -> Any:
    """`acosh`, whose derivative in JAX has the wrong sign at negative real parts."""
    return jnp.log(z + jnp.sqrt(z + 1) * jnp.sqrt(z - 1))


def test_the_derivative_of_acosh_is_that_of_its_values(mode: str) -> None:
    with br.Program() as prog:
        z = br.data("z", [len(POINTS)], "complex128")
        (slope,) = br.gradients(real_loss(br.acosh(z), br), z)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"z": POINTS}, slope)
    with jax.enable_x64(True):
        wanted = jax.grad(lambda z: real_loss(arccosh(z), jnp))(POINTS)
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


@pytest.mark.parametrize("names", [INVERSES, NAMES[len(INVERSES) :]], ids=["inverse", "others"])
def test_two_orders_of_derivatives_are_those_of_jax(names: Any, mode: str) -> None:
    def functions(z: Any, **others: Any) -> list[Any]:
        more = [] if names == INVERSES else [z**3, z**-2, lax.pow(z, 0.5 * z + 1)]
        return [others.get(name, getattr(lax, name))(z) for name in names] + more

    def loss(z: Any) -> Any:
        return sum(real_loss(value, jnp) for value in functions(z, acosh=arccosh))

    with jax.enable_x64(True):
        prog, _ = br.from_jax(functions, POINTS)
        slope = jax.grad(loss)
        second_order = jax.grad(lambda z: real_loss(slope(z), jnp))
        wanted = [jax.jit(slope)(POINTS), jax.jit(second_order)(POINTS)]
    with prog:
        z = prog.var("z")
        total = br.constant(np.zeros((), "f8"))
        for name in prog.fetches:
            total = total + real_loss(prog.var(name), br)
        (first,) = br.gradients(total, z)
        (second,) = br.gradients(real_loss(first, br), z)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"z": POINTS}, [first, second])
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
