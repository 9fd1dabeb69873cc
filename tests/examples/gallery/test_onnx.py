"""Examples of the gallery that read or write ONNX, at a small size, in both modes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import braces as br
from examples.gallery import finetune, keyword_spotter
from examples.real_models import look_alike
from examples.speakers import look_alike as recordings

pytestmark = pytest.mark.unoptimized

# ---- fine-tuning -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("magika")
    look_alike.write(folder)
    return folder / finetune.MODEL


@pytest.fixture(scope="module")
def files() -> finetune.Files:
    return finetune.training_files(finetune.SMALL)


def test_files_have_kinds(files: finetune.Files) -> None:
    assert np.bincount(files["kind"]).tolist() == [16, 16, 16]
    assert files["bytes"].shape == (48, 2048)
    held_out = finetune.held_out_files(finetune.SMALL)
    rows = {row.tobytes() for row in files["bytes"]}
    assert not any(row.tobytes() in rows for row in held_out["bytes"])


def test_the_trunk_is_frozen_first(model: Path, files: finetune.Files) -> None:
    _, values = br.from_onnx(model)
    del values["w2"]  # the old head
    settings = replace(finetune.SMALL, epochs=(1, 1), rates=(0.1, 0.0))
    tuned = finetune.tune(model, settings, files, files, quiet=True)
    for name, value in values.items():
        np.testing.assert_array_equal(tuned.net.scope[f"trunk/{name}"], value)
    assert tuned.runs[0].history["loss"] != tuned.runs[1].history["loss"]


def test_the_tuned_model_is_the_same_in_onnx_runtime(
    model: Path, files: finetune.Files, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    tuned = finetune.tune(model, finetune.SMALL, files, files, quiet=True)
    assert not np.array_equal(tuned.net.scope["trunk/w0"], br.from_onnx(model)[1]["w0"])
    losses = [loss for run in tuned.runs for loss in run.history["loss"]]
    assert losses[-1] < losses[0]
    tuned.export(tmp_path / "kinds.onnx")
    found = finetune.in_onnx_runtime(tmp_path / "kinds.onnx", files["bytes"])
    np.testing.assert_allclose(tuned.likely(files["bytes"]), found, atol=1e-5)
    assert "<svg" in finetune.draw(tuned)


def test_both_modes_tune_the_same(model: Path, files: finetune.Files) -> None:
    few = {name: column[::6] for name, column in files.items()}
    settings = replace(finetune.SMALL, epochs=(1, 1), batch=8)
    histories = [
        finetune.tune(model, replace(settings, mode=mode), few, few, quiet=True).runs[1].history
        for mode in ("compile", "interpret")
    ]
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(*(h[name] for h in histories), rtol=1e-3)


# ---- keyword spotter -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spotter() -> keyword_spotter.Trained:
    return keyword_spotter.train(keyword_spotter.SMALL, recordings(45, 1), quiet=True)


@pytest.fixture(scope="module")
def audio() -> keyword_spotter.Audio:
    test = recordings(18, 2)
    return keyword_spotter.joined(test, keyword_spotter.shuffled(test, 0))


def test_keywords_are_detected_once(
    spotter: keyword_spotter.Trained, audio: keyword_spotter.Audio
) -> None:
    decisions, scores = spotter.spot(audio)
    measured = keyword_spotter.measure(audio, decisions)
    assert measured.found > 0.3
    detected = np.flatnonzero(decisions != keyword_spotter.NOTHING)
    assert (scores[detected] > keyword_spotter.SMALL.upper).all()
    again = decisions[detected][1:] == decisions[detected][:-1]
    for first, second in zip(detected[:-1][again], detected[1:][again], strict=True):
        assert scores[first:second].min() < keyword_spotter.SMALL.upper
    assert "<svg" in keyword_spotter.draw(audio, decisions, scores)


def test_measurements_count_first_detections() -> None:
    keywords = np.repeat([3, 5], [4, 3])
    made = keyword_spotter.Audio(np.zeros((7, 12)), keywords, np.array([0, 4, 7]))
    decisions = np.array([-1, 3, -1, 3, -1, 2, -1])
    found = keyword_spotter.measure(made, decisions)
    assert (found.found, found.delay) == (0.5, 1.0)
    np.testing.assert_allclose(found.false_alarms, 1000 * 2 / 7)


def test_each_frame_has_the_posteriors_of_the_whole_stream(
    spotter: keyword_spotter.Trained, audio: keyword_spotter.Audio, mode: str
) -> None:
    exe, scope, net = br.Executor(mode=mode), spotter.reset(), spotter.net
    rows = audio.frames[:12]
    for row in rows:
        exe.run(net.spotter, scope, {"frame": row[None]})
    feed = {"frames": rows[None]}
    logits = exe.evaluate(net.trainer, spotter.run.scope, feed, "keywords")[0]
    smooth = np.zeros(9)
    for row in np.exp(logits) / np.exp(logits).sum(-1, keepdims=True):
        smooth = 0.75 * smooth + 0.25 * row
    np.testing.assert_allclose(scope["smooth"][0], smooth, rtol=1e-4, atol=1e-6)


def test_onnx_runtime_makes_the_same_decisions(
    spotter: keyword_spotter.Trained, audio: keyword_spotter.Audio, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    spotter.export(tmp_path / "spotter.onnx")
    found, scores = keyword_spotter.spot_in_onnx_runtime(tmp_path / "spotter.onnx", audio)
    decisions, ours = spotter.spot(audio)
    np.testing.assert_array_equal(found, decisions)
    np.testing.assert_allclose(scores, ours, atol=1e-5)
    assert len({*decisions.tolist()}) > 2
