"""Transformations of gradients: what optimizers are chained from.

    gradients -> clip -> rescale by statistics -> decay -> scale by the learning rate -> updates

All arithmetic is optax's. In the formulas g is the gradient of one parameter (or the update so
far), p the parameter, u its update, t the number of this step counted from 1, and ' marks the
state after it. Everything is elementwise unless a norm is named.

What all parameters share, as 1 - b2^t, is computed in float64, as optax does where JAX has
64-bit numbers. Without them optax takes 1 - 0.999 in float32, which is off by 1e-5; in
`scale_by_radam` that moves the sixth step by a percent.
"""

from __future__ import annotations

from typing import Any

from braces.lazy import optax
from braces.ops.transformation import transformation

# ---- moments ---------------------------------------------------------------------------------


@transformation(
    "count", "mu*", "nu*",
    examples=("f32[3] b1=0.5 b2=0.9 eps=0.01 eps_root=0.01", "f64[3] nesterov=True", "bf16[4]"),
)  # fmt: skip
def scale_by_adam(
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    nesterov: bool = False,
) -> Any:
    """Divide a running mean of the gradient by a running root of its square.

        mu' = b1 * mu + (1 - b1) * g,   nu' = b2 * nu + (1 - b2) * g^2
        m = mu' / (1 - b1^t),           v = nu' / (1 - b2^t)
        u = m / (sqrt(v + eps_root) + eps)

    With `nesterov`, m = b1 * mu' / (1 - b1^(t+1)) + (1 - b1) * g / (1 - b1^t). Sources: Kingma,
    Ba, Adam: A Method for Stochastic Optimization, 2014; Dozat, Incorporating Nesterov Momentum
    into Adam, 2016.

    Attributes:
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root; above 0 where gradients are taken through a step.
        nesterov: Whether the mean looks one step ahead.
    """
    return optax.scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov)


@transformation("count", "mu*", "nu*", "nu_max*", examples=("f32[3] b1=0.5 b2=0.9",))
def scale_by_amsgrad(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0
) -> Any:
    """As Adam, with the largest mean square so far in the denominator.

        mu' = b1 * mu + (1 - b1) * g,   nu' = b2 * nu + (1 - b2) * g^2
        nu_max' = max(nu_max, nu' / (1 - b2^t))
        u = mu' / (1 - b1^t) / (sqrt(nu_max' + eps_root) + eps)

    Source: Reddi, Kale, Kumar, On the Convergence of Adam and Beyond, 2018.

    Attributes:
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
    """
    return optax.scale_by_amsgrad(b1, b2, eps, eps_root)


@transformation("count", "mu*", "nu*", examples=("f32[3] b1=0.5 b2=0.9 eps=0.01",))
def scale_by_adamax(*, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """As Adam, with a decaying maximum in the denominator.

        mu' = b1 * mu + (1 - b1) * g,   nu' = max(|g| + eps, b2 * nu)
        u = mu' / (1 - b1^t) / nu'

    Source: Kingma, Ba, Adam: A Method for Stochastic Optimization, 2014, section 7.

    Attributes:
        b1: How much of the mean a step keeps.
        b2: How much of the maximum a step keeps.
        eps: Keeps the quotient finite.
    """
    return optax.scale_by_adamax(b1, b2, eps)


# Where the root of r is imaginary its derivative is NaN, though the branch is not taken.
@transformation(
    "count", "mu*", "nu*", differentiable=False, examples=("f32[3] b2=0.9 threshold=4.5",)
)
def scale_by_radam(
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
) -> Any:
    """As Adam, rectified for how little is known of the variance in the first steps.

        s = 2 / (1 - b2) - 1,   s_t = s - 2 * t * b2^t / (1 - b2^t)
        r = sqrt((s_t - 4) * (s_t - 2) * s / ((s - 4) * (s - 2) * s_t))
        u = r * m / (sqrt(v + eps_root) + eps) where s_t >= threshold, else m

    with m and v as in Adam. No derivative is taken through it. Source: Liu et al., On the
    Variance of the Adaptive Learning Rate and Beyond, 2019.

    Attributes:
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: The same inside the root.
        threshold: From where on the variance counts as known.
    """
    return optax.scale_by_radam(b1, b2, eps, eps_root, threshold)


@transformation("count", "mu*", "nu*", examples=("f32[3] b1=0.5 b2=0.9 eps_root=0.001",))
def scale_by_belief(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-16, eps_root: float = 1e-16
) -> Any:
    """As Adam, with the gradient's distance from its running mean in the denominator.

        mu' = b1 * mu + (1 - b1) * g,   nu' = b2 * nu + (1 - b2) * (g - mu')^2 + eps_root
        u = mu' / (1 - b1^t) / (sqrt(nu' / (1 - b2^t)) + eps)

    Source: Zhuang et al., AdaBelief Optimizer: Adapting Stepsizes by the Belief in Observed
    Gradients, 2020.

    Attributes:
        b1: How much of the mean a step keeps.
        b2: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_root: Added to the mean square in every step.
    """
    return optax.scale_by_belief(b1, b2, eps, eps_root)


@transformation("mu*", examples=("f32[3] b1=0.5 b2=0.8",))
def scale_by_lion(*, b1: float = 0.9, b2: float = 0.99) -> Any:
    """The sign of a running mean: every number moves as far as any other.

        u = sign(b1 * mu + (1 - b1) * g),   mu' = b2 * mu + (1 - b2) * g

    Source: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023.

    Attributes:
        b1: How much of the mean counts for the sign.
        b2: How much of the mean a step keeps.
    """
    return optax.scale_by_lion(b1, b2)


# ---- squares ---------------------------------------------------------------------------------


@transformation("nu*", examples=("f32[3] decay=0.5 eps=0.01 eps_in_sqrt=False",))
def scale_by_rms(*, decay: float = 0.9, eps: float = 1e-8, eps_in_sqrt: bool = True) -> Any:
    """Divide by a running root mean square.

        nu' = decay * nu + (1 - decay) * g^2,   u = g / sqrt(nu' + eps)

    and u = g / (sqrt(nu') + eps) without `eps_in_sqrt`. Source: Hinton, Neural Networks for
    Machine Learning, lecture 6, 2012.

    Attributes:
        decay: How much of the mean square a step keeps.
        eps: Keeps the quotient finite.
        eps_in_sqrt: Whether it is added inside the root.
    """
    return optax.scale_by_rms(decay, eps, eps_in_sqrt=eps_in_sqrt)


@transformation("mu*", "nu*", examples=("f32[3] decay=0.5 eps=0.01 eps_in_sqrt=False",))
def scale_by_stddev(*, decay: float = 0.9, eps: float = 1e-8, eps_in_sqrt: bool = True) -> Any:
    """Divide by a running standard deviation.

        mu' = decay * mu + (1 - decay) * g,   nu' = decay * nu + (1 - decay) * g^2
        u = g / sqrt(nu' - mu'^2 + eps)

    and u = g / (sqrt(nu' - mu'^2) + eps) without `eps_in_sqrt`. Source: Graves, Generating
    Sequences With Recurrent Neural Networks, 2013.

    Attributes:
        decay: How much of the means a step keeps.
        eps: Keeps the quotient finite.
        eps_in_sqrt: Whether it is added inside the root.
    """
    return optax.scale_by_stddev(decay, eps, eps_in_sqrt=eps_in_sqrt)


@transformation("sum_of_squares*", examples=("f32[3] eps=0.01",))
def scale_by_rss(*, eps: float = 1e-7) -> Any:
    """Divide by the root of the sum of all squares so far.

        s' = s + g^2,   u = g / sqrt(s' + eps) where s' > 0, else 0

    Source: Duchi, Hazan, Singer, Adaptive Subgradient Methods for Online Learning and
    Stochastic Optimization, 2011.

    Attributes:
        eps: Keeps the quotient finite.
    """
    return optax.scale_by_rss(eps=eps)


@transformation("e_g*", "e_x*", examples=("f32[3] rho=0.5 eps=0.01",))
def scale_by_adadelta(*, rho: float = 0.9, eps: float = 1e-6) -> Any:
    """Scale by the ratio of a running mean of squared updates to one of squared gradients.

        e_g' = rho * e_g + (1 - rho) * g^2,   u = sqrt(e_x + eps) / sqrt(e_g' + eps) * g
        e_x' = rho * e_x + (1 - rho) * u^2

    Source: Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012.

    Attributes:
        rho: How much of the means a step keeps.
        eps: Where the first steps come from.
    """
    return optax.scale_by_adadelta(rho, eps)


# ---- momentum, decay, clipping ---------------------------------------------------------------


@transformation("trace*", examples=("f32[3] decay=0.5 nesterov=True",))
def add_momentum(*, decay: float = 0.9, nesterov: bool = False) -> Any:
    """Add a decaying sum of all updates so far.

        trace' = g + decay * trace,   u = trace', or g + decay * trace' with `nesterov`

    Source: Sutskever et al., On the Importance of Initialization and Momentum in Deep Learning,
    2013.

    Attributes:
        decay: How much of the sum a step keeps.
        nesterov: Whether the sum looks one step ahead.
    """
    return optax.trace(decay, nesterov)


@transformation(params=True, examples=("f32[3] weight_decay=0.25",))
def add_decayed_weights(*, weight_decay: float = 1e-4) -> Any:
    """Pull the parameters towards zero.

        u = g + weight_decay * p

    After the rescaling of an optimizer this is decoupled decay, before it a squared penalty.
    Source: Loshchilov, Hutter, Decoupled Weight Decay Regularization, 2017.

    Attributes:
        weight_decay: How strongly.
    """
    return optax.add_decayed_weights(weight_decay)


@transformation(params=True, examples=("f32[3] min_norm=0.5 trust_coefficient=0.1 eps=0.01",))
def scale_by_trust_ratio(
    *, min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> Any:
    """Make each update as long as its parameter, times a number.

        u = g * trust_coefficient * |p| / (|g| + eps), and u = g where one of the norms is 0

    Source: You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes,
    2019.

    Attributes:
        min_norm: The norms count as at least this.
        trust_coefficient: The number.
        eps: Keeps the quotient finite.
    """
    return optax.scale_by_trust_ratio(min_norm, trust_coefficient, eps)


@transformation(examples=("f32[3] max_delta=0.25",))
def clip_by_value(*, max_delta: float = 1.0) -> Any:
    """Bring every number into [-max_delta, max_delta].

        u = min(max(g, -max_delta), max_delta)

    Attributes:
        max_delta: The largest absolute value.
    """
    return optax.clip(max_delta)


@transformation(
    separable=False, examples=("f32[3] f32[2,2] max_norm=0.25", "f32[3] max_norm=100.0")
)
def clip_by_global_norm(*, max_norm: float = 1.0) -> Any:
    """Shorten all gradients together where they are too long.

        n = sqrt(sum of the squares of all numbers of all gradients)
        u = g where n < max_norm, else g * max_norm / n

    Source: Pascanu, Mikolov, Bengio, On the Difficulty of Training Recurrent Neural Networks,
    2012.

    Attributes:
        max_norm: The longest that is left alone.
    """
    return optax.clip_by_global_norm(max_norm)
