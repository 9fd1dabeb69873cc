"""Simple calls of every public function of JAX's array libraries, and their import.

A function is called with the first of a few kinds of arguments that JAX can trace, or
with those in `CALLS`. Functions that JAX cannot trace, or that take no arrays, are
excluded.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import braces as br
from braces.errors import BracesError

X = np.array([[0.25, 0.5, 0.875], [0.625, 0.375, 0.75]], "f")
Y = np.array([[0.5, 0.125, 0.3125], [0.25, 0.6875, 0.9375]], "f")
V = np.array([0.75, 0.25, 0.5], "f")
M = np.array([[2.0, 0.5, 0.25], [0.5, 1.5, 0.125], [0.25, 0.125, 1.0]], "f")
N, J = np.array([3, 0, 5], "i4"), np.array([1, 2, 4], "i4")
IMAGE = np.linspace(0.0, 1.0, 50, dtype="f").reshape(1, 5, 5, 2)
KERNEL = np.linspace(-1.0, 1.0, 36, dtype="f").reshape(3, 3, 2, 2)
KEY = np.array([0, 7], "u4")
TRIED = (
    (X,),
    (X, Y),
    (N,),
    (N, J),
    (M,),
    (V,),
    (V, V),
    (M, V),
    (M, M),
    (X, Y, X),
    (X > 0.5, X > 0.3),
)
PAGE = Path(__file__).parents[1] / "docs" / "tables" / "jax_functions.md"
MODULES = (
    "jax.numpy", "jax.numpy.linalg", "jax.numpy.fft", "jax.nn", "jax.lax", "jax.lax.linalg",
    "jax.scipy.special", "jax.scipy.linalg", "jax.random",
)  # fmt: skip
Call = tuple[Callable[..., Any], tuple[Any, ...]]


def _call(function: Callable[..., Any], *arguments: Any) -> Call:
    return function, arguments


def _scattered(name: str) -> Call:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    function = getattr(lax, name)
    return _call(lambda x, y: function(x, N[:2, None] % 3, y, numbers), V, V[:2])


def _gathered(x: Any) -> Any:
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    return lax.gather(x, J[:2, None], numbers, (1, 3))


WINDOW = ((1, 2, 2, 1), (1, 1, 1, 1), "VALID")
CALLS: Mapping[str, Mapping[str, Call]] = {
    "jax.numpy": {
        "append": _call(lambda x, y: jnp.append(x, y), X, Y),
        "apply_along_axis": _call(lambda x: jnp.apply_along_axis(jnp.sum, 0, x), X),
        "apply_over_axes": _call(lambda x: jnp.apply_over_axes(jnp.sum, x, [0]), X),
        "arange": _call(lambda x: x + jnp.arange(3), V),
        "argpartition": _call(lambda x: jnp.argpartition(x, 1), V),
        "argwhere": _call(lambda x: jnp.argwhere(x > 0.3, size=2), V),
        "array_split": _call(lambda x: jnp.array_split(x, 2), V),
        "astype": _call(lambda x: jnp.astype(x, "int32"), X * 8),
        "bincount": _call(lambda x: jnp.bincount(x, length=6), N),
        "block": _call(lambda x: jnp.block([[x, x], [x, x]]), X),
        "broadcast_to": _call(lambda x: jnp.broadcast_to(x, (2, 3)), V),
        "choose": _call(lambda i, x: jnp.choose(i, [x, x + 1, x], mode="clip"), J, V),
        "clip": _call(lambda x: jnp.clip(x, 0.3, 0.6), X),
        "column_stack": _call(lambda x, y: jnp.column_stack([x, y]), V, V),
        "compress": _call(lambda x: jnp.compress(V > 0.3, x, size=2), V),
        "concat": _call(lambda x, y: jnp.concat([x, y]), X, Y),
        "concatenate": _call(lambda x, y: jnp.concatenate([x, y]), X, Y),
        "cross": _call(jnp.cross, V, V[::-1].copy()),
        "delete": _call(lambda x: jnp.delete(x, 1), V),
        "digitize": _call(lambda x: jnp.digitize(x, np.array([0.3, 0.6], "f")), V),
        "dsplit": _call(lambda x: jnp.dsplit(x[None], 3), X),
        "einsum": _call(lambda x, y: jnp.einsum("ij,kj->ik", x, y), X, Y),
        "expand_dims": _call(lambda x: jnp.expand_dims(x, 0), X),
        "extract": _call(lambda x: jnp.extract(V > 0.3, x, size=2), V),
        "eye": _call(lambda x: x + jnp.eye(3), M),
        "fill_diagonal": _call(lambda x: jnp.fill_diagonal(x, 0.0, inplace=False), M),
        "flatnonzero": _call(lambda x: jnp.flatnonzero(x > 0.3, size=2), V),
        "fromfunction": _call(lambda x: x + jnp.fromfunction(lambda i: i, (3,)), V),
        "full": _call(lambda x: jnp.full((2,), x[0]), V),
        "full_like": _call(lambda x: jnp.full_like(x, 2.0), X),
        "geomspace": _call(lambda x: jnp.geomspace(x[0], 2.0, 4), V),
        "hsplit": _call(lambda x: jnp.hsplit(x, 3), X),
        "identity": _call(lambda x: x + jnp.identity(3), M),
        "insert": _call(lambda x: jnp.insert(x, 1, 2.0), V),
        "intersect1d": _call(lambda x: jnp.intersect1d(x, J, size=3, fill_value=0), N),
        "isin": _call(jnp.isin, N, J),
        "ix_": _call(lambda x: jnp.ix_(x, x), N),
        "kaiser": _call(lambda x: x * jnp.kaiser(3, 2.0), V),
        "lexsort": _call(lambda x, y: jnp.lexsort((x, y)), V, V),
        "linspace": _call(lambda x: jnp.linspace(x[0], 2.0, 4), V),
        "logspace": _call(lambda x: jnp.logspace(x[0], 2.0, 4), V),
        "moveaxis": _call(lambda x: jnp.moveaxis(x, 0, 1), X),
        "nanpercentile": _call(lambda x: jnp.nanpercentile(x, 30), X),
        "nanquantile": _call(lambda x: jnp.nanquantile(x, 0.3), X),
        "nonzero": _call(lambda x: jnp.nonzero(x > 0.3, size=2), V),
        "ones": _call(lambda x: x + jnp.ones(3), V),
        "packbits": _call(lambda x: jnp.packbits(x > 0.3), V),
        "pad": _call(lambda x: jnp.pad(x, 1, mode="reflect"), X),
        "partition": _call(lambda x: jnp.partition(x, 1), V),
        "percentile": _call(lambda x: jnp.percentile(x, 30), X),
        "piecewise": _call(lambda x: jnp.piecewise(x, [x < 0.3], [jnp.sin, jnp.cos]), V),
        "place": _call(lambda x: jnp.place(x, V > 0.3, J, inplace=False), V),
        "polydiv": _call(jnp.polydiv, V, V[:2]),
        "polyfit": _call(lambda x, y: jnp.polyfit(x, y, 1), V, V * V),
        "put": _call(lambda x: jnp.put(x, np.array([1]), 2.0, inplace=False), V),
        "put_along_axis": _call(
            lambda x: jnp.put_along_axis(x, np.array([[1], [0]]), 2.0, 1, inplace=False), X
        ),
        "quantile": _call(lambda x: jnp.quantile(x, 0.3), X),
        "ravel_multi_index": _call(
            lambda i: jnp.ravel_multi_index((i, i), (6, 6), mode="clip"), N
        ),
        "repeat": _call(lambda x: jnp.repeat(x, 2, axis=0), X),
        "reshape": _call(lambda x: jnp.reshape(x, (3, 2)), X),
        "resize": _call(lambda x: jnp.resize(x, (4, 2)), X),
        "roll": _call(lambda x: jnp.roll(x, 1), X),
        "rollaxis": _call(lambda x: jnp.rollaxis(x, 1), X),
        "roots": _call(lambda x: jnp.roots(x, strip_zeros=False), V),
        "select": _call(lambda x: jnp.select([x < 0.3, x < 0.6], [x, -x], 0.0), V),
        "setdiff1d": _call(lambda x: jnp.setdiff1d(x, J, size=3), N),
        "setxor1d": _call(lambda x: jnp.setxor1d(x, J, size=6), N),
        "split": _call(lambda x: jnp.split(x, 3, axis=1), X),
        "stack": _call(lambda x, y: jnp.stack([x, y]), X, Y),
        "swapaxes": _call(lambda x: jnp.swapaxes(x, 0, 1), X),
        "take": _call(lambda x, i: jnp.take(x, i, mode="clip"), V, N),
        "take_along_axis": _call(
            lambda x: jnp.take_along_axis(x, np.array([[1], [0]]), axis=1), X
        ),
        "tile": _call(lambda x: jnp.tile(x, (2, 1)), X),
        "tri": _call(lambda x: x + jnp.tri(3), M),
        "union1d": _call(lambda x: jnp.union1d(x, J, size=6), N),
        "unique": _call(lambda x: jnp.unique(x, size=3), N),
        "unique_all": _call(lambda x: jnp.unique_all(x, size=3), N),
        "unique_counts": _call(lambda x: jnp.unique_counts(x, size=3), N),
        "unique_inverse": _call(lambda x: jnp.unique_inverse(x, size=3), N),
        "unique_values": _call(lambda x: jnp.unique_values(x, size=3), N),
        "unpackbits": _call(jnp.unpackbits, np.array([3, 200], "u1")),
        "unravel_index": _call(lambda i: jnp.unravel_index(i, (2, 3)), N),
        "vectorize": _call(jnp.vectorize(lambda a: jnp.sin(a) * 2), X),
        "vsplit": _call(lambda x: jnp.vsplit(x, 2), X),
        "where": _call(lambda x: jnp.where(x > 0.5, x, 0.0), X),
        "zeros": _call(lambda x: x + jnp.zeros(3), V),
    },
    "jax.numpy.linalg": {
        "matrix_power": _call(lambda x: jnp.linalg.matrix_power(x, -3), M),
        "multi_dot": _call(lambda x, y: jnp.linalg.multi_dot([x, y, x]), M, M),
        "qr": _call(jnp.linalg.qr, X.T.copy()),
        "svd": _call(lambda x: jnp.linalg.svd(x, full_matrices=False), X),
        "tensorinv": _call(lambda x: jnp.linalg.tensorinv(x, ind=1), M),
    },
    "jax.nn": {
        "dot_product_attention": _call(
            lambda q: jax.nn.dot_product_attention(q, q, q), IMAGE
        ),
        "one_hot": _call(lambda i: jax.nn.one_hot(i, 6), N),
    },
    "jax.lax": {
        "approx_max_k": _call(lambda x: lax.approx_max_k(x, 2), V),
        "approx_min_k": _call(lambda x: lax.approx_min_k(x, 2), V),
        "argmax": _call(lambda x: lax.argmax(x, 1, np.int32), X),
        "argmin": _call(lambda x: lax.argmin(x, 1, np.int32), X),
        "associative_scan": _call(lambda x: lax.associative_scan(jnp.add, x), V),
        "bitcast_convert_type": _call(lambda x: lax.bitcast_convert_type(x, "int32"), X),
        "broadcast": _call(lambda x: lax.broadcast(x, (2,)), V),
        "broadcast_in_dim": _call(lambda x: lax.broadcast_in_dim(x, (3, 2), (0,)), V),
        "broadcast_to_rank": _call(lambda x: lax.broadcast_to_rank(x, 3), V),
        "broadcasted_iota": _call(lambda x: x + lax.broadcasted_iota("f", (3, 3), 1), M),
        "clamp": _call(lambda x: lax.clamp(0.3, x, 0.6), X),
        "collapse": _call(lambda x: lax.collapse(x, 0, 2), X),
        "concatenate": _call(lambda x, y: lax.concatenate([x, y], 0), X, Y),
        "cond": _call(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), V),
        "conv": _call(
            lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
            IMAGE.transpose(0, 3, 1, 2).copy(), KERNEL.transpose(3, 2, 0, 1).copy(),
        ),
        "conv_general_dilated": _call(
            lambda x, w: lax.conv_general_dilated(
                x, w, (2, 1), ((1, 0), (2, 1)), (1, 2), (2, 1), ("NHWC", "HWIO", "NHWC")
            ),
            IMAGE, KERNEL,
        ),
        "conv_general_dilated_local": _call(
            lambda x: lax.conv_general_dilated_local(
                x, np.ones((4, 18, 3, 3), "f"), (1, 1), "VALID", (3, 3)
            ),
            IMAGE.transpose(0, 3, 1, 2).copy(),
        ),
        "conv_general_dilated_patches": _call(
            lambda x: lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID"),
            IMAGE.transpose(0, 3, 1, 2).copy(),
        ),
        "conv_transpose": _call(
            lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), IMAGE, KERNEL
        ),
        "conv_with_general_padding": _call(
            lambda x, w: lax.conv_with_general_padding(
                x, w, (1, 1), ((1, 0), (0, 1)), None, None
            ),
            IMAGE.transpose(0, 3, 1, 2).copy(), KERNEL.transpose(3, 2, 0, 1).copy(),
        ),
        "convert_element_type": _call(lambda x: lax.convert_element_type(x, "int32"), X * 8),
        "cumlogsumexp": _call(lax.cumlogsumexp, V),
        "custom_linear_solve": _call(
            lambda b: lax.custom_linear_solve(
                lambda x: x * 2.0, b, lambda f, b: b / 2.0, symmetric=True
            ),
            V,
        ),
        "custom_root": _call(
            lambda a: lax.custom_root(
                lambda x: x * x - a, a, lambda f, x: jnp.sqrt(a), lambda g, y: y / g(1.0)
            ),
            V[0],
        ),
        "dot_general": _call(
            lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((0,), (0,)))), X, Y
        ),
        "dynamic_index_in_dim": _call(lambda x: lax.dynamic_index_in_dim(x, 1), X),
        "dynamic_slice": _call(lambda x, i: lax.dynamic_slice(x, (i[0],), (2,)), V, J),
        "dynamic_slice_in_dim": _call(
            lambda x, i: lax.dynamic_slice_in_dim(x, i[0], 2), V, J
        ),
        "dynamic_update_index_in_dim": _call(
            lambda x, i: lax.dynamic_update_index_in_dim(x, 2.0, i[0], 0), V, J
        ),
        "dynamic_update_slice": _call(
            lambda x, i: lax.dynamic_update_slice(x, x[:2], (i[0],)), V, J
        ),
        "dynamic_update_slice_in_dim": _call(
            lambda x, i: lax.dynamic_update_slice_in_dim(x, x[:2], i[0], 0), V, J
        ),
        "expand_dims": _call(lambda x: lax.expand_dims(x, (0,)), X),
        "fft": _call(lambda x: jnp.abs(lax.fft(x + 0j, "FFT", (3,))), V),
        "fori_loop": _call(lambda x: lax.fori_loop(0, 3, lambda i, x: x * 1.5 + i, x), V),
        "full": _call(lambda x: lax.full((2,), x[0]), V),
        "full_like": _call(lambda x: lax.full_like(x, 2.0), X),
        "gather": _call(_gathered, M),
        "index_in_dim": _call(lambda x: lax.index_in_dim(x, 1), X),
        "index_take": _call(lambda x: lax.index_take(x, (J[:2],), (0,)), V),
        "integer_pow": _call(lambda x: lax.integer_pow(x, -3), X),
        "iota": _call(lambda x: x + lax.iota("f", 3), V),
        "map": _call(lambda x: lax.map(jnp.sin, x), V),
        "platform_dependent": _call(
            lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), V
        ),
        "polygamma": _call(lambda x: lax.polygamma(np.float32(1), x[0]), V),
        "ragged_dot": _call(
            lambda x, y: lax.ragged_dot(x, y, np.array([1, 1], "i4")), X, np.stack([M, M])
        ),
        "reduce": _call(lambda x: lax.reduce(x, np.float32(1), lax.mul, (0,)), X),
        "reduce_and": _call(lambda x: lax.reduce_and(x, (0,)), N),
        "reduce_max": _call(lambda x: lax.reduce_max(x, (0,)), X),
        "reduce_min": _call(lambda x: lax.reduce_min(x, (0,)), X),
        "reduce_or": _call(lambda x: lax.reduce_or(x, (0,)), N),
        "reduce_precision": _call(lambda x: lax.reduce_precision(x, 8, 7), X),
        "reduce_prod": _call(lambda x: lax.reduce_prod(x, (0,)), X),
        "reduce_sum": _call(lambda x: lax.reduce_sum(x, (0,)), X),
        "reduce_window": _call(
            lambda x: lax.reduce_window(x, np.float32(0), lax.add, *WINDOW), IMAGE
        ),
        "reduce_xor": _call(lambda x: lax.reduce_xor(x, (0,)), N),
        "reshape": _call(lambda x: lax.reshape(x, (3, 2)), X),
        "rev": _call(lambda x: lax.rev(x, (0,)), X),
        "rng_bit_generator": _call(
            lambda k: lax.rng_bit_generator(jnp.concatenate([k, k]), (3,))[1], KEY
        ),
        "rng_uniform": _call(lambda x: lax.rng_uniform(x[0], 2.0, (3,)), V),
        "scan": _call(lambda x: lax.scan(lambda c, x: (c + x, c * x), 0.0, x), V),
        **{
            name: _scattered(name)
            for name in (
                "scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul",
                "scatter_sub",
            )
        },
        "scatter_apply": _call(
            lambda x: lax.scatter_apply(
                x, J[:1, None], jnp.sin, lax.ScatterDimensionNumbers((), (0,), (0,)),
                update_shape=(1,),
            ),
            V,
        ),
        "select": _call(lambda x, y: lax.select(x > y, x, y), X, Y),
        "select_n": _call(lambda i, x, y: lax.select_n(i % 3, x, y, x * y), N, V, V),
        "shape_as_value": _call(lambda x: x.sum() + lax.shape_as_value(x.shape)[0], X),
        "slice": _call(lambda x: lax.slice(x, (0, 1), (2, 3), (1, 2)), X),
        "slice_in_dim": _call(lambda x: lax.slice_in_dim(x, 0, 2), V),
        "sort_key_val": _call(lax.sort_key_val, V, V),
        "split": _call(lambda x: lax.split(x, (1, 2), axis=1), X),
        "squeeze": _call(lambda x: lax.squeeze(x, (0,)), X[:1]),
        "stack": _call(lambda x, y: lax.stack([x, y]), X, Y),
        "switch": _call(lambda i, x: lax.switch(i[0], [jnp.sin, jnp.cos], x), J, V),
        "tile": _call(lambda x: lax.tile(x, (2, 1)), X),
        "top_k": _call(lambda x: lax.top_k(x, 2), X),
        "transpose": _call(lambda x: lax.transpose(x, (1, 0)), X),
        "while_loop": _call(
            lambda x: lax.while_loop(lambda x: x[0] < 9, lambda x: x * 2, x), V
        ),
    },
    "jax.lax.linalg": {
        "householder_product": _call(lax.linalg.householder_product, M, V),
        "lu": _call(lax.linalg.lu, M),
        "lu_pivots_to_permutation": _call(
            lambda x: lax.linalg.lu_pivots_to_permutation(x, 3), np.array([2, 2, 2], "i4")
        ),
        "qr": _call(lambda x: lax.linalg.qr(x, full_matrices=False), M),
        "svd": _call(lambda x: lax.linalg.svd(x, full_matrices=False), X),
        "triangular_solve": _call(
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), M, M
        ),
        "tridiagonal_solve": _call(
            lambda d, b: lax.linalg.tridiagonal_solve(d * 0.1, d, d * 0.1, b[:, None]), V, V
        ),
    },
    "jax.scipy.special": {
        "bernoulli": _call(lambda x: x[0] * jax.scipy.special.bernoulli(4), V),
        "bessel_jn": _call(lambda x: jax.scipy.special.bessel_jn(x, v=2), V),
        "expn": _call(lambda x: jax.scipy.special.expn(2, x), V),
        "factorial": _call(jax.scipy.special.factorial, V),
        "hyp1f1": _call(jax.scipy.special.hyp1f1, V, V, V),
        "multigammaln": _call(lambda x: jax.scipy.special.multigammaln(x + 2.0, 2), V),
        "polygamma": _call(lambda x: jax.scipy.special.polygamma(1, x), V),
        "zeta": _call(lambda x: jax.scipy.special.zeta(x + 2.0, 1.0), V),
    },
    "jax.scipy.linalg": {
        "block_diag": _call(jax.scipy.linalg.block_diag, X, Y),
        "cho_solve": _call(
            lambda x, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(x), b), M, V
        ),
        "lu_solve": _call(
            lambda x, b: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(x), b), M, V
        ),
    },
    "jax.random": {
        name: _call(function, KEY)
        for name, function in {
            "bernoulli": lambda k: jax.random.bernoulli(k, 0.5, (4,)),
            "beta": lambda k: jax.random.beta(k, 2.0, 3.0, (4,)),
            "binomial": lambda k: jax.random.binomial(k, 4, 0.5, (4,)),
            "categorical": lambda k: jax.random.categorical(k, X),
            "chisquare": lambda k: jax.random.chisquare(k, 3.0, (4,)),
            "choice": lambda k: jax.random.choice(k, 5, (4,)),
            "dirichlet": lambda k: jax.random.dirichlet(k, V, (2,)),
            "f": lambda k: jax.random.f(k, 3.0, 4.0, (4,)),
            "fold_in": lambda k: jax.random.fold_in(k, 3),
            "gamma": lambda k: jax.random.gamma(k, 2.0, (4,)),
            "generalized_normal": lambda k: jax.random.generalized_normal(k, 2.0, (4,)),
            "ball": lambda k: jax.random.ball(k, 2, shape=(4,)),
            "geometric": lambda k: jax.random.geometric(k, 0.5, (4,)),
            "loggamma": lambda k: jax.random.loggamma(k, 2.0, (4,)),
            "lognormal": lambda k: jax.random.lognormal(k, 1.0, (4,)),
            "multinomial": lambda k: jax.random.multinomial(k, 4.0, V / 1.5),
            "multivariate_normal": lambda k: jax.random.multivariate_normal(k, V, M),
            "orthogonal": lambda k: jax.random.orthogonal(k, 3),
            "pareto": lambda k: jax.random.pareto(k, 2.0, (4,)),
            "permutation": lambda k: jax.random.permutation(k, V),
            "poisson": lambda k: jax.random.poisson(k, 3.0, (4,)),
            "rademacher": lambda k: jax.random.rademacher(k, (4,)),
            "randint": lambda k: jax.random.randint(k, (4,), 0, 9),
            "rayleigh": lambda k: jax.random.rayleigh(k, 2.0, (4,)),
            "split": lambda k: jax.random.split(k, 3),
            "t": lambda k: jax.random.t(k, 3.0, (4,)),
            "triangular": lambda k: jax.random.triangular(k, 0.0, 0.5, 1.0, (4,)),
            "truncated_normal": lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (4,)),
            "wald": lambda k: jax.random.wald(k, 2.0, (4,)),
            "weibull_min": lambda k: jax.random.weibull_min(k, 2.0, 3.0, (4,)),
        }.items()
    },
}  # fmt: skip
"""What is called otherwise than with the first arguments that fit."""


def functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions of a module."""
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {
        name: value
        for name, value in found.items()
        if callable(value) and not isinstance(value, type)
    }


def call_of(module: str, name: str) -> Call | None:
    """The call of a function; `None` if it does not map arrays to arrays."""
    said = CALLS.get(module, {})
    function = getattr(importlib.import_module(module), name)
    tried = [said[name]] if name in said else [_call(function, *args) for args in TRIED]
    return next((call for call in tried if traceable(*call)), None)


def calls(module: str) -> dict[str, Call]:
    """The calls of the functions of a module that map arrays to arrays."""
    names = functions(importlib.import_module(module))
    found = {name: call_of(module, name) for name in names}
    return {name: call for name, call in found.items() if call is not None}


def traceable(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Return whether JAX can trace a call, with results that depend on its arguments."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            closed = jax.make_jaxpr(function)(*arguments)
    except Exception:
        return False
    return bool(closed.jaxpr.eqns) and all(hasattr(a, "dtype") for a in closed.out_avals)


def reason_of(wrong: str) -> str:
    """The first refused primitive, and the reason."""
    found = re.search(r"JAX primitive (`[\w-]+`): ([^.]*)", wrong)
    return f"{found[1]}: {found[2]}" if found else wrong.splitlines()[0]


def outcome(call: Call, mode: str = "interpret") -> str:
    """The failure of the program of a call; empty if it equals JAX."""
    function, arguments = call
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*arguments))]
        try:
            program, values = br.from_jax(lambda *given: function(*given), *arguments)
            scope = br.Scope()
            scope.update(values)
            feed = dict(zip(program.feeds, arguments, strict=False))
            made = br.Executor(mode=mode).run(program, scope, feed=feed, fetch=program.fetches)
        except BracesError as error:
            return str(error)
    return "" if _equal(made, wanted) else f"other numbers: {made} for {wanted}"


def _equal(made: list[Any], wanted: list[Any]) -> bool:
    return len(made) == len(wanted) and all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.allclose(a, b, rtol=2e-4, atol=2e-5, equal_nan=True)
        for a, b in zip(made, wanted, strict=True)
    )


def listed_as_refused(module: str) -> set[str]:
    """The functions of a module that the page lists, below the table of modules."""
    _, _, refused = PAGE.read_text(encoding="utf-8").partition("Refused functions:")
    return set(re.findall(rf"`{re.escape(module)}\.(\w+)`", refused))
