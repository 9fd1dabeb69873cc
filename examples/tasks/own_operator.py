"""A user-defined operator: weights of two bits, with a straight-through gradient.

Rounding has the gradient 0, so the operator defines another one: the identity within the range.
In both modes it acts like a built-in operator: its type is checked at the user's line, it is
saved in files, and it has gradients through loops.

Source: Bengio et al., Estimating or Propagating Gradients Through Stochastic Neurons, 2013.

    python -m examples.tasks.own_operator
"""

from __future__ import annotations

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
        bits: The bits of a number.
    """
    steps = (2**bits - 1) / 2
    return jnp.round((jnp.clip(x, -1, 1) + 1) * steps) / steps - 1


@rounded.vjp
def straight_through(x: br.Tensor, out_grad: br.Tensor, *, bits: int) -> br.Tensor:
    """The gradient without the rounding."""
    return jnp.where(jnp.abs(x) <= 1, out_grad, 0)


with br.Program() as program:
    x, y = br.data("x", ["n", 64]), br.data("y", ["n"], dtype="int32")
    h = x
    for i, size in enumerate((64, 10)):
        w = br.parameter(f"w{i}", [64, size], br.init.uniform(-1.0, 1.0))
        h = br.layer_norm((br.relu(h) if i else h) @ rounded(w), name=f"norm{i}")
    right = br.mean(br.argmax(h, axis=1) == y)
    loss = br.softmax_cross_entropy(h, y)
    br.optimizer.adam(3e-3).minimize(loss)


def train(epochs: int) -> tuple[float, br.Scope]:
    """The accuracy on other images, and the scope."""
    x, y = load_digits(return_X_y=True)
    exe = br.Executor()
    scope = exe.init(program)
    for rows in np.tile(np.arange(1500), epochs).reshape(-1, 100):
        exe.run(program, scope, {"x": x[rows] / 16, "y": y[rows]})
    others = {"x": x[1500:] / 16, "y": y[1500:]}
    return float(exe.run(program.for_test(), scope, others, right)), scope


if __name__ == "__main__":
    print("right:", train(epochs=30)[0])
