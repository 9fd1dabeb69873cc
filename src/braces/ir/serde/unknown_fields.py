"""Fields of a later schema: kept byte for byte with their record, or refused.

A program, block, operator or variable may say more than this library knows: what such a field
says is without effect, or else the file would ask for a newer format. So records carry these
fields as bytes, from reading to writing. All other messages are values, which are what they say
as a whole; where they say more than is known, the file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from braces.errors import FileFormatError
from braces.ir import limits
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import Body, Op, ProgramDef, VarInfo

_OPEN: dict[type, type[Message]] = {
    ProgramDef: pb.ProgramDesc,
    Body: pb.BlockDesc,
    Op: pb.OpDesc,
    VarInfo: pb.VarDesc,
}
_OPEN_NAMES = {message.DESCRIPTOR.name for message in _OPEN.values()}


def any_unknown(desc: Message) -> bool:
    """Whether this message, or any within it, has a field that the schema lacks."""
    known = type(desc)()
    known.CopyFrom(desc)
    known.DiscardUnknownFields()
    return known.ByteSize() != desc.ByteSize()


def unknown_fields(desc: Message) -> bytes:
    """The fields of a program, block, operator or variable that the schema lacks.

    Raises:
        FileFormatError: A value in it has such fields, they are too many, or a field has a
            number of the schema and another form.
    """
    what = _named(desc)
    for value in _values(desc):
        for field in UnknownFieldSet(value):
            raise _refused(value, field.field_number, what)
    rest = type(desc)()
    rest.CopyFrom(desc)
    for field in rest.DESCRIPTOR.fields:
        rest.ClearField(field.name)
    for field in UnknownFieldSet(rest):
        if field.field_number in rest.DESCRIPTOR.fields_by_number:
            raise _refused(desc, field.field_number, what)
    data = rest.SerializeToString(deterministic=True)
    if len(data) > limits.LARGEST_UNKNOWN:
        raise FileFormatError(
            f"{what} has {len(data)} bytes of fields that this Braces does not know; "
            f"{limits.LARGEST_UNKNOWN} is the most.",
            fix="Update Braces.",
        )
    return data


def readable_unknown(record: type, data: bytes) -> bytes:
    """`data`, if it is nothing but fields that the schema of this kind of record lacks."""
    try:
        if data == unknown_fields(_OPEN[record].FromString(data)):
            return data
    except DecodeError:
        pass
    raise FileFormatError(
        f"This is not a series of unknown fields of {_OPEN[record].DESCRIPTOR.name}."
    )


def _values(desc: Message) -> Iterator[Message]:
    """The values in a message, at any depth; what lies in other records is theirs."""
    for field, given in desc.ListFields():
        if field.message_type is None or field.message_type.name in _OPEN_NAMES:
            continue
        several: Any = (given,) if isinstance(given, Message) else given
        for one in several:
            if isinstance(one, Message):  # and not the key of a map
                yield one
                yield from _values(one)


def _named(desc: Any) -> str:
    kind = desc.DESCRIPTOR.name
    return f"The {kind}" + (f" `{desc.name:.80}`" if hasattr(desc, "name") else "")


def _refused(desc: Message, number: int, what: str) -> FileFormatError:
    kind = desc.DESCRIPTOR.name
    if number in desc.DESCRIPTOR.fields_by_number:
        name = desc.DESCRIPTOR.fields_by_number[number].name
        return FileFormatError(
            f"{what} has a field `{kind}.{name}` that cannot be read.",
            fix="The file may be damaged, or written by a newer Braces.",
        )
    return FileFormatError(
        f"{what} has a field of a newer Braces, number {number} of {kind}: "
        "what it says would be lost.",
        fix="Update Braces, or save the program with an older one.",
    )
