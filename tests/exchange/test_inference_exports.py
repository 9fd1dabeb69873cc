"""Exported models are the inference form of the program, without a call of `for_test`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest

import braces as br
from braces.extend.operators import OPS

pytestmark = pytest.mark.unoptimized
LAYERS: dict[str, Callable[[br.Var], br.Var]] = {
    "dropout": lambda x: br.dropout(x, 0.5),
    "batch_norm": br.batch_norm,
    "in_training": br.layers.rrelu,
    "in_a_loop": lambda x: br.while_loop(
        lambda carry: carry[0] < 2,
        lambda carry: (carry[0] + 1, br.dropout(carry[1], 0.5)),
        (br.constant(0), x),
    )[1],
}
"""A layer for each operator that differs in training, and one in a block."""
FEED = {"x": np.random.default_rng(0).normal(size=(5, 4)).astype("float32")}


def test_all_operators_that_differ_in_training_have_a_layer_here() -> None:
    types = {op.type for op in OPS.definitions.values() if op.roles.get("Training") is not None}
    assert types <= set(LAYERS)


@pytest.fixture(params=LAYERS)
def trained(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    """A program after three steps of training, with its scope and what it predicts."""
    with br.Program() as prog:
        out = LAYERS[request.param](br.fc(br.data("x", ["n", 4]), 4, name="f"))
        br.optimizer.sgd(0.1).minimize(br.mean(out * out))
    exe = br.Executor()
    scope = exe.init(prog, seed=0)
    for _ in range(3):
        exe.run(prog, scope, FEED, out)
    return prog, scope, out, exe.evaluate(prog, scope, FEED, out)


def test_an_onnx_model_predicts(trained: tuple[Any, ...], tmp_path: Path) -> None:
    prog, scope, out, wanted = trained
    br.to_onnx(prog, tmp_path / "m.onnx", scope=scope, fetches={"out": out})
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_allclose(session.run(["out"], FEED)[0], wanted, atol=1e-6)


def test_an_onnx_model_with_updates_trains(trained: tuple[Any, ...], tmp_path: Path) -> None:
    prog, scope, out, _ = trained
    br.to_onnx(prog, tmp_path / "m.onnx", scope=scope, fetches={"out": out}, updates=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    wanted = br.Executor().run(prog, scope, FEED, out)
    np.testing.assert_allclose(session.run(["out"], FEED)[0], wanted, atol=1e-5)


def test_a_stablehlo_module_with_values_predicts(
    trained: tuple[Any, ...], tmp_path: Path
) -> None:
    prog, scope, out, wanted = trained
    path = tmp_path / "m.hlo"
    br.to_stablehlo(prog, path, scope=scope, fetches=[out], sizes={"n": 5})
    found, after, _ = jax.export.deserialize(bytearray(path.read_bytes())).call({}, FEED)
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    assert not after
