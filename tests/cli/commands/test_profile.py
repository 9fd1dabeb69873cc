"""`braces run --profile`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from braces.cli.commands import run
from braces.cli.main import main
from tests.cli.saved_files import model
from tests.runtime.profiling.profiled import check_trace, tracks

TEXT = """
program {
  data x: f32[b]
  data count: f32[]
  y: f32[b] = tanh(x=x)
  z: f32[b] = log(x=y)
  one: f32[] = constant() {value=f32[] 1.0}
  more: f32[] = add(x=count, y=one)
  return z, more
}
"""
FEEDS = ("--feed", "x=[1,2,3]", "--feed", "count=1")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "p.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize("mode", [[], ["--interpret"]])
def test_a_profile_is_printed_and_its_trace_written(
    file: str, mode: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    assert main(["run", file, *FEEDS, *mode, "--runs", "3", "--profile", str(trace)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"3 runs, {'interpreted' if mode else 'compiled'} (cpu), ")
    assert "z" in {line.split()[0] for line in said.splitlines() if line}
    assert said.splitlines()[-1].startswith(f"trace: {trace}, ")
    made = json.loads(trace.read_text())
    check_trace(made)
    runs = [one["name"] for one in tracks(made["traceEvents"])["runs"]]
    assert sum(name.startswith("run ") for name in runs) == 3
    assert sorted(os.listdir(tmp_path)) == ["p.txt", "trace.json"]


def test_without_a_file_only_the_table_is_printed(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", file, *FEEDS, "--interpret", "--profile", "--by", "type"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("10 runs, ")
    assert [line.split()[0] for line in lines[5:6]] == ["type"]
    assert {"tanh", "log"} <= {line.partition(" ")[0] for line in lines[6:]}
    assert os.listdir(tmp_path) == ["p.txt"]


def test_a_profile_for_programs_is_json_and_arrays_still_go_to_their_file(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["run", file, *FEEDS, "--interpret", "--profile", "--runs", "2"]
    assert main([*given, "--json", "--by", "op"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["runs_s"]) == 2
    assert {row["type"]: row["calls"] for row in said["rows"]}["log"] == 2
    assert {phase["name"] for phase in said["phases"]} >= {"plan", "code"}
    assert main([*given, "-o", str(tmp_path / "out.npz")]) == 0
    assert capsys.readouterr().out.startswith("2 runs, ")
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["z"], np.log(np.tanh([1.0, 2.0, 3.0])), rtol=1e-5)
        assert found["more"] == 2.0


def test_the_runs_of_a_profile_change_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = model(tmp_path / "digits.model")
    before = Path(path).read_bytes()
    feeds = ["--feed", "x=[[1,2,3]]", "--feed", "y=[[0]]"]
    assert (
        main(["run", path, "--program", "train", *feeds, "--fetch", "loss", "--profile"]) == 0
    )
    assert Path(path).read_bytes() == before
    assert "10 runs, compiled" in capsys.readouterr().out


class NotNowError(Exception):
    """Something was read or run that should not have been yet."""


def never(*given: Any) -> Any:
    raise NotNowError(given)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("nowhere/trace.json", "No such file"),
        ("folder.json", "Is a directory"),
        ("p.txt/trace.json", "Not a directory"),
        ("trace.txt", "ends in .json"),
    ],
)
def test_a_bad_path_is_refused_before_anything_runs(
    path: str,
    what: str,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "prepare_run", never)
    folder = Path(file).parent
    (folder / "folder.json").mkdir()
    with pytest.raises(SystemExit) as stopped:
        main(["run", file, *FEEDS, "--profile", str(folder / path)])
    assert stopped.value.code == 2
    assert what in capsys.readouterr().err


def test_a_folder_that_must_not_be_written_to_is_refused_before(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SystemExit):
        main(["run", file, *FEEDS, "--profile", str(Path(file).with_name("trace.json"))])
    assert "Permission denied" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--runs", "3"], "--runs and --by require --profile."),
        (["--by", "line"], "--runs and --by require --profile."),
        (["--profile", "--against", "interpret"], "--against and --profile are exclusive."),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str],
    what: str,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "prepare_run", never)
    assert main(["run", file, *FEEDS, *arguments]) == 1
    assert what in capsys.readouterr().err


def test_a_trace_does_not_take_the_place_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    path.write_text("program { data x: f32[2]  y: f32[2] = tanh(x=x)  return y }")
    assert main(["run", str(path), "--feed", "x=[1,2]", "--profile", str(path)]) == 1
    assert "overwrite the program" in capsys.readouterr().err
    assert path.read_text().startswith("program")


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5"])
def test_a_number_of_runs_that_is_none_is_bad_usage(number: str, file: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", file, *FEEDS, "--profile", "--runs", number])
    assert stopped.value.code == 2


def test_a_run_that_fails_leaves_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trace = tmp_path / "p.txt", tmp_path / "trace.json"
    path.write_text(
        "program { data x: f32[3]  data i: i32[]  "
        "y: f32[] = take(x=x, indices=i) {axis=0}  return y }"
    )
    feeds = ["--feed", "x=[1,2,3]", "--feed", "i=7"]
    for mode in ([], ["--interpret"]):
        assert main(["run", str(path), *feeds, *mode, "--profile", str(trace)]) == 1
        assert "IndexRangeError" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["p.txt"]


def test_the_help_and_the_completion_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    said = capsys.readouterr().out
    assert "--profile [TRACE.json]" in said
    assert "Perfetto" in said
    assert main(["completion", "bash"]) == 0
    assert "--profile" in capsys.readouterr().out
