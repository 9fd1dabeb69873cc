"""`braces convert`, and ONNX models as input files of commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import braces as br
from braces.cli.main import main

LAYER = """<ir_version: 10, opset_import: ["" : 18]>
layer (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
    product = MatMul(x, w)
    y = Relu(product)
}"""
X = np.array([[1.0, -2.0, 3.0]], "float32")
Y = [[10.0, 12.0]]


@pytest.fixture
def layer(tmp_path: Path) -> str:
    onnx.save(onnx.parser.parse_model(LAYER), tmp_path / "layer.onnx")
    return str(tmp_path / "layer.onnx")


def test_a_model_of_onnx_becomes_one_of_ours_and_one_of_onnx_again(
    layer: str, tmp_path: Path
) -> None:
    ours, again = str(tmp_path / "layer.braces"), str(tmp_path / "again.onnx")
    assert main(["convert", layer, ours]) == 0
    np.testing.assert_allclose(br.load_model(ours).run(x=X), Y)
    assert main(["convert", ours, again]) == 0
    program, values = br.from_onnx(again)
    scope = br.Scope()
    scope.update(values)
    found = br.Executor().run(program, scope, {"x": X}, list(program.fetches))
    np.testing.assert_allclose(found[0], Y)


def test_a_size_is_fixed_while_a_model_is_converted(layer: str, tmp_path: Path) -> None:
    ours = str(tmp_path / "layer.braces")
    assert main(["convert", layer, ours, "--size", "N=1"]) == 0
    assert str(br.load_model(ours).programs["predict"].var("x").type) == "f32[1,3]"


@pytest.mark.parametrize("names", [("a.braces", "b.braces"), ("layer.onnx", "b.onnx")])
def test_one_of_both_files_is_ours(
    names: tuple[str, str], layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["convert", layer, str(tmp_path / "a.braces")])
    assert main(["convert", *(str(tmp_path / name) for name in names)]) == 1
    assert "FileFormatError" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.xyz", "a.onnxx", "a"])
def test_an_unknown_suffix_is_refused(
    name: str, layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", layer, str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert all(suffix in said for suffix in (name, ".braces", ".safetensors", ".onnx"))
    assert not (tmp_path / name).exists()


def test_commands_take_models_of_onnx(
    layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", layer]) == 0
    assert "w  parameter" in " ".join(capsys.readouterr().out.split(" ")).replace("   ", "  ")
    small = str(tmp_path / "small.braces")
    assert main(["prune", layer, "--targets", "product", "-o", small]) == 0
    assert main(["diff", layer, layer]) == 0
    assert main(["diff", layer, small]) == 1
    assert "relu" in capsys.readouterr().out
    assert main(["run", layer, "--feed", "x=[[1, -2, 3]]"]) == 0
    assert "[[10. 12.]]" in capsys.readouterr().out


def test_a_run_is_held_against_onnx_runtime(
    layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    against = ["--feed", "x=random:f32[4,3]", "--against", "onnxruntime"]
    assert main(["run", layer, *against]) == 0
    assert "The results are equal within the tolerances." in capsys.readouterr().out
    other = {"w": np.ones((3, 2), "float32")}
    scope = br.Scope()
    scope.update(other)
    br.save_parameters(scope, tmp_path / "w.safetensors")
    assert main(["run", layer, *against, "--params", str(tmp_path / "w.safetensors")]) == 1
    assert "First difference: `y`" in capsys.readouterr().out
