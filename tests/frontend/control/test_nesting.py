"""The maximum nesting depth of blocks: that of a file, for all functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import braces as br
from braces import fingerprint, verify
from braces.errors import BracesError, ProgramError
from braces.extend.programs import Body, Op, ProgramDef
from braces.ir.limits import DEEPEST_NESTING
from braces.ir.records import Attr
from braces.ir.text.printer import print_body


def loops(x: br.Var, depth: int) -> br.Var:
    if depth == 0:
        return br.tanh(x)
    loop = br.create_while(max_trips=2)
    with loop.block() as body:
        s = body.add_memory(init=x)
        body.set_condition(br.sum(s) < 1.0)
        s.update(loops(s, depth - 1))
    return loop.final(s)


def branches(x: br.Var, depth: int) -> br.Var:
    if depth == 0:
        return br.tanh(x)
    choice = br.create_if_else(br.sum(x) > 0.0)
    with choice.true_block() as yes:
        yes.add_output(branches(x, depth - 1))
    with choice.false_block() as no:
        no.add_output(x)
    return choice()


def conds(x: br.Var, depth: int) -> br.Var:
    if depth == 0:
        return br.tanh(x)
    return br.cond(br.sum(x) > 0.0, lambda: conds(x, depth - 1), lambda: x)


NESTS: list[tuple[Callable[[br.Var, int], br.Var], int]] = [
    (loops, DEEPEST_NESTING),
    (branches, DEEPEST_NESTING // 2),
    (conds, DEEPEST_NESTING // 2),
]


@pytest.mark.parametrize(("nest", "most"), NESTS)
def test_what_nests_as_deep_as_may_be_can_be_written(
    nest: Callable[[br.Var, int], br.Var], most: int
) -> None:
    with br.Program() as program:
        nest(br.data("x", [3]), most)
    assert br.Program.from_bytes(program.to_bytes()).definition == program.definition
    assert str(br.parse(str(program))) == str(program)
    assert fingerprint(program) == fingerprint(br.parse(str(program)))
    assert verify(program) == []
    assert program.to_dot()


@pytest.mark.parametrize(("nest", "most"), NESTS)
@pytest.mark.parametrize("more", [1, 20, 150])
def test_what_nests_deeper_is_refused_where_it_is_built(
    nest: Callable[[br.Var, int], br.Var], most: int, more: int
) -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        with pytest.raises(ProgramError, match="nested deeper than 24") as caught:
            nest(x, most + more)
    assert "test_nesting.py:" in str(caught.value)
    assert len(program.blocks) == 1
    assert str(br.parse(str(program))) == str(program)


def nested(depth: int, tuples: bool) -> Body:
    body = Body((), (), {}, ())
    for _ in range(depth):
        value: Attr = (body,) if tuples else body
        body = Body((), (), {}, (Op("switch", "s", {}, {}, {"cases": value}),))
    return body


@pytest.mark.parametrize("depth", [30, 3000])
@pytest.mark.parametrize("tuples", [False, True])
def test_records_that_nest_too_deep_are_refused_everywhere(depth: int, tuples: bool) -> None:
    body = nested(depth, tuples)
    for use in (
        lambda: br.Program(ProgramDef(body, {})),
        lambda: print_body(body),
        lambda: br.Program().table.append(body.ops[0]),
        lambda: br.ir.serde.body_to_desc(body),
    ):
        with pytest.raises(BracesError, match="nested deeper than 24"):
            use()
