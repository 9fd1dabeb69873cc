"""Fingerprints: the meaning of a program and nothing else."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from braces.ir import serde
from braces.ir.fingerprint import canonical_names, fingerprint
from braces.ir.records import ARGUMENT, VALUE, Body, Op, ProgramDef
from braces.ir.text.parser import parse_program
from braces.ir.text.printer import print_program
from braces.ir.walk import map_bodies, rename_body
from tests.ir.generated import in_parts, programs

TEXT = """
program {
  data x: f32[b,8]
  parameter w: f32[8,8] trainable
  state s: f32[8]
  a: f32[b,8] = matmul(x=x, y=w)  # train.py:7
  c: f32[b,8] = add(x=a, y=s) {alpha=1, beta=0.5, kind="fast", dtype=f32, n=size(b)}
  loop_0.final: f32[8], loop_0.rows: f32[b,8] = loop(init=s, sliced=c) captures [w, a]
    body (h: f32[8], row: f32[8]) {
      k: f32[8] = constant() {value=f32[2] [1.0, 2.0]}
      m: f32[8] = matmul(x=h, y=w)
      return m, row
    }
  return a, c
  update w = a
  update s = loop_0.final
}
"""


def of(text: str) -> str:
    return fingerprint(parse_program(text))


def test_the_fingerprint_of_a_program_never_changes() -> None:
    assert of(TEXT) == ("fbac0b39b5a28d601c80c6ae11b1422f4671c7656edc1e49cd84e9434f429d17")


CHANGES = {
    "operator type": ("= add(", "= subtract("),
    "type of a value": ("a: f32[b,8]", "a: f64[b,8]"),
    "size of a value": ("c: f32[b,8]", "c: f32[b,9]"),
    "type of a feed": ("data x: f32[b,8]", "data x: f32[n,8]"),
    "kind": ("state s", "parameter s"),
    "trainable": ("w: f32[8,8] trainable", "w: f32[8,8]"),
    "integer": ("alpha=1", "alpha=2"),
    "integer or float": ("alpha=1", "alpha=1.0"),
    "integer or bool": ("alpha=1", "alpha=true"),
    "integer or tuple": ("alpha=1", "alpha=[1]"),
    "integer or nothing": ("alpha=1", "alpha=none"),
    "float": ("beta=0.5", "beta=0.25"),
    "string": ('"fast"', '"slow"'),
    "string or dtype": ("dtype=f32", 'dtype="f32"'),
    "dtype": ("dtype=f32", "dtype=f64"),
    "size": ("n=size(b)", "n=size(2*b)"),
    "name of an attribute": ("alpha=1", "gamma=1"),
    "one attribute more": ("alpha=1", "alpha=1, more=none"),
    "wiring": ("add(x=a, y=s)", "add(x=s, y=a)"),
    "slot": ("add(x=a, y=s)", "add(x=a, z=s)"),
    "slot of an output": ("c: f32[b,8] = add", "sum=[c: f32[b,8]] = add"),
    "slots swapped": (
        "final: f32[8], loop_0.rows: f32[b,8]",
        "rows: f32[8], loop_0.final: f32[b,8]",
    ),
    "captures": ("captures [w, a]", "captures [a, w]"),
    "array": ("[1.0, 2.0]", "[1.0, 3.0]"),
    "dtype of an array": ("value=f32[2]", "value=f64[2]"),
    "inside a block": ("matmul(x=h, y=w)", "matmul(x=h, y=h)"),
    "what a block reads outside": ("matmul(x=h, y=w)", "matmul(x=h, y=s)"),
    "order of parameters": ("(h: f32[8], row: f32[8])", "(row: f32[8], h: f32[8])"),
    "results of a block": ("return m, row", "return row, m"),
    "order of results": ("return a, c", "return c, a"),
    "fewer results": ("return a, c", "return a"),
    "value of an update": ("update w = a", "update w = c"),
    "target of an update": ("update w = a", "update x = a"),
    "no update": ("update w = a", ""),
    "name of a feed": ("data x:", "data y:"),
    "another feed": ("data x:", "data y: f32[] data x:"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_the_meaning_changes_the_fingerprint(change: str) -> None:
    old, new = CHANGES[change]
    assert TEXT.count(old) == 1
    assert of(TEXT.replace(old, new)) != of(TEXT)


def test_all_changes_differ_from_each_other() -> None:
    assert len({of(TEXT.replace(*change)) for change in CHANGES.values()}) == len(CHANGES)


def test_the_name_of_a_persistable_counts_wherever_it_stands() -> None:
    renamed = TEXT.replace("w:", "v:").replace("y=w", "y=v").replace("[w,", "[v,")
    assert of(renamed.replace("update w", "update v")) != of(TEXT)


def test_negative_zero_and_nan_have_separate_fingerprints() -> None:
    texts = [
        TEXT.replace("beta=0.5", f"beta={one}") for one in ("0.0", "-0.0", "nan", "inf", "-inf")
    ]
    assert len({of(text) for text in texts}) == 5
    assert of(texts[2]) == of(texts[2])


KEPT = {
    "a temporary": [
        ("a: f32", "z: f32"),
        ("x=a,", "x=z,"),
        ("[w, a]", "[w, z]"),
        ("return a", "return z"),
        ("= a\n", "= z\n"),
    ],
    "an argument": [("(h:", "(q:"), ("x=h", "x=q")],
    "an operator": [("n=size(b)}", "n=size(b)} as other")],
    "a source line": [("train.py:7", "test.py:99")],
    "order of slots": [("x=a, y=s", "y=s, x=a")],
    "order of attributes": [("alpha=1, beta=0.5", "beta=0.5, alpha=1")],
    "order of declarations": [
        ("data x: f32[b,8]", ""),
        ("state", "data x: f32[b,8] state"),
    ],
    "order of updates": [("update w = a\n", ""), ("final\n}", "final update w = a\n}")],
    "a name that shadows": [("k:", "a:")],
}


@pytest.mark.parametrize("change", KEPT)
def test_whatever_does_not_change_the_meaning_keeps_the_fingerprint(change: str) -> None:
    text = TEXT
    for old, new in KEPT[change]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    assert print_program(parse_program(text)) != print_program(parse_program(TEXT))
    assert of(text) == of(TEXT)


def renamed(body: Body, chance: random.Random) -> Body:
    """A block with other names for all operators, values and arguments, inside too."""
    inside = [map_bodies(op, lambda sub: renamed(sub, chance)) for op in body.ops]
    bound = [*body.params, *(name for op in body.ops for name in op.binds())]
    mine = {n: f"r{chance.getrandbits(60)}" for n in bound if _temporary(body, n)}
    ops = tuple(_shuffled(op, chance) for op in inside)
    return rename_body(Body(body.params, body.results, _mixed(body.vars, chance), ops), mine)


def _temporary(body: Body, name: str) -> bool:
    return name not in body.vars or body.vars[name].kind in (VALUE, ARGUMENT)


def _shuffled(op: Op, chance: random.Random) -> Op:
    inputs, outputs = _mixed(op.inputs, chance), _mixed(op.outputs, chance)
    return Op(op.type, f"r{chance.getrandbits(60)}", inputs, outputs, _mixed(op.attrs, chance))


def _mixed(given: Any, chance: random.Random) -> dict[str, Any]:
    items = list(given.items())
    chance.shuffle(items)
    return dict(items)


@in_parts
@given(programs, st.integers(0, 2**32))
def test_names_and_orders_of_dictionaries_never_count(
    part: int, program: ProgramDef, seed: int
) -> None:
    chance = random.Random(seed)
    main = renamed(program.main, chance)
    names = canonical_names(program)
    back = {
        canonical: name for name, canonical in canonical_names(ProgramDef(main, {})).items()
    }
    updates = {
        target: back[names[value]] if value in names else value
        for target, value in program.updates.items()
    }
    assert fingerprint(ProgramDef(main, _mixed(updates, chance))) == fingerprint(program)


@in_parts
@given(programs)
def test_neither_bytes_nor_text_change_the_fingerprint(part: int, program: ProgramDef) -> None:
    read, _ = serde.program_from_bytes(serde.program_to_bytes(program, None))
    assert (
        fingerprint(read)
        == fingerprint(parse_program(print_program(program)))
        == fingerprint(program)
    )


def test_canonical_names_follow_the_meaning() -> None:
    names = canonical_names(parse_program(TEXT))
    kept = {"x": "x", "w": "w", "s": "s"}
    assert names == kept | {"a": "%0", "c": "%1", "loop_0.final": "%2", "loop_0.rows": "%3"}


def test_a_nan_is_a_nan() -> None:
    op = Op("f", "f", {}, {}, {"a": math.nan})
    other = op.with_(attrs={"a": -math.nan})
    programs = [ProgramDef(Body((), (), {}, (one,)), {}) for one in (op, other)]
    assert len({fingerprint(one) for one in programs}) == 1
