"""Programs as bytes and files."""

from __future__ import annotations

import itertools
import math
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import braces as br
from braces import Block, Program, parse
from braces.dtypes import parse_type
from braces.errors import FileFormatError, ProgramError, ShapeError
from braces.extend.building import SymbolTable
from braces.extend.types import FLOAT32, Dim, TensorType
from braces.ir import serde
from braces.ir.fingerprint import fingerprint
from braces.ir.limits import DEEPEST_NESTING
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import Attr, Body, Literal, Op, ProgramDef, Source, VarInfo
from braces.ir.text.parser import parse_body, parse_program
from tests.ir.generated import bodies, exact, in_parts, programs

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = parse_program("""
program {
  data x: f32[b,8]
  parameter w: f32[8,4] trainable
  state step: i64[]
  matmul_0: f32[b,4] = matmul(x=x, y=w)  # train.py:7
  loop_0: f32[b,4] = loop(sliced=matmul_0) {eps=-0.0, k=[1, 1.0, true]} captures [w]
    body (row: f32[4]) {
      c: f32[2] = constant() {value=f32[2] [1.5, nan]}
      return row
    }
  update w = w_1
  update step = step_1
}
""")


def owner(value: Attr, name: str = "test_0", **changes: Any) -> Body:
    """A block with one operator that has this attribute."""
    return Body((), (), {}, (Op("test", name, {}, {}, {"value": value}).with_(**changes),))


def written(value: Attr) -> Attr:
    """An attribute after a trip through bytes."""
    body = owner(value)
    main, _ = serde.program_from_bytes(serde.program_to_bytes(ProgramDef(body, {}), None))
    return main.main.ops[0].attrs["value"]


def desc_of(program: ProgramDef = PROGRAM) -> pb.ProgramDesc:
    return pb.ProgramDesc.FromString(serde.program_to_bytes(program, None))


def refused(desc: pb.ProgramDesc) -> FileFormatError:
    with pytest.raises(FileFormatError) as caught:
        serde.program_from_bytes(desc.SerializeToString())
    return caught.value


# ---- round trips -----------------------------------------------------------------------------


@in_parts
@given(programs)
def test_bytes_read_back_as_the_same_records(part: int, program: ProgramDef) -> None:
    data = serde.program_to_bytes(program, program)
    main, startup = serde.program_from_bytes(data)
    assert exact(main) == exact(program)
    assert exact(startup) == exact(program)
    assert serde.program_to_bytes(main, startup) == data


@in_parts
@given(bodies())
def test_a_bare_block_reads_back_without_its_source_lines(part: int, body: Body) -> None:
    desc = pb.BlockDesc.FromString(serde.body_to_desc(body).SerializeToString())
    read = serde.body_from_desc(desc)
    assert fingerprint(ProgramDef(read, {})) == fingerprint(ProgramDef(body, {}))
    assert serde.body_to_desc(read).SerializeToString() == desc.SerializeToString()


@pytest.mark.parametrize(
    "value", [0, 1, -1, 0.0, 1.0, True, False, 2**63 - 1, 2**64 - 1, -(2**63), "", (), None]
)
def test_an_attribute_keeps_its_python_type(value: Attr) -> None:
    found = written(value)
    assert type(found) is type(value)
    assert found == value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1, 1.7976931348623157e308]
)
def test_a_float_keeps_its_bits(value: float) -> None:
    found = written(value)
    assert isinstance(found, float)
    assert struct.pack("<d", found) == struct.pack("<d", value)


def test_tuples_dtypes_sizes_and_arrays_come_back_as_such() -> None:
    value = (
        (FLOAT32, 2 * Dim.named("b") + 1, 3),
        (),
        Literal.of(np.eye(2, dtype="f4")),
        (("β\n",),),
    )
    assert exact(written(value)) == exact(value)


def test_the_same_program_gives_the_same_bytes() -> None:
    versions = {"matmul": 1, "loop": 2, "constant": 3, "unused": 4}
    data = serde.program_to_bytes(PROGRAM, PROGRAM, versions)
    backwards = dict(reversed(versions.items()))
    assert serde.program_to_bytes(PROGRAM, PROGRAM, backwards) == data


def test_only_the_versions_of_used_operators_are_stored() -> None:
    data = serde.program_to_bytes(PROGRAM, None, {"matmul": 1, "loop": 2, "unused": 4})
    assert dict(pb.ProgramDesc.FromString(data).op_versions) == {"matmul": 1, "loop": 2}


def test_an_operator_of_a_newer_version_is_refused() -> None:
    data = serde.program_to_bytes(PROGRAM, None, {"loop": 2})
    assert serde.program_from_bytes(data, {"loop": 2})[0] == PROGRAM
    assert serde.program_from_bytes(data, {})[0] == PROGRAM
    with pytest.raises(
        FileFormatError, match="uses version 2 of operator `loop`; this Braces has version 1"
    ):
        serde.program_from_bytes(data, {"loop": 1})


def test_names_in_a_block_include_those_of_blocks_inside() -> None:
    assert serde.names_in(PROGRAM.main) >= {"x", "w", "matmul_0", "loop_0", "row", "c"}


def test_a_symbol_table_writes_itself_and_reads_itself() -> None:
    table = SymbolTable().deserialize(serde.body_to_desc(PROGRAM.main))
    assert table.freeze() == PROGRAM.main
    assert serde.body_from_desc(table.serialize()) == PROGRAM.main
    assert "row" in table.names.taken
    assert Block(table.serialize()).desc == PROGRAM.main


def test_a_program_is_saved_and_loaded_with_its_startup(tmp_path: Path) -> None:
    program = parse("program { parameter w: f32[]  w_1: f32[] = tanh(x=w)  update w = w_1 }")
    program.startup = parse("""
        program {
          parameter w: f32[]
          w_0: f32[] = constant() {value=f32[] 1.0}
          update w = w_0
        }
    """)
    program.save(tmp_path / "model.braces")
    loaded = Program.load(tmp_path / "model.braces")
    assert loaded.definition == program.definition
    assert loaded.startup.updates == {"w": "w_0"}
    assert not Program.from_bytes(Program().to_bytes()).startup.updates


# ---- source lines ----------------------------------------------------------------------------


def test_source_paths_below_the_working_directory_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = Source(os.path.join(os.getcwd(), "a", "b", "train.py"), 3)
    program = ProgramDef(owner(None, source=source), {})
    data = serde.program_to_bytes(program, None)
    assert serde.program_from_bytes(data)[0].main.ops[0].source == Source("a/b/train.py", 3)
    assert os.getcwd().encode() not in data


def test_a_source_line_is_stored_once() -> None:
    op = Op("test", "a", {}, {}, {}, Source("train.py", 3))
    program = ProgramDef(Body((), (), {}, (op, op.with_(name="b"))), {})
    desc = desc_of(program)
    assert [one.location for one in desc.main.ops] == [1, 1]
    assert len(desc.locations) == 1


# ---- what cannot be written ------------------------------------------------------------------


def test_blocks_lie_where_every_walk_finds_them() -> None:
    body = Body((), (), {}, ())
    with pytest.raises(ProgramError, match="unsupported block in a nested tuple"):
        serde.body_to_desc(owner(((body,),)))
    desc = serde.body_to_desc(owner((((1,),), body)))
    desc.ops[0].attrs[0].list.items[0].list.items.add().block.SetInParent()
    with pytest.raises(FileFormatError, match="unsupported block in a nested tuple"):
        serde.body_from_desc(desc)


class Odd:
    """No attribute."""


@pytest.mark.parametrize(
    "value",
    [Odd(), 2**64, -(2**63) - 1, 1j, [1], (1, {2}), "\ud800", np.dtype("S3"), np.int64(1)],
)
def test_what_has_no_stored_form_is_named_with_its_operator(value: Any) -> None:
    with pytest.raises(
        ProgramError, match=r"cannot serialize the attribute `value`.*\n.*op `test_0`"
    ) as caught:
        serde.body_to_desc(owner(value))
    assert "built at train.py:3" not in str(caught.value)


def test_the_error_names_the_innermost_operator_and_its_line() -> None:
    inner = owner(Odd(), "inner", source=Source("train.py", 3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ProgramError, match=r"op `inner`.*built at train.py:3"):
        serde.body_to_desc(owner((1, inner)))


def test_sizes_that_no_reader_would_take_are_not_written() -> None:
    for size in (-1, 2**63):
        info = VarInfo("x", TensorType(FLOAT32, (size,)))
        with pytest.raises(ProgramError):
            serde.body_to_desc(Body((), (), {"x": info}, ()))
    with pytest.raises(ShapeError):
        _ = Dim.named("x" * 1300) * Dim.named("y" * 1300)


def nested(depth: int, tuples: bool) -> Body:
    """Blocks within each other, or tuples and blocks in turns."""
    value: Attr = Literal.of(np.zeros(2))
    for level in range(depth):
        value = (value,) if tuples and level % 2 else owner(value)
    info = VarInfo("x", parse_type("list<f32[b]>"))
    return Body((), (), {"x": info}, (Op("test", "t", {}, {}, {"value": value}),))


@pytest.mark.parametrize("tuples", [False, True])
def test_blocks_nest_as_deep_as_promised_and_no_deeper(tuples: bool) -> None:
    program = ProgramDef(nested(DEEPEST_NESTING, tuples), {})
    main, startup = serde.program_from_bytes(serde.program_to_bytes(program, program))
    assert main == startup == program
    with pytest.raises(ProgramError, match="nested deeper than 24"):
        serde.program_to_bytes(ProgramDef(nested(DEEPEST_NESTING + 1, tuples), {}), None)


# ---- what is refused -------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_refused() -> None:
    data = serde.program_to_bytes(PROGRAM, PROGRAM)
    for length in range(len(data)):
        with pytest.raises(FileFormatError):
            serde.program_from_bytes(data[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"PK\3\4rest of a zip",
        b"\x80\4\x95pickle",
        b"program { }",
        b'{"json": 1}',
        b"\n\5other",
    ],
)
def test_foreign_and_damaged_files_are_distinguished(data: bytes) -> None:
    with pytest.raises(FileFormatError, match="not a Braces program"):
        serde.program_from_bytes(data)
    with pytest.raises(FileFormatError, match="damaged or truncated Braces program"):
        serde.program_from_bytes(serde.program_to_bytes(PROGRAM, None)[:40])


def test_a_newer_format_is_refused_by_name() -> None:
    desc = desc_of()
    desc.format_version, desc.producer = 2, "braces 9.0"
    error = refused(desc)
    assert error.what == "this file was written by a newer Braces: format 2, this one reads 1."
    assert error.given == "producer: braces 9.0"


def test_fields_of_later_readers_are_skipped() -> None:
    extra = b"\xa2\x06\3abc"  # field 100, three bytes
    assert serde.program_from_bytes(serde.program_to_bytes(PROGRAM, None) + extra)[0] == PROGRAM


def var(desc: pb.ProgramDesc) -> pb.VarDesc:
    return desc.main.vars[0]


def op(desc: pb.ProgramDesc) -> pb.OpDesc:
    return desc.main.ops[0]


def literal(shape: list[int], data: bytes, dtype: Any = pb.DTYPE_F32) -> pb.AttrDesc:
    return pb.AttrDesc(name="v", literal=pb.LiteralDesc(dtype=dtype, shape=shape, data=data))


DAMAGES: dict[str, Any] = {
    "no kind of variable": lambda d: setattr(var(d), "kind", 0),
    "unknown kind of variable": lambda d: setattr(var(d), "kind", 77),
    "no dtype": lambda d: setattr(var(d).type.tensor, "dtype", 0),
    "unknown dtype": lambda d: setattr(var(d).type.tensor, "dtype", -1),
    "no type": lambda d: var(d).ClearField("type"),
    "size not set": lambda d: var(d).type.tensor.shape.add(),
    "negative size": lambda d: var(d).type.tensor.shape.add(value=-1),
    "no expression": lambda d: var(d).type.tensor.shape.add(expression="b +"),
    "negative expression": lambda d: var(d).type.tensor.shape.add(expression="1 - 2"),
    "division by zero": lambda d: var(d).type.tensor.shape.add(expression="floordiv(1, 0)"),
    "large number": lambda d: var(d).type.tensor.shape.add(expression="1" * 30 + "*b"),
    "long expression": lambda d: var(d).type.tensor.shape.add(expression="b + " * 600 + "b"),
    "explosive expression": lambda d: var(d).type.tensor.shape.add(
        expression="(" + "+".join("abcdefghijklm") + ")^16"
    ),
    "high rank": lambda d: var(d).type.tensor.shape.extend([pb.SizeDesc(value=1)] * 33),
    "no name": lambda d: setattr(var(d), "name", ""),
    "odd name": lambda d: setattr(var(d), "name", "a b"),
    "long name": lambda d: setattr(var(d), "name", "a" * 201),
    "newline in a name": lambda d: setattr(var(d), "name", "a\n"),
    "two variables of one name": lambda d: d.main.vars.add().CopyFrom(var(d)),
    "two operators of one name": lambda d: d.main.ops.add().CopyFrom(op(d)),
    "no operator type": lambda d: op(d).ClearField("type"),
    "slot twice": lambda d: op(d).inputs.add(slot="x"),
    "odd slot": lambda d: op(d).inputs.add(slot="a=b"),
    "odd name in a slot": lambda d: op(d).outputs.add(slot="more", names=["9"]),
    "attribute twice": lambda d: op(d).attrs.extend([pb.AttrDesc(name="a", none=True)] * 2),
    "attribute without value": lambda d: op(d).attrs.add(name="a"),
    "attribute without name": lambda d: op(d).attrs.add(none=True),
    "unknown dtype attribute": lambda d: op(d).attrs.add(name="a", dtype=99),
    "updated twice": lambda d: d.updates.add(persistable="w", value="x"),
    "odd update": lambda d: d.updates.add(persistable="x", value="no name"),
    "odd parameter": lambda d: d.main.params.append(""),
    "odd result": lambda d: d.main.results.append("-"),
    "no such location": lambda d: setattr(op(d), "location", 9),
    "negative line": lambda d: d.locations.add(file="a.py", line=-1),
    "short data": lambda d: op(d).attrs.append(literal([2], b"1234")),
    "long data": lambda d: op(d).attrs.append(literal([], b"12345")),
    "negative shape": lambda d: op(d).attrs.append(literal([-1, -1], b"1234")),
    "huge empty shape": lambda d: op(d).attrs.append(literal([0, 2**40, 2**40], b"")),
    "array of high rank": lambda d: op(d).attrs.append(literal([1] * 33, b"1234")),
    "bool of two": lambda d: op(d).attrs.append(literal([3], b"\0\2\0", pb.DTYPE_BOOL)),
    "array of no dtype": lambda d: op(d).attrs.append(literal([], b"", 0)),
    "no main": lambda d: d.ClearField("main"),
    "no version": lambda d: d.ClearField("format_version"),
    "another format": lambda d: setattr(d, "format", "onnx"),
    "not complete": lambda d: d.ClearField("complete"),
    "damaged startup": lambda d: d.startup.main.params.append("*"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused(damage: str) -> None:
    desc = desc_of()
    DAMAGES[damage](desc)
    assert refused(desc).what


def test_blocks_nested_beyond_reason_are_refused() -> None:
    data = b""
    for _ in range(5000):  # the fields ops, attrs, block within each other
        for tag in (b"\x52", b"\x2a", b"\x22"):
            data = tag + _length(len(data)) + data
    whole = serde.program_to_bytes(PROGRAM, None)
    with pytest.raises(FileFormatError):
        serde.program_from_bytes(whole + b"\x22" + _length(len(data)) + data)
    desc = desc_of()
    block = desc.main
    for level in range(DEEPEST_NESTING + 1):
        block = block.ops.add(type="t", name=f"t{level}").attrs.add(name="b").block
        block.SetInParent()
    assert "nested deeper" in refused(desc).what


def _length(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


@in_parts
@given(programs, st.integers(0, 2**32))
def test_mutated_bytes_are_read_or_refused(part: int, program: ProgramDef, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(serde.program_to_bytes(program, program))
    for _ in range(chance.randint(1, 4)):
        at, end = sorted(chance.choices(range(len(data)), k=2))
        part = data[at : min(end, at + 20)]
        data[at : at + chance.choice((0, len(part)))] = chance.choice(
            (part * 2, chance.randbytes(3), b"")
        )
    read = read_or_refused(bytes(data))
    assert read is None or exact(reread(*read)) == exact(read[0])


def read_or_refused(data: bytes) -> tuple[ProgramDef, ProgramDef | None] | None:
    """A program; `None` where it is refused, in the one way in which a file may be."""
    try:
        return serde.program_from_bytes(data)
    except FileFormatError:
        return None


def reread(main: ProgramDef, startup: ProgramDef | None) -> ProgramDef:
    """A program, written and read."""
    return serde.program_from_bytes(serde.program_to_bytes(main, startup))[0]


@given(st.binary(max_size=60))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        serde.program_from_bytes(data)


def test_only_a_block_desc_makes_a_block() -> None:
    with pytest.raises(FileFormatError, match="expected a BlockDesc, got dict"):
        Block({})
    with pytest.raises(FileFormatError):
        Block(pb.BlockDesc(params=["not a name"]))


# ---- the schema ------------------------------------------------------------------------------


def test_the_generated_modules_are_up_to_date() -> None:
    pytest.importorskip("grpc_tools")
    command = [sys.executable, str(ROOT / "scripts/generate_proto.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_message_and_field_is_documented() -> None:
    schema = (ROOT / "src/braces/ir/proto/program.proto").read_text()
    lines = [line.strip() for line in schema.splitlines()]
    defined = [
        (before, line)
        for before, line in itertools.pairwise(lines)
        if (line.startswith(("message ", "enum ")) or line.endswith(";"))
        and not line.startswith(("//", "syntax", "package", "DTYPE_"))
    ]
    assert len(defined) > 60
    assert [line for before, line in defined if not before.startswith("//")] == []


def test_a_parsed_block_needs_no_definition_of_its_operators() -> None:
    body = parse_body("block { y: f32[] = no.such.operator(x=x) }")
    assert serde.body_from_desc(serde.body_to_desc(body)) == body


def test_looking_at_a_startup_program_changes_no_bytes() -> None:
    program = br.parse("program { data x: f32[b]  y: f32[b] = tanh(x=x) }")
    before = program.to_bytes()
    br.prune(program, ["y"])
    assert str(program.startup) == str(br.Program())
    assert program.to_bytes() == before
    with_startup = pb.ProgramDesc.FromString(before)
    with_startup.startup.main.SetInParent()
    assert br.Program.from_bytes(with_startup.SerializeToString()).to_bytes() == before
