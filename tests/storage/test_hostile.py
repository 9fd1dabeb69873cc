"""Files made to hurt: each is refused with an error that says so, and some random damage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import braces as br
from braces.errors import BracesError, FileFormatError, VerifyError
from braces.extend.programs import parse_program, serde
from braces.ir.proto import program_pb2 as pb

FUZZ = Path(__file__).parents[2] / "scripts" / "fuzz_files.py"


def test_random_damage_is_refused_or_loads_and_verifies() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--count", "500", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout


# ---- programs --------------------------------------------------------------------------------


def described(text: str) -> pb.ProgramDesc:
    return pb.ProgramDesc.FromString(serde.program_to_bytes(parse_program(text), None))


@pytest.mark.parametrize("axes", [["mlp"], ["mlp", "", ""], ["", "mlp"], ["a b", ""]])
def test_names_of_axes_fit_their_array(axes: list[str]) -> None:
    desc = described("program { data x: f32[mlp=4,b]  y: f32[4,b] = tanh(x=x) }")
    desc.main.vars[0].axes[:] = axes
    with pytest.raises(FileFormatError, match=r"axes|axis"):
        br.Program.from_bytes(desc.SerializeToString())


@pytest.mark.parametrize("name", ["a\nb", "../x", "/etc/passwd", "a b", "a\0b", "", "x" * 201])
def test_names_are_names(name: str) -> None:
    desc = described("program { data x: f32[]  y: f32[] = tanh(x=x) }")
    desc.main.vars[0].name = name
    with pytest.raises(BracesError):
        br.Program.from_bytes(desc.SerializeToString())
    desc = described("program { data x: f32[]  y: f32[] = tanh(x=x) }")
    desc.main.ops[0].name = name
    with pytest.raises(FileFormatError, match="name"):
        br.Program.from_bytes(desc.SerializeToString())


def test_a_source_path_stays_a_text() -> None:
    desc = described("program { data x: f32[]  y: f32[] = tanh(x=x)  # a.py:1\n }")
    desc.locations[0].file = "../../../etc/passwd"
    op = br.Program.from_bytes(desc.SerializeToString()).definition.main.ops[0]
    assert str(op.source) == "etc/passwd:1"


def test_a_derivative_of_a_derivative_has_an_end() -> None:
    text = "program {{ data x: f32[]  y: f32[] = add{}(x=x, y=x) }}"
    with pytest.raises(VerifyError, match="B101"):
        br.parse(text.format(".vjp" * 40))


def test_blocks_nest_so_deep_and_no_deeper() -> None:
    desc = described("program { data i: i32[]  y: f32[] = tanh(x=i) }")
    block = desc.main
    for _ in range(60):
        op = block.ops.add(type="switch", name="s")
        block = op.attrs.add(name="cases").list.items.add().block
        block.SetInParent()
    with pytest.raises(FileFormatError):
        br.Program.from_bytes(desc.SerializeToString())


def test_sizes_beyond_all_memory_are_refused() -> None:
    for size, rank in ((2**63 - 1, 20), (2**62, 2), (2**62, 1)):
        sizes = ", ".join([str(size)] * rank)
        call = f"full() {{shape=[{sizes}], value=0.0, dtype=f32}}"
        with pytest.raises(VerifyError, match="B305"):
            br.parse(f"program {{ y: f32[{sizes}] = {call} }}")
    size = 2**60
    text = f"full() {{shape=[{size}], value=0.0, dtype=f32}}"
    program = br.parse(f"program {{ y: f32[{size}] = {text} }}")
    assert br.Program.from_bytes(program.to_bytes()).definition == program.definition


# ---- files of arrays -------------------------------------------------------------------------


def tensors(path: Path, header: dict[str, Any], data: bytes = b"\0" * 8) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(start: int, stop: int, shape: list[int] | None = None) -> dict[str, Any]:
    given = [(stop - start) // 4] if shape is None else shape
    return {"dtype": "F32", "shape": given, "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    "header",
    [
        {"a": entry(0, 8), "b": entry(4, 8)},
        {"a": entry(0, 8), "b": entry(0, 8)},
        {"a": entry(0, 4)},
        {"a": entry(4, 8)},
        {"a": entry(0, 2**62)},
        {"a": entry(0, 8, [2**62, 2**62])},
        {"a": entry(0, 8, [2**32, 2**32])},
        {"a": entry(8, 0, [0])},
        {"a": entry(-8, 0, [2])},
        {"../a": entry(0, 8)},
        {"a\nb": entry(0, 8)},
        {"a": {"dtype": "F32", "shape": [2]}},
        {"a": {**entry(0, 8), "dtype": "O"}},
    ],
)
def test_arrays_lie_within_the_file_side_by_side(tmp_path: Path, header: Any) -> None:
    scope = br.Scope()
    with pytest.raises(FileFormatError):
        br.load_parameters(scope, tensors(tmp_path / "x", header))
    assert scope.names() == []
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_length_beyond_the_file_takes_no_memory(tmp_path: Path) -> None:
    for length in (2**63, 2**40, 100, 1, 0):
        (tmp_path / "x").write_bytes(length.to_bytes(8, "little") + b"{}")
        with pytest.raises(FileFormatError):
            br.load_parameters(br.Scope(), tmp_path / "x")
