"""Recipes of `docs/guides/surgery/recipes`: they run, are short, and change imported models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from examples import recall
from tests.docs.test_docs import ROOT, blocks

FOLDER = "docs/guides/surgery/recipes"
PAGES = sorted(page.stem for page in (ROOT / FOLDER).glob("*.md") if page.stem != "README")
LINES = 20

pytestmark = pytest.mark.unoptimized


def recipes(name: str) -> list[str]:
    """The code under the headings `Recipe` of a page."""
    text = (ROOT / FOLDER / f"{name}.md").read_text(encoding="utf-8")
    parts = [part for part in text.split("\n## ") if part.startswith("Recipe")]
    return [part.split("```python\n")[1].split("```")[0] for part in parts]


def apply(name: str, names: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Run the recipe of a page on other programs, and return its variables."""
    (code,) = recipes(name)
    scope = {"np": np, "br": br, **names}
    exec(compile(code.replace("/tmp/", f"{folder}/"), f"{name}.md", "exec"), scope)
    return scope


@pytest.mark.parametrize("name", PAGES)
def test_a_recipe_has_at_most_20_lines(name: str) -> None:
    for code in recipes(name):
        assert 0 < len([line for line in code.splitlines() if line.strip()]) <= LINES


def test_the_index_has_all_recipes() -> None:
    index = (ROOT / FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"]({name}.md)" in index for name in PAGES)
    assert not blocks(f"{FOLDER}/README.md")


# ---- imported models and other networks ------------------------------------------------------


def onnx_net(
    text: str, lowest: float, **weights: tuple[int, ...]
) -> tuple[br.Program, br.Scope]:
    """Import an ONNX model in text form, with random weights of these shapes."""
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 20]> {text}')
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        value = rng.uniform(lowest, 0.6, shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    prog, values = br.from_onnx(model)
    scope = br.Scope()
    scope.update(values)
    return prog, scope


CONVOLUTIONS = """
    net (float[n,3,8,8] x) => (float[n,5,4,4] y) {
        c = Conv<strides = [1, 1], pads = [1, 1, 1, 1]>(x, w1, b1)
        d = BatchNormalization(c, s1, o1, m1, v1)
        e = Relu(d)
        f = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(e, w2)
        y = BatchNormalization<epsilon = 0.001>(f, s2, o2, m2, v2)
    }"""


def test_batch_norms_of_an_onnx_network_are_folded(mode: str) -> None:
    channels = {f"{name}1": (4,) for name in "bsomv"} | {f"{name}2": (5,) for name in "somv"}
    prog, scope = onnx_net(CONVOLUTIONS, 0.1, w1=(4, 3, 3, 3), w2=(5, 4, 3, 3), **channels)
    exe, feed = br.Executor(mode=mode), {"x": np.ones((2, 3, 8, 8), "float32")}
    (wanted,) = exe.run(prog, scope, feed)
    folded = apply("fold_batch_norm", {"prog": prog, "scope": scope, "exe": exe})["folded"]
    assert not folded.find(type="batch_norm")
    (found,) = exe.run(folded, scope, feed)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


ATTENTION = """
    net (int64[batch,5] ids) => (float[batch,16] logits)
        <int64[4] split = {0, 5, 2, 4}, int64[3] merged = {0, 5, 8}, int64[1] one = {1}> {
        x = Gather(table, ids)
        qt = Transpose<perm = [1, 0]>("0.attention.q.weight")
        q = MatMul(x, qt)
        kt = Transpose<perm = [1, 0]>("0.attention.k.weight")
        k = MatMul(x, kt)
        vt = Transpose<perm = [1, 0]>("0.attention.v.weight")
        v = MatMul(x, vt)
        qs = Reshape(q, split)
        qh = Transpose<perm = [0, 2, 1, 3]>(qs)
        ks = Reshape(k, split)
        kh = Transpose<perm = [0, 2, 3, 1]>(ks)
        vs = Reshape(v, split)
        vh = Transpose<perm = [0, 2, 1, 3]>(vs)
        scores = MatMul(qh, kh)
        weights = Softmax(scores)
        heads = MatMul(weights, vh)
        back = Transpose<perm = [0, 2, 1, 3]>(heads)
        flat = Reshape(back, merged)
        added = Add(x, flat)
        ht = Transpose<perm = [1, 0]>("0.hidden.weight")
        up = MatMul(added, ht)
        act = Gelu(up)
        mean = ReduceMean<keepdims = 0>(act, one)
        logits = MatMul(mean, head)
    }"""
ONE_LAYER = {f"0.attention.{name}.weight": (8, 8) for name in "qkv"} | {
    "0.hidden.weight": (16, 8), "table": (16, 8), "head": (16, 16),
}  # fmt: skip


@pytest.fixture
def transformer(mode: str) -> dict[str, Any]:
    """A transformer of one layer, imported from ONNX, and what recipes read."""
    prog, scope = onnx_net(ATTENTION, -0.6, **ONE_LAYER)
    ids, values = recall.texts(32, seed=1)
    feed = {"ids": ids, "answer": values[:, 0]}
    exe = br.Executor(mode=mode)
    return {"prog": prog, "scope": scope, "exe": exe, "feed": feed, "ids": ids}


def logits(names: Mapping[str, Any], prog: br.Program) -> np.ndarray:
    return names["exe"].evaluate(prog, names["scope"], {"ids": names["ids"]}, prog.fetches[0])


def test_lora_of_an_onnx_transformer_is_merged(
    transformer: dict[str, Any], tmp_path: Path
) -> None:
    def repeated(seed: int) -> Any:
        del seed
        return transformer["feed"]

    before, first = logits(transformer, transformer["prog"]), br.Scope()
    first.update(transformer["scope"].state_dict())
    after = apply("lora", {**transformer, "feed": repeated}, tmp_path)
    assert len(after["adapted"].report) == 3
    assert after["losses"][-1] < after["losses"][0]
    merged = logits(transformer, after["prog"])
    assert np.abs(merged - before).max() > 0.1
    first.update({name: after["scope"][name] for name in after["added"]})
    adapted = logits({**transformer, "scope": first}, after["adapted"])
    np.testing.assert_allclose(merged, adapted, atol=1e-4)
    written, values = br.from_onnx(tmp_path / "adapted.onnx")
    scope = br.Scope()
    scope.update(values)
    found = logits({**transformer, "scope": scope}, written)
    np.testing.assert_allclose(found, merged, atol=1e-5)


def test_weights_of_an_onnx_transformer_become_int8(transformer: dict[str, Any]) -> None:
    after = apply("quantize", transformer)
    assert len(after["small"].find(kind="variables", type="i8")) == 4
    assert after["losses"][-1] < after["losses"][0]
    wanted = logits(transformer, after["net"])
    np.testing.assert_allclose(logits(transformer, after["small"]), wanted, atol=1e-4)


def test_heads_of_an_onnx_transformer_get_scores(transformer: dict[str, Any]) -> None:
    after = apply("prune_heads", transformer)
    assert after["scores"].shape == (1, 2)
    assert after["kept"].sum() == 1


def test_an_activation_of_an_onnx_transformer_is_swapped(transformer: dict[str, Any]) -> None:
    after = apply("swap_activation", transformer)
    assert len(after["swapped"].report) == 1
    assert after["losses"] == sorted(after["losses"], reverse=True)


def test_gradients_of_each_example_of_an_onnx_transformer(transformer: dict[str, Any]) -> None:
    feed = transformer["feed"]
    after = apply("per_example", {**transformer, "labels": feed["answer"]})
    prog = transformer["prog"]
    with prog:
        answer = br.data("answer", ["batch"], "int64")
        loss = br.softmax_cross_entropy(prog.var("logits"), answer)
        (grad,) = br.gradients(loss, [prog.parameters[0]])
    wanted = transformer["exe"].run(prog, transformer["scope"], feed, grad)
    np.testing.assert_allclose(after["places"].mean(axis=0), wanted, rtol=1e-4, atol=1e-6)


def test_an_activation_of_a_users_rnn_with_lengths_is_swapped(mode: str) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["batch", 5, 4]), br.data("n", ["batch"], "int32")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            row, h = net.add_input(x, axis=1), net.add_memory(shape=[4], batch_like=x)
            h.update(br.gelu(br.fc(br.concat([row, h.pre(1)], axis=1), 4, name="cell")))
        prog.give(br.fc(rnn.final(h), 3, name="out").name)
    exe, rng = br.Executor(mode=mode), np.random.default_rng(0)
    scope = exe.init(prog, seed=0)
    feed = {"x": rng.normal(size=(6, 5, 4)), "n": [1, 2, 3, 4, 5, 5], "answer": [0, 1, 2] * 2}
    after = apply("swap_activation", {"prog": prog, "scope": scope, "exe": exe, "feed": feed})
    assert not after["swapped"].find(type="gelu*")
    assert after["losses"] == sorted(after["losses"], reverse=True)


def test_a_speech_detector_becomes_a_streaming_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    from examples.real_models import look_alike, packages  # it imports onnx

    look_alike.write(tmp_path)
    name = f"{packages.SILERO}/silero_vad_16k_sequence.onnx"
    (code,) = blocks(f"{FOLDER}/stream.md", "py")
    sound = np.random.default_rng(0).normal(size=(6, 576)).astype("float32")
    names: dict[str, Any] = {"br": br, "np": np, "exe": br.Executor(), "sound": sound}
    monkeypatch.chdir((packages.get(name, tmp_path)).parent)
    exec(compile(code, "stream.md", "exec"), names)
    zeros = np.zeros((1, 1, 128), "float32")
    feed = {"input": sound, "h": zeros, "c": zeros}
    wanted = names["exe"].run(
        names["detector"], names["whole"], feed, names["detector"].fetches[0]
    )
    np.testing.assert_allclose(np.concatenate(names["parts"]), wanted, atol=1e-5)


@pytest.mark.parametrize(("rate", "samples"), [(16000, 576), (8000, 288)])
def test_a_speech_detector_with_a_branch_for_the_sample_rate_streams(
    rate: int, samples: int, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from examples.real_models import look_alike, packages  # it imports onnx

    look_alike.write(tmp_path)
    path = packages.get(f"{packages.SILERO}/silero_vad.onnx", tmp_path)
    detector, values = br.from_onnx(path)
    with br.Program() as stream:
        frame, sr = br.data("frame", [1, "samples"]), br.data("sr", [], "int64")
        state = br.state("state", [2, 1, 128])
        speech, new = br.call(detector, frame, state, sr, name="net")
        stream.update(state, new)
    exe, session = br.Executor(), onnxruntime.InferenceSession(str(path))
    scope = exe.init(stream)
    scope.update(values, prefix="net/")
    carried = np.zeros((2, 1, 128), "float32")
    for sound in np.random.default_rng(0).normal(size=(4, 1, samples)).astype("float32"):
        feed = {"input": sound, "state": carried, "sr": np.array(rate)}
        wanted, carried = session.run(None, feed)
        found = exe.run(stream, scope, {"frame": sound, "sr": rate}, speech)
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(scope["state"], carried, atol=1e-5)


def test_lora_of_the_recurrent_weights_of_a_speech_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    from examples.real_models import look_alike, packages  # it imports onnx

    look_alike.write(tmp_path)
    path = packages.get(f"{packages.SILERO}/silero_vad_16k_sequence.onnx", tmp_path)
    (code,) = blocks(f"{FOLDER}/lora.md", "py")
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES
    zeros, rng = np.zeros((1, 1, 128), "float32"), np.random.default_rng(0)
    sound = rng.normal(size=(6, 576)).astype("float32")
    feed = {"input": sound, "h": zeros, "c": zeros, "answer": np.ones(6, "float32")}
    names: dict[str, Any] = {"br": br, "np": np, "exe": br.Executor(), "feed": feed}
    monkeypatch.chdir(path.parent)
    exec(compile(code, "lora.md", "exec"), names)
    assert len(names["weights"]) == 2
    assert len(names["added"]) == 4
    assert names["losses"][-1] < 0.5 * names["losses"][0]
    scope, detector, exe = names["scope"], names["detector"], names["exe"]
    adapted = exe.evaluate(names["adapted"], scope, feed, names["speech"])
    for weight in names["weights"]:
        assert np.array_equal(scope[weight.name], names["values"][weight.name])
        scope[weight.name] += scope[f"{weight.name}.lora_b"] @ scope[f"{weight.name}.lora_a"]
    del feed["answer"]
    merged = exe.evaluate(detector, scope, feed, detector.fetches[0])
    np.testing.assert_allclose(merged, adapted, atol=1e-5)


def test_weights_of_a_speech_detector_become_int8_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from examples.real_models import look_alike, packages  # it imports onnx

    look_alike.write(tmp_path)
    path = packages.get(f"{packages.SILERO}/silero_vad_16k_sequence.onnx", tmp_path)
    (code,) = blocks(f"{FOLDER}/quantize.md", "py")
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES
    names: dict[str, Any] = {"br": br, "np": np, "exe": br.Executor()}
    monkeypatch.chdir(path.parent)
    exec(compile(code.replace("/tmp/", f"{tmp_path}/"), "quantize.md", "exec"), names)
    small, written = names["small"], tmp_path / "int8.onnx"
    assert len(small.find(kind="variables", type="i8")) == len(names["weights"]) == 4
    assert written.stat().st_size < 0.5 * path.stat().st_size

    zeros, rng = np.zeros((1, 1, 128), "float32"), np.random.default_rng(0)
    feed = {"input": rng.normal(size=(6, 576)).astype("float32"), "h": zeros, "c": zeros}
    found = names["exe"].run(small, names["scope"], feed)[0]
    before, after = (onnxruntime.InferenceSession(str(file)) for file in (path, written))
    np.testing.assert_allclose(found, after.run(None, feed)[0], atol=1e-5)
    difference = np.abs(found - before.run(None, feed)[0]).max()
    assert 0 < difference < 0.1


LSTM = """<ir_version: 9, opset_import: ["" : 20]>
net (float[t, 2, 3] x) => (float[t, 1, 2, 4] y) {
    y = LSTM <hidden_size = 4> (x, w, r)
}"""


def test_an_activation_in_an_lstm_of_onnx_is_swapped() -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    model, rng = onnx.parser.parse_model(LSTM), np.random.default_rng(0)
    for name, size in (("w", 3), ("r", 4)):
        value = rng.normal(size=(1, 16, size)).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    feed = {"x": rng.normal(size=(5, 2, 3)).astype("float32")}
    prog, values = br.from_onnx(model)
    swapped = prog.rewrite(br.tanh, br.layers.softsign)
    assert swapped.report is not None
    assert len(swapped.report) == 2
    assert not br.compare_values(prog, model, values, feed)
    found = br.compare_values(swapped, model, values, feed)
    assert found.first is not None
    assert found.other is not None
    assert found.other.type == "LSTM"
    assert found.first.path == "y/loop_0/body/y/tanh_0"

    kinds = ["Sigmoid", "Softsign", "Softsign"]
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("activations", kinds))
    session, scope = onnxruntime.InferenceSession(model.SerializeToString()), br.Scope()
    scope.update(values)
    (wanted,) = session.run(None, feed)
    np.testing.assert_allclose(br.Executor().run(swapped, scope, feed)[0], wanted, atol=1e-5)
