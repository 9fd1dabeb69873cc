"""Functions of JAX become operators: the same numbers, with a size that only a run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import api_util, core, linear_util
from jax.extend.random import threefry_prng_impl

import braces as br
from braces.dtypes import parse_type
from braces.jaxpr.rules.callbacks import insertion_function
from braces.jaxpr.trace import trace

pytestmark = pytest.mark.unoptimized

X = np.array([[0.5, -1.25, 2.0], [-0.75, 0.0, 0.25]], "f")
Y = np.array([[1.5, 0.75, -2.0], [-0.75, 3.0, 0.5]], "f")
N = np.array([[7, -7, 0], [5, -3, 2]], "i4")
M = np.array([[2, 2, 3], [-2, 4, -5]], "i4")
B = np.array([[True, False, True], [False, False, True]])
WHICH = np.array([[0, 2, 1], [1, 1, 0]], "i4")


@jax.custom_jvp
def bent(x: Any) -> Any:
    return jnp.where(x > 0, x, 0.5 * x)


bent.defjvps(lambda t, out, x: t)


@jax.custom_vjp
def bowed(x: Any) -> Any:
    return x * x


bowed.defvjp(lambda x: (bowed(x), x), lambda x, g: (g * x,))


def halve_while_large(x: Any) -> Any:
    return lax.while_loop(lambda s: jnp.sum(s[0]) > 0.5, lambda s: (s[0] / 2, s[1] + 1), (x, 0))


def running(x: Any) -> Any:
    def step(total: Any, row: Any) -> tuple[Any, Any]:
        return total + row, (total * row, 2.0)

    return lax.scan(step, jnp.zeros(x.shape[0]), x.T, reverse=True)


def slid(x: Any) -> Any:
    """The largest of overlapping windows, beyond the ends too, less the smallest."""
    largest = lax.reduce_window(x, -np.float32(np.inf), lax.max, (1, 2), (1, 1), "SAME")
    return largest - lax.reduce_window(x, np.float32(np.inf), lax.min, (1, 3), (1, 1), "SAME")


def called(function: Callable[[Any], Any], x: Any) -> Any:
    """A call of a function that JAX neither compiles nor inlines."""
    info = api_util.debug_info("called", function, (x,), {})
    flat = linear_util.wrap_init(lambda x: [function(x)], debug_info=info)
    return core.call_p.bind(x, subfuns=(flat,))[0]


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "signs": (lambda x: (jnp.abs(x), -x, jnp.sign(x), jnp.floor(x), jnp.ceil(x)), (X,)),
    "sums": (lambda x, y: (x + y, x - y, x * y, x / y, 2.0 * x - 1.0), (X, Y)),
    "choices": (lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, 0.0)), (X, Y)),
    "waves": (lambda x: (jnp.sin(x), jnp.cos(x), jnp.tan(x), jnp.sinh(x), jnp.cosh(x)), (X,)),
    "arcs": (lambda x, y: (jnp.arcsin(x / 2), jnp.arccos(x / 2), jnp.arctan2(x, y)), (X, Y)),
    "arc": (jnp.arctan, (X,)),
    "growth": (lambda x: (jnp.exp(x), jnp.expm1(x), jnp.log(x * x), jnp.log1p(x * x)), (X,)),
    "squashes": (lambda x: (jnp.tanh(x), jax.nn.sigmoid(x), lax.erf(x)), (X,)),
    "roots": (lambda y: (jnp.sqrt(jnp.square(y)), lax.rsqrt(y * y)), (Y,)),
    "powers": (lambda y: (y**0, y**1, y**2, y**5, y**-3, jnp.abs(y) ** 1.5), (Y,)),
    "power of a count": (lambda x, n: (0.9 ** n.max(), jnp.abs(x) ** n), (X, M)),
    "halves": (lambda x: jnp.round(x * 2), (X,)),
    "finite": (lambda x: jnp.isfinite(1 / x), (X,)),
    "compared": (lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y), (X, Y)),
    "logic": (lambda b: (b & ~b, b | b.T.any(), b ^ b.all()), (B,)),
    "bits": (lambda n, m: (n & m, n | m, n ^ m, ~n, n << 2, n >> 1, n.view("u4") >> 3), (N, M)),
    "bits of signed numbers": (
        lambda n: (lax.shift_right_logical(n, np.int32(3)), n.astype("u1") >> 1),
        (N,),
    ),
    "bits of floats": (lambda x: lax.bitcast_convert_type(x, "i4") ^ 1, (X,)),
    "integers": (lambda n, m: (lax.div(n, m), lax.rem(n, m), n // m, n % m), (N, M)),
    "the smallest integer": (
        lambda n: (lax.div(n, jnp.full_like(n, 3)), lax.rem(n, jnp.full_like(n, 3))),
        (np.array([[-(2**31), 1 - 2**31, 2**31 - 1], [7, -7, 0]], "i4"),),
    ),
    "remainder": (lambda x, y: (lax.rem(x, y), x % y), (X, Y)),
    "chosen by a bool": (lambda b, x, y: jnp.where(b, x, y), (B, X, Y)),
    "chosen by a number": (lambda w, x, y: lax.select_n(w, x, y, x * y), (WHICH, X, Y)),
    "clamped": (lambda x: lax.clamp(np.float32(-0.5), x, np.float32(0.5)), (X,)),
    "converted": (lambda x, n: (x.astype("f8"), x.astype("i4"), n.astype(bool), n + x), (X, N)),
    "reduced": (lambda x: (x.sum(), x.sum(1), x.max(0), x.min(), x.prod(1), x.mean()), (X,)),
    "reduced integers": (lambda n: (n.sum(1, dtype="i4"), n.max()), (N,)),
    "so far": (lambda x: (jnp.cumsum(x, 1), lax.cumprod(x, 0, reverse=True)), (X,)),
    "places": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 1)), (X,)),
    "products": (lambda x, y: (x @ y.T, jnp.einsum("ij,ij->i", x, y), jnp.vdot(x, y)), (X, Y)),
    "shapes": (
        lambda x: (x.T, x[:, None], x.reshape(-1), lax.squeeze(x.sum(1, keepdims=True), [1])),
        (X,),
    ),
    "columns": (lambda x: (lax.slice_in_dim(x, 1, 3, axis=1), jnp.flip(x, 0)), (X,)),
    "parts": (lambda x: (x[:, 1:], x[:, ::2], x[:, ::-1]), (X,)),
    "a part": (lambda x, n: lax.dynamic_slice_in_dim(x, n[0, 0], 2, axis=1), (X, N)),
    "a part replaced": (
        lambda x, n: lax.dynamic_update_slice_in_dim(x, x[:, :2] * 2, n[0, 1], axis=1),
        (X, N),
    ),
    "taken": (
        lambda x, n: (x[:, n[0] % 3], x.at[:, n[0]].get(mode="fill")),
        (X, N),
    ),
    "put": (
        lambda x, y, n: (
            x.at[:, n[0]].set(0.5),
            x.at[:, n[0]].add(y),
            x.at[:, n[0]].subtract(y, mode="clip"),
            x.at[:, n[0]].min(y),
            x.at[:, n[0]].max(y),
        ),
        (X, Y, N),
    ),
    "in order": (
        lambda x, n: (jnp.sort(x, 1), lax.sort((n, x, -x), dimension=1, num_keys=2)),
        (X, N),
    ),
    "best": (lambda x: lax.top_k(x, 2), (X,)),
    "extremes so far": (
        lambda x: (lax.cummax(x, 1), lax.cummin(x, 1, True), lax.cumlogsumexp(x, 1)),
        (X,),
    ),
    "padded": (
        lambda x: (
            lax.pad(x, np.float32(2), ((0, 0, 0), (1, 2, 0))),
            lax.pad(x, x[0, 0], ((0, 0, 0), (-1, 2, 1))),
        ),
        (X,),
    ),
    "convolved": (
        lambda x, y: (
            jnp.convolve(x[0], y[1]),
            lax.conv_general_dilated(
                x[:, :, None, None], y[:, :1, None, None] + x[0, 0], (1, 1), [(0, 0), (1, 1)],
                feature_group_count=3 - 2, lhs_dilation=(2, 1), rhs_dilation=(1, 2),
                dimension_numbers=("NHWC", "OIHW", "NHWC"),
            ),
            lax.conv_general_dilated(
                x[:, None], y[:, None, :2], (1,), "VALID", batch_group_count=2
            ),
        ),
        (X, Y),
    ),
    "slid over": (
        lambda x: (
            lax.reduce_window(x, -np.float32(np.inf), lax.max, (1, 2), (1, 1), "SAME"),
            lax.reduce_window(x, np.float32(np.inf), lax.min, (1, 2), (1, 1), "VALID"),
            lax.reduce_window(x, np.float32(0), lax.add, (1, 3), (1, 2), "SAME"),
            lax.reduce_window(x, np.float32(0), lax.add, (1, 1), (1, 1), "SAME"),
        ),
        (X,),
    ),
    "selected": (
        lambda x, y: (
            jax.grad(lambda v: (slid(v) * y).sum())(jnp.round(x)),  # where some are equal
            jax.jvp(slid, (x,), (y,)),
            jax.grad(lambda v: (jax.grad(lambda w: (slid(w * w) * y).sum())(v) * y).sum())(x),
        ),
        (X, Y),
    ),
    "special": (
        lambda x, y: (
            jnp.arcsinh(x), jnp.arctanh(x / 3), jnp.arccosh(1 + x * x), jnp.cbrt(y),
            lax.erf_inv(x / 3), lax.erfc(x), jnp.exp2(x), lax.lgamma(1 + x * x),
            lax.digamma(1 + x * x),
        ),
        (X, Y),
    ),
    "later": (
        lambda x: (
            jnp.log2(1 + x * x),
            jax.jvp(jnp.tanh, (x,), (x,)),
            lax.custom_root(
                lambda r: r - jnp.sin(x),
                x,
                lambda f, r: r - f(r),
                lambda g, y: y / g(jnp.ones_like(y)),
            ),
        ),
        (X,),
    ),
    "complex": (
        lambda x, y: (lax.complex(x, y).conj().imag, lax.complex(x, y).real),
        (X, Y),
    ),
    "repeated": (lambda x: (jnp.tile(x, (2, 2)), lax.tile(x, (1, 2))), (X,)),
    "apart": (lambda x: lax.unstack(x, axis=1), (X,)),
    "put elsewhere": (lambda x: jax.device_put(x), (X,)),
    "matrices": (
        lambda x: (
            jnp.linalg.cholesky(x @ x.T + 2 * jnp.eye(2, dtype="f")),
            lax.linalg.triangular_solve(x.T @ x + jnp.eye(3, dtype="f"), x, lower=True),
            lax.linalg.triangular_solve(x.T @ x + jnp.eye(3, dtype="f"), x.T, left_side=True),
            jnp.linalg.solve(x @ x.T, x), jnp.linalg.eigvalsh(x @ x.T),
            [jnp.abs(part) for part in jnp.linalg.eigh(x @ x.T)],
            [jnp.abs(part) for part in jnp.linalg.svd(x, full_matrices=False)],
            jnp.linalg.svdvals(x), jnp.abs(jnp.linalg.qr(x)[1]),
            lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(x)[1], 2),
            lax.linalg.symmetric_product(x, x @ x.T, alpha=2.0, beta=0.5),
        ),
        (X,),
    ),
    "transformed": (
        lambda x: (
            jnp.abs(jnp.fft.rfft2(x)), jnp.fft.irfft(jnp.fft.fft2(x), 4),
            jnp.fft.ifft2(x).imag, jnp.fft.irfft2(x + 1j * x), jnp.conj(x).imag,
        ),
        (X,),
    ),
    "counted bits": (
        lambda n, m: (
            lax.population_count(n), lax.population_count(m.astype("u1")), lax.clz(m),
            lax.clz(n.astype("i8")), lax.mulhi(n * 100000, m * 70000),
            lax.reduce_and(n, (1,)), lax.reduce_or(n, (0, 1)), lax.reduce_xor(m, (0,)),
            lax.reduce_and(n.view("u4"), (0,)), lax.reduce_xor(n > 1, (1,)),
        ),
        (N, M),
    ),
    "rounded otherwise": (
        lambda x, y: (
            lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO), lax.reduce_precision(x, 8, 7),
            lax.reduce_precision(x, 8, 23), lax.nextafter(x, y), lax.nextafter(x * 0, y),
            lax.nextafter(x, x), lax.reshape(x, (6,), (1, 0)),
        ),
        (X, Y),
    ),
    "in one order": (
        lambda x, y: (
            jnp.searchsorted(jnp.sort(x[0]), y, side="right"), jnp.searchsorted(x[0], y),
            lax.approx_max_k(x, 2), lax.approx_min_k(x, 1),
            lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), lax.dce_sink(x),
        ),
        (X, Y),
    ),
    "multiplied at places": (
        lambda x, n: (
            x.at[n[0] % 2, 1].multiply(3.0),
            x.at[jnp.array([1, 0])].multiply(x, unique_indices=True),
            x.at[n].get(mode="fill", fill_value=7.0),
        ),
        (X, N),
    ),
    "trips of each": (
        lambda x: jax.vmap(lambda x: lax.while_loop(lambda x: x < 9.0, lambda x: 2 * x + 5, x))(
            x.ravel()
        ),
        (X,),
    ),
    "filled": (
        lambda x: (jnp.zeros_like(x), jnp.ones((2, 3), "i4"), jnp.full_like(x, jnp.nan)),
        (X,),
    ),
    "counted": (lambda x: x + jnp.arange(3, dtype="f4"), (X,)),
    "joined": (lambda x, y: (jnp.concatenate([x, y], 1), jnp.stack([x, y], 1)), (X, Y)),
    "cut up": (lambda x: jnp.split(x, [1], axis=1), (X,)),
    "copied": (lambda x: lax.optimization_barrier(jnp.array(x)), (X,)),
    "brought along": (lambda x: x + jnp.asarray(Y[0]), (X,)),
    "stopped": (lambda x: lax.stop_gradient(x) * x, (X,)),
    "called": (lambda x: jax.jit(jnp.tanh)(x) + jax.checkpoint(jnp.sin)(x), (X,)),
    "with rules of their own": (lambda x: (bent(x), bowed(x)), (X,)),
    "of gamma and Bessel": (
        lambda x, y: (
            lax.igamma(jnp.abs(x) + 0.5, jnp.abs(y)), lax.igammac(jnp.abs(x) + 0.5, jnp.abs(y)),
            lax.igamma_grad_a(jnp.abs(x) + 0.5, jnp.abs(y) + 0.1),
            lax.betainc(jnp.abs(x) + 0.5, jnp.abs(y) + 0.5, jnp.full_like(x, 0.25)),
            lax.polygamma(jnp.full_like(x, 2.0), jnp.abs(y) + 0.5),
            lax.zeta(jnp.abs(x) + 2.0, jnp.abs(y) + 0.5),
            lax.bessel_i0e(x), lax.bessel_i1e(x),
        ),
        (X, Y),
    ),
    "over a batch": (
        jax.vmap(
            lambda x: (lax.psum(x, "rows"), lax.pmax(x, "rows"), lax.pmin(x, "rows")),
            axis_name="rows",
        ),
        (X,),
    ),
    "drawn by gamma": (
        lambda x: jax.random.loggamma(jax.random.key(3), jnp.abs(x) + 0.5),
        (X,),
    ),
    "random bits": (
        lambda n: [
            jax.random.bits(key, (3,), f"u{width}")
            for width in (1, 2, 4, 8)
            for key in jax.random.split(jax.random.fold_in(n.view("u4")[0, :2], n[1, 0]), 1)
        ],
        (N,),
    ),
    "keys": (
        lambda n: jax.random.key_data(jax.random.clone(jax.random.key(n[0, 1]))),
        (N,),
    ),
    "mixed bits": (
        lambda n: jax.extend.random.threefry_2x32(n.view("u4")[0, :2], n.view("u4")[1, :2]),
        (N,),
    ),
    "general matrices": (
        lambda x: [jnp.sort(jnp.abs(jnp.linalg.eig(x[:, :2])[0]))], (X,),
    ),
    "forms of matrices": (
        lambda x: (
            lax.linalg.schur(x[:, :2]), lax.linalg.hessenberg(x[:, :2]),
            lax.linalg.tridiagonal(x.T @ x, lower=False), lax.linalg.qr(x, pivoting=True),
        ),
        (X,),
    ),
    "bits of Philox": (
        lambda n: lax.rng_bit_generator(n.view("u4").ravel()[:4], (3,), "uint16"), (N,),
    ),
    "packed factors": (
        lambda x: lax.linalg.householder_product(*jnp.linalg.qr(x, mode="raw")), (X,),
    ),
    "a band": (
        lambda x, y: lax.linalg.tridiagonal_solve(x / 9, jnp.abs(y) + 1, x / 9, y[..., None]),
        (X, Y),
    ),
    "folded": (lambda n: lax.reduce(n, np.int32(1), lambda a, b: a * b % 7, (1,)), (N,)),
    "counted bits of a key": (
        lambda n: threefry_prng_impl.random_bits(n.view("u4")[0, :2], 32, (3,)),
        (N,),
    ),
    "called plainly": (lambda x: called(jnp.sin, x), (X,)),
    "a gradient": (jax.grad(lambda x: jnp.sum(x * jnp.sin(x))), (X,)),
    "branches": (lambda x, n: lax.cond(n.max() > 5, jnp.sin, lambda x: x, x), (X, N)),
    "many branches": (lambda x, n: lax.switch(n.min(), [jnp.sin, jnp.cos, jnp.abs], x), (X, N)),
    "trips": (halve_while_large, (X,)),
    "loops of a batch": (jax.vmap(halve_while_large), (X,)),
    "steps": (running, (X,)),
    "fixed trips": (lambda x: lax.fori_loop(0, 3, lambda i, x: x * (i + 1.0), x), (X,)),
}  # fmt: skip


FIXED = {
    "filled", "logic", "parts", "products", "random bits", "keys", "mixed bits", "a part",
    "a part replaced", "convolved", "taken", "put", "padded", "slid over", "repeated",
    "matrices", "transformed", "counted bits", "rounded otherwise", "in one order",
    "multiplied at places", "trips of each", "general matrices", "packed factors", "a band",
    "forms of matrices", "bits of Philox", "counted bits of a key",
}  # fmt: skip
"""What needs to know how many rows there are."""
CASES = [
    (name, rows) for name in FUNCTIONS for rows in (2, "rows") if rows == 2 or name not in FIXED
]


def build(function: Callable[..., Any], arrays: tuple[Any, ...], rows: Any) -> Any:
    """A program of a function, and what it gives."""
    with br.Program() as program:
        given = [br.data(f"a{i}", [rows, 3], a.dtype) for i, a in enumerate(arrays)]
        return program, trace("The function", function, *given).build(*given)


def in_jax(function: Callable[..., Any], *arrays: Any) -> Any:
    """What JAX says, under the settings that kernels have."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return jax.tree.map(np.asarray, jax.jit(function)(*arrays))


def run(program: br.Program, fetch: Any, *arrays: Any, mode: str = "compile") -> Any:
    feed = {f"a{i}": a for i, a in enumerate(arrays)}
    return br.Executor(mode=mode).run(program, br.Scope(), feed, fetch)


@pytest.mark.parametrize(("name", "rows"), CASES)
def test_operators_give_what_jax_gives(name: str, rows: Any, mode: str) -> None:
    function, arrays = FUNCTIONS[name]
    program, made = build(function, arrays, rows)
    want = in_jax(function, *arrays)
    assert jax.tree.structure(made) == jax.tree.structure(want)
    found = run(program, jax.tree.leaves(made), *arrays, mode=mode)
    for got, wanted in zip(found, jax.tree.leaves(want), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6)


def test_operators_stand_in_a_function_of_jax_in_its_loops_too() -> None:
    def build_exp(given: list[br.Var]) -> list[br.Var]:
        return [br.exp(given[0]), given[0] * 2.0]

    insert = insertion_function(build_exp, [parse_type("f32[]")] * 2)

    def function(x: Any) -> Any:
        def step(carried: Any) -> Any:
            grown, double = insert(carried)
            return jnp.minimum(grown, double)

        return lax.while_loop(lambda carried: carried < 9.0, step, x)

    with br.Program() as prog:
        x = br.data("x", [])
        y = trace("The function", function, x).build(x)
    found = br.Executor(mode="interpret").run(prog, br.Scope(), {"x": 1.5}, y)
    np.testing.assert_allclose(found, 12.0)


# ---- what is there once ----------------------------------------------------------------------


def test_what_is_written_twice_is_computed_once() -> None:
    def twice(x: Any) -> Any:
        return 1 - 0.5 ** x.sum(), x / (1 - 0.5 ** x.sum()), jnp.where(x > 0.5, 0.5, x)

    program, _ = build(twice, (X,), 2)
    kinds = [op.type for op in program.block(0).ops]
    assert (kinds.count("sum"), kinds.count("pow"), kinds.count("subtract")) == (1, 1, 1)
    assert kinds.count("constant") == 2


def test_what_nothing_needs_is_left_out() -> None:
    program, made = build(lambda x: (jnp.exp(x), jnp.sin(x))[1], (X,), 2)
    assert [op.type for op in program.block(0).ops] == ["sin"]
    assert made.name == program.block(0).ops[0].outputs["out"][0]


def test_it_is_known_what_is_read() -> None:
    types = [parse_type("f32[3]")] * 3
    assert trace("It", lambda x, y, z: (jnp.sin(y) * 0 + z, 1.0), *types).read == {1, 2}


def test_a_branch_reads_what_is_outside_and_keeps_its_own_to_itself(mode: str) -> None:
    def chosen(x: Any) -> Any:
        half = 0.5 * x
        first = jax.lax.cond(x.max() > 1, lambda: 0.25 * half, lambda: half)
        return first + 0.25 * x

    program, made = build(chosen, (X,), "rows")
    np.testing.assert_allclose(run(program, made, X, mode=mode), in_jax(chosen, X), 1e-6)


# ---- gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["sums", "powers", "squashes", "products", "branches", "steps"]
)
def test_operators_have_the_gradient_of_jax(name: str, mode: str) -> None:
    function, arrays = FUNCTIONS[name]

    def total(x: Any, *rest: Any) -> Any:
        return sum(jnp.sum(jnp.sin(one)) for one in jax.tree.leaves(function(x, *rest)))

    program, made = build(total, arrays, 2)
    with program:
        (grad,) = br.gradients(made, program.var("a0"))
    found = run(program, grad, *arrays, mode=mode)
    np.testing.assert_allclose(found, in_jax(jax.grad(total), *arrays), 1e-5, 1e-5)


def test_a_while_has_a_gradient_that_jax_has_not(mode: str) -> None:
    program, (made, _) = build(halve_while_large, (np.abs(X),), 2)
    with program:
        (grad,) = br.gradients(br.sum(made), program.var("a0"))
    found = run(program, grad, np.abs(X), mode=mode)
    np.testing.assert_allclose(found, np.full((2, 3), 2.0**-4), 1e-6)
