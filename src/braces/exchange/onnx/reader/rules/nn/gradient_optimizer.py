"""Rules of gradients and optimizer steps that models hold as operators.

A gradient is built by our autodiff. An optimizer takes a learning rate and a step count, then
all tensors, then their gradients, then their state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.onnx.reader.graph.node import OnnxNode, Rule
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.rewriting import gradients

DOMAIN = "ai.onnx.preview.training"

Step: TypeAlias = "Callable[[OnnxNode, Var, Var, Sequence[Var]], Sequence[Var]]"
"""Maps a tensor, its gradient and its state to the next tensor and state."""


def optimizer_rule(step: Step, kept: int, node: OnnxNode) -> tuple[Var, ...]:
    """The rule of an optimizer with `kept` state arrays for each tensor."""
    count, extra = divmod(node.count - 2, kept + 2)
    if extra:
        node.refuse(f"expected 2 inputs and {kept + 2} per tensor, got {node.count}")
    groups = [node.vars()[2 + count * at :][:count] for at in range(kept + 2)]
    results = [
        step(node, x, _add_regularization(node, x, g), h)
        for x, g, *h in zip(*groups, strict=True)
    ]
    return tuple(out for outs in zip(*results, strict=True) for out in outs)


def _add_regularization(node: OnnxNode, x: Var, gradient: Var) -> Var:
    """Add the gradient of L2 regularization."""
    factor = node.attr("norm_coefficient", 0.0)
    return gradient + factor * x if factor else gradient


def adagrad(node: OnnxNode, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """An Adagrad step."""
    rate, count = node.var(0), cast_to_dtype(node.var(1), x.dtype)
    rate = rate / (1.0 + count * node.attr("decay_factor", 0.0))
    squares = kept[0] + g * g
    return x - rate * g / (ops.sqrt(squares) + node.attr("epsilon", 1e-6)), squares


def adam(node: OnnxNode, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """An Adam step."""
    rate, count = node.var(0), cast_to_dtype(node.var(1), x.dtype)
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)
    mean = alpha * kept[0] + (1 - alpha) * g
    squares = beta * kept[1] + (1 - beta) * (g * g)
    step_count = ops.maximum(count, 1.0)
    adjusted = rate * ops.sqrt(1.0 - beta**step_count) / (1.0 - alpha**step_count)
    rate = ops.where(count > 0, adjusted, rate)
    out = x - rate * mean / (ops.sqrt(squares) + node.attr("epsilon", 1e-6))
    return out * (1 - node.attr("norm_coefficient_post", 0.0)), mean, squares


def momentum(node: OnnxNode, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """A momentum step, plain or Nesterov."""
    alpha, beta = node.attr("alpha"), node.attr("beta")
    share = ops.where(node.var(1) > 0, ops.full_like(node.var(0), beta), 1.0)
    velocity = alpha * kept[0] + share * g
    direction = g + alpha * velocity if node.attr("mode") == "nesterov" else velocity
    return x - node.var(0) * direction, velocity


def gradient(node: OnnxNode) -> tuple[Var, ...]:
    """The gradients of a value with respect to others of the same graph."""
    names = [*node.texts("xs"), *node.texts("zs")]
    inputs = list(node.proto.input)
    if inputs != names:
        node.refuse(
            "unsupported inputs other than those of the graph",
            f"Pass {', '.join(names)} as its inputs.",
        )
    lift = node.names.runner.lift
    y, *xs = (lift(node.names.value(name)) for name in (node.attr("y"), *node.texts("xs")))
    grads = gradients([y], xs)
    return tuple(
        ops.zeros_like(x) if grad is None else grad for x, grad in zip(xs, grads, strict=True)
    )


TRAINING: Mapping[str, Rule] = {
    f"{DOMAIN}.Adagrad": partial(optimizer_rule, adagrad, 1),
    f"{DOMAIN}.Adam": partial(optimizer_rule, adam, 2),
    f"{DOMAIN}.Gradient": gradient,
    f"{DOMAIN}.Momentum": partial(optimizer_rule, momentum, 1),
}
