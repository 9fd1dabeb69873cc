"""`braces diff`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.cli.main import main
from tests.cli.saved_files import forward, model, saved, training

LOOP = """
program {
  data x: f32[t,3]
  parameter w: f32[3] trainable
  zero: f32[3] = full() {shape=[3], value=0.0, dtype=f32}
  final=[last: f32[3]], trips=[trips: i64[]] = loop(init=zero, sliced=x) captures [w] as l
    body (t: i64[], h: f32[3], row: f32[3]) {
      a: f32[3] = add(x=h, y=row)
      b: f32[3] = multiply(x=a, y=w)
      return b
    }
  out: f32[3] = softmax(x=last) {axis=-1}
}
"""


def changes(*edits: tuple[str, str]) -> list[str]:
    text = LOOP
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    found = br.diff(br.parse(LOOP), br.parse(text)).changes
    return [" | ".join((c.how, c.block, c.what, *c.details)) for c in found]


def test_names_of_temporaries_do_not_matter() -> None:
    assert changes(("zero", "nothing"), ("a: f32", "sum: f32"), ("x=a,", "x=sum,")) == []


def test_a_changed_attribute_is_listed_with_its_operator() -> None:
    assert changes(("axis=-1", "axis=0")) == ["changed |  | out (softmax) | axis: -1 → 0"]


def test_a_change_in_a_nested_block_names_the_block() -> None:
    assert changes(("x=a, y=w", "x=h, y=w")) == ["changed | l/body | b (multiply) | x: a → h"]


def test_an_inserted_operator_is_one_addition_and_one_change() -> None:
    added = changes(
        ("b: f32[3] = multiply(x=a", "c: f32[3] = tanh(x=a)  b: f32[3] = multiply(x=c")
    )
    assert added == ["added | l/body | c: f32[3] = tanh(x=a)".replace("c: f32[3]", "c"),
                     "changed | l/body | b (multiply) | x: a → c"]  # fmt: skip


def test_declarations_updates_and_types() -> None:
    found = changes(("parameter w: f32[3] trainable", "parameter w: f32[3]"))
    assert found == [
        "changed |  | variable w | parameter w: f32[3] trainable → parameter w: f32[3]"
    ]
    found = changes(("out: f32[3]", "data y: f32[3]  out: f32[3]"))
    assert found == ["added |  | data y: f32[3]"]
    found = changes(("{axis=-1}", "{axis=-1}  update w = out"))
    assert found == ["added |  | update w = out"]


def test_a_renamed_parameter_is_another_parameter() -> None:
    found = changes(("parameter w", "parameter v"), ("y=w", "y=v"), ("[w]", "[v]"))
    assert "removed |  | parameter w: f32[3] trainable" in found
    assert "added |  | parameter v: f32[3] trainable" in found


# ---- the command -----------------------------------------------------------------------------


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status = main(["diff", "--json", *arguments])
    said = json.loads(capsys.readouterr().out)
    assert status == (0 if said["same"] else 1)
    return said


def test_equal_programs_are_the_same_in_any_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _, _ = forward()
    program.startup = br.Program()
    a = saved(program, tmp_path / "a.braces")
    (tmp_path / "a.txt").write_text(str(program))
    assert main(["diff", a, str(tmp_path / "a.txt")]) == 0
    assert "are equivalent" in capsys.readouterr().out
    assert as_json(capsys, a, a)["same"]


def test_training_is_the_forward_program_and_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = saved(forward()[0], tmp_path / "a.braces")
    b = saved(training()[0], tmp_path / "b.braces")
    said = as_json(capsys, a, b)["programs"]["program"]
    assert {change["how"] for change in said} == {"added"}
    assert main(["diff", a, b]) == 1
    out = capsys.readouterr().out
    assert "  + update fc.w = " in out
    assert "\033" not in out


def test_models_are_compared_program_by_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path / "m.model")
    assert as_json(capsys, path, path)["programs"].keys() == {"predict", "train", "startup"}


def test_a_missing_file_is_bad_usage(tmp_path: Path) -> None:
    path = saved(forward()[0], tmp_path / "a.braces")
    assert main(["diff", path, str(tmp_path / "none")]) == 2


# ---- a model and a program -------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_model_is_compared_by_its_program_that_is_meant(
    tmp_path: Path, text: bool, turned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model(tmp_path / "m")
    stored = br.load_model(file)
    for name in ("predict", "train"):
        program = stored.programs[name]
        path = tmp_path / name
        path.write_bytes(str(program).encode() if text else program.to_bytes())
        pair = [str(path), file] if turned else [file, str(path)]
        assert main(["diff", *pair]) == 0
        assert "are equivalent" in capsys.readouterr().out


def test_a_model_and_a_changed_program_tell_the_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model(tmp_path / "m")
    text = str(br.load_model(file).programs["predict"])
    (tmp_path / "p").write_text(text.replace("tanh", "sigmoid"), encoding="utf-8")
    assert main(["diff", file, str(tmp_path / "p")]) == 1
    said = capsys.readouterr().out
    assert "sigmoid" in said
    assert "program" not in said
    assert main(["diff", file, str(tmp_path / "p"), "--program", "train"]) == 1
    assert "update" in capsys.readouterr().out
    assert main(["diff", file, str(tmp_path / "p"), "--program", "none"]) == 1
    assert "unknown program `none`" in capsys.readouterr().err


def test_arrays_are_no_program_to_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope = br.Scope()
    scope.var("w").set([1.0])
    br.save_parameters(scope, tmp_path / "w")
    assert main(["diff", str(tmp_path / "w"), model(tmp_path / "m")]) == 1
    assert "no programs" in capsys.readouterr().err
