"""`braces debug`: a page that is served, and recordings as files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import braces as br
from braces.cli.main import main

PROGRAM = """program {
  data x: f32[n]
  y: f32[n] = log(x=x)
  z: f32[n] = tanh(x=y)
}"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.txt"
    path.write_text(PROGRAM)
    return str(path)


def test_a_recording_is_written_without_a_server(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "run.html"
    assert main(["debug", file, "--feed", "x=[1, -1]", "--save", str(page)]) == 0
    assert capsys.readouterr().out == "first NaN: y\n"
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "connect-src" not in text.partition("<body>")[0]


def test_a_failed_program_is_written_with_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        br.while_loop(lambda v: v < 10.0, lambda v: v + 1.0, br.sum(x), max_trips=2)
    prog.save(tmp_path / "program.braces")
    page = tmp_path / "run.html"
    status = main(
        ["debug", f"{tmp_path}/program.braces", "--feed", "x=[0]", "--save", str(page)]
    )
    assert status == 1
    assert "TripLimitError" in capsys.readouterr().err
    assert "TripLimitError" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--feed", "x=["], "cannot be read"),
        (["--feed", "w=1"], "unknown data variable `w`"),
        ([], "missing feeds: `x`"),
        (["--feed", "x=[1]", "--break", "yy"], "unknown operator `yy`"),
        (["--feed", "x=[1]", "--break", "y if max >"], "invalid condition"),
        (["--feed", "x=[1]", "--fetch", "w"], "w"),
        (["--feed", "x=[1]", "--port", "70000"], "invalid port"),
    ],
)
def test_bad_input_is_explained(
    file: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["debug", file, *arguments]) == 1
    assert words in capsys.readouterr().err


def test_a_port_in_use_is_explained(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["debug", file, "--feed", "x=[1]", "--port", port]) == 1
    assert f"port {port} is in use" in capsys.readouterr().err


@pytest.fixture
def process(file: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "braces", "debug", file, "--feed", "x=[1, -1]"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as started:
        yield started
        started.kill()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_ends_the_command(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors.endswith("Stopped.\n")
    assert "Traceback" not in errors
