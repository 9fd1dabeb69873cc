"""Programs as protobuf messages; the only module that knows protobuf.

`ir/proto/program.proto` documents every field. Bytes are the same for the same program, but
they are not canonical: compare programs by `fingerprint`. A file is one `ProgramDesc`. Whatever
a reader cannot honour, it refuses with a `FileFormatError`; nothing in a file is ever executed.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, EncodeError

from braces.dims import LONGEST_TEXT, Dim, Size
from braces.dtypes import DType, ListType, TensorType, Type, dtype_of, short_name
from braces.errors import BracesError, DTypeError, FileFormatError, ProgramError
from braces.ir import limits
from braces.ir.files import (
    read_bounded as read_bounded,
    stored_path,
    write_atomically as write_atomically,
)
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import KINDS, Attr, Body, Literal, Op, ProgramDef, Slots, Source, VarInfo
from braces.ir.walk import all_bodies, all_ops

FORMAT = "braces.program"
FORMAT_VERSION = 1

_DTYPES: dict[int, DType] = {
    number: dtype_of(name.removeprefix("DTYPE_").lower())
    for name, number in pb.DType.items()
    if number
}
_DTYPE_NUMBERS = {short_name(dtype): number for number, dtype in _DTYPES.items()}
_KINDS: dict[int, str] = {
    number: name.removeprefix("VAR_KIND_").lower()
    for name, number in pb.VarKind.items()
    if number
}
_KIND_NUMBERS = {kind: number for number, kind in _KINDS.items()}
assert set(_KIND_NUMBERS) == set(KINDS)

T = TypeVar("T")


# ---- whole programs --------------------------------------------------------------------------


def program_to_bytes(
    main: ProgramDef, startup: ProgramDef | None, versions: Mapping[str, int] | None = None
) -> bytes:
    """A program and its startup program as one `ProgramDesc`.

    Args:
        main: The program.
        startup: What sets its persistable variables, where there is such a program.
        versions: The version of each operator type; those of the types used are stored, derived
            ones by the type that they come from.

    Raises:
        ProgramError: It holds something that has no stored form, or nests too deep.
    """
    writer = _Writer()
    desc = pb.ProgramDesc(format=FORMAT, format_version=FORMAT_VERSION, producer=_producer())
    writer.program(main, desc)
    if startup is not None:
        writer.program(startup, desc.startup)
    for source in writer.locations:
        desc.locations.add(file=source.file, line=source.line)
    used = {_base(op.type) for one in (main, startup) if one for _, op in all_ops(one.main)}
    desc.op_versions.update({t: n for t, n in (versions or {}).items() if t in used})
    # The last field goes last by itself: that is how a reader notices a file cut short.
    data = _encoded(desc) + _encoded(pb.ProgramDesc(complete=True))
    if len(data) > limits.LARGEST_FILE:
        raise ProgramError(
            f"The program takes {len(data)} bytes; {limits.LARGEST_FILE} is the most.",
            fix="Hold large arrays as parameters: they are saved beside the program.",
        )
    return data


def program_from_bytes(
    data: bytes, known: Mapping[str, int] | None = None
) -> tuple[ProgramDef, ProgramDef | None]:
    """Read what `program_to_bytes` wrote: a program, and its startup program.

    Args:
        data: The bytes.
        known: The versions of operator types that this library has; a newer one is refused.

    Raises:
        FileFormatError: The bytes are no program, one cut short, or one of a newer format.
    """
    if len(data) > limits.LARGEST_FILE:
        raise FileFormatError(f"A program has {limits.LARGEST_FILE} bytes at most.")
    desc = pb.ProgramDesc()
    try:
        desc.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError):
        raise _foreign(data) from None
    _check_header(desc, data)
    _check_versions(desc.op_versions, known or {})
    reader = _Reader([_source(one) for one in desc.locations])
    startup = reader.program(desc.startup) if desc.HasField("startup") else None
    return reader.program(desc), startup


def _base(op_type: str) -> str:
    """The operator that a derived one comes from, and whose version it has."""
    return op_type.partition(".")[0]


def _encoded(desc: Any) -> bytes:
    try:
        return desc.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ProgramError(f"The program cannot be stored: {error}") from error


@functools.cache
def _producer() -> str:
    try:
        return f"braces {importlib.metadata.version('braces')}"
    except importlib.metadata.PackageNotFoundError:
        return "braces"


def _foreign(data: bytes) -> FileFormatError:
    if FORMAT.encode() in data[: len(FORMAT) + 2]:
        return FileFormatError("This Braces program is damaged or was cut short.")
    return FileFormatError(
        "This is not a Braces program.", fix="Give a file that `Program.save` wrote."
    )


def _check_header(desc: pb.ProgramDesc, data: bytes) -> None:
    if desc.format != FORMAT:
        raise _foreign(data)
    if desc.format_version > FORMAT_VERSION:
        raise FileFormatError(
            f"This file was written by a newer Braces: format {desc.format_version}, "
            f"this one reads {FORMAT_VERSION}.",
            given=f"producer: {desc.producer:.80}" if desc.producer else None,
            fix="Update Braces, or save the program with an older one.",
        )
    if not desc.format_version or not desc.HasField("main") or not desc.complete:
        raise FileFormatError("This Braces program is damaged or was cut short.")


def _check_versions(stored: Mapping[str, int], known: Mapping[str, int]) -> None:
    for op_type, version in sorted(stored.items()):
        if version > known.get(op_type, version):
            raise FileFormatError(
                f"This file uses version {version} of operator `{op_type:.80}`; "
                f"this Braces has version {known[op_type]}.",
                fix="Update Braces.",
            )


# ---- single blocks ---------------------------------------------------------------------------


def body_to_desc(body: Body) -> pb.BlockDesc:
    """A block, with the blocks inside it, as a `BlockDesc`; source lines are left out.

    Raises:
        ProgramError: It holds something that has no stored form, or nests too deep.
    """
    desc = pb.BlockDesc()
    _Writer(sources=False).block(body, desc, 0)
    return desc


def body_from_desc(desc: Any) -> Body:
    """Read what `body_to_desc` wrote.

    Raises:
        FileFormatError: It is not a well-formed `BlockDesc`.
    """
    if not isinstance(desc, pb.BlockDesc):
        raise FileFormatError(f"A {type(desc).__name__} is not a BlockDesc.")
    return _Reader().block(desc, 0)


def names_in(body: Body) -> set[str]:
    """The names of all variables and operators in a block and in the blocks inside it."""
    bodies = [inner for inner, _ in all_bodies(body)]
    return {n for b in bodies for n in b.vars} | {op.name for b in bodies for op in b.ops}


# ---- writing ---------------------------------------------------------------------------------


class _Writer:
    """Turns records into messages and collects the table of source lines."""

    def __init__(self, sources: bool = True) -> None:
        self.sources = sources
        self.locations: dict[Source, int] = {}

    def program(self, program: ProgramDef, desc: pb.ProgramDesc) -> None:
        desc.main.SetInParent()
        self.block(program.main, desc.main, 0)
        for persistable, value in program.updates.items():
            desc.updates.add(persistable=persistable, value=value)

    def block(self, body: Body, desc: pb.BlockDesc, depth: int) -> None:
        _check_depth(depth, ProgramError)
        desc.params.extend(body.params)
        desc.results.extend(body.results)
        desc.vars.extend(map(_var_desc, body.vars.values()))
        for op in body.ops:
            self.op(op, desc.ops.add(), depth)

    def op(self, op: Op, desc: pb.OpDesc, depth: int) -> None:
        desc.type, desc.name, desc.location = op.type, op.name, self.location(op.source)
        desc.inputs.extend(_slot_descs(op.inputs))
        desc.outputs.extend(_slot_descs(op.outputs))
        for name, value in op.attrs.items():
            try:
                self.attr(limits.reachable(value), desc.attrs.add(name=name), depth)
            except (ProgramError, DTypeError, ValueError) as error:
                raise _unstorable(op, name, error) from error

    def location(self, source: Source | None) -> int:
        if source is None or not self.sources or not 0 <= source.line < 1 << 31:
            return 0
        stored = Source(stored_path(source.file), source.line)
        return self.locations.setdefault(stored, len(self.locations) + 1)

    def attr(self, value: Attr, desc: pb.AttrDesc, depth: int) -> None:
        if isinstance(value, Body):
            desc.block.SetInParent()
            self.block(value, desc.block, depth + 1)
        elif isinstance(value, tuple):
            _check_depth(depth + 1, ProgramError)
            desc.list.SetInParent()
            for one in value:
                self.attr(one, desc.list.items.add(), depth + 1)
        else:
            _write_plain(value, desc)


def _write_plain(value: object, desc: pb.AttrDesc) -> None:
    match value:
        case None:
            desc.none = True
        case bool():
            desc.boolean = value
        case int():
            desc.integer = value
        case float():
            desc.real = value
        case str():
            desc.text = value
        case np.dtype():
            desc.dtype = _dtype_number(value)
        case Dim():
            desc.size.CopyFrom(_size_desc(value))
        case Literal():
            desc.literal.CopyFrom(_literal_desc(value))
        case _:
            raise ProgramError(f"A {type(value).__name__} has no stored form.")


def _unstorable(op: Op, name: str, error: Exception) -> ProgramError:
    if isinstance(error, ProgramError) and error.at:
        return error
    what = error.what if isinstance(error, BracesError) else str(error)
    return ProgramError(
        f"The attribute `{name}` cannot be stored. {what}",
        at=op.describe(),
        fix="Use None, bool, int (64 bits), float, str, dtypes, sizes, arrays, blocks, tuples.",
    )


def _check_depth(depth: int, error: type[FileFormatError | ProgramError]) -> None:
    if depth > limits.DEEPEST_NESTING:
        raise error(f"Blocks and tuples nest deeper than {limits.DEEPEST_NESTING}.")


def _slot_descs(slots: Slots) -> Iterator[pb.SlotDesc]:
    for slot, names in slots.items():
        yield pb.SlotDesc(slot=slot, names=names)


def _var_desc(info: VarInfo) -> pb.VarDesc:
    kind = _KIND_NUMBERS[info.kind]
    return pb.VarDesc(
        name=info.name,
        type=_type_desc(info.type),
        kind=kind,  # pyright: ignore[reportArgumentType]
        trainable=info.trainable,
    )


def _type_desc(given: Type) -> pb.TypeDesc:
    if isinstance(given, ListType):
        return pb.TypeDesc(list=_tensor_desc(given.element))
    return pb.TypeDesc(tensor=_tensor_desc(given))


def _tensor_desc(given: TensorType) -> pb.TensorTypeDesc:
    dtype: Any = _dtype_number(given.dtype)
    return pb.TensorTypeDesc(dtype=dtype, shape=map(_size_desc, given.shape))


def _size_desc(size: Size) -> pb.SizeDesc:
    if isinstance(size, int):
        if not 0 <= size <= limits.LARGEST_INT:
            raise ProgramError(f"{size} cannot be the size of an axis.")
        return pb.SizeDesc(value=size)
    text = str(size)
    if len(text) > LONGEST_TEXT:
        raise ProgramError(f"The dimension `{text:.80}…` is too long to be stored.")
    return pb.SizeDesc(expression=text)


def _literal_desc(given: Literal) -> pb.LiteralDesc:
    dtype: Any = _dtype_number(given.dtype)
    return pb.LiteralDesc(dtype=dtype, shape=given.shape, data=given.data)


def _dtype_number(dtype: DType) -> Any:
    return _DTYPE_NUMBERS[short_name(dtype_of(dtype))]


# ---- reading ---------------------------------------------------------------------------------


class _Reader:
    """Turns messages into records, and refuses whatever is not well formed."""

    def __init__(self, locations: list[Source] | None = None) -> None:
        self.locations = locations

    def program(self, desc: pb.ProgramDesc) -> ProgramDef:
        pairs = ((one.persistable, limits.readable_name(one.value)) for one in desc.updates)
        return ProgramDef(self.block(desc.main, 0), limits.unique(pairs, "updated variables"))

    def block(self, desc: pb.BlockDesc, depth: int) -> Body:
        _check_depth(depth, FileFormatError)
        return limits.body(
            desc.params,
            desc.results,
            map(_var_info, desc.vars),
            [self.op(one, depth) for one in desc.ops],
        )

    def op(self, desc: pb.OpDesc, depth: int) -> Op:
        name = limits.readable_name(desc.name)
        attrs = ((one.name, limits.reachable(self.attr(one, depth))) for one in desc.attrs)
        return Op(
            limits.readable_name(desc.type),
            name,
            _slots(desc.inputs, f"input slots of `{name}`"),
            _slots(desc.outputs, f"output slots of `{name}`"),
            limits.unique(attrs, f"attributes of `{name}`"),
            self.source(desc.location),
        )

    def source(self, location: int) -> Source | None:
        if not location or self.locations is None:
            return None
        if location > len(self.locations):
            raise FileFormatError(f"There is no source location {location}.")
        return self.locations[location - 1]

    def attr(self, desc: pb.AttrDesc, depth: int) -> Attr:
        kind = desc.WhichOneof("value")
        if kind in ("boolean", "integer", "real", "text"):
            return getattr(desc, kind)
        readers: dict[str | None, Callable[[], Attr]] = {
            "none": lambda: None,
            "dtype": lambda: _stored(_DTYPES, desc.dtype, "dtype"),
            "size": lambda: _size(desc.size),
            "literal": lambda: _literal(desc.literal),
            "block": lambda: self.block(desc.block, depth + 1),
            "list": lambda: self.items(desc.list.items, depth + 1),
        }
        if kind not in readers:
            raise FileFormatError(f"The attribute `{desc.name:.80}` has no value.")
        return readers[kind]()

    def items(self, descs: Iterable[pb.AttrDesc], depth: int) -> tuple[Attr, ...]:
        _check_depth(depth, FileFormatError)
        return tuple(self.attr(one, depth) for one in descs)


def _source(desc: pb.LocationDesc) -> Source:
    if desc.line < 0:
        raise FileFormatError(f"{desc.line} is not the number of a line.")
    return Source(stored_path(desc.file), desc.line)


def _slots(descs: Iterable[pb.SlotDesc], what: str) -> dict[str, tuple[str, ...]]:
    return limits.unique(((d.slot, limits.readable_names(d.names)) for d in descs), what)


def _var_info(desc: pb.VarDesc) -> VarInfo:
    kind = _stored(_KINDS, desc.kind, "kind of variable")
    return VarInfo(desc.name, _type(desc.type), kind, desc.trainable)


def _type(desc: pb.TypeDesc) -> Type:
    kind = desc.WhichOneof("kind")
    if kind == "tensor":
        return _tensor(desc.tensor)
    if kind == "list":
        return ListType(_tensor(desc.list))
    raise FileFormatError("A variable has no type.")


def _tensor(desc: pb.TensorTypeDesc) -> TensorType:
    limits.readable_rank(len(desc.shape))
    return TensorType(_stored(_DTYPES, desc.dtype, "dtype"), tuple(map(_size, desc.shape)))


def _size(desc: pb.SizeDesc) -> Size:
    kind = desc.WhichOneof("kind")
    if kind == "value":
        return limits.axis_size(desc.value)
    if kind == "expression":
        return limits.readable_size(desc.expression)
    raise FileFormatError("The size of an axis is not set.")


def _literal(desc: pb.LiteralDesc) -> Literal:
    dtype = _stored(_DTYPES, desc.dtype, "dtype")
    return limits.literal(dtype, tuple(desc.shape), desc.data)


def _stored(table: Mapping[int, T], number: int, what: str) -> T:
    if number not in table:
        raise FileFormatError(
            f"There is no {what} with the number {number}.",
            fix="The file may be damaged, or written by a newer Braces.",
        )
    return table[number]
