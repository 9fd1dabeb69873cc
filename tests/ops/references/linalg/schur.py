"""References of `braces.ops.linalg.schur`: those of SciPy, matrix by matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from tests.ops.reference import Array, Reference, floating


def of_each(decompose: Callable[[Array], tuple[Array, ...]]) -> Callable[[Array], Any]:
    """Decompose each matrix; also none, which has the shapes of one."""

    def decomposed(x: Array) -> tuple[Array, ...]:
        matrices = floating(x).reshape(-1, *x.shape[-2:])
        each = [decompose(one) for one in matrices] or [decompose(np.eye(*x.shape[-2:]))]
        parts = [np.stack(part)[: len(matrices)] for part in zip(*each, strict=True)]
        dtype = floating(x).dtype
        return tuple(
            part.reshape(*x.shape[:-2], *part.shape[1:]).astype(
                dtype if part.dtype.kind == dtype.kind else np.finfo(dtype).dtype
            )
            for part in parts
        )

    return decomposed


def hessenberg(x: Array) -> tuple[Array, Array]:
    """The packed form and the factors of LAPACK's reflections."""
    reduce: Any = linalg.get_lapack_funcs("gehrd", (x,))
    packed, taus, _ = reduce(x)
    return packed, taus[: len(x) - 1]


def tridiagonal(x: Array, lower: bool) -> Any:
    """The form of LAPACK, in which reflections of two and more rows have signs of their own."""

    def reduced(x: Array) -> tuple[Array, ...]:
        name = "hetrd" if x.dtype.kind == "c" else "sytrd"
        reduce: Any = linalg.get_lapack_funcs(name, (x,))
        packed, diagonal, off_diagonal, taus, _ = reduce(x, lower=lower)
        return packed, diagonal, off_diagonal, taus

    return of_each(reduced)(x)


REFERENCES = {
    "schur": Reference(of_each(linalg.schur), tolerance=1e-4, smooth=False),
    "hessenberg": Reference(of_each(hessenberg), tolerance=1e-4, smooth=False),
    "tridiagonal": Reference(tridiagonal, tolerance=1e-4, smooth=False),
}
