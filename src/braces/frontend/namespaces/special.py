"""Special functions of numbers: gamma, beta, Bessel, error functions, as `scipy.special`.

`br.exp2`, `br.log1p`, `br.expm1`, `br.logsumexp`, `br.sigmoid` and `br.softmax` are in `br`
itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.array_api.pointwise import heaviside, sinc
from braces.frontend.array_api.signal_series import polyval
from braces.frontend.core.all_or_nothing import module_getattr
from braces.frontend.core.functions import (
    betainc,
    betaln,
    cbrt,
    cumlogsumexp,
    digamma,
    entr,
    erf,
    erfc,
    erfinv,
    gammainc,
    gammaincc,
    gammaln,
    i0,
    i0e,
    i1,
    i1e,
    logit,
    multigammaln,
    polygamma,
    xlog1py,
    xlogy,
    zeta,
)

__all__ = [
    "betainc", "betaln", "cbrt", "cumlogsumexp", "digamma", "entr", "erf", "erfc", "erfinv",
    "gammainc", "gammaincc", "gammaln", "heaviside", "i0", "i0e", "i1", "i1e", "logit",
    "multigammaln", "polygamma", "polyval", "sinc", "xlog1py", "xlogy", "zeta",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.special", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
