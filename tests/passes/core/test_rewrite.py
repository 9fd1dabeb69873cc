"""The rewriting walk: permitted rules, and guarantees."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import braces as br
from braces.extend.programs import Op, ProgramDef, print_program
from braces.passes.core.pipeline import run_pass
from braces.passes.core.rewrite import (
    InsertionPoint,
    Replacement,
    Rule,
    contains_loops,
    rewrite,
)
from braces.passes.verifier.program import check

LOOP = """
program {
  data x: f32[n]
  final=[], stacked=[s: f32[n]], trips=[m: i64[]] = loop(sliced=x) as rows
    body (t: i64[], r: f32[]) {
      y: f32[] = square(x=r)
      z: f32[] = tanh(x=y)
      return z
    }
  q: f32[n] = square(x=s)
  return q
}
"""
UNNAMED = "program { data x: f32[?0]  data z: f32[?4]  y: f32[?0] = square(x=x)  return y }"


def rewritten(text: str, rule: Rule) -> ProgramDef:
    before = br.parse(text).definition
    made = rewrite(before, rule)
    assert check(made, None, all=True, types=True) == []
    assert br.parse(text).definition == before
    return made


def squares(op: Op, place: InsertionPoint) -> Replacement:
    """Write products for squares."""
    if op.type != "square":
        return op
    with place.building():
        x = place.var(op.inputs["x"][0])
        product = x * x
    return {op.outputs["out"][0]: product.name}


def test_what_no_rule_changes_is_the_very_same() -> None:
    before = br.parse(LOOP).definition
    assert rewrite(before, lambda op, _: op) is before


def test_a_block_in_which_nothing_changes_is_the_very_same() -> None:
    def outside(op: Op, place: InsertionPoint) -> Replacement:
        return op if place.outer else squares(op, place)

    before = br.parse(LOOP).definition
    assert rewrite(before, outside).main.ops[0] is before.main.ops[0]


def test_built_operators_stand_before_and_names_follow_into_blocks_and_results() -> None:
    made = rewritten(LOOP, squares)
    assert "square" not in print_program(made)
    (inner,) = made.main.ops[0].bodies().values()
    assert [op.type for op in inner.ops] == ["multiply", "tanh"]
    assert inner.ops[1].inputs["x"] == inner.ops[0].outputs["out"]
    assert made.main.results == made.main.ops[1].outputs["out"]
    assert "y" not in inner.vars


def test_captures_are_those_of_the_new_blocks(mode: str) -> None:
    text = LOOP.replace("data x: f32[n]", "data x: f32[n]  data c: f32[]").replace(
        "y: f32[] = square(x=r)", "y: f32[] = multiply(x=r, y=c)"
    )
    text = text.replace("loop(sliced=x)", "loop(sliced=x) captures [c]")

    def without_c(op: Op, place: InsertionPoint) -> Replacement:
        return {op.outputs["out"][0]: "r"} if op.type == "multiply" else op

    made = rewritten(text, without_c)
    assert made.main.ops[0].captures() == ()
    exe = br.Executor(mode=mode, passes=(br.passes.Pass("without_c", lambda _: made),))
    x = np.array([0.5, 1.0], "float32")
    found = exe.run(br.parse(text), br.Scope(), feed={"x": x}, fetch="q")
    np.testing.assert_allclose(found, np.tanh(x) ** 2, rtol=1e-6)


def test_an_operator_may_take_the_place_of_another() -> None:
    made = rewritten(LOOP, lambda op, _: op.with_(type="exp") if op.type == "tanh" else op)
    (inner,) = made.main.ops[0].bodies().values()
    assert [(op.type, op.name) for op in inner.ops] == [("square", "y"), ("exp", "z")]


def test_updates_follow_names() -> None:
    made = rewritten(
        "program { parameter w: f32[3] trainable  y: f32[3] = square(x=w)  update w = y }",
        squares,
    )
    assert made.updates == {"w": "multiply_0"}
    assert set(made.main.vars) == {"w", "multiply_0"}


def test_an_operator_that_nobody_reads_may_go() -> None:
    made = rewritten(
        LOOP.replace("return q", "return s"),
        lambda op, place: None if op.type == "square" and not place.outer else op,
    )
    assert "q" not in made.main.vars


def test_unnamed_dimensions_that_are_built_are_no_old_ones() -> None:
    found = list[str]()

    def fresh(op: Op, place: InsertionPoint) -> Replacement:
        found.append(str(place.table.unifier.fresh()))
        return op

    rewritten(UNNAMED, fresh)
    assert found == ["?5"]


def test_what_an_error_interrupts_is_not_built() -> None:
    def trying(op: Op, place: InsertionPoint) -> Replacement:
        if op.type == "square":
            with contextlib.suppress(br.ShapeError), place.building():
                x = place.var(op.inputs["x"][0])
                _ = br.matmul(br.tanh(x), br.zeros([7, 7, 7]))
        return op

    before = br.parse(LOOP).definition
    assert rewrite(before, trying) is before


def test_operators_that_are_built_have_the_line_of_the_one_that_they_replace() -> None:
    with br.Program() as prog:
        prog.give(br.square(br.data("x", [3])).name)
    (op,) = prog.definition.main.ops
    (made,) = rewrite(prog.definition, squares).main.ops
    assert made.source == op.source is not None


def test_a_name_that_a_block_hides_is_refused() -> None:
    text = LOOP.replace("square(x=r)", "add(x=r, y=w)").replace(
        "data x: f32[n]",
        "data x: f32[n]  data c: f32[]  z: f32[] = tanh(x=c)  w: f32[] = exp(x=c)",
    )
    text = text.replace("loop(sliced=x)", "loop(sliced=x) captures [w]")

    def to_hidden(op: Op, place: InsertionPoint) -> Replacement:
        return {"w": "z"} if op.type == "exp" else op

    before = br.parse(text).definition
    with pytest.raises(
        br.ProgramError, match="`z` is shadowed by another variable inside `rows`"
    ) as raised:
        run_pass(br.passes.Pass("mine", lambda one: rewrite(one, to_hidden)), before)
    assert "in the pass `mine`" in str(raised.value)


def test_a_block_may_hide_a_name_that_it_does_not_read() -> None:
    declared = "data x: f32[n]  data c: f32[]  z: f32[] = tanh(x=c)  w: f32[] = exp(x=c)"
    before = br.parse(LOOP.replace("data x: f32[n]", declared)).definition

    def to_hidden(op: Op, place: InsertionPoint) -> Replacement:
        return {"w": "z"} if op.type == "exp" else op

    made = rewrite(before, to_hidden)
    assert [op.type for op in made.main.ops] == ["tanh", "loop", "square"]
    assert made.main.ops[1:] == before.main.ops[2:]


def test_fields_of_a_later_schema_stay_with_what_is_kept() -> None:
    before = br.parse(LOOP).definition
    loop = before.main.ops[0]
    marked = before.with_(
        main=before.main.with_(ops=(loop.with_(unknown=b"\x01"), *before.main.ops[1:])),
        unknown=b"\x02",
    )
    made = rewrite(marked, squares)
    assert (made.unknown, made.main.ops[0].unknown) == (b"\x02", b"\x01")


def test_loops_are_found_at_any_depth_and_nothing_else_is_taken_for_one() -> None:
    with br.Program() as prog:
        x = br.data("x", [3, 4])
        with br.block("outer"):
            br.tanh(x)
    assert not contains_loops(prog.definition.main)
    with prog, br.block("around"), br.block("within"):
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            net.add_output(br.tanh(net.add_input(x)))
        rnn()
    assert contains_loops(prog.definition.main)
