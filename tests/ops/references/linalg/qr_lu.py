"""References of `braces.ops.linalg.qr_lu`."""

from __future__ import annotations

import numpy as np

from tests.ops.reference import Array, Reference, floating
from tests.ops.references.linalg.cholesky import wide
from tests.ops.references.linalg.eigh_svd import SPREAD, narrowed


def lu(x: Array) -> tuple[Array, Array, Array]:
    """Elimination, row by row, with the largest number left as the pivot."""
    made = wide(x)
    rows, least = x.shape[-2], min(x.shape[-2:])
    pivots = np.zeros((*x.shape[:-2], least), "i4")
    order = np.broadcast_to(np.arange(rows, dtype="i4"), (*x.shape[:-2], rows)).copy()
    for at in np.ndindex(x.shape[:-2]):
        one = made[at]
        for k in range(least):
            best = k + int(np.argmax(np.abs(one[k:, k])))
            pivots[(*at, k)] = best
            one[[k, best]], order[at][[k, best]] = one[[best, k]], order[at][[best, k]]
            one[k + 1 :, k] /= one[k, k]
            one[k + 1 :, k + 1 :] -= np.outer(one[k + 1 :, k], one[k, k + 1 :])
    return made.astype(floating(x).dtype), pivots, order


REFERENCES = {
    "qr": Reference(
        lambda x, mode: narrowed(x, *np.linalg.qr(wide(x), mode=mode)),
        inputs=SPREAD,
        tolerance=1e-4,
    ),
    "lu": Reference(lu, tolerance=1e-4),
}
