"""The demo's training program, from file to file through the commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces.cli.main import main
from braces.demo.model import Settings, build


def test_the_training_program_is_pruned_shown_diffed_and_run_with_the_same_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = build(Settings(units=16), steps=5)
    exe, scope, rng = br.Executor(), br.Scope(), np.random.default_rng(0)
    exe.init(net.program, scope, seed=3)
    images = rng.random((4, 8, 8)).astype("float32")
    exe.run(net.program, scope, {"image": images, "digit": [1, 2, 3, 4]}, net.loss)
    predict = br.prune(net.program, [net.logits])
    expected = exe.run(predict, scope, {"image": images}, net.logits)

    whole, small = str(tmp_path / "train.braces"), str(tmp_path / "logits.braces")
    weights, image = str(tmp_path / "w.safetensors"), str(tmp_path / "image.npy")
    out, name = str(tmp_path / "out.npz"), net.logits.name
    net.program.save(whole)
    br.save_parameters(scope, weights)
    np.save(image, images)

    assert main(["prune", whole, "--targets", name, "-o", small]) == 0
    assert br.Program.load(small).definition == predict.definition
    assert main(["show", "--json", small]) == 0
    shown = json.loads(capsys.readouterr().out)
    kept = {info.name for info in predict.parameters}
    assert kept == {info.name for info in net.program.parameters}
    assert all(name in json.dumps(shown) for name in kept)
    assert "adam" not in json.dumps(shown)
    assert main(["show", small, "--text"]) == 0
    assert capsys.readouterr().out == str(predict)
    assert main(["diff", "--json", small, whole]) == 1
    changes = json.loads(capsys.readouterr().out)["programs"]["program"]
    assert {change["how"] for change in changes} == {"added", "changed"}
    assert {c["what"] for c in changes if c["how"] == "changed"} == {"loop_0 (loop)", "results"}
    run = ["run", small, "--feed", f"image=@{image}", "--fetch", name, "--params", weights]
    assert main([*run, "-o", out]) == 0
    with np.load(out) as found:
        np.testing.assert_array_equal(found[name], expected)
    both = ["run", whole, *run[2:], "--feed", "digit=[1, 2, 3, 4]", "--against", small]
    assert main(both) == 0
    assert capsys.readouterr().out == "The results are equal within the tolerances.\n"
