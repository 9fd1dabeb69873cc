"""Decoding: messages to records; malformed messages are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

from braces.dims import Size
from braces.dtypes import ListType, TensorType, Type
from braces.errors import FileFormatError
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
    Source,
    VarInfo,
)
from braces.ir.serde.encode import FLAGS_OF_DERIVATIONS, NAMES_OF_DERIVATIONS
from braces.ir.serde.enum_numbers import DTYPES, VAR_KINDS
from braces.ir.serde.unknown_fields import any_unknown, unknown_fields

T = TypeVar("T")


class Reader:
    """Decodes messages into records, and refuses malformed ones."""

    def __init__(self, desc: Message, locations: list[Source] | None = None) -> None:
        self.locations = locations
        self.any_unknown = any_unknown(desc)

    def unknown(self, desc: Message) -> bytes:
        """Return the fields that the schema lacks; searched only if there are any."""
        return unknown_fields(desc) if self.any_unknown else b""

    def program(self, desc: pb.ProgramDesc) -> ProgramDef:
        """Decode a whole program, without its startup program."""
        pairs = (
            (update.persistable, limits.readable_name(update.value)) for update in desc.updates
        )
        updates = limits.unique_items(pairs, "updated variables")
        derivations = tuple(map(self.derivation, desc.derivations))
        main, unknown = self.block(desc.main, 0), self.unknown(desc)
        return ProgramDef(main, updates, unknown, derivations=derivations)

    def derivation(self, desc: pb.DerivationDesc) -> Derivation:
        """Decode a call that built derivatives."""
        names: dict[str, tuple[str, ...]] = {
            field: tuple(limits.readable_name(name) if name else "" for name in names)
            for field in NAMES_OF_DERIVATIONS
            for names in [getattr(desc, field)]
        }
        pairs = ((each.persistable, limits.readable_name(each.value)) for each in desc.updates)
        updates = limits.unique_items(pairs, "updates of a derivation")
        pairs = ((n, limits.readable_name(old)) for n, old in desc.earlier_names.items())
        earlier = limits.unique_items(pairs, "names of a derivation")
        optimizer = self.attr(desc.optimizer, 0) if desc.HasField("optimizer") else None
        function = limits.readable_name(desc.function)
        flags: dict[str, Any] = {field: getattr(desc, field) for field in FLAGS_OF_DERIVATIONS}
        mappings = {"updates": updates, "earlier": earlier}
        return Derivation(function, optimizer=optimizer, **mappings, **names, **flags)

    def block(self, desc: pb.BlockDesc, depth: int) -> Body:
        """Decode a block at a nesting depth."""
        limits.check_depth(depth, FileFormatError)
        return limits.checked_body(
            desc.params,
            desc.results,
            map(self.var_info, desc.vars),
            [self.op(op_desc, depth) for op_desc in desc.ops],
            self.unknown(desc),
        )

    def op(self, desc: pb.OpDesc, depth: int) -> Op:
        """Decode an operator."""
        name = limits.readable_name(desc.name)
        attrs = (
            (attr_desc.name, limits.reachable(self.attr(attr_desc, depth)))
            for attr_desc in desc.attrs
        )
        return Op(
            limits.readable_name(desc.type),
            name,
            _slots(desc.inputs, f"input slots of `{name}`"),
            _slots(desc.outputs, f"output slots of `{name}`"),
            limits.unique_items(attrs, f"attributes of `{name}`"),
            self.source(desc.location),
            self.unknown(desc),
        )

    def var_info(self, desc: pb.VarDesc) -> VarInfo:
        """Decode the declaration of a variable."""
        kind, type_ = _from_number(VAR_KINDS, desc.kind, "kind of variable"), _type(desc.type)
        axes = limits.readable_axes(type_, tuple(desc.axes))
        return VarInfo(desc.name, type_, kind, desc.trainable, axes, self.unknown(desc))

    def source(self, location: int) -> Source | None:
        """Return the source line at this place of the table."""
        if not location or self.locations is None:
            return None
        if location > len(self.locations):
            raise FileFormatError(f"source location {location} is out of range.")
        return self.locations[location - 1]

    def attr(self, desc: pb.AttrDesc, depth: int) -> Attr:
        """Decode the value of an attribute, or of an element of a list."""
        kind = desc.WhichOneof("value")
        if kind in ("boolean", "integer", "natural", "real", "text"):
            return getattr(desc, kind)
        readers: dict[str | None, Callable[[], Attr]] = {
            "none": lambda: None,
            "dtype": lambda: _from_number(DTYPES, desc.dtype, "dtype"),
            "size": lambda: _size(desc.size),
            "literal": lambda: _literal(desc.literal),
            "block": lambda: self.block(desc.block, depth + 1),
            "list": lambda: self.items(desc.list.items, depth + 1),
        }
        if kind not in readers:
            raise FileFormatError(f"missing value of the attribute `{desc.name:.80}`.")
        return readers[kind]()

    def items(self, descs: Iterable[pb.AttrDesc], depth: int) -> tuple[Attr, ...]:
        """Decode the elements of a list."""
        limits.check_depth(depth, FileFormatError)
        return tuple(self.attr(item, depth) for item in descs)


def source_of(desc: pb.LocationDesc) -> Source:
    """Decode an entry of the table of source lines."""
    if desc.line < 0:
        raise FileFormatError(f"invalid line number {desc.line}.")
    return Source(stored_path(desc.file), desc.line)


def _slots(descs: Iterable[pb.SlotDesc], what: str) -> dict[str, tuple[str, ...]]:
    return limits.unique_items(((d.slot, limits.readable_names(d.names)) for d in descs), what)


def _type(desc: pb.TypeDesc) -> Type:
    kind = desc.WhichOneof("kind")
    if kind == "tensor":
        return _tensor(desc.tensor)
    if kind == "list":
        return ListType(_tensor(desc.list))
    raise FileFormatError("missing type of a variable.")


def _tensor(desc: pb.TensorTypeDesc) -> TensorType:
    limits.readable_rank(len(desc.shape))
    return TensorType(_from_number(DTYPES, desc.dtype, "dtype"), tuple(map(_size, desc.shape)))


def _size(desc: pb.SizeDesc) -> Size:
    kind = desc.WhichOneof("kind")
    if kind == "value":
        return limits.axis_size(desc.value)
    if kind == "expression":
        return limits.readable_size(desc.expression)
    raise FileFormatError("missing size of an axis.")


def _literal(desc: pb.LiteralDesc) -> Literal:
    dtype = _from_number(DTYPES, desc.dtype, "dtype")
    return limits.checked_literal(dtype, tuple(desc.shape), desc.data)


def _from_number(table: Mapping[int, T], number: int, what: str) -> T:
    if number not in table:
        raise FileFormatError(
            f"unknown {what} with number {number}.",
            fix="The file may be damaged, or written by a newer Braces.",
        )
    return table[number]
