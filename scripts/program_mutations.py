"""Mutations of programs with a valid encoding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from braces.define.decorator import OPS
from braces.dims import Dim, parse_size
from braces.dtypes import SHORT_NAMES, ListType, TensorType, Type
from braces.errors import BracesError
from braces.ir import serde
from braces.ir.records import VARIABLE_KINDS, Attr, Body, Literal, Op, ProgramDef, VarInfo
from mutations import NUMBERS, flip_bits, mutate_fields

TYPES = ("tanh" + ".vjp" * 40, "add" + ".vjp" * 49, "add.jvp" + ".vjp.jvp" * 20, "loop.vjp",
         "__import__", "tanh..vjp", ".vjp", "eval")  # fmt: skip


def mutate_program(rng: Random, data: bytes) -> bytes:
    """A changed program with a valid encoding."""
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
        changed[rng.choice(("axis", "body", "cases", "index", "value", "odd"))] = odd_value(
            rng, 0
        )
    return changed


def odd_value(rng: Random, value: Attr) -> Attr:
    """Another value of an attribute, often of the same kind."""
    same: list[Attr] = [rng.choice(NUMBERS[:-2]), -rng.choice(NUMBERS[:-3])]
    if isinstance(value, bool):
        same = [not value]
    elif isinstance(value, float):
        same = [0.0, -1.0, 1e308, float("nan"), float("inf")]
    elif isinstance(value, str):
        same = [
            "",
            "a" * 1000,
            "ij,jk->ik->",
            "...",
            "a" * 60 + "->",
            "?",
            ":",
            "new",
            value * 3,
        ]
    elif isinstance(value, tuple) and not _owns(value):
        same = [
            (),
            (*value, *value),
            value[:-1],
            value * 40,
            tuple(odd_value(rng, v) for v in value),
        ]
    elif isinstance(value, Dim):
        same = list(
            map(parse_size, ("b", "b^16", "max(b, 2)", "floordiv(b, 3)", "?7", "-b + 1"))
        )
    elif isinstance(value, Literal):
        same = [Literal(value.dtype, (0,), b""), Literal(SHORT_NAMES["u8"], (2,), b"\1\2")]
    others: list[Attr] = [
        None,
        True,
        0,
        -1,
        2**62,
        0.5,
        "",
        "x",
        (),
        (1, 2),
        (-1,),
        (2**62, 2**62),
        ((1,),),
        SHORT_NAMES[rng.choice(list(SHORT_NAMES))],
    ]
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
            kind, trainable = rng.choice(VARIABLE_KINDS), rng.random() < 0.5
            infos[name] = info.with_(kind=kind, trainable=trainable)
        case _:
            infos[name] = info.with_(type=odd_type(rng, info.type), axes=odd_axes(rng, info))
    return Body(body.params, body.results, infos, body.ops)


def odd_axes(rng: Random, info: VarInfo) -> tuple[str | None, ...]:
    """The names of axes, or other names."""
    odd = (info.axes, (), ("mlp",), (None, "mlp"), ("", "a\nb", "x" * 300))
    return rng.choice(odd)


def odd_type(rng: Random, given: Type) -> Type:
    """Another type."""
    element = given.element if isinstance(given, ListType) else given
    shape = list(element.shape)
    match rng.randrange(5):
        case 0:
            element = TensorType(SHORT_NAMES[rng.choice(list(SHORT_NAMES))], element.shape)
        case 1:
            element = TensorType(
                element.dtype, (*shape, rng.choice((0, 1, 5, 2**62, Dim.named("b"))))
            )
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


def mutate_programs_inside(rng: Random, data: bytes) -> bytes:
    """A model with a valid header and invalid programs."""
    length = int.from_bytes(data[:8], "little")
    header, content = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = rng.choice([name for name in header if name.startswith("__braces__/")])
    start, stop = header[name]["data_offsets"]
    program = rng.choice((mutate_fields, mutate_program, flip_bits))(rng, content[start:stop])
    longer = len(program) - (stop - start)
    for entry in (e for n, e in header.items() if n != "__metadata__"):
        entry["data_offsets"] = [
            at + longer if at >= stop else at for at in entry["data_offsets"]
        ]
    header[name] |= {"shape": [len(program)], "data_offsets": [start, start + len(program)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[:start] + program + content[stop:]
