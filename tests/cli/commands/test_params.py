"""`braces params`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import braces as br
from braces.cli.main import main
from tests.cli.saved_files import model, saved, training


def test_the_parameters_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", model(tmp_path / "m.model")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["fc.w", "parameter", "f32[3,1]", "12", "B"] in lines
    assert lines[-1][1] == "variables,"


def test_json_has_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(training()[0], tmp_path / "p.braces")
    assert main(["params", "--json", path]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["fc.w"]["bytes"] == 12
    assert rows["fc.w"]["trainable"]


def test_safetensors_of_any_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scope = br.Scope()
    scope.var("a").set([1.0, 2.0])
    br.save_parameters(scope, tmp_path / "a.safetensors")
    assert main(["params", str(tmp_path / "a.safetensors")]) == 0
    assert capsys.readouterr().out.split()[:3] == ["a", "array", "f32[2]"]


def test_a_program_without_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(br.Program(), tmp_path / "p.braces")
    assert main(["params", path]) == 0
    assert capsys.readouterr().out == "0 variables, 0 numbers, 0 B\n"
