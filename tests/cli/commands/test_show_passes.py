"""`braces show --passes`: the effect of each pass on each loop, with operations and bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces import save_model, save_parameters
from braces.cli.main import main

STEPS = """
program {
  data x: f32[n,3]
  parameter w: f32[3,3]
  data h: f32[3]
  final=[last: f32[3]], stacked=[], trips=[m: i64[]] =
    loop(init=h, sliced=x) captures [w] as steps
    body (t: i64[], before: f32[3], r: f32[3]) {
      y: f32[3] = matmul(x=r, y=w)
      z: f32[3] = add(x=y, y=before)
      a: f32[3] = tanh(x=z)
      return a
    }
  return last
}
"""


@pytest.fixture
def steps_file(tmp_path: Path) -> str:
    path = tmp_path / "steps.braces"
    br.parse(STEPS).save(path)
    return str(path)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return json.loads(shown(capsys, "--json", *arguments))


def test_passes_tell_what_they_did_with_operations_and_bytes(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, steps_file, "--passes")
    assert text == f"{br.parse(STEPS).explain()}\n"
    assert "    operations: 24 FLOP·n → 6 FLOP·n\n" in text
    assert "    steps: vectorized before the loop: `y`\n" in text
    assert "  bytes: 120 B·n → 84 B·n + 36 B\n" in text


def test_everything_is_shown_with_all(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brief, text = (shown(capsys, steps_file, "--passes", *more) for more in ([], ["--all"]))
    assert text == f"{br.parse(STEPS).explain(all=True)}\n"
    assert "steps (loop): unchanged; 24 FLOP·n, 120 B·n\n" in text
    assert "unchanged" not in brief
    assert "inline_in_loops" in text
    assert "inline_in_loops" not in brief


def test_passes_can_be_chosen_and_left_out(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = shown(capsys, steps_file, "--passes", "--without", "vectorize_before")
    assert (
        fewer
        == f"{br.parse(STEPS).explain(passes=br.passes.default.without('vectorize_before'))}\n"
    )
    assert "vectorized before" not in fewer
    two = shown(capsys, steps_file, "--passes", "--all", "--after", "dce", "--after", "cse")
    assert [line.split(":")[0] for line in two.splitlines() if line[0] != " "] == [
        "dce",
        "cse",
        "all passes",
    ]
    text = shown(capsys, steps_file, "--after", "vectorize_before", "--after", "dce")
    assert text == f"{br.passes.dce(br.passes.vectorize_before(br.parse(STEPS)))}"
    with pytest.raises(SystemExit) as bad_usage:
        main(["show", steps_file, "--passes", "--without", "vectorize_befor"])
    assert bad_usage.value.code == 2
    assert "Did you mean `vectorize_before`?" in capsys.readouterr().err


def test_sizes_can_be_said_of_passes(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, steps_file, "--passes", "--size", "n=1000")
    assert "  bytes: 120.0 kB → 84.0 kB\n" in text
    assert main(["show", steps_file, "--passes", "--size", "m=1000"]) == 1
    assert "no dimension `m`" in capsys.readouterr().err
    for wrong in ("n", "n=", "=3", "n=-1", "n=x"):
        with pytest.raises(SystemExit):
            main(["show", steps_file, "--passes", "--size", wrong])
        assert "expected NAME=N, such as batch=32" in capsys.readouterr().err


def test_json_has_what_passes_did(steps_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    (steps,) = as_json(capsys, steps_file, "--passes").values()
    batch = next(step for step in steps if step["name"] == "vectorize_before")
    assert batch["name"] == "vectorize_before"
    assert batch["before"] == {
        "operations": "24*n",
        "bytes_read": "84*n",
        "bytes_written": "36*n",
        "text": "24 FLOP·n, 120 B·n",
    }
    (loop,) = batch["constructs"]
    assert (loop["path"], loop["type"], loop["same"]) == ("steps", "loop", False)
    assert loop["after"]["operations"] == "6*n"
    assert loop["notes"] == [
        {
            "where": "steps",
            "what": "vectorized before the loop: `y`",
            "kind": "passed",
            "source": None,
        }
    ]
    (sized, *_) = as_json(capsys, steps_file, "--passes", "--size", "n=2")["program"]
    assert sized["before"]["operations"] == 48


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["--without", "vectorize_before"], "Add --passes."),
        (["--size", "n=2"], "Add --passes."),
        (["--all"], "Add --passes."),
        (["--passes", "--text"], "Remove one of them"),
        (["--passes", "--unfold"], "Remove one of them"),
        (
            ["--passes", "--after", "cse", "--without", "vectorize_before"],
            "no pass 'vectorize_before'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    said: list[str], message: str, steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", steps_file, *said]) == 1
    assert message in capsys.readouterr().err


def test_each_program_of_a_model_is_explained(
    steps_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "# " not in shown(capsys, steps_file, "--passes")
    with br.Program() as prog:
        y = br.tanh(br.data("x", [4]) * br.parameter("w", [4]))
        br.optimizer.sgd(0.1).minimize(br.sum(y))
    scope, path = br.Scope(), str(tmp_path / "two.model")
    br.Executor().init(prog, scope)
    save_model(path, prog, scope, feeds=["x"], fetches=[y])
    lines = shown(capsys, path, "--passes").splitlines()
    names = [line for line in lines if line.startswith("# ")]
    assert names == ["# predict", "# train", "# startup"]


def test_a_file_without_programs_has_nothing_to_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope, path = br.Scope(), str(tmp_path / "w.safetensors")
    scope.var("w").set([1.0, 2.0])
    save_parameters(scope, path)
    assert main(["show", "--passes", path]) == 1
    assert "has arrays, and no programs" in capsys.readouterr().err


def test_a_program_shows_what_a_run_takes(
    steps_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "  cost 24 FLOP·n, 120 B·n\n" in shown(capsys, steps_file)
    takes = as_json(capsys, steps_file)["programs"]["program"]["takes"]
    assert (takes["operations"], takes["bytes_read"]) == ("24*n", "84*n")
