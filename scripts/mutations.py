"""Ways to damage files: bytes, protobuf fields, safetensors headers, programs, and their text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from braces.dims import Dim, parse_size
from braces.dtypes import SHORT_NAMES, ListType, TensorType, Type
from braces.errors import BracesError
from braces.ir import serde
from braces.ir.records import KINDS, Attr, Body, Literal, Op, ProgramDef, VarInfo
from braces.ops.define import OPS

Mutation = Callable[[Random, bytes], bytes]

NUMBERS = (0, 1, 2, 3, 7, 127, 128, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62,
           2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
NAMES = ("", "x", "a\nb", "../../etc/passwd", "/etc/passwd", "..", "a" * 201, "a" * 70_000, "größe",
         "x\0y", "\u202ex", "body", "captures", "x.vjp", "__braces__/predict", "__braces__", "-",
         "?0", "C:\\x", "${HOME}", "%s%n", "{0.__class__}")  # fmt: skip
TYPES = ("tanh" + ".vjp" * 40, "add" + ".vjp" * 49, "add.jvp" + ".vjp.jvp" * 20, "loop.vjp",
         "__import__", "tanh..vjp", ".vjp", "eval")  # fmt: skip


# ---- bytes -----------------------------------------------------------------------------------


def flip_bits(rng: Random, data: bytes) -> bytes:
    """A few bits of a few bytes."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def set_bytes(rng: Random, data: bytes) -> bytes:
    """A few bytes that mean much."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(damaged)


def cut(rng: Random, data: bytes) -> bytes:
    """The beginning, or the end."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.7 else data[at:]


def move_slice(rng: Random, data: bytes) -> bytes:
    """A slice removed, doubled, or put elsewhere."""
    a, b, at = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return rng.choice((data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:at] + data[a:b]))


def insert(rng: Random, data: bytes) -> bytes:
    """Bytes that were not there."""
    at = rng.randrange(len(data) + 1)
    more = rng.choice((rng.randbytes(rng.choice((1, 4, 64))), b"\xff" * 10, b"\0" * 64))
    return data[:at] + more + data[at:]


BYTES: Sequence[Mutation] = (flip_bits, set_bytes, cut, move_slice, insert)


# ---- protobuf, whatever the schema -----------------------------------------------------------

Field = tuple[int, int, Any]
"""Number, wire type, and what is stored: a number, or bytes."""


def fields_of(data: bytes) -> list[Field] | None:
    """The fields of a message; `None` where these bytes are none."""
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
        parts.append(_encoded(value) if kind == 0 else value if kind != 2 else _encoded(len(value)) + value)
    return b"".join(parts)


def mutate_fields(rng: Random, data: bytes, depth: int = 0) -> bytes:
    """One field of a message, at any depth, changed in a way that stays well encoded."""
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
    return rng.choice((rng.choice(NAMES).encode(), value[: len(value) // 2], value * 2, b"\xff\xfe"))


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


# ---- programs --------------------------------------------------------------------------------


def mutate_program(rng: Random, data: bytes) -> bytes:
    """A program that is well encoded and says something else."""
    main, startup = serde.program_from_bytes(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        main = ProgramDef(_mutate_body(rng, main.main), _mutate_updates(rng, main))
    try:
        return serde.program_to_bytes(main, startup)
    except (BracesError, ValueError):
        return data


def _mutate_updates(rng: Random, program: ProgramDef) -> dict[str, str]:
    updates = dict(program.updates)
    if rng.random() < 0.05 and program.main.vars:
        names = [*program.main.vars, "nothing"]
        updates[rng.choice(names)] = rng.choice(names)
    return updates


def _mutate_body(rng: Random, body: Body) -> Body:
    owners = [i for i, op in enumerate(body.ops) if op.bodies()]
    if owners and rng.random() < 0.5:
        at = rng.choice(owners)
        ops = list(body.ops)
        ops[at] = _mutate_inside(rng, ops[at])
        return Body(body.params, body.results, body.vars, tuple(ops))
    choices = (_mutate_ops, _mutate_op, _mutate_op, _mutate_op, _mutate_vars, _mutate_ends)
    return rng.choice(choices)(rng, body)


def _mutate_inside(rng: Random, op: Op) -> Op:
    attrs = dict(op.attrs)
    name = rng.choice([n for n, v in attrs.items() if _owns(v)])
    value = attrs[name]
    if isinstance(value, Body):
        attrs[name] = _mutate_body(rng, value)
    elif isinstance(value, tuple):
        at = rng.randrange(len(value))
        one = value[at]
        changed = _mutate_body(rng, one) if isinstance(one, Body) else one
        attrs[name] = (*value[:at], changed, *value[at + rng.choice((1, 1, 1, 0)) :])
    return op.with_(attrs=attrs)


def _owns(value: Attr) -> bool:
    return isinstance(value, Body) or (isinstance(value, tuple) and any(map(_owns, value)))


def _mutate_ops(rng: Random, body: Body) -> Body:
    ops = list(body.ops)
    if ops:
        at, other = rng.randrange(len(ops)), rng.randrange(len(ops))
        match rng.randrange(3):
            case 0:
                del ops[at]
            case 1:
                ops[at], ops[other] = ops[other], ops[at]
            case _:
                ops.insert(other, ops[at].with_(name=f"copy_{rng.randrange(99)}"))
    return Body(body.params, body.results, body.vars, tuple(ops))


def _mutate_op(rng: Random, body: Body) -> Body:
    if not body.ops:
        return body
    ops, at = list(body.ops), rng.randrange(len(body.ops))
    op, names = ops[at], [*body.vars, "nothing"]
    match rng.randrange(5):
        case 0:
            op = op.with_(type=rng.choice((*OPS.definitions, *TYPES, op.type + ".vjp")))
        case 1:
            op = op.with_(inputs=_mutate_slots(rng, op.inputs, names))
        case 2:
            op = op.with_(outputs=_mutate_slots(rng, op.outputs, names))
        case _:
            op = op.with_(attrs=_mutate_attrs(rng, op.attrs))
    ops[at] = op
    return Body(body.params, body.results, body.vars, tuple(ops))


def _mutate_slots(rng: Random, slots: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    changed = dict(slots)
    if not changed or rng.random() < 0.15:
        changed[rng.choice(("x", "out", "captures", "rows", "stacked"))] = (rng.choice(names),)
        return changed
    slot = rng.choice(list(changed))
    given = list(changed[slot])
    match rng.randrange(4):
        case 0:
            del changed[slot]
        case 1:
            changed[slot] = (*given, rng.choice(names))
        case 2:
            changed[slot] = tuple(given[:-1])
        case _:
            if given:
                given[rng.randrange(len(given))] = rng.choice(names)
            changed[slot] = tuple(given)
    return changed


def _mutate_attrs(rng: Random, attrs: Any) -> dict[str, Attr]:
    changed = dict(attrs)
    if changed and rng.random() < 0.85:
        name = rng.choice(list(changed))
        if rng.random() < 0.1:
            del changed[name]
        else:
            changed[name] = odd_value(rng, changed[name])
    else:
        changed[rng.choice(("axis", "body", "cases", "index", "value", "odd"))] = odd_value(rng, 0)
    return changed


def odd_value(rng: Random, value: Attr) -> Attr:
    """Another value of an attribute, often of the same kind."""
    same: list[Attr] = [rng.choice(NUMBERS[:-2]), -rng.choice(NUMBERS[:-3])]
    if isinstance(value, bool):
        same = [not value]
    elif isinstance(value, float):
        same = [0.0, -1.0, 1e308, float("nan"), float("inf")]
    elif isinstance(value, str):
        same = ["", "a" * 1000, "ij,jk->ik->", "...", "a" * 60 + "->", "?", ":", "new", value * 3]
    elif isinstance(value, tuple) and not _owns(value):
        same = [(), (*value, *value), value[:-1], value * 40, tuple(odd_value(rng, v) for v in value)]
    elif isinstance(value, Dim):
        same = list(map(parse_size, ("b", "b^16", "max(b, 2)", "floordiv(b, 3)", "?7", "-b + 1")))
    elif isinstance(value, Literal):
        same = [Literal(value.dtype, (0,), b""), Literal(SHORT_NAMES["u8"], (2,), b"\1\2")]
    others: list[Attr] = [None, True, 0, -1, 2**62, 0.5, "", "x", (), (1, 2), (-1,), (2**62, 2**62), ((1,),),
                          SHORT_NAMES[rng.choice(list(SHORT_NAMES))]]  # fmt: skip
    return rng.choice(same if rng.random() < 0.7 else others)


def _mutate_vars(rng: Random, body: Body) -> Body:
    if not body.vars:
        return body
    infos = dict(body.vars)
    name = rng.choice(list(infos))
    info = infos[name]
    match rng.randrange(4):
        case 0:
            del infos[name]
        case 1:
            infos[name] = VarInfo(name, info.type, rng.choice(KINDS), rng.random() < 0.5)
        case _:
            infos[name] = VarInfo(name, odd_type(rng, info.type), info.kind, info.trainable)
    return Body(body.params, body.results, infos, body.ops)


def odd_type(rng: Random, given: Type) -> Type:
    """Another type."""
    element = given.element if isinstance(given, ListType) else given
    shape = list(element.shape)
    match rng.randrange(5):
        case 0:
            element = TensorType(SHORT_NAMES[rng.choice(list(SHORT_NAMES))], element.shape)
        case 1:
            element = TensorType(element.dtype, (*shape, rng.choice((0, 1, 5, 2**62, Dim.named("b")))))
        case 2:
            element = TensorType(element.dtype, tuple(shape[1:]))
        case 3 if shape:
            shape[rng.randrange(len(shape))] = rng.choice((0, 3, 2**63 - 1, Dim.named("?9")))
            element = TensorType(element.dtype, tuple(shape))
        case _:
            return ListType(element) if not isinstance(given, ListType) else element
    return ListType(element) if isinstance(given, ListType) else element


def _mutate_ends(rng: Random, body: Body) -> Body:
    params, results, names = list(body.params), list(body.results), [*body.vars, "nothing"]
    ends = rng.choice((params, results))
    match rng.randrange(3):
        case 0 if ends:
            del ends[rng.randrange(len(ends))]
        case 1 if len(ends) > 1:
            rng.shuffle(ends)
        case _:
            ends.append(rng.choice(names))
    return Body(tuple(params), tuple(results), body.vars, body.ops)


# ---- text ------------------------------------------------------------------------------------

_WORDS = re.compile(r"[\w.@/]+|\s+|[^\w\s]")
_ODD = ("{", "}", "(", ")", "[", "]", ",", "=", ":", "#", '"', "\\", "\0", "-inf", "nan", "9" * 500,
        "1e999", "f32[b,4]", "list<f32[4]>", "size(b^99)", "size(((((b)))))", "[" * 300, "{" * 300,
        "block {", "captures [x]", "# ../../x.py:3", "\u2028", "as", "do", '"\\ud800"', "f32[" + "(" * 50,
        "u8[9999999999]", "f32[2] [1.0, 2.0, 3.0]", "body () {", "update x = y")  # fmt: skip


def mutate_words(rng: Random, data: bytes) -> bytes:
    """Words of a text removed, doubled, swapped or replaced."""
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
            value[key] = rng.choice((*NUMBERS, -1, 0.5, None, True, "", "x", [], {}, [2**62, 2**62], [0, 0],
                                     [-1, 4], "F32", "C128", "../x", ["w"], [[1]] * 9))  # fmt: skip


def mutate_programs_inside(rng: Random, data: bytes) -> bytes:
    """A model whose header is good and whose programs are not."""
    length = int.from_bytes(data[:8], "little")
    header, content = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = rng.choice([name for name in header if name.startswith("__braces__/")])
    start, stop = header[name]["data_offsets"]
    program = rng.choice((mutate_fields, mutate_program, flip_bits))(rng, content[start:stop])
    longer = len(program) - (stop - start)
    for entry in (e for n, e in header.items() if n != "__metadata__"):
        entry["data_offsets"] = [at + longer if at >= stop else at for at in entry["data_offsets"]]
    header[name] |= {"shape": [len(program)], "data_offsets": [start, start + len(program)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[:start] + program + content[stop:]
