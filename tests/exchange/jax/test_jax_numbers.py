"""Complex matrices, orders, folds, narrow sums and rounding: values and gradients of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br

pytestmark = pytest.mark.unoptimized

Function = Callable[..., Any]
RNG = np.random.default_rng(3)


def normal(*shape: int, dtype: str = "f4") -> Any:
    parts = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
    return (parts if dtype.startswith("c") else parts.real).astype(dtype)


HALF = normal(3, 3, dtype="c8")
DEFINITE = HALF @ HALF.conj().T + 2 * np.eye(3, dtype="c8")
SQUARE, TALL, COLUMN = (
    normal(3, 3, dtype="c8"),
    normal(4, 2, dtype="c8"),
    normal(3, 2, dtype="c8"),
)
Z = np.array([[1 + 2j, 1 - 1j, 3], [1 + 2j, -4, 3 + 1j]], "c8")
IMAGE = np.array([[[[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]]]], "i4")
WINDOWS = {"window_dimensions": (1, 1, 2, 2), "window_strides": (1, 1, 1, 2)}


def projections(a: Any) -> Any:
    """A function of eigenvectors that does not depend on their phases."""
    values, vectors = jnp.linalg.eigh(a)
    return values, jnp.abs(vectors) ** 2


def singular(a: Any) -> Any:
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    return s, jnp.abs(u) ** 2, u @ vh


def factors(a: Any) -> Any:
    packed, pivots, permutation = lax.linalg.lu(a)
    return packed, pivots, permutation


def general(a: Any) -> Any:
    """A function of left and right eigenvectors that does not depend on their phases."""
    options = {"compute_left_eigenvectors": True, "compute_right_eigenvectors": True}
    values, left, right = lax.linalg.eig(a, enable_eigvec_derivs=True, **options)
    return values, jnp.abs(left) ** 2, jnp.abs(right) ** 2


def tridiagonal(lower: Any, middle: Any, upper: Any, b: Any) -> Any:
    mask = jnp.arange(4)
    below, above = jnp.where(mask > 0, lower, 0), jnp.where(mask < 3, upper, 0)
    return lax.linalg.tridiagonal_solve(below, middle, above, b)


def applied(x: Any) -> Any:
    return jnp.asarray(x).at[np.array([0, 2, 2])].apply(jnp.sin)


def no_space(x: Any, y: Any) -> Any:
    return lax.conv_general_dilated(x, y, (), "VALID")


def triangular(a: Any, b: Any) -> Any:
    options = {"left_side": True, "lower": True, "transpose_a": True}
    return [lax.linalg.triangular_solve(a, b, conjugate_a=c, **options) for c in (True, False)]


def product(x: Any, y: Any, dtype: Any) -> Any:
    return lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=dtype)


def fold(x: Any, y: Any) -> Any:
    """Products of complex numbers that are given by their parts."""

    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    return lax.reduce((x, y), (np.float32(1), np.float32(0)), combine, (0,))


def selected(x: Any) -> Any:
    pick = {"padding": ((0, 0),) * 4, "select_prim": lax.ge_p, **WINDOWS}
    return lax.select_and_scatter_add_p.bind(x[:, :, :2, :2] + 1, x, **pick)


def rounded(x: Any) -> Any:
    return [
        lax.reduce_precision(x, e, m) for e, m in ((5, 10), (8, 7), (4, 3), (8, 23), (5, 2))
    ]


def beyond(x: Any, at: Any) -> Any:
    """Updates outside of an array, in JAX's modes."""
    modes = ("promise_in_bounds", "clip", "drop", None)
    return [jnp.asarray(x).at[at].add(2.0, mode=mode) for mode in modes]


def bounds(x: Any) -> Any:
    return x.max(1, initial=2), x.min(1, initial=2)


CASES: dict[str, tuple[Any, ...]] = {
    "cholesky": (jnp.linalg.cholesky, DEFINITE),
    "eigenvalues": (jnp.linalg.eigvalsh, DEFINITE),
    "eigenvectors": (projections, DEFINITE),
    "singular values": (lambda a: jnp.linalg.svd(a, compute_uv=False), TALL),
    "singular vectors": (singular, TALL),
    "qr": (jnp.linalg.qr, TALL),
    "wide qr": (lambda a: jnp.linalg.qr(a)[1], TALL.T),
    "lu": (factors, SQUARE),
    "solve": (jnp.linalg.solve, SQUARE, COLUMN),
    "inverse": (jnp.linalg.inv, SQUARE),
    "any eigenvalues": (jnp.linalg.eigvals, SQUARE),
    "any eigenvectors": (general, SQUARE.real),
    "tridiagonal": (tridiagonal, normal(4), normal(4) + 3, normal(4), normal(4, 2)),
    "determinant": (jnp.linalg.det, SQUARE),
    "triangular": (triangular, SQUARE, COLUMN),
    "complex maximum": (lambda z: (lax.max(z, z[::-1]), lax.min(z, z[::-1])), Z),
    "reduced complex": (lambda z: (z.max(1), z.min(), z.max((0, 1))), Z),
    "complex powers": (lambda z: (jnp.exp2(z), jnp.log2(z), lax.logistic(z)), Z / 2),
    "directions": (lambda z: lax.sign(z * np.float32([0, 1, 2])), Z),
    "padded complex": (lambda z: lax.pad(z, np.complex64(2 - 1j), ((1, 0, 1), (-1, 2, 0))), Z),
    "accumulated complex": (lambda z: (lax.cummax(z, 1), lax.cummin(z, 0, reverse=True)), Z),
    "sorted complex": (lambda z: (jnp.sort(z, 1), lax.sort((z, z.real), num_keys=1)), Z),
    "applied": (applied, normal(5)),
    "no spatial axes": (no_space, normal(2, 3), normal(4, 3)),
    "fold": (fold, normal(4, 3), normal(4, 3)),
    "int8": (lambda x: product(x, x, np.int32), np.full((3, 3), 100, "i1")),
    "float16": (lambda x: product(x, x, np.float32), np.full((3, 3), 300, "f2")),
    "bool": (lambda x: product(x, x, np.bool_), np.eye(3, dtype=bool)),
    "mixed": (lambda x, y: lax.dot(x, y), np.ones((2, 2), "i1"), np.ones((2, 2), "u4")),
    "rounding": (rounded, np.array([1.2345e-6, 7e-8, 70000, -1e-39, 3.14159, np.nan], "f4")),
    "bfloat16 neighbour": (lax.nextafter, jnp.ones(2, "bfloat16"), jnp.zeros(2, "bfloat16")),
    "selection": (selected, IMAGE),
    "no elements": (bounds, np.zeros((2, 0), "f4")),
    "no integers": (bounds, np.zeros((2, 0), "i2")),
    "updates outside": (beyond, normal(3), np.array([1, 5])),
}  # fmt: skip


def is_float(x: Any) -> bool:
    return np.dtype(x.dtype).kind in "fc"


def real_loss(results: Any, library: Any) -> Any:
    """A real number of the differentiable results."""
    total = 0.0
    for z in (z for z in results if is_float(z)):
        parts = (library.real(z), library.imag(z)) if np.dtype(z.dtype).kind == "c" else (z,)
        total = total + sum(
            library.sum(part * part * (at + 1)) for at, part in enumerate(parts)
        )
    return total


def flat(function: Function) -> Function:
    return lambda *given: jax.tree.leaves(function(*given))


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_jax(name: str, mode: str) -> None:
    function, *given = CASES[name]
    prog, _ = br.from_jax(flat(function), *given)
    feed = dict(zip(prog.feeds, map(np.asarray, given), strict=True))
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, list(prog.fetches))
    for mine, theirs in zip(got, flat(function)(*given), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(
            mine.astype("c16"), np.asarray(theirs).astype("c16"), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", [n for n, (_, *given) in CASES.items() if is_float(given[0])])
def test_gradients_are_those_of_jax(name: str) -> None:
    function, *given = CASES[name]
    results = flat(function)(*given)
    if name in ("bfloat16 neighbour", "applied") or not any(map(is_float, results)):
        pytest.skip("JAX has no gradient")
    prog, _ = br.from_jax(flat(function), *given)
    by = [at for at, x in enumerate(given) if is_float(x)]
    with prog:
        total = real_loss([prog.var(out) for out in prog.fetches], br)
        inputs = [prog.var(prog.feeds[at]) for at in by]
        pairs = zip(br.gradients(total, inputs), inputs, strict=True)
        grads = [br.zeros_like(x) if grad is None else grad for grad, x in pairs]
    feed = dict(zip(prog.feeds, map(np.asarray, given), strict=True))
    got = br.Executor().run(prog, br.Scope(), feed, grads)
    wanted = jax.grad(lambda *given: real_loss(flat(function)(*given), jnp), by)(*given)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)
