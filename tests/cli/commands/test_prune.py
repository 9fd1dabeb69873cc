"""`braces prune`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces.cli.main import main
from tests.cli.saved_files import model, saved, training


def test_the_pruned_program_is_that_of_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out, _ = training()
    path = saved(program, tmp_path / "p.braces")
    assert main(["prune", path, "--targets", out.name, "-o", str(tmp_path / "small")]) == 0
    small = br.Program.load(tmp_path / "small")
    assert small.definition == br.prune(program, [out]).definition
    assert small.startup.definition == br.prune(program, [out]).startup.definition
    assert "Kept" in capsys.readouterr().err


def test_several_targets_and_the_text_form(tmp_path: Path) -> None:
    program, out, loss = training()
    path = saved(program, tmp_path / "p.braces")
    text = str(tmp_path / "small.txt")
    command = ["prune", path, "--targets", f"{out.name},error", "--targets", loss.name]
    assert main([*command, "-o", text, "--text"]) == 0
    small = br.parse(Path(text).read_text())
    assert small.definition == br.prune(program, [out, "error", loss]).definition


def test_what_a_plain_block_binds_is_a_target(tmp_path: Path) -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        with br.block("a"), br.block("b"):
            br.sin(br.tanh(x, name="y"))
    path, out = saved(program, tmp_path / "p.braces"), str(tmp_path / "small")
    assert main(["prune", path, "--targets", "a/b/y", "-o", out]) == 0
    small = br.Program.load(out)
    assert [op.type for op in small.block(2).ops] == ["tanh"]


def test_a_pipe_reads_and_writes(tmp_path: Path) -> None:
    program, _, loss = training()
    command = [sys.executable, "-m", "braces", "prune", "-", "--targets", loss.name, "-o", "-"]
    done = subprocess.run(command, input=program.to_bytes(), capture_output=True, check=True)
    small = br.Program.from_bytes(done.stdout)
    assert small.definition == br.prune(program, [loss]).definition


def test_the_pruned_program_gives_the_same_numbers(tmp_path: Path) -> None:
    program, out, _ = training()
    path = saved(program, tmp_path / "p.braces")
    main(["prune", path, "--targets", out.name, "-o", str(tmp_path / "small")])
    small, scope, executor = br.Program.load(tmp_path / "small"), br.Scope(), br.Executor()
    executor.init(small, scope, seed=5)
    xs = np.ones((2, 3), np.float32)
    pruned = executor.run(small, scope, {"x": xs}, out.name)
    whole = br.Scope()
    executor.init(program, whole, seed=5)
    feed = {"x": xs, "y": np.ones((2, 1), np.float32)}
    np.testing.assert_allclose(pruned, executor.run(program, whole, feed, out), rtol=1e-6)


def test_a_program_of_a_model_by_name(tmp_path: Path) -> None:
    path, out = model(tmp_path / "m.model"), str(tmp_path / "loss")
    command = ["prune", path, "--targets", "loss", "-o", out]
    assert main(command) == 1  # `predict` has no loss
    assert main([*command, "--program", "train"]) == 0
    assert "loss" in br.Program.load(out).vars


def test_a_target_is_what_a_model_gives_under_a_name(tmp_path: Path) -> None:
    path, out = model(tmp_path / "m.model"), str(tmp_path / "p.braces")
    assert main(["prune", path, "--targets", "out", "-o", out]) == 0
    (variable,) = br.load_model(path).entry().fetches.values()
    assert variable in br.Program.load(out).vars


def test_unknown_targets_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, _, _ = training()
    path = saved(program, tmp_path / "p.braces")
    assert main(["prune", path, "--targets", "los", "-o", str(tmp_path / "o")]) == 1
    assert "Did you mean `loss`?" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_standard_input_that_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, _, loss = training()
    text = io.TextIOWrapper(io.BytesIO(str(program).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    assert main(["prune", "-", "--targets", loss.name, "-o", str(tmp_path / "o")]) == 0
