"""Kullback-Leibler divergences in closed form: a table of pairs, and forms from moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from braces.builder.var import Var
from braces.errors import ProgramError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.random_state import to_common_dtype
from braces.frontend.distributions.bounded import Beta, Uniform
from braces.frontend.distributions.categorical import (
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    class_mean,
)
from braces.frontend.distributions.core.distribution import Distribution
from braces.frontend.distributions.core.family import Family
from braces.frontend.distributions.core.parameterization import DistributionParams
from braces.frontend.distributions.discrete import (
    Bernoulli,
    Binomial,
    Geometric,
    Poisson,
    binary_log_prob,
)
from braces.frontend.distributions.mixture_independent import (
    Independent,
    check_distribution,
    sum_last_axes,
)
from braces.frontend.distributions.multivariate import (
    Dirichlet,
    MultivariateNormal,
    half_log_det,
    log_beta,
    whiten,
)
from braces.frontend.distributions.positive import (
    Chi2,
    Exponential,
    Gamma,
    HalfNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from braces.frontend.distributions.ratio import FisherSnedecor, InverseGamma
from braces.frontend.distributions.real_line import (
    EULER,
    LOG_2PI,
    Cauchy,
    Gumbel,
    Laplace,
    Logistic,
    Normal,
    StudentT,
    standardize,
)

Pair: TypeAlias = Callable[[DistributionParams, DistributionParams], Var]

# ---- numbers ---------------------------------------------------------------------------------


def _normal(p: DistributionParams, q: DistributionParams) -> Var:
    ratio = p.scale / q.scale
    distance = standardize(q, p.loc)
    return 0.5 * (ops.square(ratio) + ops.square(distance) - 1.0) - ops.log(ratio)


def _half_normal(p: DistributionParams, q: DistributionParams) -> Var:
    return _normal(p.but(loc=0.0), q.but(loc=0.0))


def _laplace(p: DistributionParams, q: DistributionParams) -> Var:
    ratio, distance = p.scale / q.scale, ops.abs(standardize(q, p.loc))
    return ratio * ops.exp(-distance / ratio) + distance - ops.log(ratio) - 1.0


def _cauchy(p: DistributionParams, q: DistributionParams) -> Var:
    spread = ops.square(p.scale + q.scale) + ops.square(p.loc - q.loc)
    return ops.log(spread / (4.0 * p.scale * q.scale))


def _gumbel(p: DistributionParams, q: DistributionParams) -> Var:
    ratio, distance = p.scale / q.scale, standardize(q, p.loc)
    growth = ops.exp(ops.lgamma(1.0 + ratio) - distance)
    return distance - ops.log(ratio) + EULER * (ratio - 1.0) + growth - 1.0


def _gamma(p: DistributionParams, q: DistributionParams) -> Var:
    a, b = p.concentration, q.concentration
    shapes = (a - b) * ops.digamma(a) + ops.lgamma(b) - ops.lgamma(a)
    rates = b * ops.log(p.rate / q.rate) + a * (q.rate - p.rate) / p.rate
    return shapes + rates


def _weibull(p: DistributionParams, q: DistributionParams) -> Var:
    """Bauckhage, Computing the Kullback-Leibler Divergence between two Weibull, 2013."""
    a, b = p.concentration, q.concentration
    ratio = b / a
    scales = b * ops.log(q.scale / p.scale)
    growth = ops.exp(ops.lgamma(1.0 + ratio) - scales)
    return scales - ops.log(ratio) + EULER * (ratio - 1.0) + growth - 1.0


def _pareto(p: DistributionParams, q: DistributionParams) -> Var:
    ratio = q.concentration / p.concentration
    contained = q.concentration * ops.log(p.scale / q.scale) + ratio - 1.0 - ops.log(ratio)
    return ops.where(p.scale < q.scale, np.inf, contained)


def _uniform(p: DistributionParams, q: DistributionParams) -> Var:
    contained = ops.log((q.high - q.low) / (p.high - p.low))
    return ops.where((p.low < q.low) | (p.high > q.high), np.inf, contained)


def _beta(p: DistributionParams, q: DistributionParams) -> Var:
    return _dirichlet(_as_dirichlet(p), _as_dirichlet(q))


def _as_dirichlet(d: DistributionParams) -> DistributionParams:
    a, b = d.concentration1, d.concentration0
    a, b = a + ops.zeros_like(b), b + ops.zeros_like(a)
    return d.but(concentration=ops.stack([a, b], axis=-1))


# ---- counts and classes ----------------------------------------------------------------------


def _bernoulli(p: DistributionParams, q: DistributionParams) -> Var:
    no = 1.0 - p.probs
    return binary_log_prob(p, p.probs, no) - binary_log_prob(q, p.probs, no)


def _binomial(p: DistributionParams, q: DistributionParams) -> Var:
    same = p.total_count == q.total_count
    return ops.where(same, p.total_count * _bernoulli(p, q), np.nan)


def _geometric(p: DistributionParams, q: DistributionParams) -> Var:
    return _bernoulli(p, q) / p.probs


def _poisson(p: DistributionParams, q: DistributionParams) -> Var:
    return ops.xlogy(p.rate, p.rate) - ops.xlogy(p.rate, q.rate) - (p.rate - q.rate)


def _classes(p: DistributionParams, q: DistributionParams) -> Var:
    return class_mean(p, p.log_probs - q.log_probs)


# ---- vectors ---------------------------------------------------------------------------------


def _dirichlet(p: DistributionParams, q: DistributionParams) -> Var:
    a, b = p.concentration, q.concentration
    logs = ops.digamma(a) - ops.digamma(ops.sum(a, axis=-1, keepdims=True))
    return log_beta(b) - log_beta(a) + ops.sum((a - b) * logs, axis=-1)


def _multivariate_normal(p: DistributionParams, q: DistributionParams) -> Var:
    z = whiten(q.scale_tril, p.loc - q.loc)
    inner, outer = p.scale_tril, q.scale_tril
    inner, outer = inner + ops.zeros_like(outer), outer + ops.zeros_like(inner)
    relative_scale = ops.triangular_solve(outer, inner, lower=True)
    traces = ops.sum(ops.square(relative_scale), axis=(-2, -1)) + ops.sum(
        ops.square(z) - 1.0, axis=-1
    )
    return half_log_det(q) - half_log_det(p) + 0.5 * traces


TABLE: Mapping[tuple[type[Family], type[Family]], Pair] = {
    (Bernoulli, Bernoulli): _bernoulli,
    (Beta, Beta): _beta,
    (Binomial, Binomial): _binomial,
    (Categorical, Categorical): _classes,
    (Cauchy, Cauchy): _cauchy,
    (Dirichlet, Dirichlet): _dirichlet,
    (Gamma, Gamma): _gamma,
    (Geometric, Geometric): _geometric,
    (Gumbel, Gumbel): _gumbel,
    (HalfNormal, HalfNormal): _half_normal,
    (InverseGamma, InverseGamma): _gamma,
    (Laplace, Laplace): _laplace,
    (LogNormal, LogNormal): _normal,
    (MultivariateNormal, MultivariateNormal): _multivariate_normal,
    (Normal, Normal): _normal,
    (OneHotCategorical, OneHotCategorical): _classes,
    (Pareto, Pareto): _pareto,
    (Poisson, Poisson): _poisson,
    (Uniform, Uniform): _uniform,
    (Weibull, Weibull): _weibull,
}
"""Divergences of pairs of the same family."""

# ---- from moments ----------------------------------------------------------------------------

MEAN_LOG: Mapping[type[Family], Callable[[DistributionParams], Var]] = {
    Beta: lambda d: (
        ops.digamma(d.concentration1) - ops.digamma(d.concentration1 + d.concentration0)
    ),
    Gamma: lambda d: ops.digamma(d.concentration) - ops.log(d.rate),
    InverseGamma: lambda d: ops.log(d.rate) - ops.digamma(d.concentration),
    LogNormal: lambda d: d.loc,
    Pareto: lambda d: ops.log(d.scale) + 1.0 / d.concentration,
    Weibull: lambda d: ops.log(d.scale) - EULER / d.concentration,
}
"""Means of the logarithm, for distributions of positive numbers."""
REAL = (
    Beta, FisherSnedecor, Gamma, Gumbel, HalfNormal, InverseGamma, Laplace, LogNormal, Logistic,
    Pareto, StudentT, Uniform, Weibull,
)  # fmt: skip


def _to_normal(kind: type[Family], p: DistributionParams, q: DistributionParams) -> Var:
    """Return the divergence to a normal distribution, from mean, variance and entropy."""
    mean, variance, entropy = (
        _evaluate_form(kind, what, p) for what in ("mean", "variance", "entropy")
    )
    squares = ops.square(standardize(q, mean)) + variance / ops.square(q.scale)
    return 0.5 * (squares + LOG_2PI) + ops.log(q.scale) - entropy


def _to_gamma(kind: type[Family], p: DistributionParams, q: DistributionParams) -> Var:
    a = q.concentration
    logs = (a - 1.0) * MEAN_LOG[kind](p) - q.rate * _evaluate_form(kind, "mean", p)
    norm = ops.lgamma(a) - a * ops.log(q.rate)
    return norm - logs - _evaluate_form(kind, "entropy", p)


def _evaluate_form(kind: type[Family], what: str, params: DistributionParams) -> Var:
    return params.but(found=getattr(kind.forms, what)(params)).found


def _find_form(p: type[Family], q: type[Family]) -> Pair | None:
    """Return the closed form of a pair, or `None`."""
    if (p, q) in TABLE:
        return TABLE[p, q]
    if q is Normal and p in REAL:
        return lambda p_params, q_params: _to_normal(p, p_params, q_params)
    if q is Gamma and p in MEAN_LOG:
        return lambda p_params, q_params: _to_gamma(p, p_params, q_params)
    return None


def _general_family(
    kind: type[Family],
) -> tuple[type[Family], Callable[[DistributionParams], DistributionParams]]:
    """Return the general family of a special case, and the map of its parameters."""
    if kind is Exponential:
        return Gamma, lambda d: d.but(concentration=1.0)
    if kind is OneHotCategoricalStraightThrough:
        return OneHotCategorical, lambda d: d
    if kind is Chi2:
        return Gamma, lambda d: d.but(concentration=d.df * 0.5, rate=0.5)
    return kind, lambda d: d


# ---- all pairs -------------------------------------------------------------------------------


@transactional
def kl_divergence(p: Distribution, q: Distribution, *, name: str = "") -> Var:
    """Kullback-Leibler divergence KL(p || q), in nats.

        out = mean over x ~ p of p.log_prob(x) - q.log_prob(x)

    Closed forms:

    - most pairs of the same family; `Exponential`, `Gamma` and `Chi2` among each other;
    - to one of these three: distributions of positive numbers with a known mean logarithm;
    - to `Normal`: distributions with known entropy, mean and variance;
    - `Independent` of such pairs.

    Args:
        p: A distribution.
        q: Another one.
        name: The name of the block.

    Returns:
        The broadcast batch shapes. Infinite if the support of `p` exceeds that of `q`.

    Raises:
        ProgramError: If no closed form exists for the pair.
        ShapeError: If the batch shapes do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     mean = br.data("mean", ["batch", 4])
        ...     d = br.distributions.Normal(mean, 0.5)
        ...     print(br.distributions.kl_divergence(d, br.distributions.Normal()).type)
        f32[batch,4]
    """
    check_distribution("kl_divergence", p)
    check_distribution("kl_divergence", q)
    return compose_block(name or "kl_divergence", lambda: _divergence(p, q))


def _divergence(p: Distribution, q: Distribution) -> Var:
    if isinstance(p, Independent) and isinstance(q, Independent):
        axes = p.reinterpreted_batch_ndims
        if axes == q.reinterpreted_batch_ndims:
            return sum_last_axes(_divergence(p.base, q.base), axes)
    if not isinstance(p, Family) or not isinstance(q, Family):
        raise _missing_form_error(p, q)
    (p_family, map_p), (q_family, map_q) = _general_family(type(p)), _general_family(type(q))
    form = _find_form(p_family, q_family)
    if form is None:
        raise _missing_form_error(p, q)
    p_params, q_params = _common_params(p, q)
    return form(map_p(p_params), map_q(q_params))


def _common_params(p: Family, q: Family) -> list[DistributionParams]:
    """Return the parameters of both, in one dtype."""
    sides = {"p": p, "q": q}
    named = {f"{k}.{n}": v for k, side in sides.items() for n, v in side.parameters().items()}
    named_vars = to_common_dtype("kl_divergence", p.dtype or q.dtype, **named)[1]
    return [
        side.completed(
            DistributionParams({n: named_vars[f"{k}.{n}"] for n in side.parameters()})
        )
        for k, side in sides.items()
    ]


def _missing_form_error(p: Distribution, q: Distribution) -> ProgramError:
    return ProgramError(
        f"kl_divergence({type(p).__name__}, {type(q).__name__}) has no closed form.",
        fix="Use the estimate br.mean(p.log_prob(x) - q.log_prob(x), axis=0) with "
        "x = p.rsample([100]), or p.sample([100]) without gradients.",
    )
