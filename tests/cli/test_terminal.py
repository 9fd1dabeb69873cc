"""Escaping of text from files: a terminal executes no control sequences of a file."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.cli.main import COMMANDS, main
from braces.errors import BracesError, ParseError, visible
from braces.extend.programs import parse_program, serde
from braces.ir.proto import program_pb2 as pb
from tests.cli.saved_files import model

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\r\u202etxt.exe\u2066\u2028\u200f[bold]"
TEXT = "program {{ data x: f32[b,3]  parameter w: f32[3,3]  y: f32[b,3] = {} }}"


def described(equation: str) -> pb.ProgramDesc:
    text = TEXT.format(f'einsum(xs=[x, w]) {{equation="{equation}"}}  # a.py:7\n')
    return pb.ProgramDesc.FromString(serde.program_to_bytes(parse_program(text), None))


def program_file(path: Path, *, equation: str = "ij,jk->ik") -> str:
    """A program whose source path is hostile, and its only string on demand."""
    desc = described("E")
    desc.locations[0].file = f"{ESCAPES}/a.py"
    for attr in desc.main.ops[0].attrs:
        if attr.text == "E":
            attr.text = equation
    path.write_bytes(desc.SerializeToString())
    return str(path)


def text_file(path: Path, call: str) -> str:
    path.write_text(f"# {ESCAPES}\n" + TEXT.format(call), encoding="utf-8", newline="")
    return str(path)


def with_header(path: Path, change: Any) -> str:
    """A safetensors file with a changed header."""
    data = Path(model(path)).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    record = json.loads(header["__metadata__"]["braces"])
    change(header, record)
    header["__metadata__"]["braces"] = json.dumps(record)
    encoded = json.dumps(header, ensure_ascii=False).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data[8 + length :])
    return str(path)


def renamed_fetch(header: Any, record: Any) -> None:
    for one in record["programs"].values():
        one["fetches"] = {ESCAPES: next(iter(one["fetches"].values()))}


def renamed_array(header: Any, record: Any) -> None:
    header[ESCAPES] = header.pop("fc.w")


def bad_dtype(header: Any, record: Any) -> None:
    header["fc.w"]["dtype"] = ESCAPES


def other_format(header: Any, record: Any) -> None:
    record["format"] = ESCAPES


def one_more_program(header: Any, record: Any) -> None:
    record["programs"][ESCAPES] = {}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tmp_path = tmp_path_factory.mktemp("hostile")
    bad_type = f'einsum(xs=[x, w]) {{equation="ij,jk->ik"}} as {ESCAPES}'
    (tmp_path / "junk").write_bytes(b"\x40\0\0\0\0\0\0\0{" + ESCAPES.encode() * 9)
    hostile = tmp_path / visible(ESCAPES)[:20].replace("/", "_").replace("\\x1b", "\x1b")
    return {
        "program": program_file(tmp_path / "p"),
        "named so": program_file(hostile),
        "refused program": program_file(tmp_path / "r", equation=ESCAPES),
        "text": text_file(tmp_path / "t", 'einsum(xs=[x, w]) {equation="ij,jk->ik"}'),
        "stray": text_file(tmp_path / "s", ESCAPES),
        "stray name": text_file(tmp_path / "n", bad_type),
        "attribute": text_file(tmp_path / "a", f'einsum(xs=[x, w]) {{equation="{ESCAPES}"}}'),
        "type": text_file(tmp_path / "y", f"tanh(x=x) p: f32[{ESCAPES}]"),
        "fetch": with_header(tmp_path / "f", renamed_fetch),
        "format": with_header(tmp_path / "k", other_format),
        "key": with_header(tmp_path / "e", one_more_program),
        "array": with_header(tmp_path / "w", renamed_array),
        "dtype": with_header(tmp_path / "d", bad_dtype),
        "junk": str(tmp_path / "junk"),
        "absent": str(tmp_path / ESCAPES),
        "good": model(tmp_path / "g"),
    }


FILES = (
    "program", "named so", "refused program", "text", "stray", "stray name", "attribute",
    "type", "fetch", "format", "key", "array", "dtype", "junk", "absent",
)  # fmt: skip
ARGUMENTS: dict[str, list[list[str]]] = {
    "demo": [],
    "cache": [],
    "completion": [],
    "ops": [[ESCAPES]],
    "show": [["FILE"], ["FILE", "--text"], ["FILE", "--json"]],
    "params": [["FILE"], ["FILE", "--json"]],
    "check": [["FILE", "--all"], ["FILE", "--all", "--types"], ["FILE", "--json"]],
    "diff": [["FILE", "GOOD"], ["GOOD", "FILE"], ["TEXT", "FILE"], ["FILE", "TEXT", "--json"]],
    "prune": [["FILE", "--targets", one, "-o", "OUT"] for one in ("y", ESCAPES)],
    "grad": [["FILE", "--loss", one, "-o", "OUT"] for one in ("y", ESCAPES)],
    "convert": [
        [ESCAPES, ESCAPES],
        ["FILE", "OUT.braces"],
        ["FILE", "OUT.onnx", "--program", ESCAPES],
    ],
    "launch": [["--hosts", "2", "--address", ESCAPES, "FILE"]],
    "plan": [["FILE", "--mesh", "data=1", "--fetch", ESCAPES]],
    "worker": [["--listen", ESCAPES, "--token-file", "OUT"]],
    "serve": [["FILE", "--host", ESCAPES], [f"{ESCAPES}=1", "GOOD", "--host", ESCAPES]],
    "debug": [
        ["FILE", "--feed", f"x={ESCAPES}"],
        ["FILE", "--feed", f"{ESCAPES}=1"],
        ["FILE", "--feed", "x=random", "--break", ESCAPES, "--save", "OUT"],
    ],
    "run": [
        ["FILE", "--feed", "x=random"],
        ["FILE", "--fetch", ESCAPES],
        ["FILE", "--feed", f"x={ESCAPES}"],
        ["FILE", "--feed", f"{ESCAPES}=1"],
        ["GOOD", "--feed", "x=random", "--params", "FILE"],
        ["GOOD", "--feed", "x=random", "--against", "FILE"],
    ],
}  # fmt: skip


def test_every_command_is_tried() -> None:
    assert {command.name for command in COMMANDS} == set(ARGUMENTS)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", [name for name, tried in ARGUMENTS.items() if tried])
def test_nothing_that_a_file_says_is_obeyed_by_a_terminal(
    command: str,
    file: str,
    files: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {
        "FILE": files[file],
        "GOOD": files["good"],
        "TEXT": files["text"],
        "OUT": str(tmp_path / "out"),
        "OUT.onnx": str(tmp_path / "out.onnx"),
    }
    for given in ARGUMENTS[command]:
        main([command, *(known.get(one, one) for one in given)])
        said = capsys.readouterr()
        for stream in (said.out, said.err):
            assert hidden(stream) == set(), f"{given}: {stream!r}"
        assert said.out or said.err or {"OUT", "OUT.onnx", "--text"} & set(given)


def hidden(text: str) -> set[str]:
    """The characters of a text that a terminal obeys instead of showing them."""
    found = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    return found - {"\n"}


@pytest.mark.parametrize("place", ["what", "at", "given", "fix"])
def test_no_error_has_escapes_in_its_message(place: str) -> None:
    details = {"what": "No.", place: ESCAPES}
    assert hidden(str(BracesError(**details))) == set()


def test_a_source_path_ends_no_line_of_a_message() -> None:
    op = parse_program(TEXT.format("tanh(x=x)")).main.ops[0]
    source = br.ir.records.Source("a.py\nShapeError: all is well", 3)
    assert "\n" not in op.with_(source=source).describe()


def test_the_caret_stands_below_its_place_behind_escapes() -> None:
    with pytest.raises(ParseError) as caught:
        parse_program('program { data x: f32[]  y: f32[] = f() {a="\u202e\u2066", b=!} }')
    shown, caret = str(caught.value).splitlines()[2:4]
    assert shown[caret.index("^")] == "!"
    assert caught.value.text is not None
    assert caught.value.offset is not None
    assert caught.value.text[caught.value.offset - 1] == "!"
    assert hidden(caught.value.text + caught.value.msg) == set()


@pytest.mark.parametrize(
    "name", ["a\u202eb", "a\u2066", "a\x1b", "a\u2028", "a\u200f", "a\x9b"]
)
def test_names_turn_no_text_around(name: str) -> None:
    scope = br.Scope()
    with pytest.raises(BracesError) as caught:
        scope.var(name)
    assert hidden(str(caught.value)) == set()
    with br.Program():
        for declare in (lambda: br.data(name, [2]), lambda: br.data("x", [name])):
            with pytest.raises(BracesError) as caught:
                declare()
            assert hidden(str(caught.value)) == set()
