"""Files of a later schema: preserved fields, and errors."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import braces as br
from braces import Program, for_test, parse, prune
from braces.errors import FileFormatError, ParseError, ProgramError
from braces.ir import serde
from braces.ir.fingerprint import fingerprint
from braces.ir.limits import LARGEST_UNKNOWN
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import Body, Op, ProgramDef, VarInfo
from braces.ir.walk import map_bodies

TEXT = """
program {
  data x: f32[b,2]
  data i: i32[]
  parameter w: f32[2] trainable
  tanh_0: f32[b,2] = tanh(x=x)
  y: f32[b,2] = switch(index=i) {total=false} captures [tanh_0]
    cases [() { relu_0: f32[b,2] = relu(x=tanh_0)  return relu_0 }, () { return tanh_0 }]
  unused: f32[b,2] = exp(x=tanh_0)
  w_1: f32[2] = multiply(x=w, y=w)
  update w = w_1
}
"""


def newer_schema() -> Any:
    """The class of a `ProgramDesc` whose records and values all have further fields."""
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        text = message.field.add(name="note", number=2000, json_name="note")
        text.type, text.label = text.TYPE_STRING, text.LABEL_OPTIONAL
        many = message.field.add(name="marks", number=2001, json_name="marks")
        many.type, many.label = many.TYPE_SINT64, many.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(pb.ProgramDesc.DESCRIPTOR.full_name)
    return message_factory.GetMessageClass(found)


NEWER = newer_schema()


def written_by_newer() -> Any:
    """A program in which every record says more than this library knows."""
    program = parse(TEXT)
    program.startup = parse(
        "program { parameter w: f32[2] trainable  "
        "w_0: f32[2] = full() {shape=[2], value=0.0, dtype=f32}  update w = w_0 }"
    )
    desc = NEWER.FromString(program.to_bytes())
    for number, record in enumerate(records(desc)):
        record.note = f"note {number}"
        record.marks.extend([number, -number])
    return desc


def records(desc: Any) -> list[Any]:
    """The messages that may say more: programs, blocks, operators, variables."""
    found = [desc, *blocks(desc.main)]
    if desc.HasField("startup"):
        found += records(desc.startup)
    return found


def blocks(block: Any) -> list[Any]:
    found = [block, *block.vars, *block.ops]
    for op in block.ops:
        for attr in op.attrs:
            for one in (attr, *attr.list.items):
                found += blocks(one.block) if one.HasField("block") else []
    return found


def notes(program: Program) -> dict[str, str]:
    """What each record of a program was told, by type and name."""
    desc = NEWER.FromString(program.to_bytes())
    return {
        f"{type(one).__name__} {getattr(one, 'name', '')}".strip(): one.note
        for one in records(desc)
        if one.note
    }


# ---- what is kept ----------------------------------------------------------------------------


def test_fields_of_a_newer_schema_are_saved_byte_for_byte(
    tmp_path: Path,
) -> None:
    desc = written_by_newer()
    (tmp_path / "new.braces").write_bytes(desc.SerializeToString(deterministic=True))
    loaded = Program.load(tmp_path / "new.braces")
    loaded.save(tmp_path / "again.braces")
    again = NEWER.FromString((tmp_path / "again.braces").read_bytes())
    assert again == desc
    assert len(records(desc)) == 22  # 17 of the program, 5 of its startup program
    raw = pb.ProgramDesc.FromString(desc.SerializeToString(deterministic=True))
    same = pb.ProgramDesc.FromString((tmp_path / "again.braces").read_bytes())
    assert same.SerializeToString(deterministic=True) == raw.SerializeToString(
        deterministic=True
    )


def test_a_bare_block_keeps_what_it_does_not_know() -> None:
    desc = pb.BlockDesc.FromString(written_by_newer().main.SerializeToString())
    data = desc.SerializeToString(deterministic=True)
    body = serde.body_from_desc(desc)
    for one in desc.ops:
        one.location = 0  # a bare block has no table of lines
    assert serde.body_to_desc(body).SerializeToString(deterministic=True) == (
        desc.SerializeToString(deterministic=True)
    )
    assert b"note 1" in data
    assert body.unknown


def test_the_text_form_shows_and_reads_what_is_not_known() -> None:
    program = Program.from_bytes(written_by_newer().SerializeToString())
    again = parse(str(program))
    assert str(again) == str(program)
    again.startup = program.startup
    assert again.to_bytes() == program.to_bytes()
    assert str(program).count(' unknown "') == 17


def test_it_is_no_part_of_the_meaning() -> None:
    plain, noted = parse(TEXT), Program.from_bytes(written_by_newer().SerializeToString())
    assert noted.definition == plain.definition
    assert fingerprint(noted.definition) == fingerprint(plain.definition)


def test_a_pass_keeps_it_with_the_records_that_it_keeps() -> None:
    program = Program.from_bytes(written_by_newer().SerializeToString())
    before = notes(program)
    after = notes(prune(for_test(program), ["y"]))
    assert after.keys() == before.keys() - {
        "VarDesc unused", "OpDesc unused", "VarDesc w_1", "OpDesc w_1", "VarDesc w",
        "VarDesc w_0", "OpDesc w_0",
    }  # fmt: skip
    assert after.items() <= before.items()


def test_another_operator_made_from_one_does_not_take_it_along() -> None:
    op = Op("tanh", "tanh_0", {}, {}, unknown=b"\xa8\x06\7")
    assert op.with_(inputs={"x": ("y",)}).unknown == op.unknown
    assert not op.with_(name="tanh_1").unknown
    assert not op.with_(type="exp").unknown


# ---- what is refused -------------------------------------------------------------------------


def values(desc: Any) -> dict[str, Any]:
    """A message of each kind that may not say more, in a program."""
    desc.main.ops[0].attrs.add(name="a").literal.dtype = pb.DTYPE_F32
    desc.main.ops[0].attrs[-1].literal.data = b"1234"
    tanh, switch = desc.main.ops[:2]
    return {
        "UpdateDesc": desc.updates[0],
        "LocationDesc": desc.locations.add(file="a.py", line=1),
        "TypeDesc": desc.main.vars[0].type,
        "TensorTypeDesc": desc.main.vars[0].type.tensor,
        "SizeDesc": desc.main.vars[0].type.tensor.shape[0],
        "SlotDesc": tanh.inputs[0],
        "AttrDesc": switch.attrs[-1].list.items[0],
        "ListDesc": switch.attrs[-1].list,
        "LiteralDesc": tanh.attrs[-1].literal,
        "DerivationDesc": desc.derivations.add(function="gradients", results=["tanh_0"]),
    }


KINDS = list(values(NEWER.FromString(parse(TEXT).to_bytes())))


def refused(data: bytes) -> FileFormatError:
    with pytest.raises(FileFormatError) as caught:
        serde.program_from_bytes(data)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_with_unknown_fields_is_refused(kind: str) -> None:
    desc = NEWER.FromString(parse(TEXT).to_bytes())
    values(desc)[kind].note = "more"
    error = refused(desc.SerializeToString())
    assert f"has field 2000 of {kind} from a newer Braces, which" in error.what
    assert error.fix == "Update Braces, or save the program with an older one."


def test_all_messages_are_either_kept_or_refused() -> None:
    kept = {"ProgramDesc", "BlockDesc", "OpDesc", "VarDesc"}
    assert kept | set(KINDS) == set(pb.DESCRIPTOR.message_types_by_name)


def test_the_refusal_names_the_record_that_the_value_belongs_to() -> None:
    desc = NEWER.FromString(parse(TEXT).to_bytes())
    desc.main.ops[0].inputs[0].marks.append(1)
    assert refused(desc.SerializeToString()).what.startswith("The OpDesc `tanh_0` has field")
    desc = NEWER.FromString(parse(TEXT).to_bytes())
    desc.main.vars[0].type.note = "dense"
    assert refused(desc.SerializeToString()).what.startswith("The VarDesc `x` has field")


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        (b"\x20\1", "main"),  # a number where a block belongs
        (b"\x42\x08\x0a\1a\x10\7\xa2\x06\0", "op_versions"),  # an entry that says more
    ],
)
def test_a_known_field_in_another_form_is_refused_and_not_overlooked(
    extra: bytes, name: str
) -> None:
    error = refused(parse(TEXT).to_bytes() + extra)
    assert error.what == f"The ProgramDesc has an invalid field `ProgramDesc.{name}`."


def test_what_is_kept_is_bounded() -> None:
    desc = NEWER.FromString(parse(TEXT).to_bytes())
    desc.main.ops[0].note = "n" * (LARGEST_UNKNOWN - 10)
    assert Program.from_bytes(desc.SerializeToString()).definition.main.ops[0].unknown
    desc.main.ops[0].note = "n" * LARGEST_UNKNOWN
    what = refused(desc.SerializeToString()).what
    assert what.startswith("The OpDesc `tanh_0` has 1048581 bytes of unknown fields")


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\4relu",  # the type of an operator: no record may be changed on its way to a file
        b"\x0a\0",
        b"\xa2\x06\3abc\x0a\0",
        b"\xa2\x06\3ab",
        b"\xff",
    ],
)
def test_what_is_given_as_unknown_fields_must_be_such(data: bytes) -> None:
    op = Op("tanh", "t", {}, {}, unknown=data)
    with pytest.raises(ProgramError, match="invalid unknown fields of OpDesc"):
        serde.body_to_desc(Body((), (), {}, (op,)))
    text = base64.b64encode(data).decode()
    with pytest.raises(
        ParseError, match=r"invalid unknown fields of OpDesc.*\n.*line 1, column 37"
    ):
        parse(f'program {{ do tanh(x=x) as t unknown "{text}" }}')


def test_the_unknown_fields_of_a_block_are_given_once() -> None:
    with pytest.raises(ParseError, match="duplicate unknown fields"):
        parse('program { unknown "qAYH" unknown "qAYH" }')
    assert parse('program unknown "qAYH" { unknown "ogYA" }').definition == ProgramDef(
        Body((), (), {}, ()), {}
    )


def test_unknown_is_a_name_like_any_other() -> None:
    text = "program { data unknown: f32[]  y: f32[] = tanh(x=unknown)  return y, unknown }"
    assert parse(text).definition.main.results == ("y", "unknown")
    assert VarInfo("unknown", parse(text).vars["y"].type).unknown == b""


def test_the_blocks_of_a_loop_keep_it_where_the_loop_is_trimmed_and_differentiated() -> None:
    with br.Program() as prog:
        x, n = br.data("x", []), br.data("n", [], dtype="int64")
        loop = br.create_while()
        with loop.block() as body:
            i, h = body.add_memory(init=br.constant(0)), body.add_memory(init=x)
            unused = body.add_memory(init=x)
            body.set_condition(i < n)
            i.update(i + 1)
            h.update(br.tanh(h))
            unused.update(unused * 2)
        h_last = loop.final(h)

    def noted(op: Op) -> Op:
        return map_bodies(op, lambda block: block.with_(unknown=b"\xa8\x06\7"))

    main = prog.definition.main
    main = main.with_(ops=tuple(noted(op) for op in main.ops))
    program = Program(prog.definition.with_(main=main))
    br.gradients([program.var(h_last.name)], [program.var("x")])
    small = prune(program, [h_last.name])
    for found in (program, small):
        (first, *_) = (op for op in found.definition.main.ops if op.type == "loop")
        assert [block.unknown for block in first.bodies().values()] == [b"\xa8\x06\7"] * 2
    assert len(small.definition.main.ops[-1].inputs["init"]) == 2
