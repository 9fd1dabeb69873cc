"""An operator of one's own: weights of two bits, with a gradient that is not zero.

Rounding has the gradient 0, so the operator says another: that of the number itself, where it
is within the range. In both modes it is then an operator like all others, with a type, checked
at the user's line, in files, and with gradients through loops.

Source: Bengio et al., Estimating or Propagating Gradients Through Stochastic Neurons, 2013.

    python -m examples.tasks.own_operator
"""

from __future__ import annotations

import itertools

import jax.numpy as jnp  # noqa: TID251 - as a user writes it
import numpy as np
from sklearn.datasets import load_digits

import braces as br


@br.op(examples=("x=f32[2,3]", "x=f32[b,3] bits=4"))
def rounded(x: br.Tensor, *, bits: int = 2) -> br.Tensor:
    """The nearest of 2^bits numbers from -1 to 1.

        out = round((x + 1) * s) / s - 1, where s = (2^bits - 1) / 2

    Args:
        x: float[*shape].
        bits: Of a number.
    """
    steps = (2**bits - 1) / 2
    return jnp.round((jnp.clip(x, -1, 1) + 1) * steps) / steps - 1


@rounded.vjp
def straight_through(x: br.Tensor, out_grad: br.Tensor, *, bits: int) -> br.Tensor:
    """The gradient as if nothing were rounded."""
    return jnp.where(jnp.abs(x) <= 1, out_grad, 0)


def build() -> tuple[br.Program, br.Var, br.metrics.Metric]:
    """A classifier whose weights have four values each, its loss, and what it gets right."""
    with br.Program() as prog:
        x, y = br.data("x", ["n", 64]), br.data("y", ["n"], dtype="int32")
        sizes, h = (64, 64, 10), x
        for i, (before, after) in enumerate(itertools.pairwise(sizes)):
            w = br.parameter(f"w{i}", [before, after], init=br.init.uniform(-1.0, 1.0))
            h = br.layer_norm((br.relu(h) if i else h) @ rounded(w), name=f"norm{i}")
        right = br.metrics.accuracy(h, y)
        loss = br.softmax_cross_entropy(h, y, reduction="mean")
        br.optimizer.adam(3e-3).minimize(loss)
    return prog, loss, right


def train(epochs: int) -> tuple[float, br.Scope]:
    """The share of other images that are right, and the scope."""
    digits = load_digits()
    x, y = digits.data.astype("float32") / 16, digits.target.astype("int32")
    (prog, loss, right), scope, exe = build(), br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    for rows in np.tile(np.arange(1500), epochs).reshape(-1, 100):
        exe.run(prog, scope, {"x": x[rows], "y": y[rows]}, loss)
    right.reset(scope)
    feed = {"x": x[1500:], "y": y[1500:]}
    return float(exe.run(prog.for_test(), scope, feed, right.value)), scope


if __name__ == "__main__":
    print("right:", train(epochs=30)[0])
