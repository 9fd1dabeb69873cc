"""Rules of gradients, and of the steps of optimizers that models hold as operators.

A gradient is one of ours, of what was read before it. An optimizer takes a rate and a step
count, then all tensors, then their gradients, then what is kept of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from braces.builder.var import Var
from braces.exchange.common.rules.elementwise import in_dtype
from braces.exchange.onnx.reader.graph.node import Node, Rule
from braces.frontend.core import functions as ops
from braces.passes.autodiff.reverse_mode import gradients

DOMAIN = "ai.onnx.preview.training"

Step: TypeAlias = "Callable[[Node, Var, Var, Sequence[Var]], Sequence[Var]]"
"""From a tensor, its gradient and what is kept of it to the next tensor and what is kept."""


def stepped(step: Step, kept: int, node: Node) -> tuple[Var, ...]:
    """The rule of an optimizer that keeps so many arrays of each tensor."""
    count, rest = divmod(node.count - 2, kept + 2)
    if rest:
        node.refuse(f"has {node.count} inputs, which are no tensors with all that is theirs")
    groups = [node.vars()[2 + count * at :][:count] for at in range(kept + 2)]
    made = [
        step(node, x, _regularised(node, x, g), h) for x, g, *h in zip(*groups, strict=True)
    ]
    return tuple(out for outs in zip(*made, strict=True) for out in outs)


def _regularised(node: Node, x: Var, gradient: Var) -> Var:
    """A gradient, with that of a norm of the tensor."""
    factor = node.attr("norm_coefficient", 0.0)
    return gradient + factor * x if factor else gradient


def adagrad(node: Node, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """A step over the root of the sum of squares of all gradients."""
    rate, count = node.var(0), in_dtype(node.var(1), x.dtype)
    rate = rate / (1.0 + count * node.attr("decay_factor", 0.0))
    squares = kept[0] + g * g
    return x - rate * g / (ops.sqrt(squares) + node.attr("epsilon", 1e-6)), squares


def adam(node: Node, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """A step along the mean of gradients, over the root of the mean of their squares."""
    rate, count = node.var(0), in_dtype(node.var(1), x.dtype)
    alpha, beta = node.attr("alpha", 0.9), node.attr("beta", 0.999)
    mean = alpha * kept[0] + (1 - alpha) * g
    squares = beta * kept[1] + (1 - beta) * (g * g)
    later = ops.maximum(count, 1.0)
    adjusted = rate * ops.sqrt(1.0 - beta**later) / (1.0 - alpha**later)
    rate = ops.where(count > 0, adjusted, rate)
    out = x - rate * mean / (ops.sqrt(squares) + node.attr("epsilon", 1e-6))
    return out * (1 - node.attr("norm_coefficient_post", 0.0)), mean, squares


def momentum(node: Node, x: Var, g: Var, kept: Sequence[Var]) -> Sequence[Var]:
    """A step along gradients of which those before count less and less."""
    alpha, beta = node.attr("alpha"), node.attr("beta")
    share = ops.where(node.var(1) > 0, ops.full_like(node.var(0), beta), 1.0)
    moved = alpha * kept[0] + share * g
    way = g + alpha * moved if node.attr("mode") == "nesterov" else moved
    return x - node.var(0) * way, moved


def gradient(node: Node) -> tuple[Var, ...]:
    """The gradients of a value with respect to others of the same graph."""
    names = [*node.texts("xs"), *node.texts("zs")]
    given = list(node.proto.input)
    if given != names:
        node.refuse(
            "differentiates at other values than those of the graph",
            f"Give it {', '.join(names)} themselves.",
        )
    lift = node.names.runner.lift
    y, *xs = (lift(node.names.value(name)) for name in (node.attr("y"), *node.texts("xs")))
    found = gradients([y], xs)
    return tuple(
        ops.zeros_like(x) if grad is None else grad for x, grad in zip(xs, found, strict=True)
    )


TRAINING: Mapping[str, Rule] = {
    f"{DOMAIN}.Adagrad": partial(stepped, adagrad, 1),
    f"{DOMAIN}.Adam": partial(stepped, adam, 2),
    f"{DOMAIN}.Gradient": gradient,
    f"{DOMAIN}.Momentum": partial(stepped, momentum, 1),
}
