"""`prog.rewrite` of programs that were read from JAX and ONNX, as the readers spell them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import braces as br

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
pytestmark = pytest.mark.unoptimized
DRAW = np.random.default_rng(0)
X, W, B = (DRAW.normal(size=shape).astype("f") for shape in ((2, 3, 4), (4, 5), (5,)))


def softmax(x: Any) -> Any:
    """The softmax of `jax.nn`, over the last axis."""
    last, rows = x.ndim - 1, [*x.shape[:-1], 1]
    top = br.maximum(br.constant(-np.inf), br.max(x, axis=last))
    e = br.exp(x - br.stop_gradient(br.reshape(top, rows)))
    return e / br.reshape(br.sum(e, axis=last), rows)


def gelu(x: Any) -> Any:
    return 0.5 * x * br.special.erfc(-x * 0.5**0.5)


def gelu_tanh(x: Any) -> Any:
    inner = (2 / np.pi) ** 0.5 * (x + 0.044715 * (x * br.square(x)))
    return x * (0.5 * (1.0 + br.tanh(inner)))


def gelu_erf(x: Any) -> Any:
    return x * (br.special.erf(x / 2**0.5) + 1.0) * 0.5


def approximate(x: Any) -> Any:
    return br.gelu(x, approximate=True)


def values(prog: br.Program, scope: br.Scope, feed: Any, mode: str) -> list[Any]:
    return br.Executor(mode=mode).run(prog, scope, feed, list(prog.fetches))


def test_activations_and_softmax_of_jax_become_operators(mode: str) -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            return jax.nn.gelu(h @ w + row, approximate=False) @ w.T, jax.nn.gelu(row)

        h, rows = jax.lax.scan(step, jnp.zeros((3, 4)), x @ w + b)
        return jax.nn.softmax(h, axis=-1), rows

    prog, _ = br.from_jax(function, X, W, B)
    new = prog
    for before, after in ((gelu, br.gelu), (gelu_tanh, approximate), (softmax, br.softmax)):
        new = new.rewrite(before, after)
        assert len(new.report) == 1, new.report
    types = {op.type for op in new.find()}
    assert not {"erfc", "tanh", "stop_gradient"} & {handle.type for handle in new.find()}, types
    feed = dict(zip(prog.feeds, (X, W, B), strict=True))
    for left, right in zip(
        values(new, br.Scope(), feed, mode), values(prog, br.Scope(), feed, mode), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
net (float[n,3,4] x) => (float[n,3,5] y)
<float[4,5] w = {WEIGHTS}, float[5] b = {0.1, 0.2, 0.3, 0.4, 0.5}, float root = {1.4142135},
 float one = {1.0}, float half = {0.5}>
{
  m = MatMul(x, w)
  h = Add(m, b)
  d = Div(h, root)
  e = Erf(d)
  p = Add(e, one)
  q = Mul(h, p)
  y = Mul(q, half)
}
"""


def test_layers_of_onnx_are_adapted_and_trained(mode: str) -> None:
    weights = "{" + ", ".join(f"{value:.4f}" for value in W.ravel()) + "}"
    model = onnx.parser.parse_model(MODEL.replace("{WEIGHTS}", weights))
    prog, read = br.from_onnx(model)
    fused = prog.rewrite(gelu_erf, br.gelu)
    assert len(fused.report) == 1, fused.report

    def lora(x: Any, w: Any, *, match: Any) -> Any:
        name = match["w"].name
        low = x @ br.parameter(f"{name}.a", [w.shape[0], 2], br.init.normal(0.1))
        return x @ w + low @ br.parameter(f"{name}.b", [2, w.shape[1]], 0.0)

    linear = br.pattern(lambda x, w: x @ w, where=lambda match: match["w"].persistable)
    adapted = fused.rewrite(linear, lora)
    assert len(adapted.report) == 1, adapted.report
    exe, scope = br.Executor(mode=mode), br.Scope()
    scope.update(read)
    exe.init(adapted, scope, seed=0, missing_only=True)
    wanted = values(prog, scope, {"x": X}, mode)[0]
    np.testing.assert_allclose(
        values(adapted, scope, {"x": X}, mode)[0], wanted, rtol=1e-4, atol=1e-5
    )
    with adapted:
        parts = [p for p in adapted.parameters if p.name.endswith((".a", ".b"))]
        loss = br.mean(br.square(adapted.var("y")), name="loss")
        br.optimizer.adam(0.1).minimize(loss, parameters=parts)
    swapped = adapted.rewrite(br.gelu, br.relu)
    assert swapped.updates.keys() == adapted.updates.keys()
    exe.init(swapped, scope, seed=0, missing_only=True)
    losses = [float(exe.run(swapped, scope, {"x": X}, "loss")) for _ in range(5)]
    assert losses[-1] < losses[0]
