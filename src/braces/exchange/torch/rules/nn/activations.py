"""Rules of activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.common.rules.elementwise import (
    as_float,
    clamp,
    clamp_zero_slope,
    elu,
    scale_by,
    softplus,
)
from braces.exchange.torch.rules.tensor.arithmetic import operand
from braces.extend import functions as ops
from braces.extend.building import Var


def gelu(x: Var, *, approximate: str = "none") -> Var:
    """GELU, exact or by the tanh approximation."""
    return ops.gelu(x, approximate=approximate == "tanh")


def prelu(x: Var, slope: Var) -> Var:
    """Leaky ReLU with a learned slope per channel."""
    if slope.ndim == 1 and x.ndim > 1:
        slope = ops.reshape(slope, (slope.shape[0], *[1] * (x.ndim - 2)))
    return ops.where(x > 0, x, x * slope)


def celu(x: Var, alpha: float = 1.0) -> Var:
    """CELU: an ELU with a continuous derivative."""
    return ops.celu(x, alpha=float(alpha))


def hard_tanh(x: Var, low: float = -1.0, high: float = 1.0) -> Var:
    """Clip to two constants."""
    return clamp_zero_slope(x, low, high)


def threshold(x: Var, bound: float, value: float) -> Var:
    """Numbers above a bound, and a constant for the others."""
    return ops.where(x <= bound, operand(value, x.dtype), x)


def leaky_relu(x: Var, slope: float = 0.01) -> Var:
    """Leaky ReLU.

    The derivative at zero is that of negative numbers, where `br.leaky_relu` has 1.
    """
    x = as_float(x)
    return ops.where(x > 0, x, scale_by(x, slope))


def silu(x: Var) -> Var:
    """SiLU: `x sigmoid(x)`, also of complex numbers."""
    return x / (1.0 + ops.exp(-x)) if x.dtype.kind == "c" else ops.silu(x)


def logit(x: Var, eps: float | None = None) -> Var:
    """The log odds, with clipping to `[eps, 1 - eps]`."""
    x = as_float(x)
    return ops.logit(x if eps is None else clamp(x, eps, 1.0 - eps))


def log_sigmoid_forward(x: Var) -> tuple[Var, None]:
    """The log-sigmoid; torch's second output is only read by its gradient."""
    return ops.log_sigmoid(x), None


ACTIVATIONS: Mapping[str, Callable[..., Any]] = {
    "_prelu_kernel": prelu,
    "celu": celu,
    "elu": elu,
    "gelu": gelu,
    "hardtanh": hard_tanh,
    "leaky_relu": leaky_relu,
    "log_sigmoid_forward": log_sigmoid_forward,
    "logit": logit,
    "prelu": prelu,
    "silu": silu,
    "softplus": softplus,
    "special_logit": logit,
    "threshold": threshold,
}
