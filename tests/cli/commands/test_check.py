"""`braces check`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from braces.cli.main import main
from braces.extend.programs import parse_program, serde
from tests.cli.saved_files import model, saved, training

BAD = """
program {
  data x: f32[4]
  y: f32[4] = tanh(x=xx)  # net.py:3
  z: f32[4] = sinn(x=x)
}
"""


@pytest.fixture
def bad_file(tmp_path: Path) -> str:
    (tmp_path / "bad.braces").write_bytes(serde.program_to_bytes(parse_program(BAD), None))
    return str(tmp_path / "bad.braces")


def test_a_good_program_is_well_formed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, _, _ = training()
    path = saved(program, tmp_path / "p.braces")
    assert main(["check", path]) == 0
    assert capsys.readouterr().out.startswith(f"{path} is well formed (program ")
    assert main(["check", "--types", path]) == 0
    (tmp_path / "p.txt").write_text(str(program))
    assert main(["check", str(tmp_path / "p.txt")]) == 0


def test_all_programs_of_a_model_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--json", model(tmp_path / "m.model")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["ok"]
    assert said["programs"].keys() == {"predict", "train"}


def test_the_first_error_or_all_of_them(
    bad_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", bad_file]) == 1
    out = capsys.readouterr().out
    assert out.startswith("[B202] unknown variable `xx`.\n")
    assert "built at net.py:3" in out
    assert "B101" not in out
    assert main(["check", "--all", bad_file]) == 1
    assert "[B101] unknown operator `sinn`." in capsys.readouterr().out


def test_json_has_code_place_and_way_out(
    bad_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--all", "--json", bad_file]) == 1
    said = json.loads(capsys.readouterr().out)
    assert not said["ok"]
    assert [error["code"] for error in said["errors"]] == ["B202", "B101"]
    assert said["errors"][0]["fix"] == "Did you mean `x`?"


def test_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert main(["check", "-"]) == 1
    assert "B202" in capsys.readouterr().out


def test_what_is_no_program_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd").write_bytes(b"odd")
    assert main(["check", str(tmp_path / "odd")]) == 1
    assert "not a Braces program" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "nothing")]) == 2


def test_checking_imports_nothing_heavy(tmp_path: Path) -> None:
    path = model(tmp_path / "m.model")
    code = (
        "import sys; from braces.cli.main import main\n"
        "commands = ['check FILE', 'diff FILE FILE', 'params FILE', 'completion fish',\n"
        "            'prune FILE --targets fc -o /dev/null --text']\n"
        "for c in commands: assert main(c.replace('FILE', sys.argv[1]).split()) == 0, c\n"
        "assert not {'jax', 'optax', 'rich'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.replace("-o /dev/null", "-o -"), path], capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
