"""Event files of TensorBoard: scalars as records of TensorFlow.

file   := {record}
record := u64 length, u32 masked CRC-32C of the length, bytes, u32 masked CRC-32C of these
bytes  := Event{1: wall time f64, 2: step varint, 3: "brain.Event:2" (first record),
5: Summary{1: Value{1: tag, 2: value f32}, …}}
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from braces.fitting.steps.writes import append, replace

_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8
_U32 = 0xFFFFFFFF
_VARINT, _F64, _BYTES, _F32 = 0, 1, 2, 5
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_MARK = "braces"


def _crc_table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(map(entry, range(256)))


_TABLE = _crc_table()


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of bytes.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    crc = _U32
    for byte in content:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _U32


def masked_crc32c(content: bytes) -> int:
    """Return the CRC-32C of bytes, rotated and offset as records of TensorFlow have it."""
    crc = crc32c(content)
    return (((crc >> 15) | (crc << 17)) + _MASK) & _U32


# ---- messages --------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _tagged(field: int, kind: int, content: bytes) -> bytes:
    length = _varint(len(content)) if kind == _BYTES else b""
    return _varint(field << 3 | kind) + length + content


def _event(step: int, rest: bytes) -> bytes:
    wall = _tagged(1, _F64, struct.pack("<d", time.time()))
    return wall + _tagged(2, _VARINT, _varint(step)) + rest


def _scalars(values: Mapping[str, float]) -> bytes:
    parts = (
        _tagged(1, _BYTES, name.encode()) + _tagged(2, _F32, _float32(value))
        for name, value in values.items()
    )
    return _tagged(5, _BYTES, b"".join(_tagged(1, _BYTES, part) for part in parts))


def _float32(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    header = length + _FOOTER.pack(masked_crc32c(length))
    return header + content + _FOOTER.pack(masked_crc32c(content))


def _records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each complete record, and its content; a killed process may leave a part of one."""
    at = 0
    while at + _HEADER.size <= len(content):
        length, _ = _HEADER.unpack_from(content, at)
        end = at + _HEADER.size + length + _FOOTER.size
        if end > len(content):
            return
        yield content[at:end], content[at + _HEADER.size : end - _FOOTER.size]
        at = end


def _step_of(event: bytes) -> int:
    """Return the step of an event of this module: its second field."""
    at, step, shift = 10, 0, 0  # after the wall time and the tag of the step
    while at < len(event):
        byte = event[at]
        step |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return step


# ---- files -----------------------------------------------------------------------------------


class EventFile:
    """The event file of a run in a folder; that of an earlier process is continued."""

    def __init__(self, folder: Path) -> None:
        own = sorted(folder.glob(f"events.out.tfevents.*.{_MARK}"))
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{_MARK}"
        self.path = own[-1] if own else folder / name

    def truncate(self, step: int) -> list[tuple[int, bytes]]:
        """Remove the events after a step; return the step and the content of the others.

        The version is written if there are none.
        """
        content = self.path.read_bytes() if self.path.exists() else b""
        kept = [(r, event) for r, event in _records(content) if _step_of(event) <= step]
        if not kept or not step:
            first = _event(0, _tagged(3, _BYTES, b"brain.Event:2"))
            kept = [(_record(first), first)]
        replace(self.path, b"".join(record for record, _ in kept))
        return [(_step_of(event), event) for _, event in kept]

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Append the scalars of a step."""
        append(self.path, _record(_event(step, _scalars(values))))
