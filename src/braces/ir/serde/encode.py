"""Encoding: records to messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.message import Message

from braces.dims import Dim, Size
from braces.dtypes import ListType, TensorType, Type
from braces.errors import BracesError, DTypeError, FileFormatError, ProgramError
from braces.ir import limits
from braces.ir.files.bounded_read import stored_path
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import (
    Attr,
    Body,
    Derivation,
    Literal,
    Op,
    ProgramDef,
    Slots,
    Source,
    VarInfo,
)
from braces.ir.serde.enum_numbers import KIND_NUMBERS, dtype_number
from braces.ir.serde.unknown_fields import readable_unknown

NAMES_OF_DERIVATIONS = (
    "targets", "inputs", "seeds", "results", "states", "ends", "unread",
)  # fmt: skip
"""Fields of a derivation that are names of variables."""
FLAGS_OF_DERIVATIONS = ("every", "inner", "edited")
"""Fields of a derivation that are true or false."""


class Encoder:
    """Encodes records as messages and collects the table of source lines."""

    def __init__(self, sources: bool = True) -> None:
        self.sources = sources
        self.locations: dict[Source, int] = {}

    def program(self, program: ProgramDef, desc: pb.ProgramDesc) -> None:
        """Encode a whole program, without its startup program."""
        desc.main.SetInParent()
        self.block(program.main, desc.main, 0)
        for persistable, value in program.updates.items():
            desc.updates.add(persistable=persistable, value=value)
        for record in program.derivations:
            if record.remains_in(program):
                self.derivation(record, desc.derivations.add())
        _add_unknown(program, desc)

    def derivation(self, record: Derivation, desc: pb.DerivationDesc) -> None:
        """Encode a call that built derivatives."""
        desc.function = record.function
        for field in FLAGS_OF_DERIVATIONS:
            setattr(desc, field, getattr(record, field))
        for field in NAMES_OF_DERIVATIONS:
            getattr(desc, field).extend(getattr(record, field))
        for persistable, value in record.updates.items():
            desc.updates.add(persistable=persistable, value=value)
        desc.earlier_names.update(record.earlier)
        if record.optimizer is not None:
            self.attr(record.optimizer, desc.optimizer, 0)

    def block(self, body: Body, desc: pb.BlockDesc, depth: int) -> None:
        """Encode a block at a nesting depth."""
        limits.check_depth(depth, ProgramError)
        desc.params.extend(body.params)
        desc.results.extend(body.results)
        desc.vars.extend(map(_var_desc, body.vars.values()))
        for op in body.ops:
            self.op(op, desc.ops.add(), depth)
        _add_unknown(body, desc)

    def op(self, op: Op, desc: pb.OpDesc, depth: int) -> None:
        """Encode an operator."""
        desc.type, desc.name, desc.location = op.type, op.name, self.location(op.source)
        desc.inputs.extend(_slot_descs(op.inputs))
        desc.outputs.extend(_slot_descs(op.outputs))
        for name, value in op.attrs.items():
            try:
                self.attr(limits.reachable(value), desc.attrs.add(name=name), depth)
            except (ProgramError, DTypeError, ValueError) as error:
                raise _unstorable(op, name, error) from error
        _add_unknown(op, desc)

    def location(self, source: Source | None) -> int:
        """Return the place of a line in the table; add it if it is new."""
        if source is None or not self.sources or not 0 <= source.line < 1 << 31:
            return 0
        stored = Source(stored_path(source.file), source.line)
        return self.locations.setdefault(stored, len(self.locations) + 1)

    def attr(self, value: Attr, desc: pb.AttrDesc, depth: int) -> None:
        """Encode the value of an attribute."""
        if isinstance(value, Body):
            desc.block.SetInParent()
            self.block(value, desc.block, depth + 1)
        elif isinstance(value, tuple):
            limits.check_depth(depth + 1, ProgramError)
            desc.list.SetInParent()
            for item in value:
                self.attr(item, desc.list.items.add(), depth + 1)
        else:
            _write_plain(value, desc)


def _write_plain(value: object, desc: pb.AttrDesc) -> None:
    match value:
        case None:
            desc.none = True
        case bool():
            desc.boolean = value
        case int() if value > limits.LARGEST_INT:
            desc.natural = value
        case int():
            desc.integer = value
        case float():
            desc.real = value
        case str():
            desc.text = value
        case np.dtype():
            desc.dtype = dtype_number(value)
        case Dim():
            desc.size.CopyFrom(_size_desc(value))
        case Literal():
            desc.literal.CopyFrom(_literal_desc(value))
        case _:
            raise ProgramError(f"unsupported type {type(value).__name__}.")


def _unstorable(op: Op, name: str, error: Exception) -> ProgramError:
    if isinstance(error, ProgramError) and error.at:
        return error
    what = error.what if isinstance(error, BracesError) else str(error)
    return ProgramError(
        f"cannot serialize the attribute `{name}`: {what}",
        at=op.describe(),
        fix="Use None, bool, int (64 bits), float, str, dtypes, sizes, arrays, blocks, tuples.",
    )


def _add_unknown(record: ProgramDef | Body | Op | VarInfo, desc: Message) -> None:
    """Restore the fields that the schema lacks."""
    if not record.unknown:
        return
    try:
        desc.MergeFromString(readable_unknown(type(record), record.unknown))
    except FileFormatError as error:
        raise ProgramError(error.what, fix=error.fix) from None


def _slot_descs(slots: Slots) -> Iterator[pb.SlotDesc]:
    for slot, names in slots.items():
        yield pb.SlotDesc(slot=slot, names=names)


def _var_desc(info: VarInfo) -> pb.VarDesc:
    kind = KIND_NUMBERS[info.kind]
    desc = pb.VarDesc(
        name=info.name,
        type=_type_desc(info.type),
        kind=kind,  # pyright: ignore[reportArgumentType]
        trainable=info.trainable,
        axes=[name or "" for name in info.axes],
    )
    _add_unknown(info, desc)
    return desc


def _type_desc(type_: Type) -> pb.TypeDesc:
    if isinstance(type_, ListType):
        return pb.TypeDesc(list=_tensor_desc(type_.element))
    return pb.TypeDesc(tensor=_tensor_desc(type_))


def _tensor_desc(type_: TensorType) -> pb.TensorTypeDesc:
    dtype: Any = dtype_number(type_.dtype)
    return pb.TensorTypeDesc(dtype=dtype, shape=map(_size_desc, type_.shape))


def _size_desc(size: Size) -> pb.SizeDesc:
    if isinstance(size, int):
        if not 0 <= size <= limits.LARGEST_INT:
            raise ProgramError(f"axis size {size} is out of range.")
        return pb.SizeDesc(value=size)
    return pb.SizeDesc(expression=str(size))


def _literal_desc(literal: Literal) -> pb.LiteralDesc:
    dtype: Any = dtype_number(literal.dtype)
    return pb.LiteralDesc(dtype=dtype, shape=literal.shape, data=literal.data)
