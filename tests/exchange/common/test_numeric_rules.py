"""Rules of numerical functions of torch, for arrays of symbolic size, beside SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special as special

import braces as br
from braces.exchange.torch.rules import RULES

POINTS = np.linspace(-4.0, 14.0, 37)
SHARES = np.array([0.0, 1e-300, 1e-9, 0.1, 0.4, 0.5, 0.9, 1.0, 1.5])
SPECIAL: dict[str, tuple[Callable[..., Any], Any]] = {
    "special_bessel_j0": (special.j0, POINTS),
    "special_bessel_j1": (special.j1, POINTS),
    "special_bessel_y0": (special.y0, np.abs(POINTS)),
    "special_bessel_y1": (special.y1, np.abs(POINTS)),
    "special_modified_bessel_k0": (special.k0, np.abs(POINTS)),
    "special_modified_bessel_k1": (special.k1, np.abs(POINTS)),
    "special_scaled_modified_bessel_k0": (special.k0e, np.abs(POINTS)),
    "special_scaled_modified_bessel_k1": (special.k1e, np.abs(POINTS)),
    "special_spherical_bessel_j0": (lambda x: special.spherical_jn(0, x), np.abs(POINTS)),
    "special_erfcx": (special.erfcx, np.array([-3.0, -0.5, 0.0, 0.9, 1.1, 7.9, 8.1, 1e4])),
    "special_log_ndtr": (special.log_ndtr, np.array([-30.0, -1.0, 0.0, 2.0, 9.0])),
    "special_ndtri": (special.ndtri, SHARES),
}


def run(function: Callable[..., Any], feed: dict[str, Any], mode: str = "interpret") -> Any:
    with br.Program() as prog:
        given = [
            br.data(name, ["b", *array.shape[1:]], dtype=array.dtype.name)
            for name, array in feed.items()
        ]
        out = function(*given)
        results = list(out) if isinstance(out, tuple | list) else [out]
    return br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=results)


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_are_those_of_scipy(name: str) -> None:
    function, x = SPECIAL[name]
    (found,) = run(RULES[name], {"x": x})
    as_torch = name.startswith("special_bessel")  # which leaves out a term of denominators
    near = {"rtol": 1e-4, "atol": 4e-7} if as_torch else {"rtol": 1e-10, "atol": 1e-14}
    np.testing.assert_allclose(found, function(x), **near)


POLYNOMIALS = {
    "chebyshev_polynomial_t": special.eval_chebyt,
    "chebyshev_polynomial_u": special.eval_chebyu,
    "shifted_chebyshev_polynomial_t": special.eval_sh_chebyt,
    "hermite_polynomial_h": special.eval_hermite,
    "hermite_polynomial_he": special.eval_hermitenorm,
    "laguerre_polynomial_l": special.eval_laguerre,
    "legendre_polynomial_p": special.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_have_degrees_of_their_own(name: str, mode: str) -> None:
    x, n = np.linspace(-1.5, 1.5, 12), np.arange(12) % 7
    (found,) = run(RULES[f"special_{name}"], {"x": x, "n": n}, mode)
    np.testing.assert_allclose(found, POLYNOMIALS[name](n, x), rtol=1e-9)
    (below,) = run(RULES[f"special_{name}"], {"x": x, "n": n * 0 - 1}, mode)
    np.testing.assert_array_equal(below, np.zeros(12))


def test_factors_solve_systems_of_any_number(mode: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4, 2))

    def solved(a: br.Var, b: br.Var) -> list[br.Var]:
        packed, pivots, errors = RULES["linalg_lu_factor_ex"](a)
        lower = RULES["cholesky"](br.matmul(a, br.matrix_transpose(a)))
        return [
            RULES["linalg_lu_solve"](packed, pivots, b),
            RULES["linalg_lu_solve"](packed, pivots, b, adjoint=True),
            RULES["cholesky_solve"](b, lower),
            RULES["linalg_pinv.atol_rtol_tensor"](b),
            errors,
        ]

    found = run(solved, {"a": a, "b": b}, mode)
    np.testing.assert_allclose(a @ found[0], b, atol=1e-9)
    np.testing.assert_allclose(a.mT @ found[1], b, atol=1e-9)
    np.testing.assert_allclose(a @ a.mT @ found[2], b, atol=1e-8)
    np.testing.assert_allclose(found[3], np.linalg.pinv(b), atol=1e-9)
    np.testing.assert_array_equal(found[4], np.zeros(3, np.int32))


def test_reflections_are_those_of_lapack(mode: str) -> None:
    x = np.random.default_rng(1).normal(size=(2, 5, 3))

    def factored(x: br.Var) -> list[br.Var]:
        packed, scales = RULES["geqrf"](x)
        return [packed, scales, RULES["linalg_householder_product"](packed, scales)]

    packed, scales, q = run(factored, {"x": x}, mode)
    for at in range(2):
        (wanted, tau), _ = scipy.linalg.qr(x[at], mode="raw")
        np.testing.assert_allclose(packed[at], wanted, atol=1e-12)
        np.testing.assert_allclose(scales[at], tau, atol=1e-12)
        np.testing.assert_allclose(q[at] @ np.triu(packed[at][:3]), x[at], atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_histograms_are_those_of_numpy(weighted: bool) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=50), rng.uniform(size=50)

    def counted(x: br.Var, w: br.Var) -> list[br.Var]:
        weight = w if weighted else None
        counts, edges = RULES["histogram.bin_ct"](x, 7, weight=weight)
        part, _ = RULES["histogram.bin_ct"](x, 5, range=(-1.0, 0.5), weight=weight)
        dense, _ = RULES["histogram.bin_ct"](x, 5, weight=weight, density=True)
        return [counts, edges, part, dense]

    found = run(counted, {"x": x, "w": w})
    weights = w if weighted else None
    wanted = [
        *np.histogram(x, 7, weights=weights),
        np.histogram(x, 5, range=(-1.0, 0.5), weights=weights)[0],
        np.histogram(x, 5, weights=weights, density=True)[0],
    ]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_medians_without_nan_and_modes(mode: str) -> None:
    x = np.array([[3.0, np.nan, 1.0, 2.0], [np.nan] * 4, [5.0, 5.0, 4.0, 4.0]])
    (least, where) = run(lambda x: RULES["nanmedian.dim"](x, 1), {"x": x}, mode)
    np.testing.assert_array_equal(least, [2.0, np.nan, 4.0])
    np.testing.assert_array_equal(where, [3, 0, 3])
    (median, _) = run(lambda x: RULES["median.dim"](x, 1), {"x": x}, mode)
    np.testing.assert_array_equal(median, [np.nan, np.nan, 4.0])
    (often, last) = run(lambda x: RULES["mode"](x, 1), {"x": x[2:]}, mode)
    assert (often.tolist(), last.tolist()) == ([4.0], [3])


def test_functions_along_an_axis_of_scalars() -> None:
    def scalars(x: br.Var) -> list[br.Var]:
        first = x[0]
        return [
            RULES["log_softmax"](first, 0),
            RULES["softmax"](first, 0),
            RULES["nonzero"](first),
            RULES["nonzero"](x[1]),
        ]

    found = run(scalars, {"x": np.array([3.0, 0.0])})
    assert [found[0].tolist(), found[1].tolist()] == [0.0, 1.0]
    assert [found[2].shape, found[3].shape] == [(1, 0), (0, 0)]
