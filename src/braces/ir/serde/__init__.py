"""Programs as protobuf messages; the only package that knows protobuf.

`ir/proto/program.proto` documents every field. Bytes are the same for the same program, but
they are not canonical: compare programs by `fingerprint`. A file is one `ProgramDesc`. Whatever
a reader cannot honour, it refuses with a `FileFormatError`; nothing in a file is ever executed.
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
from braces.ir.serde.encode import Writer
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
    """A program and its startup program as one `ProgramDesc`.

    Args:
        main: The program.
        startup: What sets its persistable variables, where there is such a program.
        versions: The version of each operator type; those of the types used are stored, derived
            ones by the type that they come from.
        modules: Where operators were defined that do not come with Braces.

    Raises:
        ProgramError: It holds something that has no stored form, or nests too deep.
    """
    writer = Writer()
    desc = pb.ProgramDesc(format=FORMAT, format_version=FORMAT_VERSION, producer=_producer())
    writer.program(main, desc)
    if startup is not None:
        writer.program(startup, desc.startup)
    for source in writer.locations:
        desc.locations.add(file=source.file, line=source.line)
    used = {_base(op.type) for one in (main, startup) if one for _, op in all_ops(one.main)}
    desc.op_versions.update({t: n for t, n in (versions or {}).items() if t in used})
    desc.op_modules.update({t: m for t, m in (modules or {}).items() if t in used})
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
    _check_versions(desc, known or {})
    reader = Reader(desc, [source_of(one) for one in desc.locations])
    startup = reader.program(desc.startup) if desc.HasField("startup") else None
    modules = {type_: limits.readable_module(m) for type_, m in desc.op_modules.items()}
    if startup is not None:
        startup = startup.with_(modules=modules)
    return reader.program(desc).with_(modules=modules), startup


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
        raise _newer(
            desc,
            f"This file was written by a newer Braces: format {desc.format_version}, "
            f"this one reads {FORMAT_VERSION}.",
        )
    if not desc.format_version or not desc.HasField("main") or not desc.complete:
        raise FileFormatError("This Braces program is damaged or was cut short.")


def _check_versions(desc: pb.ProgramDesc, known: Mapping[str, int]) -> None:
    for op_type, version in sorted(desc.op_versions.items()):
        if version > known.get(op_type, version):
            raise _newer(
                desc,
                f"This file uses version {version} of operator `{op_type:.80}`; "
                f"this Braces has version {known[op_type]}.",
            )


def _newer(desc: pb.ProgramDesc, what: str) -> FileFormatError:
    return FileFormatError(
        what,
        given=f"producer: {desc.producer:.80}" if desc.producer else None,
        fix="Update Braces, or save the program with an older one.",
    )


# ---- single blocks ---------------------------------------------------------------------------


def body_to_desc(body: Body) -> pb.BlockDesc:
    """A block, with the blocks inside it, as a `BlockDesc`; source lines are left out.

    Raises:
        ProgramError: It holds something that has no stored form, or nests too deep.
    """
    desc = pb.BlockDesc()
    Writer(sources=False).block(body, desc, 0)
    return desc


def body_from_desc(desc: Any) -> Body:
    """Read what `body_to_desc` wrote.

    Raises:
        FileFormatError: It is not a well-formed `BlockDesc`.
    """
    if not isinstance(desc, pb.BlockDesc):
        raise FileFormatError(f"A {type(desc).__name__} is not a BlockDesc.")
    return Reader(desc).block(desc, 0)


def names_in(body: Body) -> set[str]:
    """The names of all variables and operators in a block and in the blocks inside it."""
    bodies = [inner for inner, _ in all_bodies(body)]
    return {n for b in bodies for n in b.vars} | {op.name for b in bodies for op in b.ops}
