"""Numerical functions of torch: decompositions, special functions, histograms, draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

torch = pytest.importorskip("torch")
special = torch.special

pytestmark = pytest.mark.filterwarnings("ignore")  # torch warns of itself

Case = tuple[Callable[..., Any], tuple[Any, ...]]


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def draw(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def positive(*shape: int) -> Any:
    x = draw(*shape)
    return x @ x.mT + 3 * torch.eye(shape[-1], dtype=x.dtype)


def grid(low: float, high: float) -> Any:
    return torch.linspace(low, high, 41, dtype=torch.float64)


def lu_of(x: Any, b: Any) -> Any:
    packed, pivots = torch.linalg.lu_factor(x)
    results = [
        torch.linalg.lu_solve(packed, pivots, b if left else b.mT, left=left, adjoint=adjoint)
        for left in (True, False)
        for adjoint in (True, False)
    ]
    return *results, *torch.lu_unpack(packed, pivots), *torch.linalg.lu(x[..., :2])


def reflected(x: Any, y: Any) -> Any:
    scale = 2 / (1 + (x.tril(-1) ** 2).sum(-2))
    return (
        torch.linalg.householder_product(x, scale),
        torch.ormqr(x, scale, y),
        torch.ormqr(x, scale, y, transpose=True),
        torch.ormqr(x, scale, y.mT, left=False),
    )


def cholesky_of(factor: Any, b: Any) -> Any:
    lower = torch.linalg.cholesky(factor)
    return (
        torch.cholesky_solve(b, lower),
        torch.cholesky_solve(b, lower.mT, upper=True),
        torch.cholesky_inverse(lower),
        torch.linalg.solve_triangular(factor, b, upper=True, unitriangular=True),
        torch.linalg.solve_triangular(factor, b.mT, upper=False, left=False),
        torch.linalg.solve_triangular(factor[0], b, upper=False),
    )


def unpooled(x: Any) -> Any:
    """Maxima of overlapping windows back at their places, some of which they share."""
    pooled, at = torch.nn.functional.max_pool2d(x, 2, 1, return_indices=True)
    return torch.nn.functional.max_unpool2d(pooled * 2, at, 2, 1), torch.ops.aten._safe_softmax(
        torch.where(x[0, 0] > 0, -torch.inf, x[0, 0]), -1
    )


def counted(x: Any, w: Any) -> Any:
    edges = torch.tensor([-1.0, 0.0, 0.25, 2.0], dtype=x.dtype)
    return (
        torch.histc(x, 7), torch.histc(x, 5, -1, 1),
        *torch.histogram(x, 6, weight=w, density=True),
        *torch.histogram(x, 4, range=(-1.0, 1.0)), *torch.histogram(x, edges),
        torch.histogramdd(x.reshape(-1, 2), [3, 4])[0],
    )  # fmt: skip


def segments(x: Any) -> Any:
    lengths = torch.tensor([2, 0, 3, 1])
    plain = [
        torch.segment_reduce(x, how, lengths=lengths, initial=1.0, unsafe=True)
        for how in ("sum", "mean", "max", "min", "prod")
    ]
    bounds = torch.tensor([[0, 2, 5], [0, 4, 5]])
    return *plain, torch.segment_reduce(x[:4, :5].reshape(2, 2, 5)[:, 0], "sum",
                                        offsets=bounds, axis=1, unsafe=True)  # fmt: skip


def with_gaps(x: Any) -> Any:
    y = torch.where(x > 1, torch.nan, x)
    return *torch.nanmedian(y, 1), torch.nanmedian(y), *torch.median(y, 0), torch.median(x)


def repeated(x: Any) -> Any:
    whole = (x * 1.5).round()
    return *torch.mode(whole, 1), *torch.mode(whole, 0, keepdim=True)


def grouped(x: Any, w: Any) -> Any:
    """Products of groups of rows, of columns, and of the summed axis."""
    x, w, ends = x.bfloat16(), w.bfloat16(), torch.tensor([8, 8, 24], dtype=torch.int32)
    return (
        torch._grouped_mm(x, w, offs=ends).float(),
        torch._grouped_mm(w, x.T.contiguous(), offs=ends).float(),
        torch._grouped_mm(x.T.contiguous(), x, offs=ends).float(),
        torch._grouped_mm(w, w).float(),
    )


DEGREES = torch.arange(-1, 8).repeat(5)[:41]
DIFFERENTIABLE: dict[str, Case] = {
    "lu": (lu_of, (draw(2, 3, 3), draw(2, 3, 2))),
    "cholesky": (cholesky_of, (positive(2, 3, 3), draw(2, 3, 2))),
    "reflections": (reflected, (draw(2, 4, 3), draw(2, 4, 2))),
    "pseudoinverse": (lambda x: (torch.linalg.pinv(x), torch.linalg.pinv(x.mT, rtol=0.3)),
                      (draw(2, 4, 3),)),
    "exponential": (torch.linalg.matrix_exp, (draw(2, 3, 3),)),
    "sum of products": (
        lambda x, a, b: torch.addbmm(x, a, b, beta=2, alpha=0.5),
        (draw(2, 4), draw(3, 2, 5), draw(3, 5, 4)),
    ),
    "segments": (segments, (draw(6, 5),)),
    "maxima back at their places": (unpooled, (draw(1, 2, 4, 3),)),
    "medians": (with_gaps, (draw(4, 7),)),
    "errors": (
        lambda x: (special.erfcx(x), special.log_ndtr(x), special.ndtri(special.ndtr(x))),
        (grid(-5, 12),),
    ),
    "floats": (
        lambda x: (torch.ldexp(x, torch.tensor(3)), *torch.frexp(x),
                   torch.nextafter(x, torch.zeros(()))),
        (draw(9),),
    ),
    "rows of bounded norm": (
        lambda table: torch.nn.functional.embedding(
            torch.tensor([[0, 2], [2, 3]]), table.clone(), max_norm=1.0
        ),
        (draw(5, 3),),
    ),
    "Fourier transforms of real numbers": (
        lambda x: (torch.fft.irfft(x), torch.fft.hfft(x, 6), torch.fft.irfft2(x),
                   torch.fft.ifft(x).abs(), torch.fft.hfftn(x)),
        (draw(3, 4),),
    ),
}  # fmt: skip
OTHERS: dict[str, Case] = {
    "Bessel functions": (
        lambda x: (special.bessel_j0(x), special.bessel_j1(x), special.bessel_y0(x),
                   special.bessel_y1(x), special.modified_bessel_k0(x),
                   special.modified_bessel_k1(x), special.scaled_modified_bessel_k0(x),
                   special.scaled_modified_bessel_k1(x), special.spherical_bessel_j0(x),
                   special.modified_bessel_i0(x), special.modified_bessel_i1(x)),
        (grid(-2, 18),),
    ),
    "polynomials": (
        lambda x, n: (special.chebyshev_polynomial_t(x, n),
                      special.chebyshev_polynomial_u(x, n),
                      special.shifted_chebyshev_polynomial_v(x, n),
                      special.chebyshev_polynomial_w(x, 4), special.laguerre_polynomial_l(x, n),
                      special.legendre_polynomial_p(x, n), special.hermite_polynomial_h(x, n),
                      special.hermite_polynomial_he(x, n)),
        (grid(-1.2, 1.4), DEGREES),
    ),
    "histograms": (counted, (draw(40), draw(40).abs())),
    "triangles by reflections": (
        lambda x: (*torch.geqrf(x), *torch.geqrf(x.mT), *torch.geqrf(x.triu())),
        (draw(2, 4, 3),),
    ),
    "modes": (repeated, (draw(6, 7),)),
    "integers": (
        lambda x, y: (torch.gcd(x, y), torch.lcm(x, y), torch.triu_indices(3, 4, 1),
                      torch.tril_indices(3, 4, 1)),
        (torch.tensor([12, -8, 0, 7, 0]), torch.tensor([18, 12, 5, 1, 0])),
    ),
    "next floats": (
        lambda x: (torch.nextafter(x, -x), torch.nextafter(x, x), torch.nextafter(x, x * 2)),
        (torch.tensor([1.0, -2.0, 0.5, torch.inf, torch.nan]),),
    ),
    "groups": (grouped, (draw(24, 16).float(), draw(3, 16, 16).float())),
    "antialias": (
        lambda x: [torch.nn.functional.interpolate(x, size, mode=mode, antialias=True,
                                                   align_corners=corners)
                   for size in ((4, 5), (9, 12), (3, 12)) for mode in ("bilinear", "bicubic")
                   for corners in (False, True)],
        (draw(1, 2, 7, 11),),
    ),
}  # fmt: skip
CASES = DIFFERENTIABLE | OTHERS


def read(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[br.Program, Any]:
    prog, _ = br.from_torch(torch.export.export(Function(function), args))
    return prog, {name: x.numpy() for name, x in zip(prog.feeds, args, strict=True)}


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("name", CASES)
def test_numerical_functions_of_torch_give_the_same(name: str, mode: str) -> None:
    function, args = CASES[name]
    prog, feed = read(function, args)
    found = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=list(prog.fetches))
    wanted = torch.utils._pytree.tree_leaves(function(*args))
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.numpy().dtype
        close = {"groups": 3e-2, "next floats": 0.0}.get(name, 1e-9)
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=close, atol=close)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_numerical_functions_of_torch_have_the_same_gradients(name: str) -> None:
    function, args = CASES[name]
    prog, feed = read(function, args)
    inputs = [x.clone().requires_grad_() for x in args]
    outputs = torch.utils._pytree.tree_leaves(function(*inputs))
    total = sum(torch.sum(y * torch.cos(y.detach())) for y in outputs if y.requires_grad)
    wanted = torch.autograd.grad(total, inputs)
    with prog:
        parts = [
            br.sum(y * br.stop_gradient(br.cos(y)))
            for y, theirs in zip(map(prog.var, prog.fetches), outputs, strict=True)
            if theirs.requires_grad
        ]
        found = br.gradients([sum(parts[1:], parts[0])], list(map(prog.var, prog.feeds)))
    grads = br.Executor().run(prog, br.Scope(), feed=feed, fetch=found)
    for ours, theirs in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("draws", "quantile"),
    [
        (lambda x: x.uniform_(2.0, 5.0), lambda u: 2.0 + 3.0 * u),
        (lambda x: x.cauchy_(1.0, 2.0), lambda u: 1.0 + 2.0 * np.tan(np.pi * (u - 0.5))),
        (lambda x: x.log_normal_(0.5, 0.25), None),
        (lambda x: x.geometric_(0.3), lambda u: np.ceil(np.log1p(-u) / np.log(0.7))),
        (lambda x: x.exponential_(2.0), lambda u: -np.log1p(-u) / 2.0),
    ],
    ids=["uniform", "cauchy", "log normal", "geometric", "exponential"],
)
def test_draws_have_the_quantiles_of_their_distribution(draws: Any, quantile: Any) -> None:
    prog, feed = read(lambda x: draws(torch.empty_like(x)), (torch.zeros(40_000),))
    scope, exe = br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    (found,) = exe.run(prog, scope, feed=feed, fetch=list(prog.fetches))
    shares = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    if quantile is None:
        bounds = np.exp(0.5 + 0.25 * torch.special.ndtri(torch.tensor(shares)).numpy())
    else:
        bounds = quantile(shares)
    np.testing.assert_allclose(np.quantile(found, shares), bounds, rtol=0.03, atol=0.05)


def hermitian() -> Any:
    x = torch.complex(draw(3, 3), draw(3, 3).flip(0))
    return x @ x.mH + 3 * torch.eye(3)


LU = torch.linalg.lu_factor
OF_COMPLEX: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda x, b: torch.linalg.cholesky(x),
    "cholesky upper": lambda x, b: torch.cholesky(x, upper=True),
    "cholesky_inverse": lambda x, b: torch.cholesky_inverse(torch.linalg.cholesky(x)),
    "cholesky_solve": lambda x, b: torch.cholesky_solve(b, torch.linalg.cholesky(x)),
    "det": lambda x, b: torch.linalg.det(x @ x.mT),
    "eig": lambda x, b: tuple(y.abs() for y in torch.linalg.eig(x + x.real.triu())),
    "eigvals": lambda x, b: torch.linalg.eigvals(x + x.real.triu()),
    "eigvalsh": lambda x, b: torch.linalg.eigvalsh(x),
    "eigvalsh upper": lambda x, b: torch.linalg.eigvalsh(x, UPLO="U"),
    "geqrf": lambda x, b: (x.sum(), *torch.geqrf(x.detach()), *torch.geqrf(x.triu().detach())),
    "householder": lambda x, b: torch.linalg.householder_product(x, b[:, 0]),
    "inv": lambda x, b: torch.linalg.inv(x),
    "lu": lambda x, b: torch.linalg.lu(x),
    "lu_solve": lambda x, b: torch.linalg.lu_solve(*LU(x), b),
    "lu_solve adjoint": lambda x, b: torch.linalg.lu_solve(*LU(x), b, adjoint=True),
    "lu_solve right": lambda x, b: torch.linalg.lu_solve(*LU(x), b.mT, left=False),
    "matrix_exp": lambda x, b: torch.linalg.matrix_exp(x / 9),
    "matrix_power": lambda x, b: torch.linalg.matrix_power(x, -2),
    "ormqr": lambda x, b: torch.ormqr(x, b[:, 0], b),
    "ormqr right": lambda x, b: torch.ormqr(x, b[:, 0], b.mH, left=False, transpose=True),
    "pinv": lambda x, b: torch.linalg.pinv(x[:, :2]),
    "pinv wide": lambda x, b: torch.linalg.pinv(x[:2]),
    "pinv hermitian": lambda x, b: torch.linalg.pinv(x, hermitian=True),
    "qr": lambda x, b: torch.linalg.qr(x)[1].abs(),
    "slogdet": lambda x, b: torch.linalg.slogdet(x),
    "solve": lambda x, b: torch.linalg.solve(x, b),
    "solve right": lambda x, b: torch.linalg.solve(x, b.mT, left=False),
    "svdvals": lambda x, b: torch.linalg.svdvals(x),
    "triangular": lambda x, b: torch.linalg.solve_triangular(x, b, upper=True),
    "triangular right": lambda x, b: torch.linalg.solve_triangular(
        x, b.mT, upper=False, left=False
    ),
    "triangular_solve": lambda x, b: torch.triangular_solve(b, x, transpose=True)[0],
}


def complex_matrices() -> tuple[Any, Any]:
    return hermitian(), torch.complex(draw(3, 2), draw(3, 2).flip(0))


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_functions_of_complex_matrices_equal_those_of_torch(name: str) -> None:
    given = complex_matrices()
    module = Function(OF_COMPLEX[name])
    exported = torch.export.export(module, given)
    tracked = [x.clone().requires_grad_() for x in given]
    wanted = module(*tracked)
    leaves = [y.resolve_conj() for y in (wanted if isinstance(wanted, tuple) else (wanted,))]
    total = sum((y.abs() ** 2).sum() for y in leaves)
    grads = torch.autograd.grad(total, tracked, allow_unused=True)
    prog, values = br.from_torch(exported)
    with prog:
        results = [prog.var(fetch) for fetch in prog.fetches]
        sizes = [br.real(y * br.conj(y)) if y.dtype.kind == "c" else y * y for y in results]
        found = br.gradients(sum(map(br.sum, sizes)), [prog.var(feed) for feed in prog.feeds])
    scope = br.Scope()
    scope.update(values)
    feed = dict(zip(prog.feeds, (x.numpy() for x in given), strict=True))
    pairs = [*zip(results, leaves, strict=True)]
    pairs += [(g, w.conj()) for g, w in zip(found, grads, strict=True) if w is not None]
    made = br.Executor().run(prog, scope, feed, [mine for mine, _ in pairs])
    for mine, (_, theirs) in zip(made, pairs, strict=True):
        array = theirs.detach().resolve_conj().numpy()
        np.testing.assert_allclose(mine, array, rtol=1e-7, atol=1e-8)
