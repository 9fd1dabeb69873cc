"""References of `braces.ops.special.gamma`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from tests.ops.reference import Array, Reference, between, floating
from tests.ops.references.special.incomplete_gamma_beta import distribution

above = between(0.5, 4)


def polygamma(n: Array, x: Array) -> Any:
    return np.asarray(special.polygamma(n, x.astype(np.float64))).astype(floating(x).dtype)


def multigammaln(x: Array, *, d: int) -> Any:
    wide = x.astype(np.float64)
    found = [special.multigammaln(one, d) for one in wide.reshape(-1)]
    return np.asarray(found).reshape(x.shape).astype(x.dtype)


REFERENCES = {
    "betaln": Reference(distribution(special.betaln), inputs={"x": above, "y": above}),
    "multigammaln": Reference(multigammaln, inputs={"x": between(1, 4)}),
    "polygamma": Reference(
        polygamma, inputs={"n": between(0, 4), "x": between(0.5, 4)}, tolerance=1e-4
    ),
    "zeta": Reference(distribution(special.zeta), inputs={"x": between(1.5, 5), "q": above}),
}
