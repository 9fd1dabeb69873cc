"""References of `braces.ops.special.inverse_hyperbolic`."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.ops.reference import Reference, between
from tests.ops.references.elementwise.unary import real

inside = {"x": between(-0.9, 0.9)}
above = {"x": between(0.5, 4)}

REFERENCES = {
    "arccosh": Reference(real(np.arccosh), inputs={"x": between(1.2, 4)}),
    "arcsinh": Reference(real(np.arcsinh)),
    "arctanh": Reference(real(np.arctanh), inputs=inside),
    "cbrt": Reference(real(np.cbrt), inputs=above),
    "digamma": Reference(real(special.digamma), inputs=above),
    "entr": Reference(real(special.entr), inputs=above),
    "erfc": Reference(real(special.erfc)),
    "erfinv": Reference(real(special.erfinv), inputs=inside),
    "exp2": Reference(real(np.exp2)),
    "lgamma": Reference(real(special.gammaln), inputs=above),
    "logit": Reference(real(special.logit), inputs={"x": between(0.1, 0.9)}),
}
