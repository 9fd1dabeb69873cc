"""Rules of linear algebra, of diagonals and triangles, and of Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype, number
from braces.exchange.common.rules.reshape_slice_pad import number_of
from braces.exchange.common.values import symbolic_arithmetic as sizes
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import dims, functions as ops
from braces.extend.building import Var, call, emit
from braces.extend.types import INT32, INT64, Dim, Size

# ---- products and factors --------------------------------------------------------------------


def products(node: PaddleOp) -> Var:
    """The product of several matrices."""
    return reduce(ops.matmul, node.vars("X"))


def matrix_vector(node: PaddleOp) -> Var:
    """The product of a matrix and a vector."""
    return ops.matmul(node.var("X"), node.var("Vec"))


def kron(node: PaddleOp) -> Var:
    """The Kronecker product."""
    x, y = node.x(), node.y()
    rank = max(x.ndim, y.ndim)
    x, y = (ops.reshape(v, (*[1] * (rank - v.ndim), *v.shape)) for v in (x, y))
    wide = ops.reshape(x, [n for size in x.shape for n in (size, 1)])
    other = ops.reshape(y, [n for size in y.shape for n in (1, size)])
    shape = [dims.product(pair) for pair in zip(x.shape, y.shape, strict=True)]
    return ops.reshape(wide * other, shape)


def cross(node: PaddleOp) -> Var:
    """The cross product along an axis of size 3; by default the first such axis."""
    x, y = node.x(), node.y()
    at = node.attr("dim", 9)
    axis = x.shape.index(3) if at == 9 else at % x.ndim

    def turned(v: Var, by: int) -> Var:
        return ops.roll(v, by, axis=axis)

    return turned(x, -1) * turned(y, 1) - turned(x, 1) * turned(y, -1)


def bilinear(node: PaddleOp) -> Var:
    """The bilinear form of each output."""
    x, y, weight = node.var("X"), node.var("Y"), node.var("Weight")
    out = call("einsum", x, weight, y, equation="bi,kij,bj->bk")
    bias = node.maybe("Bias")
    return out if bias is None else out + bias


def matrix_power(node: PaddleOp) -> Var:
    """A power of square matrices, by squaring."""
    x, exponent = node.x(), int(node.attr("n", 1))
    if exponent == 0:
        return ops.broadcast_to(ops.eye(_static(node, x.shape[-1]), dtype=x.dtype), x.shape)
    base, exponent = (ops.inv(x), -exponent) if exponent < 0 else (x, exponent)
    result = None
    while exponent:
        if exponent % 2:
            result = base if result is None else ops.matmul(result, base)
        exponent //= 2
        base = ops.matmul(base, base) if exponent else base
    return base if result is None else result


def _static(node: PaddleOp, size: Size) -> int:
    if not isinstance(size, int):
        node.refuse(f"unsupported symbolic size {size}")
    return size


def cholesky(node: PaddleOp) -> Var:
    """The Cholesky factor."""
    lower = ops.cholesky(node.x())
    return ops.matrix_transpose(lower) if node.attr("upper", False) else lower


def cholesky_solve(node: PaddleOp) -> Var:
    """The solution of a linear system, by the Cholesky factor of its matrix."""
    b, factor = node.x(), node.y()
    lower = ops.matrix_transpose(factor) if node.attr("upper", False) else factor
    inner = ops.triangular_solve(lower, b, lower=True)
    return ops.triangular_solve(lower, inner, lower=True, transpose_a=True)


def solve(node: PaddleOp) -> Var:
    """The solution of a linear system."""
    a, b = node.x(), node.y()
    if b.ndim == a.ndim - 1:
        return ops.squeeze(ops.solve(a, ops.expand_dims(b, axis=-1)), axis=-1)
    return ops.solve(a, b)


def triangular_solve(node: PaddleOp) -> Var:
    """The solution of a triangular system."""
    a, b = node.x(), node.y()
    batch = max(a.ndim, b.ndim)
    a, b = (ops.reshape(v, (*[1] * (batch - v.ndim), *v.shape)) for v in (a, b))
    return ops.triangular_solve(
        a, b, lower=not node.attr("upper", True),
        transpose_a=bool(node.attr("transpose", False)),
        unit_diagonal=bool(node.attr("unitriangular", False)),
    )  # fmt: skip


def log_determinant(node: PaddleOp) -> Var:
    """The sign and the logarithm of the determinant, stacked."""
    return ops.stack(list(ops.slogdet(node.x())), axis=0)


def qr(node: PaddleOp) -> Results:
    """The QR decomposition."""
    mode = node.attr("mode", "reduced")
    q, r = ops.qr(node.x(), mode="complete" if mode == "complete" else "reduced")
    return {"R": r} if mode == "r" else {"Q": q, "R": r}


def svd(node: PaddleOp) -> Results:
    """Singular values and vectors."""
    u, s, vh = ops.svd(node.x(), full_matrices=bool(node.attr("full_matrices", False)))
    return {"U": u, "S": s, "VH": vh}


def eigh(node: PaddleOp) -> Results:
    """Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read."""
    x = node.x()
    triangle = ops.tril if node.attr("UPLO", "L") == "L" else ops.triu
    strict = triangle(x, k=-1 if node.attr("UPLO", "L") == "L" else 1)
    other = ops.matrix_transpose(ops.conj(strict) if x.dtype.kind == "c" else strict)
    whole = triangle(x, k=0) + other
    if node.type == "eigvalsh":
        return {"Eigenvalues": ops.eigvalsh(whole)}
    values, vectors = ops.eigh(whole)
    return {"Eigenvalues": values, "Eigenvectors": vectors}


def lu(node: PaddleOp) -> Results:
    """The LU factors in one matrix, with pivots that count from 1."""
    factors, pivots, *_ = call("lu", node.x())
    return {
        "Out": factors, "Pivots": cast_to_dtype(pivots, INT32) + 1,
        "Infos": ops.zeros_like(factors[..., 0, 0], dtype=INT32),
    }  # fmt: skip


def matrix_rank(node: PaddleOp) -> Var:
    """The number of singular values above a tolerance."""
    x = node.x()
    values = ops.abs(ops.eigvalsh(x)) if node.attr("hermitian", False) else ops.svdvals(x)
    if node.has("TolTensor"):
        bound: Any = ops.expand_dims(node.var("TolTensor"), axis=-1)
    elif node.attr("use_default_tol", True):
        size = float(max(_static(node, n) for n in x.shape[-2:]))
        bound = ops.max(values, axis=-1, keepdims=True) * (size * float(np.finfo(x.dtype).eps))
    else:
        bound = node.attr("tol", 0.0)
    return cast_to_dtype(ops.sum(cast_to_dtype(values > bound, INT64), axis=-1), INT32)


def least_squares(node: PaddleOp) -> Results:
    """The least-squares solution by the pseudo-inverse."""
    x = node.x()
    return {"Solution": ops.matmul(ops.pinv(x), node.y())}


# ---- diagonals -------------------------------------------------------------------------------


def _on_diagonal(rows: Size, columns: Size, offset: int) -> Var:
    """Return whether an element of a matrix is on a diagonal."""
    at = emit("arange", stop=columns) - ops.expand_dims(emit("arange", stop=rows), axis=1)
    return ops.equal(at, offset)


def diag(node: PaddleOp) -> Var:
    """A matrix with a diagonal, or the diagonal of a matrix."""
    x, offset = node.x(), int(node.attr("offset", 0))
    if x.ndim == 2:
        return ops.diag(x, k=offset)
    matrix, fill = embed(x, offset), node.attr("padding_value", 0.0)
    if not fill:
        return matrix
    on = _on_diagonal(matrix.shape[0], matrix.shape[1], offset)
    return ops.where(on, matrix, number(fill, x.dtype))


def embed(x: Var, offset: int) -> Var:
    """Return matrices with the last axis as a diagonal."""
    size = sizes.plus(x.shape[-1], abs(offset))
    padding = [(0, 0)] * (x.ndim - 1) + [(max(-offset, 0), max(offset, 0))]
    spread = ops.expand_dims(ops.pad(x, padding) if offset else x, axis=-1)
    return ops.where(_on_diagonal(size, size, offset), spread, ops.zeros_like(spread))


def diag_embed(node: PaddleOp) -> Var:
    """Matrices in two axes, with the last axis as a diagonal."""
    matrices = embed(node.x(), int(node.attr("offset", 0)))
    axes = tuple(node.attr(name, default) for name, default in (("dim1", -2), ("dim2", -1)))
    return ops.moveaxis(matrices, (-2, -1), axes)


def diagonal(node: PaddleOp) -> Var:
    """The diagonal of two axes, as the last axis."""
    x, offset = node.x(), int(node.attr("offset", 0))
    first, second = node.attr("axis1", 0), node.attr("axis2", 1)
    matrices = ops.moveaxis(x, (first, second), (-2, -1))
    start = matrices[..., max(-offset, 0) :, max(offset, 0) :]
    rows, columns = start.shape[-2:]
    count = rows if rows == columns else min(_static(node, rows), _static(node, columns))
    at = emit("arange", stop=count)
    front = [ops.reshape(emit("arange", stop=n), (n, *[1] * (start.ndim - 2 - i)))
             for i, n in enumerate(start.shape[:-2])]  # fmt: skip
    return ops.gather_nd(start, [*front, at, at])


def trace(node: PaddleOp) -> Var:
    """The sum of the diagonal of two axes."""
    return ops.sum(diagonal(node), axis=-1)


def triangle_indices(function: Callable[..., Any], rows: str, columns: str) -> Rule:
    """Return the rule of the indices of a triangle."""

    def rule(node: PaddleOp) -> Constant:
        indices = function(node.attr(rows), node.attr("offset", 0), node.attr(columns))
        return Constant.of(np.stack(indices), node.dtype("dtype", INT64))

    return rule


# ---- frequencies -----------------------------------------------------------------------------


def _normalize(node: PaddleOp, spectrum: Var, whole: Sequence[Size]) -> Var:
    """Normalize a transform that is the plain sum: backward, forward or by the root."""
    mode, forward = node.attr("normalization", "backward"), bool(node.attr("forward", True))
    if mode != "ortho" and (mode == "forward") != forward:
        return spectrum
    count = dims.product(whole)
    size: Any = number_of(count) if isinstance(count, Dim) else float(count)
    if isinstance(size, Var):
        size = cast_to_dtype(size, ops.real(spectrum).dtype if _is_complex(spectrum)
                             else spectrum.dtype)  # fmt: skip
        return spectrum / (ops.sqrt(size) if mode == "ortho" else size)
    return spectrum * (1.0 / (size**0.5 if mode == "ortho" else size))


def _is_complex(x: Var) -> bool:
    return x.dtype.kind == "c"


def _transform(x: Var, axis: int, forward: bool) -> Var:
    return ops.fft(x, axis=axis) if forward else ops.ifft(x, axis=axis, norm="forward")


def complex_fft(node: PaddleOp) -> Var:
    """A Fourier transform of complex numbers, or its inverse."""
    x, axes = node.x(), [int(axis) for axis in node.many("axes")]
    result = x
    for axis in axes:
        result = _transform(result, axis, bool(node.attr("forward", True)))
    return _normalize(node, result, [x.shape[axis] for axis in axes])


def real_fft(node: PaddleOp) -> Var:
    """A Fourier transform of real numbers, one- or two-sided in the last axis."""
    x, forward = node.x(), bool(node.attr("forward", True))
    axes = [int(axis) for axis in node.many("axes")]
    half = bool(node.attr("onesided", True))
    result = ops.rfft(x, axis=axes[-1]) if half else ops.fft(x, axis=axes[-1])
    result = result if forward else ops.conj(result)
    for axis in axes[:-1]:
        result = _transform(result, axis, forward)
    return _normalize(node, result, [x.shape[axis] for axis in axes])


def inverse_real_fft(node: PaddleOp) -> Var:
    """A transform of a one-sided spectrum to real numbers."""
    x, forward = node.x(), bool(node.attr("forward", True))
    axes = [int(axis) for axis in node.many("axes")]
    last = node.attr("last_dim_size", 0) or None
    for axis in axes[:-1]:
        x = _transform(x, axis, forward)
    x = ops.conj(x) if forward else x
    signal = ops.irfft(x, n=last, axis=axes[-1], norm="forward")
    return _normalize(node, signal, [signal.shape[axis] for axis in axes])


def frame(node: PaddleOp) -> Var:
    """Overlapping frames of an axis, as a further axis."""
    x, length, step = node.x(), node.attr("frame_length"), node.attr("hop_length")
    first = node.axis("axis", x.ndim) == 0 and x.ndim > 1
    x = ops.moveaxis(x, 0, -1) if first else x
    frames = ops.frame(x, length=length, step=step, axis=-1)
    if first or (x.ndim == 1 and node.attr("axis", -1) == 0):
        return ops.moveaxis(frames, (-2, -1), (0, 1))
    return ops.swapaxes(frames, -1, -2)


def overlap_add(node: PaddleOp) -> Var:
    """The sum of overlapping frames, the inverse of `frame`."""
    x, step = node.x(), node.attr("hop_length")
    x = ops.moveaxis(x, (0, 1), (-1, -2)) if node.attr("axis", -1) == 0 else x
    length, count = x.shape[-2:]
    whole = sizes.plus(sizes.times(sizes.minus(count, 1), step), length)
    starts = emit("arange", stop=count) * step
    at = ops.expand_dims(emit("arange", stop=length), axis=1) + starts
    front = x.shape[:-2]
    rows = ops.reshape(x, (dims.product(front), dims.product(x.shape[-2:])))
    start = ops.zeros_like(ops.broadcast_to(rows[:, :1], (rows.shape[0], whole)))
    flat = ops.reshape(at, (dims.product(x.shape[-2:]),))
    summed = ops.scatter_add(start, flat, rows, axis=1)
    summed = ops.reshape(summed, (*front, whole))
    return ops.moveaxis(summed, -1, 0) if node.attr("axis", -1) == 0 else summed


LINEAR_ALGEBRA: Mapping[str, Rule] = {
    "bilinear_tensor_product": bilinear,
    "cholesky": cholesky,
    "cholesky_solve": cholesky_solve,
    "cross": cross,
    "determinant": lambda node: ops.det(node.x()),
    "diag_embed": diag_embed,
    "diag_v2": diag,
    "diagonal": diagonal,
    "eigh": eigh,
    "eigvalsh": eigh,
    "fft_c2c": complex_fft,
    "fft_c2r": inverse_real_fft,
    "fft_r2c": real_fft,
    "frame": frame,
    "inverse": lambda node: ops.inv(node.x()),
    "kron": kron,
    "lstsq": least_squares,
    "lu": lu,
    "matrix_power": matrix_power,
    "matrix_rank": matrix_rank,
    "multi_dot": products,
    "mv": matrix_vector,
    "overlap_add": overlap_add,
    "qr": qr,
    "slogdeterminant": log_determinant,
    "solve": solve,
    "svd": svd,
    "trace": trace,
    "tril_indices": triangle_indices(np.tril_indices, "rows", "cols"),
    "triangular_solve": triangular_solve,
    "triu_indices": triangle_indices(np.triu_indices, "row", "col"),
}
