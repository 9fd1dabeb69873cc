"""Programs as protobuf messages; the only package that imports protobuf.

`ir/proto/program.proto` documents every field. Bytes are the same for the same program, but
they are not canonical: compare programs by `fingerprint`. A file is one `ProgramDesc`. Content
that a reader does not support is refused with a `FileFormatError`; nothing in a file is ever
executed.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError, EncodeError

from braces.errors import FileFormatError, ProgramError
from braces.ir import limits
from braces.ir.files.atomic_write import write_atomically as write_atomically
from braces.ir.files.bounded_read import read_bounded as read_bounded
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import Body, ProgramDef
from braces.ir.serde.decode import Reader, source_of
from braces.ir.serde.encode import Encoder
from braces.ir.serde.unknown_fields import readable_unknown as readable_unknown
from braces.ir.walk import all_bodies, all_ops

FORMAT = "braces.program"
FORMAT_VERSION = 1


# ---- whole programs --------------------------------------------------------------------------


def program_to_bytes(
    main: ProgramDef,
    startup: ProgramDef | None,
    versions: Mapping[str, int] | None = None,
    modules: Mapping[str, str] | None = None,
) -> bytes:
    """Return a program and its startup program as one `ProgramDesc`.

    Args:
        main: The program.
        startup: The startup program of its persistable variables, if there is one.
        versions: The version of each operator type; those of the types used are stored, derived
            ones by the type that they come from.
        modules: Modules that define operators outside Braces.

    Raises:
        ProgramError: If the program contains an object without a stored form, or nests too
            deep.
    """
    writer = Encoder()
    desc = pb.ProgramDesc(format=FORMAT, format_version=FORMAT_VERSION, producer=_producer())
    writer.program(main, desc)
    if startup is not None:
        writer.program(startup, desc.startup)
    for source in writer.locations:
        desc.locations.add(file=source.file, line=source.line)
    used = {
        _base(op.type)
        for definition in (main, startup)
        if definition
        for _, op in all_ops(definition.main)
    }
    desc.op_versions.update({t: n for t, n in (versions or {}).items() if t in used})
    desc.op_modules.update({t: m for t, m in (modules or {}).items() if t in used})
    # `complete` is the last field and serialized last: readers detect truncated files by it.
    data = _encoded(desc) + _encoded(pb.ProgramDesc(complete=True))
    if len(data) > limits.LARGEST_FILE:
        raise ProgramError(
            f"the program has {len(data)} bytes; expected at most {limits.LARGEST_FILE}.",
            fix="Use parameters for large arrays: they are saved beside the program.",
        )
    return data


def program_from_bytes(
    data: bytes, known: Mapping[str, int] | None = None
) -> tuple[ProgramDef, ProgramDef | None]:
    """Read a program and its startup program, as written by `program_to_bytes`.

    Args:
        data: The bytes.
        known: The versions of operator types that this library has; a newer one is refused.

    Raises:
        FileFormatError: If the bytes are not a program, are truncated, or have a newer format.
    """
    if len(data) > limits.LARGEST_FILE:
        raise FileFormatError(
            f"the program has {len(data)} bytes; expected at most {limits.LARGEST_FILE}."
        )
    desc = pb.ProgramDesc()
    try:
        desc.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError):
        raise _not_a_program(data) from None
    _check_header(desc, data)
    _check_versions(desc, known or {})
    reader = Reader(desc, [source_of(location) for location in desc.locations])
    startup = reader.program(desc.startup) if desc.HasField("startup") else None
    modules = {type_: limits.readable_module(m) for type_, m in desc.op_modules.items()}
    if startup is not None:
        startup = startup.with_(modules=modules)
    return reader.program(desc).with_(modules=modules), startup


def _base(op_type: str) -> str:
    """Return the operator that a derived one comes from, and whose version it has."""
    return op_type.partition(".")[0]


def _encoded(desc: Any) -> bytes:
    try:
        return desc.SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        raise ProgramError(f"cannot serialize the program: {error}") from error


@functools.cache
def _producer() -> str:
    try:
        return f"braces {importlib.metadata.version('braces')}"
    except importlib.metadata.PackageNotFoundError:
        return "braces"


def _not_a_program(data: bytes) -> FileFormatError:
    if FORMAT.encode() in data[: len(FORMAT) + 2]:
        return FileFormatError("damaged or truncated Braces program.")
    return FileFormatError(
        "not a Braces program.", fix="Pass a file that `Program.save` wrote."
    )


def _check_header(desc: pb.ProgramDesc, data: bytes) -> None:
    if desc.format != FORMAT:
        raise _not_a_program(data)
    if desc.format_version > FORMAT_VERSION:
        raise _newer_error(
            desc,
            f"this file was written by a newer Braces: format {desc.format_version}, "
            f"this one reads {FORMAT_VERSION}.",
        )
    if not desc.format_version or not desc.HasField("main") or not desc.complete:
        raise FileFormatError("damaged or truncated Braces program.")


def _check_versions(desc: pb.ProgramDesc, known: Mapping[str, int]) -> None:
    for op_type, version in sorted(desc.op_versions.items()):
        if version > known.get(op_type, version):
            raise _newer_error(
                desc,
                f"This file uses version {version} of operator `{op_type:.80}`; "
                f"this Braces has version {known[op_type]}.",
            )


def _newer_error(desc: pb.ProgramDesc, what: str) -> FileFormatError:
    return FileFormatError(
        what,
        given=f"producer: {desc.producer:.80}" if desc.producer else None,
        fix="Update Braces, or save the program with an older one.",
    )


# ---- single blocks ---------------------------------------------------------------------------


def body_to_desc(body: Body) -> pb.BlockDesc:
    """Return a block, with the blocks inside it, as a `BlockDesc` without source lines.

    Raises:
        ProgramError: If the block contains an object without a stored form, or nests too deep.
    """
    desc = pb.BlockDesc()
    Encoder(sources=False).block(body, desc, 0)
    return desc


def body_from_desc(desc: Any) -> Body:
    """Read a block, as written by `body_to_desc`.

    Raises:
        FileFormatError: If `desc` is not a well-formed `BlockDesc`.
    """
    if not isinstance(desc, pb.BlockDesc):
        raise FileFormatError(f"expected a BlockDesc, got {type(desc).__name__}.")
    return Reader(desc).block(desc, 0)


def names_in(body: Body) -> set[str]:
    """Return the names of all variables and operators in a block and its sub-blocks."""
    bodies = [inner for inner, _ in all_bodies(body)]
    return {n for b in bodies for n in b.vars} | {op.name for b in bodies for op in b.ops}
