"""Standard output with a limited encoding: no command fails."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braces.cli.main import COMMANDS, main
from tests.cli.saved_files import forward, model, saved, training

ODD = "größe_β→…_名"
"""A text of which each encoding below lacks something."""
ENCODINGS = ("ascii", "latin-1", "cp1252", "utf-8")

TABLE: dict[str, list[list[str]]] = {
    "demo": [["--help"]],
    "show": [
        ["FILE"],
        ["FILE", "--text"],
        ["FILE", "--json"],
        ["ODD FILE"],
        ["TEXT"],
        ["NONE"],
    ],
    "params": [["FILE"], ["FILE", "--json"], ["ODD FILE"], ["NONE"]],
    "check": [["FILE"], ["FILE", "--all", "--types"], ["FILE", "--json"], ["TEXT"], ["NONE"]],
    "diff": [["FILE", "ODD FILE"], ["FILE", "TRAINING"], ["FILE", "FILE", "--json"]],
    "prune": [["FILE", "--targets", "error", "-o", "ODD OUT"], ["FILE", "--targets", ODD]],
    "grad": [["FILE", "--loss", "loss", "-o", "ODD OUT"], ["FILE", "--loss", ODD]],
    "run": [
        ["FILE", "--feed", "x=random", "--feed", "y=random", "--fetch", "loss"],
        ["FILE", "--feed", f"{ODD}=1"],
        ["FILE", "--fetch", ODD],
    ],
    "debug": [
        ["FILE", "--feed", "x=random", "--feed", "y=random", "--save", "ODD OUT"],
        ["FILE", "--feed", f"{ODD}=1"],
        ["FILE", "--feed", "x=random", "--break", ODD, "--save", "ODD OUT"],
    ],
    "launch": [["-n", "2", "PRINTING"], ["NONE"], ["--address", ODD, "PRINTING"]],
    "plan": [["FILE", "--mesh", "data=1", "--fetch", ODD]],
    "convert": [["FILE", "OUT.txt"], ["NONE", "OUT.txt"], ["FILE", ODD]],
    "ops": [[], ["tanh"], ["conv2d"], [ODD]],
    "cache": [[]],
    "serve": [["NONE"], ["FILE"], ["ODD FILE", "--insecure", "--host", ODD]],
    "worker": [["--listen", ODD, "--token-file", "TOKEN"]],
    "completion": [["bash"]],
}


def test_every_command_is_tried() -> None:
    assert {command.name for command in COMMANDS} == TABLE.keys()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files with names, strings and contents that few encodings have."""
    folder = tmp_path_factory.mktemp(ODD)
    program, _, _ = forward()
    text = f'y: f32[b] = einsum(xs=[x]) {{equation="{ODD}"}}'
    text = f"program {{\n  data x: f32[b,3]  # {ODD}\n  {text}\n}}\n"
    (folder / "text.txt").write_text(text, encoding="utf-8")
    printing = f"import sys\nsys.stdout.reconfigure(encoding='utf-8')\nprint({ODD!r})\n"
    (folder / "printing.py").write_text(printing, encoding="utf-8")
    return {
        "FILE": saved(program, folder / "program"),
        "TRAINING": saved(training()[0], folder / "training"),
        "ODD FILE": model(folder / f"{ODD}.model"),
        "TEXT": str(folder / "text.txt"),
        "NONE": str(folder / f"{ODD}.none"),
        "ODD OUT": str(folder / f"{ODD}.out"),
        "OUT.txt": str(folder / "out.txt"),
        "PRINTING": str(folder / "printing.py"),
        "TOKEN": str(folder / "token"),
    }


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("command", TABLE)
def test_no_command_fails_where_a_stream_cannot_encode_what_it_says(
    command: str,
    encoding: str,
    known: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BRACES_CACHE_DIR", str(tmp_path / ODD))
    for given in TABLE[command]:
        streams = [io.TextIOWrapper(io.BytesIO(), encoding, "strict") for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        try:
            status = main([command, *(known.get(one, one) for one in given)])
        except SystemExit as error:  # of --help
            status = error.code
        assert status in (0, 1, 2), (given, status)
        for stream in streams:
            stream.flush()
            assert isinstance(stream.buffer, io.BytesIO)
            said = stream.buffer.getvalue().decode(encoding)
            assert "Traceback" not in said
            if encoding == "utf-8" and "--json" not in given:
                assert "\\u" not in said


def test_the_help_of_each_command_fits_every_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding in ENCODINGS:
        for command in TABLE:
            monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
            with pytest.raises(SystemExit):
                main([command, "--help"])


def shown(file: str, **environment: str) -> str:
    """Return the output of `braces show` in a separate process."""
    names = ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL", "LANG", "LC_CTYPE")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-m", "braces", "show", file]
    done = subprocess.run(
        command,
        capture_output=True,
        env={**kept, "PYTHONUTF8": "1", **environment},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_lines_of_boxes_become_plain_ones_in_the_locale_c(tmp_path: Path) -> None:
    file = saved(forward()[0], tmp_path / "program")
    drawn, plain = shown(file), shown(file, LC_ALL="C", PYTHONUTF8="0")
    assert not drawn.isascii()
    assert plain.isascii()
    assert "\\u" not in plain
    assert plain.count("\n") == drawn.count("\n")


def test_what_a_user_chose_for_what_cannot_be_encoded_stays(
    monkeypatch: pytest.MonkeyPatch, known: dict[str, str]
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "ascii", "ignore")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["show", known["FILE"]]) == 0
    assert stream.errors == "ignore"
