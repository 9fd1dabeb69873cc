"""Random programs for property tests: nested blocks, all kinds of attributes, odd values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings, strategies as st

from braces.extend.types import SHORT_NAMES, Dim, ListType, TensorType, parse_size
from braces.ir.records import (
    ARGUMENT,
    CAPTURES,
    VALUE,
    VARIABLE_KINDS,
    Attr,
    Body,
    Literal,
    Op,
    ProgramDef,
    Source,
    VarInfo,
)
from braces.ir.text.printer import derived_name

EXAMPLES = settings(
    max_examples=25,
    derandomize=False,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def in_parts(test: Callable[..., None]) -> Callable[..., None]:
    """Run a property test on 100 examples in four parts, of which `make check` runs one."""
    return pytest.mark.parametrize("part", range(4))(EXAMPLES(test))


WORDS = (
    "x", "w", "tanh_0", "loop_0.h", "loop_0.rows.0", "loop_0.rows.1", "a.out", "b.0", "fc1.w@2",
    "data", "return", "update", "do", "as", "captures", "trainable", "state", "none", "true",
    "inf", "nan", "f32", "size", "body", "program", "adam/mu/fc1-w", "@grad", "größe",
)  # fmt: skip
SIZES = ("b", "2*b + 1", "floordiv(b, 2)", "max(max(a, b), 2*c)", "b^2 - b*c", "?0", "-b + 3")

names = st.sampled_from(WORDS) | st.from_regex(
    r"[A-Za-z_@][A-Za-z0-9_.@/-]{0,6}", fullmatch=True
)
dtypes = st.sampled_from(list(SHORT_NAMES.values()))
dims = st.sampled_from(SIZES).map(parse_size).filter(lambda size: isinstance(size, Dim))
tensors = st.builds(
    TensorType, dtypes, st.lists(st.integers(0, 2**63 - 1) | dims, max_size=3).map(tuple)
)
types = tensors | tensors.map(ListType)
name_tuples = st.lists(names, max_size=3).map(tuple)
sources = st.none() | st.builds(
    Source,
    st.sampled_from(["train.py", "my models/rnn.py", 'a"b.py', "<stdin>", ""]),
    st.integers(0, 9999),
)


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    """Array constants of any bits: NaNs of all kinds, infinities, negative zeros."""
    dtype = draw(dtypes)
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    count = math.prod(shape) * dtype.itemsize
    if dtype.kind == "b":
        return Literal(
            dtype, shape, bytes(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
        )
    if draw(st.booleans()):
        return Literal(dtype, shape, draw(st.binary(min_size=count, max_size=count)))
    small = np.array(
        draw(st.lists(st.integers(0, 99), min_size=math.prod(shape), max_size=math.prod(shape)))
    )
    return Literal(dtype, shape, (small / 8).astype(dtype).tobytes())


plain_attrs = st.one_of(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1),
    st.floats() | st.text(max_size=8),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, 5e-324, 1e16, "size(b)", '"\\\n#']),
    dtypes | dims | literals(),
)


def _capturing_once(slots: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Captures that are named once each, as all code that renames leaves them."""
    return {s: tuple(dict.fromkeys(n)) if s == CAPTURES else n for s, n in slots.items()}


# Fields that the schema lacks: texts, integers, fixed sizes, a group, several at once.
unknowns = st.sampled_from(
    [b""] * 3
    + [b"\xa2\x06\3abc", b"\xa8\x06\7\xa2\x06\0", b"\xb5\x06\1\2\3\4\xab\x06\x08\1\xac\x06"]
)
labels = st.sampled_from(["body", "cases", "captures", "program", "as", "update", "f32"])
slots = st.dictionaries(
    st.sampled_from(["out", "x", "captures", "rows"]), name_tuples, max_size=3
).map(_capturing_once)
kinds = st.sampled_from(VARIABLE_KINDS)


@st.composite
def declarations(draw: st.DrawFn, name: str, kind: str, trainable: bool = False) -> VarInfo:
    """A variable of any type, whose axes may have names where their sizes are numbers."""
    type_ = draw(types)
    shape = type_.shape if isinstance(type_, TensorType) else ()
    called = st.none() | st.sampled_from(["mlp", "embed", "f32", "a.b", "list"])
    axes = tuple(draw(called) if isinstance(size, int) else None for size in shape)
    return VarInfo(name, type_, kind, trainable, axes if any(axes) else (), draw(unknowns))


infos = st.tuples(names, st.sampled_from(VARIABLE_KINDS), st.booleans()).flatmap(
    lambda said: declarations(*said)
)


tuples = st.recursive(
    plain_attrs, lambda one: st.lists(one, max_size=2).map(tuple), max_leaves=3
)


@st.composite
def attrs(draw: st.DrawFn, depth: int) -> Attr:
    """An attribute: a plain value, tuples of such, a block, or a tuple with blocks in it."""
    kind = draw(st.sampled_from(["plain", "tuple", "block"] if depth else ["plain"]))
    if kind == "plain":
        return draw(tuples)
    if kind == "block":
        return draw(bodies(depth - 1))
    return tuple(draw(st.lists(bodies(depth - 1) | tuples, max_size=3)))


@st.composite
def ops(draw: st.DrawFn, depth: int) -> Op:
    """An operator; what it reads and binds need not exist."""
    values = draw(st.dictionaries(labels | names, attrs(depth), max_size=2))
    bound = draw(slots)
    name = draw(names | st.just(derived_name(bound) or "op_0"))
    return Op(draw(names), name, draw(slots), bound, values, draw(sources), draw(unknowns))


@st.composite
def bodies(draw: st.DrawFn, depth: int = 3) -> Body:
    """A block; declarations, operators and references need not fit together."""
    inside = draw(st.lists(ops(depth), max_size=2, unique_by=lambda op: op.name))
    params, results = draw(name_tuples), draw(name_tuples)
    declared = {info.name: info for info in draw(st.lists(infos, max_size=2))}
    bound = [name for op in inside for name in op.binds()]
    kinds = dict.fromkeys(params, ARGUMENT) | dict.fromkeys(bound, VALUE)
    typed = draw(st.lists(st.sampled_from(list(kinds)), unique=True)) if kinds else []
    declared |= {name: draw(declarations(name, kinds[name])) for name in typed}
    return Body(params, results, declared, tuple(inside), draw(unknowns))


programs = st.builds(ProgramDef, bodies(), st.dictionaries(names, names, max_size=3), unknowns)


def exact(value: Any) -> Any:
    """What tells any two values, operators, blocks or programs apart, to types and bits."""
    match value:
        case float():
            return "float", "nan" if math.isnan(value) else struct.pack("<d", value)
        case Op():
            return (
                "op",
                value.type,
                value.name,
                _items(value.inputs),
                _items(value.outputs),
                {name: exact(one) for name, one in value.attrs.items()},
                value.source,
                value.unknown,
            )
        case Body():
            return (
                "body",
                value.params,
                value.results,
                {name: (info, info.unknown) for name, info in value.vars.items()},
                tuple(map(exact, value.ops)),
                value.unknown,
            )
        case ProgramDef():
            return "program", exact(value.main), _items(value.updates), value.unknown
        case tuple():
            return "tuple", tuple(map(exact, value))
        case Literal(dtype, shape, data):
            return "literal", dtype, shape, data
        case _:
            return type(value).__name__, value


def _items(mapping: Any) -> tuple[Any, ...]:
    return tuple(mapping.items())
