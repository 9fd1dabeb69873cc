"""Metadata of models in ONNX files and in the text of StableHLO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import braces as br
from braces.cli.main import main
from tests.storage.test_metadata import NOTES, save


def relu(**texts: str) -> Any:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[N, 2] x) => (float[N, 2] y) { y = Relu(x) }"""
    )
    onnx.helper.set_model_props(model, texts)
    return model


def test_metadata_survives_onnx(tmp_path: Path) -> None:
    model = br.load_model(save(tmp_path / "m.model", metadata=NOTES))
    path = tmp_path / "m.onnx"
    br.to_onnx(model, path)
    assert br.onnx_metadata(path) == NOTES
    proto: Any = onnx.load(path)  # pyright: ignore[reportUnknownMemberType]
    texts = {entry.key: entry.value for entry in proto.metadata_props}
    assert texts["license"] == "Apache-2.0"
    assert texts["classes"] == json.dumps(NOTES["classes"], ensure_ascii=False)
    br.to_onnx(model, path, metadata={"license": "MIT"})
    assert br.onnx_metadata(path) == {"license": "MIT"}


def test_metadata_survives_conversion_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = save(tmp_path / "m.model", metadata=NOTES)
    paths = [str(tmp_path / name) for name in ("m.onnx", "n.braces")]
    assert main(["convert", str(source), paths[0]]) == 0
    assert main(["convert", *paths]) == 0
    assert br.load_model(paths[1]).metadata == NOTES
    capsys.readouterr()
    for path in paths:
        assert main(["show", path, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["metadata"] == NOTES
        assert main(["show", path]) == 0
        shown = capsys.readouterr().out
        assert "  license: Apache-2.0\n" in shown
        assert "\x1b[31m" not in shown


def test_texts_of_other_producers_stay_texts() -> None:
    model = relu(classes='["a"]', year="2026", names="{0: 'cat'}", version="1.10")
    assert br.onnx_metadata(model) == {
        "classes": ["a"],
        "year": "2026",
        "names": "{0: 'cat'}",
        "version": "1.10",
    }


def test_entries_beyond_a_limit_are_left_out() -> None:
    texts = {"braces.updates": "{}", "deep": "[" * 40 + "]" * 40, "k" * 201: "a", "a": "b"}
    assert br.onnx_metadata(relu(**texts)) == {"a": "b"}
    assert br.onnx_metadata(relu(**{f"{i}": "x" * (1 << 22) for i in range(3)})) == {}


def test_metadata_is_a_comment_of_the_text_of_stablehlo(tmp_path: Path) -> None:
    model = br.load_model(save(tmp_path / "m.model", metadata=NOTES))
    path = tmp_path / "m.mlir"
    br.to_stablehlo(model, path)
    first, rest = path.read_text().split("\n", 1)
    assert json.loads(first.removeprefix("// metadata: ")) == NOTES
    assert "\nmodule @" in rest
    br.to_stablehlo(model, path, metadata={})
    assert "// metadata" not in path.read_text()
