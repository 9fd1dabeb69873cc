"""Motion of values while a construct is built: in front of it, and out of conditions."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.extend.constructs import LoopView
from braces.extend.programs import Body, parse_program, print_program
from braces.passes.cleanup.loop_invariant_code_motion import move_before
from braces.passes.core.untrusted_input import complete_attributes
from braces.passes.loops.loop_condition import extract_condition
from braces.passes.verifier.program import check


def loop_with(body: str) -> Body:
    """The body of the loop of a program."""
    text = f"""program {{
      data x: f32[]
      final=[end: f32[]], trips=[n: i64[]] = loop(init=x) {{length=3}} captures [x] as l
        body (t: i64[], p: f32[]) {{ {body} }}
      return end
    }}"""
    return LoopView.of(complete_attributes(parse_program(text)).main.ops[0]).body


def names(body: Body) -> list[str]:
    return [op.name for op in body.ops]


def test_a_condition_takes_what_it_needs_and_leaves_what_the_trip_needs() -> None:
    body = loop_with(
        "s: f32[] = multiply(x=p, y=p)\n"
        "more: bool[] = less(x=s, y=x)\n"
        "r: f32[] = add(x=s, y=x)\n"
        "other: f32[] = tanh(x=r)\n"
        "return r"
    )
    rest, condition = extract_condition(body, "more")
    assert names(rest) == ["s", "r"]
    assert names(condition) == ["s", "more"]
    assert (condition.params, condition.results) == (("p",), ("more",))
    assert condition.vars.keys() == {"p", "s", "more"}
    assert (rest.params, rest.results) == (("t", "p"), ("r",))


def test_a_condition_may_come_from_outside() -> None:
    rest, condition = extract_condition(loop_with("r: f32[] = tanh(x=p)\nreturn r"), "go")
    assert names(rest) == ["r"]
    assert (condition.ops, condition.results, condition.params) == ((), ("go",), ("p",))


def test_a_condition_knows_nothing_of_the_trip() -> None:
    body = loop_with("more: bool[] = less(x=t, y=t)\nreturn p")
    with pytest.raises(br.ProgramError, match="reads the iteration index"):
        extract_condition(body, "more")
    with pytest.raises(br.ProgramError, match="reads the iteration index"):
        extract_condition(body, "t")


def test_what_an_initial_value_is_computed_from_moves_in_front_of_the_loop() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            piece = net.add_input(x)
            scale = br.sum(x)
            inside = br.tanh(piece)
            h = net.add_memory(init=br.exp(scale) * 0.0)
            h.update(h + inside * scale)
        end = rnn.final(h)
    *front, loop = prog.definition.main.ops
    assert [op.type for op in front] == ["sum", "exp", "constant", "multiply"]
    assert [op.type for op in LoopView.of(loop).body.ops] == ["tanh", "multiply", "add"]
    values = np.array([0.1, 0.2, 0.3], "float32")
    found = br.Executor().run(prog, br.Scope(), {"x": values}, end)
    np.testing.assert_allclose(found, np.tanh(values).sum() * values.sum(), rtol=1e-6)


def test_a_moved_variable_hides_none_that_is_called_so_outside() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        y = br.tanh(x, name="y")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            start = br.exp(br.sum(x), name="y")
            twice = start * 2.0
            h = net.add_memory(init=start)
            h.update(h + net.add_input(y) + twice)
        end = rnn.final(h)
    assert check(prog.definition, None, all=True, types=True) == []
    values = np.array([0.1, 0.2, 0.3], "float32")
    first = np.exp(values.sum())
    for mode in ("compile", "interpret"):
        exe = br.Executor(mode=mode)
        got, same = exe.run(prog, br.Scope(), {"x": values}, [end, y])
        np.testing.assert_allclose(got, first * 7 + np.tanh(values).sum(), rtol=1e-5)
        np.testing.assert_allclose(same, np.tanh(values), rtol=1e-6)


def test_what_needs_the_block_stays_with_all_that_it_is_computed_from() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            piece = net.add_input(x)
            free = br.exp(x)
            bound = br.sum(free * piece)
            before = print_program(prog.definition), list(net.table.ops)
            assert not move_before(net.table, bound.name)
            assert not move_before(net.table, piece.name)
            assert (print_program(prog.definition), net.table.ops) == before
            assert move_before(net.table, free.name)
            assert free.table is prog.table
            net.add_output(bound)
    assert [op.type for op in prog.definition.main.ops] == ["exp", "loop"]
