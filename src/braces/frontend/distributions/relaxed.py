"""Continuous relaxations of binary and categorical draws, with gradients."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import ml_dtypes

from braces.builder.var import Operand, Var
from braces.dims import Shape
from braces.frontend import random
from braces.frontend.core import functions as ops
from braces.frontend.distributions.categorical import INNER_SIMPLEX, ClassFamily, last_axis_size
from braces.frontend.distributions.core.constraints import INNER_UNIT
from braces.frontend.distributions.core.distribution import distribution
from braces.frontend.distributions.core.family import ABOVE
from braces.frontend.distributions.core.parameterization import ClosedForms, DistributionParams
from braces.frontend.distributions.discrete import CHANCE, FROM_ZERO, BinaryFamily


def clip_to_open_unit(x: Var) -> Var:
    """Clip numbers rounded to 0 or 1 to the adjacent float, which has a density."""
    info = cast("Any", ml_dtypes).finfo(x.dtype)
    return ops.clip(x, min=float(info.tiny), max=float(1 - info.epsneg))


# ---- binary ----------------------------------------------------------------------------------


def _logits(d: DistributionParams) -> Var:
    return d.logits if "logits" in d.vars else _logit(d.probs)


def _logit(p: Var) -> Var:
    return ops.log(p) - ops.log1p(-p)


def _bernoulli_log_prob(d: DistributionParams, x: Var) -> Var:
    z = _logits(d) - d.temperature * _logit(x)
    slope = ops.log(x) + ops.log1p(-x)
    return ops.log(d.temperature) + ops.log_sigmoid(z) + ops.log_sigmoid(-z) - slope


@distribution
class RelaxedBernoulli(BinaryFamily):
    """Relaxed Bernoulli distribution on (0, 1); low temperatures approach 0 and 1.

        out = sigmoid((logits + logistic()) / temperature)

    Source: Maddison, Mnih, Teh, The Concrete Distribution, 2017.

    Args:
        temperature: Above 0; the limit at 0 is `Bernoulli`.
        probs: The probability of draws above 0.5.
        logits: Instead of `probs`: log(probs / (1 - probs)).

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number is out of
            its range.
        ShapeError: If the parameters do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     d = br.distributions.RelaxedBernoulli(0.5, logits=br.data("x", ["batch", 4]))
        ...     print(d.rsample().type)
        f32[batch,4]
    """

    temperature: Operand = 1.0
    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(
        draw=lambda d, sizes: clip_to_open_unit(
            ops.sigmoid(
                (_logits(d) + random.logistic(sizes, dtype=d.probs.dtype)) / d.temperature
            )
        ),
        log_prob=_bernoulli_log_prob,
        cdf=lambda d, x: ops.sigmoid(d.temperature * _logit(x) - _logits(d)),
        icdf=lambda d, q: ops.sigmoid((_logits(d) + _logit(q)) / d.temperature),
    )
    support = INNER_UNIT
    ranges: ClassVar = {"temperature": ABOVE, "probs": CHANCE}


# ---- categorical -----------------------------------------------------------------------------


def _softmax_draw(d: DistributionParams, sizes: Shape) -> Var:
    noise = random.gumbel((*sizes, d.probs.shape[-1]), dtype=d.probs.dtype)
    heat = ops.expand_dims(d.temperature, axis=-1)
    return clip_to_open_unit(ops.softmax((d.log_probs + noise) / heat, axis=-1))


def _softmax_log_prob(d: DistributionParams, x: Var) -> Var:
    heat, logs = d.temperature, ops.log(x)
    tilted = ops.log_softmax(d.log_probs - ops.expand_dims(heat, axis=-1) * logs, axis=-1)
    count = ops.squeeze(last_axis_size(x), axis=-1)
    scale = ops.lgamma(count) + (count - 1.0) * ops.log(heat)
    return scale + ops.sum(tilted - logs, axis=-1)


@distribution
class RelaxedOneHotCategorical(ClassFamily):
    """Gumbel-softmax distribution: vectors of sum 1, near one-hot at low temperatures.

        out = softmax((logits + gumbel()) / temperature)

    Source: Jang, Gu, Poole, Categorical Reparameterization with Gumbel-Softmax, 2017; Maddison,
    Mnih, Teh, The Concrete Distribution, 2017.

    Args:
        temperature: Above 0; the limit at 0 is `OneHotCategorical`.
        probs: [..., n], above 0; normalized to sum 1.
        logits: Instead of `probs`: their logarithms, up to an additive constant.

    Raises:
        ProgramError: If not exactly one of `probs` and `logits` is given, or a number is out of
            its range.
        ShapeError: If the class axis is missing, or the shapes do not broadcast.

    Example:
        >>> import braces as br
        >>> with br.Program():
        ...     x = br.data("x", ["batch", 5])
        ...     d = br.distributions.RelaxedOneHotCategorical(0.5, logits=x)
        ...     print(d.rsample([3]).type)
        f32[3,batch,5]
    """

    temperature: Operand = 1.0
    probs: Operand | None = None
    logits: Operand | None = None

    forms = ClosedForms(draw=_softmax_draw, log_prob=_softmax_log_prob)
    support = INNER_SIMPLEX
    ranges: ClassVar = {"temperature": ABOVE, "probs": FROM_ZERO}
    axes: ClassVar = {"probs": 1, "logits": 1}
    event_axes = 1
