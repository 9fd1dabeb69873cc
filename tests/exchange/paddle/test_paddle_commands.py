"""Folders with a Paddle program as inputs of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces.cli.main import main
from paddle_writing import Written


def test_commands_take_folders_with_a_program_of_paddle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    p = Written()
    x, w = p.feed("x", -1, 3), p.weight("w", np.arange(6, dtype="float32").reshape(3, 2) + 1)
    p.op("mul", {"X": x, "Y": w}, {"Out": "product"})
    p.op("relu", {"X": "product"}, {"Out": "y"})
    p.fetch("y")
    folder, given = str(p.save(tmp_path / "net")), "x=[[1, -2, 3]]"
    assert main(["show", f"{folder}/net.pdmodel"]) == 0
    assert main(["run", folder, "--feed", given]) == 0
    assert "[[10. 12.]]" in capsys.readouterr().out
    for name in ("net.braces", "net.onnx"):
        assert main(["convert", folder, str(tmp_path / name)]) == 0
    found = br.load_model(tmp_path / "net.braces").run(x=np.array([[1, -2, 3]], "f4"))
    np.testing.assert_allclose(found, [[10.0, 12.0]])
    assert main(["run", str(tmp_path / "net.onnx"), "--feed", given]) == 0
    assert "[[10. 12.]]" in capsys.readouterr().out
    assert main(["convert", folder, str(tmp_path / "net.braces"), "--size", "N=1"]) == 1
    assert "Paddle sizes have no names" in capsys.readouterr().err
    assert main(["show", str(tmp_path)]) == 2  # as any folder
    assert "is a folder" in capsys.readouterr().err
