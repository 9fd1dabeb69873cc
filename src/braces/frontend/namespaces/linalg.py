"""Linear algebra: factorizations, equations, norms and products, as `numpy.linalg` has them.

Matrices are the last two axes; axes before them are batches. `br.matmul`, `br.tensordot`,
`br.vecdot`, `br.einsum` and `br.matrix_transpose` are in `br` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.array_api.linalg import (
    cross,
    diagonal,
    inner,
    kron,
    matrix_power,
    trace,
    vdot,
)
from braces.frontend.array_api.norms import lstsq, matrix_norm, matrix_rank, vector_norm
from braces.frontend.array_api.signal_series import vander
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    expm,
    inv,
    l2_normalize,
    norm,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
)

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "expm", "inner", "inv", "kron",
    "l2_normalize", "lstsq", "matrix_norm", "matrix_power", "matrix_rank", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "trace", "vander",
    "vdot", "vector_norm",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.linalg", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
