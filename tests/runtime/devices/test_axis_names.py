"""Models that are sharded by the names of axes alone: values and shardings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.planning.compiled_run import compile_and_report
from tests.support.sharded_models import MESH, batch, collectives, train

pytestmark = pytest.mark.unoptimized

DIMS = {"batch": "data", "mlp": "model"}
TENSOR = br.Layout(MESH, DIMS)
BOTH = br.Layout(MESH, DIMS, fsdp="data")
KINDS = {"tensor": TENSOR, "both": BOTH}


def perceptron() -> br.Var:
    """One hidden layer."""
    return br.fc(br.data("x", ["batch", ("embed", 16)]), ("mlp", 32), act="relu", name="up")


def attending() -> br.Var:
    """Two layers of a transformer."""
    ids = br.data("x", ["batch", "time"], dtype="int32")
    h = br.embedding(ids, [("words", 40), ("embed", 32)], name="table")
    for at in range(2):
        h = br.layers.transformer_encoder_layer(h, ("heads", 4), ("mlp", 64), name=f"layer{at}")
    return br.mean(h, axis=1)


def recurrent() -> br.Var:
    """Steps."""
    x = br.data("x", ["batch", "time", ("embed", 16)])
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        xt = net.add_input(x, axis=1)
        h = net.add_memory(shape=[32], batch_like=x, batch_axis=0)
        h.update(br.tanh(br.fc(xt, ("mlp", 32), name="up") + br.fc(h, 32, name="again")))
    return rnn.final(h)


def classifier(model: Any) -> tuple[br.Program, br.Var]:
    """A model that learns classes with Adam, and its loss."""
    with br.Program() as program:
        labels = br.data("y", ["batch"], dtype="int32")
        scores = br.fc(model(), 8, name="down")
        loss = br.softmax_cross_entropy(scores, labels, reduction="mean")
        br.optimizer.adam(1e-2, epsilon=1e-3).minimize(loss)
    return program, loss


THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (perceptron, "tensor"),
        *(
            pytest.param(model, kind, marks=THOROUGH)
            for model in (perceptron, recurrent, attending)
            for kind in KINDS
            if (model, kind) != (perceptron, "tensor")
        ),
    ],
)
def test_names_alone_lay_out_a_model(model: Any, kind: str, rng: np.random.Generator) -> None:
    program, loss = classifier(model)
    layout = KINDS[kind]
    if model is attending:
        layout = br.Layout(MESH, {**DIMS, "heads": "model", "words": "model"}, fsdp=layout.fsdp)
    fed = batch(program, rng)
    alone = train(program, loss, br.Executor(), fed)
    exe = br.Executor(layout=layout)
    found = train(program, loss, exe, fed)
    np.testing.assert_allclose(found.losses, alone.losses, atol=1e-6)
    for name in alone.scope.names():
        np.testing.assert_allclose(
            found.scope[name], alone.scope[name], atol=1e-6, err_msg=name
        )
    for name in found.scope.names():
        if name.startswith("adam/mu/"):
            lies = found.scope.var(name).raw.sharding
            assert lies == found.scope.var(name.removeprefix("adam/mu/")).raw.sharding
    if model is perceptron:
        counts = {"tensor": {"all-reduce": 3}, "both": {"all-reduce": 3, "all-gather": 4}}
        assert collectives(exe, program) == counts[kind]
    if model is attending and kind == "tensor":
        lies = {
            role: tuple(found.scope.var(f"layer1/{role}").raw.sharding.spec)
            for role in ("attention/q.w", "attention/out.w", "hidden.w", "hidden.b", "out.w")
        }
        assert lies == {
            "attention/q.w": (None, "model"), "attention/out.w": ("model", None),
            "hidden.w": (None, "model"), "hidden.b": ("model",), "out.w": ("model", None),
        }  # fmt: skip


def test_values_are_restored_to_where_names_have_laid_them(tmp_path: Path) -> None:
    program, _ = classifier(perceptron)
    exe, scope = br.Executor(layout=TENSOR), br.Scope()
    exe.init(program, scope, seed=1)
    br.save_checkpoint(scope, tmp_path, 3)
    other = br.Scope()
    exe.init(program, other, seed=2)
    br.load_checkpoint(other, tmp_path, layout=TENSOR)
    empty = br.Scope()
    br.load_checkpoint(empty, tmp_path, layout=TENSOR)
    for name in ("up.w", "adam/mu/up.w", "up.b"):
        np.testing.assert_array_equal(other[name], scope[name])
        assert other.var(name).raw.sharding == scope.var(name).raw.sharding
        assert not scope.var(name).raw.is_fully_replicated
        assert empty.var(name).raw.is_fully_replicated  # the file knows nothing of names


def test_a_plan_knows_the_names() -> None:
    program, _ = classifier(perceptron)
    found = compile_and_report(program.definition, BOTH, (), {"batch": 16})
    held = {one.name: one.device_bytes for one in found.values}
    assert held["up.w"] == held["adam/mu/up.w"] == 16 * 32 * 4 // 8
    assert held["x"] == 16 * 16 * 4 // 4


@pytest.mark.parametrize("fsdp", [None, pytest.param("data", marks=THOROUGH)])
def test_sequences_are_cut_by_the_name_of_time(
    fsdp: str | None, rng: np.random.Generator
) -> None:
    with br.Program() as program:
        ids = br.data("x", ["batch", "time"], dtype="int32")
        labels = br.data("y", ["batch"], dtype="int32")
        h = br.embedding(ids, [40, 16], name="table")
        h = br.layers.transformer_encoder_layer(h, 4, 32, causal=True, name="layer")
        scores = br.fc(br.mean(h, axis=1), 8)
        loss = br.softmax_cross_entropy(scores, labels, reduction="mean")
        br.optimizer.adam(1e-2, epsilon=1e-3).minimize(loss)
    fed = {"x": rng.integers(0, 40, (4, 8)), "y": rng.integers(0, 8, 4)}
    layout = br.Layout(MESH, {"batch": "model", "time": "data"}, fsdp=fsdp)
    alone = train(program, loss, br.Executor(), fed)
    found = train(program, loss, br.Executor(layout=layout), fed)
    np.testing.assert_allclose(found.losses, alone.losses, atol=1e-6)
    for name in alone.scope.names():
        np.testing.assert_allclose(found.scope[name], alone.scope[name], atol=1e-6)
