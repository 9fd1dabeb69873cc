"""The command line as a whole: help, errors, exit statuses, colours, start-up."""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import braces as br
from braces.cli import main as command_line
from braces.cli.common import terminal
from braces.cli.common.command import Command
from braces.cli.main import COMMANDS, main
from braces.errors import ShapeError

HEAVY = ("jax", "jaxlib", "optax", "rich", "scipy", "sklearn")


@pytest.fixture
def program_file(tmp_path: Path) -> str:
    with br.Program() as prog:
        br.matmul(br.data("x", ["batch", 4]), br.parameter("w", [4, 2]), name="y")
    path = tmp_path / "prog.braces"
    prog.save(path)
    return str(path)


def failing(error: BaseException) -> Command:
    def run(options: argparse.Namespace) -> int:
        raise error

    return Command("fail", "fail", "braces fail", lambda parser: None, run)


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([command.name, "--help"])
        assert stopped.value.code == 0
        assert f"example: braces {command.name}" in capsys.readouterr().out


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert all(command.name in text for command in COMMANDS)
    assert "example: braces demo" in text


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("braces ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sho"],
        ["show"],
        ["show", "--js", "x"],
        ["show", "--json", "--text", "x"],
        ["demo", "--epochs", "0"],
    ],
)
def test_bad_usage_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_a_braces_error_is_its_four_lines_and_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = ShapeError(
        "These do not fit.", at="op `y`", given="x: f32[2]", fix="Make them fit."
    )
    monkeypatch.setattr(command_line, "COMMANDS", (failing(error),))
    assert main(["fail"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "ShapeError: These do not fit.",
        "  at: op `y`",
        "  given: x: f32[2]",
        "  Make them fit.",
    ]


def test_a_file_that_is_not_there_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "nowhere.braces"]) == 2
    assert capsys.readouterr().err == "braces show: nowhere.braces: No such file or directory\n"


def test_stopping_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "COMMANDS", (failing(KeyboardInterrupt()),))
    assert main(["fail"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_closed_pipe_ends_quietly() -> None:
    run = f"{sys.executable} -m braces ops --json"
    done = subprocess.run(
        ["sh", "-c", f"{{ {run}; echo $? >&2; }} | head -c 1"], capture_output=True, text=True
    )
    assert done.stderr == "141\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "show FILE",
        "show --json FILE",
        "show --text FILE",
        "show --passes FILE",
        "ops",
        "ops tanh.vjp",
    ],
)
def test_commands_that_read_import_nothing_heavy(arguments: str, program_file: str) -> None:
    program = (
        "import sys; from braces.cli.main import main; main(sys.argv[1:])\n"
        f"print(*(set({HEAVY!r}) & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments.replace("FILE", program_file).split()],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stderr.strip() == ""


# ---- colours ---------------------------------------------------------------------------------


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as screen, open(os.devnull, "w") as nothing:
        assert terminal.Style(screen).bold("x") == "\033[1mx\033[0m"
        assert terminal.Style(nothing).bold("x") == "x"
        monkeypatch.setenv("NO_COLOR", "1")
        assert terminal.Style(screen).bold("x") == "x"
    os.close(leader)
