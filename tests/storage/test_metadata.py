"""Metadata of model files: names of classes, vocabularies, licences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import FileFormatError, ProgramError
from braces.ir.metadata import DEEPEST, MOST_BYTES
from braces.storage.model_files import read_programs
from braces.storage.tensor_file import open_tensors, write_tensors

NOTES: dict[str, Any] = {
    "classes": ["cat", "dog", "Öl\n\x1b[31m"],
    "vocabulary": {"a": 0, "b": 1},
    "license": "Apache-2.0",
    "year": "2026",
    "scale": [0.5, 2, None, True],
}


def save(path: Path, **more: Any) -> Path:
    with br.Program() as prog:
        y = br.data("x", ["n", 2]) * br.parameter("w", [2], init=1.0)
    scope = br.Executor().init(prog)
    br.save_model(path, prog, scope, ["x"], {"y": y}, **more)
    return path


def test_metadata_is_kept_by_a_model_file(tmp_path: Path) -> None:
    model = br.load_model(save(tmp_path / "m.model", metadata=NOTES))
    assert model.metadata == NOTES
    assert "metadata: classes, vocabulary, license, year, scale" in repr(model)
    page = model._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "license: Apache-2.0" in page
    assert "\x1b" not in page


def test_a_model_without_metadata_has_an_empty_dict_and_the_same_bytes(tmp_path: Path) -> None:
    plain, empty = save(tmp_path / "a.model"), save(tmp_path / "b.model", metadata={})
    assert br.load_model(plain).metadata == {}
    assert plain.read_bytes() == empty.read_bytes()
    assert "metadata" not in repr(br.load_model(plain))


def test_arrays_and_tuples_become_lists(tmp_path: Path) -> None:
    given = {"classes": np.array(["a", "b"]), "mean": np.float32(0.5), "size": (28, 28)}
    model = br.load_model(save(tmp_path / "m.model", metadata=given))
    assert model.metadata == {"classes": ["a", "b"], "mean": 0.5, "size": [28, 28]}


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 0


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (["classes"], "expected a dict, got list"),
        ({1: "a"}, "expected a text of 1 to 200 characters as key"),
        ({"": "a"}, "expected a text of 1 to 200 characters as key"),
        ({"k" * 201: "a"}, "expected a text of 1 to 200 characters as key"),
        ({"braces.updates": "{}"}, "keys that begin with `braces.` are reserved"),
        ({"a": {0: "cat"}}, "expected a text as key, got int"),
        ({"a": [{"b": object()}]}, "expected JSON data, got object"),
        ({"a": b"bytes"}, "expected JSON data, got bytes"),
        ({"a": float("nan")}, "the number is not finite"),
        ({"a": 2**64}, "the integer exceeds 64 bits"),
        ({"a": "\ud800"}, "the text has a lone surrogate"),
        ({"a": nested(DEEPEST)}, "nested deeper than 16 levels"),
        ({"a": "x" * MOST_BYTES}, "exceed the limit of 8388608"),
    ],
)
def test_invalid_metadata_is_refused_before_a_file_is_written(
    metadata: Any, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ProgramError, match="invalid metadata") as caught:
        save(tmp_path / "m.model", metadata=metadata)
    assert reason in str(caught.value)
    assert not (tmp_path / "m.model").exists()


def test_the_place_of_an_invalid_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as caught:
        save(tmp_path / "m.model", metadata={"a": [1, {"b": 1j}]})
    assert caught.value.given == "metadata['a'][1]['b']"


@pytest.mark.parametrize(
    "metadata", ["text", [1], None, {"a": nested(DEEPEST)}, {"braces.x": 1}, {"a": 10**40}]
)
def test_invalid_metadata_of_a_file_is_refused(metadata: Any, tmp_path: Path) -> None:
    with open_tensors(save(tmp_path / "m.model")) as file:
        arrays = {name: file.read(name) for name in file.types}
        record = {"programs": file.record["programs"], "metadata": metadata}
    write_tensors(tmp_path / "n.model", arrays, "braces.model", **record)
    for read in (br.load_model, read_programs):
        with pytest.raises(FileFormatError, match="invalid metadata of the model"):
            read(tmp_path / "n.model")


def test_a_foreign_reader_finds_metadata_as_json(tmp_path: Path) -> None:
    data = save(tmp_path / "m.model", metadata=NOTES).read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert json.loads(header["__metadata__"]["braces"])["metadata"] == NOTES
