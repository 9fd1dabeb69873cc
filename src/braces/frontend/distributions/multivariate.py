"""Distributions of vectors: Dirichlet and multivariate normal."""

from __future__ import annotations

from typing import ClassVar

from braces.builder.var import Operand, Var
from braces.frontend import random
from braces.frontend.array_api.linalg import diagonal
from braces.frontend.core import functions as ops
from braces.frontend.core.random_state import check_one_given
from braces.frontend.distributions.categorical import SIMPLEX
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE, Family
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams
from braces.frontend.distributions.real_line import LOG_2PI

# ---- Dirichlet -------------------------------------------------------------------------------


def _total_concentration(d: DistributionParams) -> Var:
    return ops.sum(d.concentration, axis=-1, keepdims=True)


def log_beta(a: Var) -> Var:
    """Return the logarithm of the multivariate beta function."""
    partial_sums = ops.cumsum(a, axis=-1)[..., :-1]
    return ops.sum(ops.betaln(partial_sums, a[..., 1:]), axis=-1)


def _dirichlet_variance(d: DistributionParams) -> Var:
    mean = d.concentration / _total_concentration(d)
    return mean * (1.0 - mean) / (_total_concentration(d) + 1.0)


def _dirichlet_mode(d: DistributionParams) -> Var:
    """Return the interior mode if all parameters exceed 1, else the largest corners' mean."""
    a = d.concentration
    is_unimodal = ops.all(a > 1.0, axis=-1, keepdims=True)
    weights = ops.where(
        is_unimodal, a - 1.0, ops.cast(a == ops.max(a, axis=-1, keepdims=True), a.dtype)
    )
    return weights / ops.sum(weights, axis=-1, keepdims=True)


def _dirichlet_entropy(d: DistributionParams) -> Var:
    a, total = d.concentration, _total_concentration(d)
    terms = (a - 1.0) * (ops.digamma(a) - ops.digamma(total))
    return log_beta(a) - ops.sum(terms, axis=-1)


@distribution
class Dirichlet(Family):
    """Dirichlet distribution: vectors of numbers from 0 to 1 whose sum is 1.

        density(x) = product over i of x[i]^(concentration[i] - 1) / beta(concentration)

    `mode` is a corner, or the midpoint of several, if the density has no interior maximum.

    Args:
        concentration: [..., n], above 0.

    Raises:
        ProgramError: If `concentration` has a number that is not above 0.
        ShapeError: If `concentration` is a scalar.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.Dirichlet(br.data("a", ["batch", 3]))
        ...     print(d.rsample([7]).type, d.entropy().type)
        f32[7,batch,3] f32[batch]
    """

    concentration: Operand = (1.0, 1.0)

    forms = ClosedForms(
        draw=lambda d, sizes: random.dirichlet(
            sizes, d.concentration, dtype=d.concentration.dtype
        ),
        log_prob=lambda d, x: (
            ops.sum(ops.xlogy(d.concentration - 1.0, x), axis=-1) - log_beta(d.concentration)
        ),
        mean=lambda d: d.concentration / _total_concentration(d),
        variance=_dirichlet_variance,
        mode=_dirichlet_mode,
        entropy=_dirichlet_entropy,
    )
    support = SIMPLEX
    ranges: ClassVar = {"concentration": ABOVE}
    axes: ClassVar = {"concentration": 1}
    event_axes = 1


# ---- multivariate normal ---------------------------------------------------------------------


def half_log_det(d: DistributionParams) -> Var:
    """Return half the log determinant of the covariance."""
    return ops.sum(ops.log(diagonal(d.scale_tril)), axis=-1)


def whiten(lower: Var, x: Var) -> Var:
    """Solve lower @ z = x for vectors z, with a lower triangular matrix."""
    x = x + ops.zeros_like(lower[..., 0])
    lower = ops.broadcast_to(lower, (*x.shape, x.shape[-1]))
    return ops.squeeze(
        ops.triangular_solve(lower, ops.expand_dims(x, axis=-1), lower=True), axis=-1
    )


def _mvn_log_prob(d: DistributionParams, x: Var) -> Var:
    z = whiten(d.scale_tril, x - d.loc)
    return -0.5 * ops.sum(ops.square(z) + LOG_2PI, axis=-1) - half_log_det(d)


def _mvn_entropy(d: DistributionParams) -> Var:
    return half_log_det(d) + 0.5 * (LOG_2PI + 1) * ops.sum(ops.ones_like(d.loc), axis=-1)


@distribution
class MultivariateNormal(Family):
    """Multivariate normal distribution.

        density(x) = exp(-|z|^2 / 2) / ((2 pi)^(n / 2) det(L))
        L z = x - loc,  L L^T = covariance_matrix

    Args:
        loc: [..., n], the mean.
        covariance_matrix: [..., n, n], symmetric and positive definite, else the results are
            NaN.
        scale_tril: Instead of the covariance: L, [..., n, n], lower triangular with a positive
            diagonal.

    Raises:
        ProgramError: If not exactly one of `covariance_matrix` and `scale_tril` is given.
        ShapeError: If the shapes do not match.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     loc = br.data("loc", ["batch", 2])
        ...     d = br.distributions.MultivariateNormal(loc, [[2.0, 0.5], [0.5, 1.0]])
        ...     print(d.rsample().type, d.log_prob([0.0, 0.0]).type)
        f32[batch,2] f32[batch]
    """

    loc: Operand = (0.0,)
    covariance_matrix: Operand | None = None
    scale_tril: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: random.multivariate_normal(
            sizes, d.loc, scale_tril=d.scale_tril, dtype=d.loc.dtype
        ),
        log_prob=_mvn_log_prob,
        mean=lambda d: d.loc,
        variance=lambda d: ops.sum(ops.square(d.scale_tril), axis=-1),
        mode=lambda d: d.loc,
        entropy=_mvn_entropy,
    )
    axes: ClassVar = {"loc": 1, "covariance_matrix": 2, "scale_tril": 2}
    event_axes = 1

    def check(self) -> None:
        """Check that exactly one matrix is given."""
        check_one_given(self.what, "covariance_matrix", "scale_tril", self.parameters())

    def completed(self, params: DistributionParams) -> DistributionParams:
        """Add the Cholesky factor if the covariance is given."""
        if self.scale_tril is None:
            return params.but(scale_tril=ops.cholesky(params.covariance_matrix))
        return params
