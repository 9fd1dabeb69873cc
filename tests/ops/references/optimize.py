"""References of `braces.ops.optimize`: each formula for one parameter, from its paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from references import Array, Generator, Reference, Values, between, positive

Parts = tuple[Array, ...]


# ---- from one parameter to many --------------------------------------------------------------


def each(function: Callable[..., Any], *, counts: bool = False) -> Callable[..., Any]:
    """A reference for many parameters, from one for a single one in float64.

    Where steps are counted, the function takes the number of this step as `t`.
    """

    def reference(*slots: Any, **attrs: Any) -> Any:
        lists = [slot for slot in slots if isinstance(slot, list)]
        (count,) = [slot for slot in slots if not isinstance(slot, list)] if counts else (None,)
        given = {"t": int(count) + 1} if counts else {}
        rows = [one(function, row, given | attrs) for row in zip(*lists, strict=True)]
        columns = [list(column) for column in zip(*rows, strict=True)]
        if counts:
            columns.insert(1, np.asarray(count + 1, count.dtype))
        return tuple(columns) if len(columns) > 1 else columns[0]

    return reference


def one(function: Callable[..., Any], arrays: Parts, attrs: Mapping[str, Any]) -> Parts:
    """One parameter: computed in float64, given in its own dtype."""
    made = function(*(a.astype(np.float64) for a in arrays), **attrs)
    results = made if isinstance(made, tuple) else (made,)
    return tuple(np.asarray(r).astype(arrays[0].dtype) for r in results)


# ---- moments ---------------------------------------------------------------------------------


def mix(old: Array, new: Array, kept: float) -> Array:
    return kept * old + (1 - kept) * new


def adam(
    g: Array, mu: Array, nu: Array, *, t: int, b1: float, b2: float, eps: float,
    eps_root: float, nesterov: bool = False,
) -> Parts:  # fmt: skip
    mu, nu = mix(mu, g, b1), mix(nu, g**2, b2)
    mean = mu / (1 - b1**t)
    if nesterov:
        mean = b1 * mu / (1 - b1 ** (t + 1)) + (1 - b1) * g / (1 - b1**t)
    return mean / (np.sqrt(nu / (1 - b2**t) + eps_root) + eps), mu, nu


def amsgrad(
    g: Array, mu: Array, nu: Array, largest: Array, *, t: int, b1: float, b2: float,
    eps: float, eps_root: float,
) -> Parts:  # fmt: skip
    mu, nu = mix(mu, g, b1), mix(nu, g**2, b2)
    largest = np.maximum(largest, nu / (1 - b2**t))
    return mu / (1 - b1**t) / (np.sqrt(largest + eps_root) + eps), mu, nu, largest


def adamax(
    g: Array, mu: Array, nu: Array, *, t: int, b1: float, b2: float, eps: float
) -> Parts:
    mu, nu = mix(mu, g, b1), np.maximum(np.abs(g) + eps, b2 * nu)
    return mu / (1 - b1**t) / nu, mu, nu


def radam(
    g: Array, mu: Array, nu: Array, *, t: int, b1: float, b2: float, eps: float,
    eps_root: float, threshold: float,
) -> Parts:  # fmt: skip
    update, mu, nu = adam(g, mu, nu, t=t, b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    longest = 2 / (1 - b2) - 1
    length = longest - 2 * t * b2**t / (1 - b2**t)
    if length < threshold:
        return mu / (1 - b1**t), mu, nu
    above = (length - 4) * (length - 2) * longest
    return np.sqrt(above / ((longest - 4) * (longest - 2) * length)) * update, mu, nu


def belief(
    g: Array, mu: Array, nu: Array, *, t: int, b1: float, b2: float, eps: float, eps_root: float
) -> Parts:
    mu = mix(mu, g, b1)
    nu = mix(nu, (g - mu) ** 2, b2) + eps_root
    return mu / (1 - b1**t) / (np.sqrt(nu / (1 - b2**t)) + eps), mu, nu


def lion(g: Array, mu: Array, *, b1: float, b2: float) -> Parts:
    return np.sign(mix(mu, g, b1)), mix(mu, g, b2)


# ---- squares ---------------------------------------------------------------------------------


def divided(g: Array, square: Array, eps: float, inside: bool) -> Array:
    return g / np.sqrt(square + eps) if inside else g / (np.sqrt(square) + eps)


def rms(g: Array, nu: Array, *, decay: float, eps: float, eps_in_sqrt: bool) -> Parts:
    nu = mix(nu, g**2, decay)
    return divided(g, nu, eps, eps_in_sqrt), nu


def stddev(
    g: Array, mu: Array, nu: Array, *, decay: float, eps: float, eps_in_sqrt: bool
) -> Parts:
    mu, nu = mix(mu, g, decay), mix(nu, g**2, decay)
    return divided(g, nu - mu**2, eps, eps_in_sqrt), mu, nu


def rss(g: Array, total: Array, *, eps: float) -> Parts:
    total = total + g**2
    return np.where(total > 0, g / np.sqrt(total + eps), 0.0), total


def adadelta(g: Array, e_g: Array, e_x: Array, *, rho: float, eps: float) -> Parts:
    e_g = mix(e_g, g**2, rho)
    update = np.sqrt(e_x + eps) / np.sqrt(e_g + eps) * g
    return update, e_g, mix(e_x, update**2, rho)


# ---- momentum, decay, clipping ---------------------------------------------------------------


def momentum(g: Array, trace: Array, *, decay: float, nesterov: bool) -> Parts:
    trace = g + decay * trace
    return (g + decay * trace if nesterov else trace), trace


def decayed(g: Array, p: Array, *, weight_decay: float) -> Array:
    return g + weight_decay * p


def trust(
    g: Array, p: Array, *, min_norm: float, trust_coefficient: float, eps: float
) -> Array:
    of_p, of_g = (max(float(np.linalg.norm(x.ravel())), min_norm) for x in (p, g))
    if of_p == 0 or of_g == 0:
        return g
    return g * trust_coefficient * of_p / (of_g + eps)


def by_value(g: Array, *, max_delta: float) -> Array:
    return np.clip(g, -max_delta, max_delta)


def by_norm(grads: list[Array], *, max_norm: float) -> list[Array]:
    norm = np.sqrt(sum(float(np.sum(g.astype(np.float64) ** 2)) for g in grads))
    return [g if norm < max_norm else (g * (max_norm / norm)).astype(g.dtype) for g in grads]


# ---- inputs ----------------------------------------------------------------------------------


def steps(rng: Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return between(0, 20)(rng, shape, dtype)


def with_variance(values: Values, attrs: Mapping[str, Any]) -> Values:
    """Mean squares that are above the squared means."""
    del attrs
    pairs = zip(values["mu"], values["nu"], strict=True)
    return values | {"nu": tuple(np.asarray(mu**2 + nu, mu.dtype) for mu, nu in pairs)}


MOMENTS = {"count": steps, "nu": positive, "nu_max": positive}

REFERENCES = {
    "scale_by_adam": Reference(each(adam, counts=True), inputs=MOMENTS),
    "scale_by_amsgrad": Reference(each(amsgrad, counts=True), inputs=MOMENTS),
    "scale_by_adamax": Reference(each(adamax, counts=True), inputs=MOMENTS),
    "scale_by_radam": Reference(each(radam, counts=True), inputs=MOMENTS),
    "scale_by_belief": Reference(each(belief, counts=True), inputs=MOMENTS),
    "scale_by_lion": Reference(each(lion)),
    "scale_by_rms": Reference(each(rms), inputs={"nu": positive}),
    "scale_by_stddev": Reference(each(stddev), inputs={"nu": positive}, adjust=with_variance),
    "scale_by_rss": Reference(each(rss), inputs={"sum_of_squares": positive}),
    "scale_by_adadelta": Reference(each(adadelta), inputs={"e_g": positive, "e_x": positive}),
    "add_momentum": Reference(each(momentum)),
    "add_decayed_weights": Reference(each(decayed)),
    "scale_by_trust_ratio": Reference(each(trust)),
    "clip_by_value": Reference(each(by_value)),
    "clip_by_global_norm": Reference(by_norm),
}
