"""Files that are no files, and names that are no paths: every command, every function."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.cli.commands.run import write_arrays
from braces.cli.main import main
from braces.errors import FileFormatError, ProgramError
from tests.cli.saved_files import model

TEXT = "program { data x: f32[2]  y: f32[2] = tanh(x=x)  z: f32[] = sum(x=y) }"

COMMANDS = [
    "show NONE",
    "params NONE",
    "check NONE",
    "diff NONE FILE",
    "diff FILE NONE",
    "prune NONE --targets y -o OUT",
    "grad NONE --loss z -o OUT",
    "run NONE",
    "run FILE --fetch y --feed x=[1,2] --params NONE",
    "run FILE --fetch y --feed x=@NONE",
    "run FILE --fetch y --feed x=[1,2] --against NONE",
]

FUNCTIONS: dict[str, Callable[[Path], Any]] = {
    "Program.load": br.Program.load,
    "load_model": br.load_model,
    "load_parameters": lambda path: br.load_parameters(br.Scope(), path),
}


@pytest.fixture(params=["folder", "pipe"])
def none(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if request.param == "pipe":
        os.mkfifo(path)  # opening it would wait for ever
    else:
        path.mkdir()
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_a_folder_or_pipe(
    command: str, none: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.txt").write_text(TEXT)
    places = {"NONE": str(none), "FILE": str(tmp_path / "p.txt"), "OUT": str(tmp_path / "out")}
    for name, path in places.items():
        command = command.replace(name, path)
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("NotAFileError: ")
    assert f"{none} is " in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("load", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_function_refuses_a_folder_or_pipe(load: Callable[[Path], Any], none: Path) -> None:
    with pytest.raises(FileFormatError, match="not a regular file") as caught:
        load(none)
    assert caught.value.at == str(none)


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0", "a/b.c"])
def test_an_array_of_any_name_is_written(name: str, tmp_path: Path) -> None:
    text = TEXT.replace("y", name)
    (tmp_path / "p.txt").write_text(text)
    out = str(tmp_path / "o.npz")
    arguments = ["--feed", "x=[0,0]", "--fetch", f"{name},z", "-o", out]
    assert main(["run", str(tmp_path / "p.txt"), *arguments]) == 0
    with np.load(out) as found:
        assert set(found.files) == {name, "z"}
        np.testing.assert_array_equal(found[name], [0.0, 0.0])


@pytest.mark.parametrize("name", ["../../x", "/x", "a/../../x", ".."])
def test_no_entry_of_a_zip_file_leads_out_of_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="is a path outside of its folder"):
        write_arrays(str(tmp_path / "o.npz"), {name: np.zeros(2)})
    assert not list(tmp_path.iterdir())


def test_a_model_whose_fetch_is_called_like_a_path_is_refused(tmp_path: Path) -> None:
    path = Path(model(tmp_path / "m.model"))
    content = path.read_bytes()
    old, new = b'\\"out\\": ', b'\\"../\\": '
    assert old in content
    path.write_bytes(content.replace(old, new))
    with pytest.raises(FileFormatError, match="invalid name"):
        br.load_model(path)


def test_the_same_arrays_give_the_same_bytes_with_plain_entries(tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        write_arrays(str(tmp_path / name), {"x": np.arange(3), "s": np.float32(1)})
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    with zipfile.ZipFile(io.BytesIO(written[0])) as archive:
        assert archive.namelist() == ["x.npy", "s.npy"]
        assert archive.testzip() is None


def test_a_page_is_written_by_a_package_in_a_zip_file(tmp_path: Path) -> None:
    package = Path(br.__file__).parent
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        for path in package.rglob("*"):
            if "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(package.parent))
    program = """
import sys
import braces as br
assert "packed.zip" in br.__file__
with br.Program() as prog:
    br.tanh(br.data("x", [3]))
prog.to_html(sys.argv[1])
"""
    out = tmp_path / "page.html"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "packed.zip")}
    command = [sys.executable, "-c", program, str(out)]
    subprocess.run(command, env=env, check=True, cwd=tmp_path)
    assert out.read_text().startswith("<!doctype html>")
