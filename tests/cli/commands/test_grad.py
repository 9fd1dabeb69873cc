"""`braces grad`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces import verify
from braces.cli.main import main
from tests.cli.saved_files import forward, saved, training


@pytest.fixture
def path(tmp_path: Path) -> str:
    return saved(forward()[0], tmp_path / "net.braces")


def test_an_optimizer_makes_the_training_program(tmp_path: Path, path: str) -> None:
    out = tmp_path / "train.braces"
    command = ["grad", path, "--loss", "loss", "--optimizer", "sgd", "--learning-rate", "0.1"]
    assert main([*command, "-o", str(out)]) == 0
    made, built = br.Program.load(out), training()[0]
    assert br.fingerprint(made.definition) == br.fingerprint(built.definition)
    assert br.fingerprint(made.startup.definition) == br.fingerprint(built.startup.definition)
    assert verify(made, types=True) == []


def test_gradients_alone_are_named(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grad.braces"
    assert main(["grad", path, "--loss", "loss", "--wrt", "x,fc.b", "-o", str(out)]) == 0
    said = dict(line.split(": gradient ") for line in capsys.readouterr().err.splitlines())
    assert said.keys() == {"x", "fc.b"}
    made, scope = br.Program.load(out), br.Scope()
    br.Executor().init(made, scope)
    feed = {"x": np.ones((2, 3), np.float32), "y": np.zeros((2, 1), np.float32)}
    assert br.Executor().run(made, scope, feed, said["x"]).shape == (2, 3)


def test_all_parameters_unless_said(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", path, "--loss", "loss", "-o", "-", "--text"]) == 0
    assert "fc.w: gradient" in capsys.readouterr().err


def test_what_is_no_loss_is_refused(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grad", path, "--loss", "error", "-o", str(tmp_path / "o")]) == 1
    assert "must be a scalar" in capsys.readouterr().err
    assert main(["grad", path, "--loss", "lss", "-o", str(tmp_path / "o")]) == 1
    assert "Did you mean `loss`?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["grad", path, "--loss", "loss", "--optimizer", "os.system", "-o", "x"])
    assert stopped.value.code == 2
