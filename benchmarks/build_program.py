"""The program of the benchmark `build`: layers of twenty operators of many kinds."""

from __future__ import annotations

import braces as br

LAYER = 20


def build(size: int, widths: int) -> br.Var:
    """The loss of about `size` operators, in layers of `widths` different widths."""
    with br.Program():
        h = br.data("x", ["batch", 8])
        for index in range(size // LAYER):
            h = layer(h, 8 + 4 * (index % widths))
        return br.mean(br.square(h))


def layer(x: br.Var, width: int) -> br.Var:
    """Twenty operators; the result has `width` columns."""
    h = br.tanh(br.matmul(x, br.full([x.shape[1], width], 0.1)))
    gate = br.sigmoid(br.layer_norm(h, br.full([width], 1.0), br.full([width], 0.0)))
    pairs = br.reshape(h * gate, [h.shape[0], 2, width // 2])
    weights = br.softmax(br.einsum("bic,bjc->bij", pairs, pairs), axis=-1)
    mixed = br.reshape(br.matmul(weights, pairs), [h.shape[0], width])
    halves = br.concat([mixed[:, : width // 2], gate[:, width // 2 :]], axis=1)
    return br.where(h > 0.0, halves, br.exp(h))


def gradient(loss: br.Var) -> br.Var:
    """The gradient with respect to the data."""
    with loss.program:
        x = br.get_variable("x")
    (found,) = br.gradients([loss], [x])
    assert found is not None
    return found


def operators(loss: br.Var) -> int:
    """The number of operators of the program."""
    return len(loss.program.block(0).ops)
