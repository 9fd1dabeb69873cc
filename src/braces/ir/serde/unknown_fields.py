"""Unknown fields of a later schema: kept byte for byte with their record, or refused.

A program, block, operator or variable may have fields that this library does not know. Such
fields have no effect, as otherwise the file would require a newer format. Records carry them as
bytes, from reading to writing. All other messages are values, which must be understood
completely: a file with unknown fields in a value is refused.
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
    """Return whether this message, or any within it, has a field that the schema lacks."""
    known = type(desc)()
    known.CopyFrom(desc)
    known.DiscardUnknownFields()
    return known.ByteSize() != desc.ByteSize()


def unknown_fields(desc: Message) -> bytes:
    """Return the fields of a program, block, operator or variable that the schema lacks.

    Raises:
        FileFormatError: If a value in `desc` has unknown fields, their number exceeds the
            limit, or a known field has a different wire type.
    """
    what = _describe_message(desc)
    for value in _values(desc):
        for field in UnknownFieldSet(value):
            raise _unknown_field_error(value, field.field_number, what)
    remainder = type(desc)()
    remainder.CopyFrom(desc)
    for field in remainder.DESCRIPTOR.fields:
        remainder.ClearField(field.name)
    for field in UnknownFieldSet(remainder):
        if field.field_number in remainder.DESCRIPTOR.fields_by_number:
            raise _unknown_field_error(desc, field.field_number, what)
    data = remainder.SerializeToString(deterministic=True)
    if len(data) > limits.LARGEST_UNKNOWN:
        raise FileFormatError(
            f"{what} has {len(data)} bytes of unknown fields; expected at most "
            f"{limits.LARGEST_UNKNOWN}.",
            fix="Update Braces.",
        )
    return data


def readable_unknown(record: type, data: bytes) -> bytes:
    """Return `data` if it is a series of fields that the schema of the record lacks."""
    try:
        if data == unknown_fields(_OPEN[record].FromString(data)):
            return data
    except DecodeError:
        pass
    raise FileFormatError(f"invalid unknown fields of {_OPEN[record].DESCRIPTOR.name}.")


def _values(desc: Message) -> Iterator[Message]:
    """Yield the values in a message, at any depth, except those in nested records."""
    for field, field_value in desc.ListFields():
        if field.message_type is None or field.message_type.name in _OPEN_NAMES:
            continue
        messages: Any = (field_value,) if isinstance(field_value, Message) else field_value
        for message in messages:
            if isinstance(message, Message):  # not the key of a map
                yield message
                yield from _values(message)


def _describe_message(desc: Any) -> str:
    kind = desc.DESCRIPTOR.name
    return f"The {kind}" + (f" `{desc.name:.80}`" if hasattr(desc, "name") else "")


def _unknown_field_error(desc: Message, number: int, what: str) -> FileFormatError:
    kind = desc.DESCRIPTOR.name
    if number in desc.DESCRIPTOR.fields_by_number:
        name = desc.DESCRIPTOR.fields_by_number[number].name
        return FileFormatError(
            f"{what} has an invalid field `{kind}.{name}`.",
            fix="The file may be damaged, or written by a newer Braces.",
        )
    return FileFormatError(
        f"{what} has field {number} of {kind} from a newer Braces, which would be lost.",
        fix="Update Braces, or save the program with an older one.",
    )
