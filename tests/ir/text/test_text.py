"""Programs as text."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from braces import Program
from braces.errors import FileFormatError, ParseError, ProgramError
from braces.extend.types import FLOAT32, SHORT_NAMES, Dim, TensorType
from braces.ir.limits import DEEPEST_NESTING
from braces.ir.records import Attr, Body, Literal, Op, Source, VarInfo
from braces.ir.text.parser import parse_body, parse_program
from braces.ir.text.printer import derived_name, derived_outputs, print_body, print_program
from tests.ir.generated import bodies, exact, in_parts, literals, programs

GOLDEN = """\
program {
  data x: f32[batch,t,8]
  data lengths: i32[batch]
  parameter w: f32[8,32] trainable
  parameter u: f32[32,32]
  state random_state: u32[2]
  constant_0: f32[] = constant() {value=f32[] 0.1}
  h0: f32[batch,32] = full(like=x) {shape=[size(batch), 32], dtype=f32}  # train.py:12
  loop_0.final: f32[batch,32], loop_0.rows: f32[t,batch,32] = loop(init=h0, sliced=x) \
{axes=[1], count=none, reverse=false} captures [w, u]  # models/rnn.py:31
    body (t_0: i64[], h: f32[batch,32], row: f32[batch,8]) {
      matmul_0: f32[batch,32] = matmul(x=row, y=w)  # models/rnn.py:33
      matmul_1: f32[batch,32] = matmul(x=h, y=u)  # models/rnn.py:33
      act: f32[batch,32] = tanh(x=matmul_1) as tanh_0  # "my models/cell.py":7
      return act, act
    }
  switch_0: f32[] = switch(index=constant_0) captures [constant_0]
    cases [
      () {
        return constant_0
      },
      () {
        negative_0: f32[] = negative(x=constant_0)
        return negative_0
      },
    ]
  x_grad=[tanh_vjp_0: f32[batch,32]] = tanh.vjp(out=loop_0.final, out_grad=h0)
  split_0.0: f32[batch], split_0.1: f32[batch] = split(x=x) {axis=-1}
  list_0: list<f32[2*batch + 1]> = list(items=[split_0.0, split_0.1], more=[])
  do check(x=split_0.0) {message="no \\"NaN\\"\\n"} as check_0
  update w = loop_0.final
  update random_state = random_1
}
"""


def test_the_text_of_a_program_is_golden() -> None:
    program = parse_program(GOLDEN)
    assert print_program(program) == GOLDEN
    assert str(Program(program)) == GOLDEN


def test_a_golden_program_reads_into_these_records() -> None:
    program = parse_program(GOLDEN)
    main = program.main
    loop = main.ops[2]
    assert list(main.vars)[:5] == ["x", "lengths", "w", "u", "random_state"]
    assert main.vars["w"] == VarInfo("w", TensorType(FLOAT32, (8, 32)), "parameter", True)
    assert (loop.type, loop.name, loop.source) == (
        "loop",
        "loop_0",
        Source("models/rnn.py", 31),
    )
    assert loop.inputs == {"init": ("h0",), "sliced": ("x",), "captures": ("w", "u")}
    assert loop.outputs == {"final": ("loop_0.final",), "rows": ("loop_0.rows",)}
    body = loop.bodies()["body"]
    assert body.params == ("t_0", "h", "row")
    assert body.results == ("act", "act")
    assert body.vars["h"].kind == "argument"
    assert [(op.name, op.source) for op in body.ops][2] == (
        "tanh_0",
        Source("my models/cell.py", 7),
    )
    assert list(main.ops[3].bodies()) == ["cases[0]", "cases[1]"]
    assert main.ops[4].outputs == {"x_grad": ("tanh_vjp_0",)}
    assert main.ops[5].outputs == {"out": ("split_0.0", "split_0.1")}
    assert main.ops[6].inputs == {"items": ("split_0.0", "split_0.1"), "more": ()}
    assert (main.ops[7].outputs, main.ops[7].name) == ({}, "check_0")
    assert list(program.updates.items()) == [
        ("w", "loop_0.final"),
        ("random_state", "random_1"),
    ]


# ---- round trips -----------------------------------------------------------------------------


@in_parts
@given(programs)
def test_text_reads_back_as_the_same_records(part: int, program: Any) -> None:
    text = print_program(program)
    again = parse_program(text)
    assert exact(again) == exact(program)
    assert print_program(again) == text


@in_parts
@given(bodies())
def test_the_text_of_a_block_reads_back(part: int, body: Body) -> None:
    assert exact(parse_body(print_body(body))) == exact(body)


def owner(value: Attr) -> Body:
    """A block with one operator that has this attribute."""
    return Body((), (), {}, (Op("test", "test_0", {}, {}, {"value": value}),))


def shown(value: Attr) -> str:
    """The text of an attribute, which reads back."""
    text = print_body(owner(value))
    assert exact(parse_body(text)) == exact(owner(value))
    return text.partition("{value=")[2].partition("} as test_0")[0]


B = Dim.named("b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (-3, "-3"),
        (-(2**63), "-9223372036854775808"),
        (2**64 - 1, "18446744073709551615"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (5e-324, "5e-324"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        ('say "β" # {\n', '"say \\"β\\" # {\\n"'),
        ("\x00\x85\u2028\u202e\ufeff", '"\\u0000\\u0085\\u2028\\u202e\\ufeff"'),
        ("\U000e0001", '"\\udb40\\udc01"'),
        (FLOAT32, "f32"),
        (2 * B + 1, "size(2*b + 1)"),
        ((B // 2) * (B // 3), "size(floordiv(b, 2)*floordiv(b, 3))"),
        ((), "[]"),
        ((1,), "[1]"),
        (((1, 2.0), ("x", (None,))), '[[1, 2.0], ["x", [none]]]'),
    ],
)
def test_an_attribute_is_shown_as(value: Attr, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(0.1), "f32[] 0.1"),
        (np.array([[1, 2], [3, 4]], "i8"), "i64[2,2] [[1, 2], [3, 4]]"),
        (np.array([True, False]), "bool[2] [true, false]"),
        (np.array([2**64 - 1], "u8"), "u64[1] [18446744073709551615]"),
        (
            np.array([1.5, -0.0, np.inf, -np.inf, np.nan], "f2"),
            "f16[5] [1.5, -0.0, inf, -inf, nan]",
        ),
        (np.array([1 - 2j], "c8"), "c64[1] [[1.0, -2.0]]"),
        (np.array([0.1], SHORT_NAMES["bf16"]), "bf16[1] [0.100098]"),
        (np.zeros([0]), "f64[0] []"),
        (np.zeros([0, 3]), "f64[0,3] []"),
        (np.zeros([3, 0]), 'f64[3,0] ""'),
        (np.arange(17, dtype="u1"), 'u8[17] "AAECAwQFBgcICQoLDA0ODxA="'),
        (np.array([0x7FF8000000000001], "u8").view("f8"), 'f64[1] "AQAAAAAA+H8="'),
    ],
)
def test_an_array_is_shown_as(array: Any, text: str) -> None:
    assert shown(Literal.of(array)) == text


@in_parts
@given(literals())
def test_an_array_keeps_its_bits(part: int, literal: Literal) -> None:
    shown(literal)


def test_what_names_tell_is_not_shown() -> None:
    assert derived_outputs(["a.b"]) == {"out": ("a.b",)}
    assert derived_outputs(["s.0", "s.1"]) == {"out": ("s.0", "s.1")}
    assert derived_outputs(["l.a.0", "l.b", "l.a.1"]) == {
        "a": ("l.a.0", "l.a.1"),
        "b": ("l.b",),
    }
    assert derived_name({"out": ("tanh_0",)}) == "tanh_0"
    assert derived_name({"out": ("s.0", "s.1")}) == "s"
    assert derived_name({"none": (), "a": ("l.a.0",)}) == "l"
    assert derived_name({}) == ""


def test_words_of_the_grammar_can_be_names() -> None:
    text = """\
program {
  data data: f32[]
  parameter trainable: f32[]
  state state: f32[] trainable
  do: f32[] = do(do=do, as=as) {none=none, true=true} captures [captures]
    size () {
    }
    program () {
    }
  as: f32[] = as(update=update) as return
  return: f32[], captures: f32[] = size() as captures
  update, return = update()
  do return(x=x) as none
  return return, update
  update update = update
}
"""
    assert print_program(parse_program(text)) == text


def test_what_fits_nowhere_else_is_declared_in_full() -> None:
    text = """\
program {
  value dangling: f32[]
  value bound: f32[] trainable
  argument loose: list<f32[b]>
  bound, unknown, y: f32[] = f() as f
  y = g()
}
"""
    assert print_program(parse_program(text)) == text


def test_hand_written_text_is_read() -> None:
    program = parse_program("""
        # a comment
        program{data x:f32[ b , 4 ] # another: 3
          y : f32[b,4]=tanh ( x = [ x ], ) { }  # train.py:3
          z=[z:f32[]] = sum(x=y){axis=[0,1,],keepdims=false,body=(){return y}}
          return z update w
            = z }""")
    assert program.main.ops[0].source == Source("train.py", 3)
    assert program.main.ops[0].inputs == {"x": ("x",)}
    assert program.main.vars["x"].type == TensorType(FLOAT32, (B, 4))
    assert program.main.ops[1].outputs == {"z": ("z",)}
    assert program.main.ops[1].bodies()["body"].results == ("y",)
    assert program.main.results == ("z",)
    assert program.updates == {"w": "z"}


def test_only_a_place_is_a_source() -> None:
    for comment in (
        "# see 3",
        "# a.py: 3",
        "# a b.py:3",
        "#",
        '# "a:3',
        '# "\\ud800":3',
        "# a.py:3 too",
    ):
        assert parse_body(f"block {{ do f() as f {comment}\n }}").ops[0].source is None
    assert parse_body("block { do f() as f\n # a.py:3\n }").ops[0].source is None
    assert parse_body("block { do f() as f #a.py:3\r\n }").ops[0].source == Source("a.py", 3)


def test_what_has_no_text_form_is_an_error() -> None:
    with pytest.raises(ProgramError, match="unsupported type complex"):
        print_body(owner(1j))  # pyright: ignore[reportArgumentType]


# ---- what is refused -------------------------------------------------------------------------

ERRORS = {
    "": """\
expected `program` before the end.
  at: line 1, column 1
  given: \n\
         ^""",
    "program {\n  data x: f32[b\n}": """\
expected a type, as `f32[b,4]`, before `f32`.
  at: line 2, column 11
  given: data x: f32[b
                 ^""",
    "program {\n  y: f32[] = tanh(x==a)\n}": """\
expected a variable before `=`.
  at: line 2, column 21
  given: y: f32[] = tanh(x==a)
                           ^""",
    "program {\n  y: f32[] = tanh(x=a\n}": """\
expected `,` or `)` before `}`.
  at: line 2, column 22
  given: y: f32[] = tanh(x=a
                            ^""",
    "program { y: f33[2] = tanh(x=a) }": """\
invalid type `f33[2]`.
  at: line 1, column 14
  given: program { y: f33[2] = tanh(x=a) }
                      ^
  Write as `f32[b,4]`.""",
    "program { y: f32[(a + b)^16] = tanh(x=a) }": """\
invalid dimension `f32[(a + b)^16]`.
  at: line 1, column 14
  given: program { y: f32[(a + b)^16] = tanh(x=a) }
                      ^
  Write it like `2*b + 1`.""",
    "program { y = f() {mode=fast} }": """\
expected a value, got `fast`.
  at: line 1, column 25
  given: program { y = f() {mode=fast} }
                                 ^
  Put strings in double quotes.""",
    "program {\n  y: f32[] = f()\n  y: f32[] = g() as g\n}": """\
duplicate declaration of `y` in this block.
  at: line 3, column 3
  given: y: f32[] = g() as g
         ^""",
    "program {\n  y = f()\n  y = g()\n}": """\
duplicate operator name `y` in this block.
  at: line 3, column 3
  given: y = g()
         ^""",
    "program { y = f() {v=f32[2] [1, 2, 3]} }": """\
expected `]` before `3`.
  at: line 1, column 36
  given: program { y = f() {v=f32[2] [1, 2, 3]} }
                                            ^""",
    "program { y = f() {v=bool[1] [1]} }": """\
invalid value `1`: expected true or false
  at: line 1, column 31
  given: program { y = f() {v=bool[1] [1]} }
                                       ^""",
    "program {\n"
    + "  # padding\n" * 3
    + "  "
    + "y, " * 40
    + "z = f(x=a!"
    + "b" * 99
    + ")\n}": """\
expected `,` or `)` before `!`.
  at: line 5, column 132
  given: y, y, y, y, y, y, y, y, y, y, y, y, y, y, y, y, y, z = f(x=a!bbbbbbbbbbbbbbbbbbb
                                                                     ^""",
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_shows_the_place(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_program(text)
    assert str(caught.value) == ERRORS[text]
    place = f"line {caught.value.lineno}, column {caught.value.offset}"
    assert caught.value.at == place


@pytest.mark.parametrize(
    "text",
    [
        "block { }",
        "program { } }",
        "program { 3 }",
        "program { data x }",
        "program { do f() }",
        "program { do f() as 3 }",
        "program { x = f(a=b, a=c) }",
        "program { x = f(captures=b) captures [c] }",
        "program { x = f() {a=1, a=2} }",
        "program { x = f() {a=1} a [] }",
        "program { x=[a], x=[b] = f() }",
        "program { out=[a], b = f() }",
        "program { x = f() {a=18446744073709551616} }",
        "program { x = f() {a=" + "1" * 5000 + "} }",
        "program { x = f() {a=size(3 - 4)} }",
        "program { x = f() {a=size(floordiv(1, 0))} }",
        "program { x = f() {a=size(b} }",
        "program { x = f() {a=size(b",
        "program { x = f() {a=f32[2] 1.0} }",
        "program { x = f() {a=f32[b] [1.0]} }",
        "program { x = f() {a=list<f32[1]> [1.0]} }",
        "program { x = f() {a=u8[1] [256]} }",
        "program { x = f() {a=u8[1] [1.5]} }",
        "program { x = f() {a=f32[1] [x]} }",
        'program { x = f() {a=f32[1] "AAAA"} }',
        'program { x = f() {a=f32[1] "%"} }',
        'program { x = f() {a=f32[0] "ä"} }',
        "program { x = f() {a=f32[0,4611686018427387904,4] []} }",
        'program { x = f() {a="\\x"} }',
        'program { x = f() {a="\\ud800"} }',
        'program { x = f() {a="\t"} }',
        'program { x = f() {a="b} }',
        "program { return a return b }",
        "program { update a = b update a = c }",
        "program { x = f() {a=() {update a = b}} }",
        "program { x = f() {a=[[() {}]]} }",
        "program { data x: f32[-1] }",
        "program { data x: f32[9223372036854775808] }",
        "program { data x: f32[" + "1," * 32 + "1] }",
        "program { data " + "x" * 201 + ": f32[] }",
        "program { x = f() {a=" + "[" * 99 + "]" * 99 + "} }",
        "program { x = f() {a=" + "() { y = f() {a=" * 5000,
        "program { x = f() {a=" + "[" * 100_000,
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_program(text)


def test_tuples_and_blocks_nest_as_deep_as_promised() -> None:
    deepest = "[" * DEEPEST_NESTING + "]" * DEEPEST_NESTING
    assert parse_program(f"program {{ x = f() {{a={deepest}}} }}").main.ops
    with pytest.raises(ParseError, match="at most 24 levels of nesting"):
        parse_program(f"program {{ x = f() {{a=[{deepest}]}} }}")


MARKS = '()[]{},:=#"\\ \n-+*^019abcdefinxyz_@/.<>?'


@in_parts
@given(programs, st.integers(0, 2**32))
def test_mutated_text_is_read_or_refused(part: int, program: Any, seed: int) -> None:
    chance = random.Random(seed)
    text = print_program(program)
    for _ in range(chance.randint(1, 3)):
        at, end = sorted(chance.choices(range(len(text)), k=2))
        part = text[at : min(end, at + 20)]
        rest = text[at + chance.choice((0, len(part))) :]
        text = text[:at] + chance.choice((part * 2, chance.choice(MARKS), "")) + rest
    again = parsed_or_refused(text)
    assert again is None or exact(parse_program(print_program(again))) == exact(again)


def parsed_or_refused(text: str) -> Any:
    """A program; `None` where it is refused, in the one way in which a text may be."""
    try:
        return parse_program(text)
    except FileFormatError:
        return None
