"""Ways to damage files: bytes, protobuf fields, safetensors headers, and text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
NAMES = (
    "",
    "x",
    "a\nb",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "a" * 201,
    "a" * 70_000,
    "größe",
    "x\0y",
    "\u202ex",
    "body",
    "captures",
    "x.vjp",
    "__braces__/predict",
    "__braces__",
    "-",
    "?0",
    "C:\\x",
    "${HOME}",
    "%s%n",
    "{0.__class__}",
)


# ---- bytes -----------------------------------------------------------------------------------


def flip_bits(rng: Random, data: bytes) -> bytes:
    """A few bits of a few bytes."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def set_bytes(rng: Random, data: bytes) -> bytes:
    """A few bytes with special values."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] = rng.choice(
            (0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256))
        )
    return bytes(damaged)


def cut(rng: Random, data: bytes) -> bytes:
    """The beginning, or the end."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.7 else data[at:]


def move_slice(rng: Random, data: bytes) -> bytes:
    """A slice removed, duplicated, or moved."""
    a, b, at = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return rng.choice(
        (data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:at] + data[a:b])
    )


def insert(rng: Random, data: bytes) -> bytes:
    """Inserted bytes."""
    at = rng.randrange(len(data) + 1)
    more = rng.choice((rng.randbytes(rng.choice((1, 4, 64))), b"\xff" * 10, b"\0" * 64))
    return data[:at] + more + data[at:]


BYTES: Sequence[Mutation] = (flip_bits, set_bytes, cut, move_slice, insert)


# ---- protobuf, whatever the schema -----------------------------------------------------------

Field = tuple[int, int, Any]
"""Number, wire type, and what is stored: a number, or bytes."""


def fields_of(data: bytes) -> list[Field] | None:
    """The fields of a message; `None` if the bytes are not a message."""
    found, at = list[Field](), 0
    while at < len(data):
        try:
            tag, at = _varint(data, at)
            number, kind = tag >> 3, tag & 7
            if kind == 0:
                value, at = _varint(data, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                value, at = data[at : at + size], at + size
            elif kind == 2:
                size, at = _varint(data, at)
                value, at = data[at : at + size], at + size
            else:
                return None
        except IndexError:
            return None
        if at > len(data) or not number:
            return None
        found.append((number, kind, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 70:
            raise IndexError


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def message_of(fields: Sequence[Field]) -> bytes:
    """The bytes of a message."""
    parts = list[bytes]()
    for number, kind, value in fields:
        parts.append(_encoded(number << 3 | kind))
        parts.append(
            _encoded(value)
            if kind == 0
            else value
            if kind != 2
            else _encoded(len(value)) + value
        )
    return b"".join(parts)


def mutate_fields(rng: Random, data: bytes, depth: int = 0) -> bytes:
    """One changed field of a message, at any depth, with a valid encoding."""
    fields = fields_of(data)
    if not fields:
        return rng.choice(NAMES).encode() if depth else flip_bits(rng, data or b"\0")
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    if kind == 2 and rng.random() < 0.85:
        fields[at] = (number, kind, _mutate_content(rng, value, depth))
    elif kind == 0 and rng.random() < 0.6:
        fields[at] = (number, kind, rng.choice(NUMBERS))
    else:
        _shuffle(rng, fields, at)
    return message_of(fields)


def _mutate_content(rng: Random, value: bytes, depth: int) -> bytes:
    inner = fields_of(value)
    if inner and depth < 40 and rng.random() < 0.93:
        return mutate_fields(rng, value, depth + 1)
    if inner and rng.random() < 0.3:
        return _nested(rng, value)
    return rng.choice(
        (rng.choice(NAMES).encode(), value[: len(value) // 2], value * 2, b"\xff\xfe")
    )


def _nested(rng: Random, value: bytes) -> bytes:
    """A message within copies of itself."""
    wrapped = value
    for _ in range(rng.choice((2, 20, 60, 200))):
        fields = [f for f in fields_of(value) or [] if f[1] == 2]
        number = rng.choice(fields)[0] if fields else 1
        wrapped = message_of([(number, 2, wrapped)])
        if len(wrapped) > 1 << 18:
            break
    return wrapped


def _shuffle(rng: Random, fields: list[Field], at: int) -> None:
    number, kind, value = fields[at]
    match rng.randrange(5):
        case 0:
            del fields[at]
        case 1:
            fields.insert(rng.randrange(len(fields) + 1), fields[at])
        case 2:
            other = rng.randrange(len(fields))
            fields[at], fields[other] = fields[other], fields[at]
        case 3:
            fields[at] = (rng.choice((number % 12 + 1, 2**29 - 1, 1000)), kind, value)
        case _:
            fields[at:at] = [fields[at]] * rng.choice((2, 30))


# ---- text ------------------------------------------------------------------------------------

_WORDS = re.compile(r"[\w.@/]+|\s+|[^\w\s]")
_ODD = (
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    ":",
    "#",
    '"',
    "\\",
    "\0",
    "-inf",
    "nan",
    "9" * 500,
    "1e999",
    "f32[b,4]",
    "list<f32[4]>",
    "size(b^99)",
    "size(((((b)))))",
    "[" * 300,
    "{" * 300,
    "block {",
    "captures [x]",
    "# ../../x.py:3",
    "\u2028",
    "as",
    "do",
    '"\\ud800"',
    "f32[" + "(" * 50,
    "u8[9999999999]",
    "f32[2] [1.0, 2.0, 3.0]",
    "body () {",
    "update x = y",
)


def mutate_words(rng: Random, data: bytes) -> bytes:
    """Words of a text removed, duplicated, swapped or replaced."""
    words = _WORDS.findall(data.decode(errors="replace"))
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, other = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                words[at] = ""
            case 1:
                words[at] *= 2
            case 2:
                words[at], words[other] = words[other], words[at]
            case 3:
                words[at] = rng.choice(_ODD)
            case _:
                words[at] = words[other]
    return "".join(words).encode(errors="replace")


# ---- safetensors -----------------------------------------------------------------------------


def mutate_header(rng: Random, data: bytes) -> bytes:
    """Another header before the same data."""
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    if rng.random() < 0.3:
        _mutate_record(rng, header["__metadata__"])
    else:
        _mutate_json(rng, header)
    text = json.dumps(header).encode()
    if rng.random() < 0.1:
        text = text.replace(b"{", b'{"x": ' + b"[" * rng.choice((5, 5000)), 1)
    stated = len(text) if rng.random() < 0.9 else rng.choice(NUMBERS)
    return (stated % 2**64).to_bytes(8, "little") + text + rest


def _mutate_record(rng: Random, metadata: Any) -> None:
    record = json.loads(metadata["braces"])
    _mutate_json(rng, record)
    metadata["braces"] = json.dumps(record)


def _mutate_json(rng: Random, value: Any) -> None:
    """One place of a value, at any depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if not isinstance(value[key], dict | list) or rng.random() < 0.2:
            break
        value = value[key]
    match rng.randrange(4):
        case 0:
            del value[key]
        case 1 if isinstance(value, dict):
            value[rng.choice(NAMES)] = value.pop(key)
        case 2:
            value[key] = value[rng.choice(keys)]
        case _:
            value[key] = rng.choice(
                (
                    *NUMBERS,
                    -1,
                    0.5,
                    None,
                    True,
                    "",
                    "x",
                    [],
                    {},
                    [2**62, 2**62],
                    [0, 0],
                    [-1, 4],
                    "F32",
                    "C128",
                    "../x",
                    ["w"],
                    [[1]] * 9,
                )
            )
