"""Rules of activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.builder.var import Var
from braces.exchange.numbers import celu, elu, log_sigmoid, softplus
from braces.exchange.torch_in.rules.arithmetic import operand
from braces.frontend import functions as ops


def gelu(x: Var, *, approximate: str = "none") -> Var:
    """X Phi(x), or what tanh makes of it."""
    return ops.gelu(x, approximate=approximate == "tanh")


def prelu(x: Var, slope: Var) -> Var:
    """Numbers, times the slope of their channel where they are below zero."""
    if slope.ndim == 1 and x.ndim > 1:
        slope = ops.reshape(slope, (slope.shape[0], *[1] * (x.ndim - 2)))
    return ops.where(x < 0, x * slope, x)


def hard_sigmoid(x: Var) -> Var:
    """A line between 0 and 1."""
    return ops.clip(x / 6 + 0.5, min=0.0, max=1.0)


def hard_swish(x: Var) -> Var:
    """X times the hard sigmoid."""
    return x * hard_sigmoid(x)


def hard_tanh(x: Var, low: float = -1.0, high: float = 1.0) -> Var:
    """The identity between two numbers."""
    return ops.clip(x, min=low, max=high)


def threshold(x: Var, bound: float, value: float) -> Var:
    """Numbers above a bound, another number instead of the rest."""
    return ops.where(x > bound, x, operand(value, x.dtype))


def leaky_relu(x: Var, slope: float = 0.01) -> Var:
    """The identity, flattened for negative numbers."""
    return ops.leaky_relu(x, slope)


def log_sigmoid_forward(x: Var) -> tuple[Var, None]:
    """The logarithm of the sigmoid, beside what only torch's gradient reads."""
    return log_sigmoid(x), None


ACTIVATIONS: Mapping[str, Callable[..., Any]] = {
    "_prelu_kernel": prelu,
    "celu": celu,
    "elu": elu,
    "gelu": gelu,
    "hardsigmoid": hard_sigmoid,
    "hardswish": hard_swish,
    "hardtanh": hard_tanh,
    "leaky_relu": leaky_relu,
    "log_sigmoid": log_sigmoid,
    "log_sigmoid_forward": log_sigmoid_forward,
    "prelu": prelu,
    "relu": ops.relu,
    "relu6": ops.relu6,
    "selu": ops.selu,
    "softplus": softplus,
    "threshold": threshold,
}
