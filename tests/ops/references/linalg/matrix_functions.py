"""References of `braces.ops.linalg.matrix_functions`."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.linalg.cholesky import wide
from tests.ops.references.linalg.eigh_svd import SPREAD, narrowed


def expm(x: Array) -> Array:
    """One matrix after the other."""
    given = floating(x)
    return scipy.linalg.expm(wide(given)).astype(given.dtype) if x.size else given


def pinv(x: Array, rtol: float | None) -> Array:
    (found,) = narrowed(x, np.linalg.pinv(floating(x).astype("f8"), rtol=rtol))
    return found


REFERENCES = {
    "expm": Reference(expm, tolerance=1e-4),
    "pinv": Reference(pinv, inputs=SPREAD, tolerance=1e-4),
}
