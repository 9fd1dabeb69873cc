"""Badly written branches, switches and conditions meet errors that name the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import get, prog, refuse_here

__all__ = ["prog"]


def in_transaction(build: Callable[[], Any]) -> Callable[[], None]:
    """Undo what is built before the error."""

    def do() -> None:
        with br.default_program().transaction():
            build()

    return do


def branch(side: Any, *outputs: br.Var) -> None:
    """Write one block."""
    with side as block:
        block.add_output(*outputs)


@pytest.mark.parametrize("construct", [br.create_if_else, br.create_while, br.create_switch])
def test_a_predicate_is_no_matrix(prog: br.Program, construct: Callable[..., Any]) -> None:
    def build() -> None:
        wrong = get("x") > 0.0
        if construct is br.create_if_else:
            br.create_if_else(wrong)
        elif construct is br.create_switch:
            br.create_switch().case(wrong)
        else:
            with br.create_while().block() as body:
                body.set_condition(wrong)

    refuse_here(
        prog, br.ShapeError, in_transaction(build), "bool scalar", "bool[batch,4]", "br.any"
    )


def test_the_conditions_of_a_switch_are_all_scalars_or_all_of_rows(prog: br.Program) -> None:
    def build() -> None:
        switch = br.create_switch()
        branch(switch.case(br.all(get("y") > 0.0)), get("x"))
        switch.case(get("y") > 0.0)

    refuse_here(prog, br.ShapeError, in_transaction(build), "bool[]", "bool[batch]")


@pytest.mark.parametrize("index", ["y", "loss"])
def test_an_index_is_an_integer_scalar(prog: br.Program, index: str) -> None:
    refuse_here(
        prog, br.ShapeError, lambda: br.create_switch(get(index)), "integer scalar", index
    )


def test_branches_agree_in_dtype(prog: br.Program) -> None:
    def build() -> None:
        choice = br.create_if_else(get("loss") > 0.0)
        branch(choice.true_block(), get("x"))
        branch(choice.false_block(), br.cast(get("x"), "float64"))
        choice()

    parts = ["output 0 differs", "f32[batch,4]", "f64[batch,4]", "br.cast"]
    refuse_here(prog, br.BracesError, in_transaction(build), *parts)


def test_row_wise_branches_agree(prog: br.Program) -> None:
    def build(*other: Callable[[br.Var], br.Var]) -> None:
        choice = br.create_if_else(get("y") > 0.0)
        for side, outputs in [(choice.true_block, [br.tanh]), (choice.false_block, other)]:
            with side() as block:
                rows = block.add_input(get("x"))
                block.add_output(*(output(rows) for output in outputs))
        choice()

    for other in ([br.tanh, br.tanh], [lambda r: br.sum(r, axis=1)],
                  [lambda r: br.cast(r, "float64")]):  # fmt: skip
        refuse_here(prog, br.BracesError, in_transaction(lambda o=other: build(*o)), "utput")


def test_row_wise_inputs_have_the_rows_of_the_predicate(prog: br.Program) -> None:
    def build(name: str) -> None:
        choice = br.create_if_else(get("y") > 0.0)
        with choice.true_block() as block:
            block.add_input(get(name))

    what = "does not match the predicate"
    refuse_here(prog, br.ShapeError, in_transaction(lambda: build("w")), what, "bool[batch]")
    refuse_here(prog, br.ShapeError, in_transaction(lambda: build("loss")), what, "f32[]")


def test_several_indices_of_each_row_have_advice(prog: br.Program) -> None:
    def build(index: br.Var, x: br.Var) -> br.Var:
        return br.switch(index, [br.tanh, br.exp], x)

    with prog:
        x = br.data("several", ["rows", 2])
        ids = br.data("ids", ["rows", 2], dtype="int32")
    advice = "index.reshape(-1)"
    refuse_here(prog, br.ShapeError, in_transaction(lambda: build(ids, x)), "integer vector")
    for one, rows in ((ids, x), (ids[:, 0], br.repeat(x, 2, axis=0))):
        with pytest.raises(br.ShapeError, match=re.escape(advice)), prog:
            build(one, rows)
    with prog, pytest.raises(br.ShapeError, match="does not match the index"):
        build(ids[:, 0], br.repeat(x, 2, axis=0))


def test_a_condition_is_set_once(prog: br.Program) -> None:
    def build() -> None:
        with br.create_while().block() as body:
            n = body.add_memory(init=0)
            body.set_condition(n < 3)
            body.set_condition(n < 4)

    refuse_here(prog, br.ProgramError, in_transaction(build), "set twice", "&")


def test_a_while_keeps_the_types_of_its_memories(prog: br.Program) -> None:
    def build() -> None:
        with br.create_while().block() as body:
            h = body.add_memory(init=get("loss"))
            body.set_condition(h < 3.0)
            h.update(get("x"))

    refuse_here(prog, br.ShapeError, in_transaction(build), "type mismatch", "init: f32[]")


def test_nothing_is_added_outside_its_block(prog: br.Program) -> None:
    with prog:
        choice = br.create_if_else(get("loss") > 0.0)
        with choice.true_block() as block:
            block.add_output(get("x"))
        with br.create_while().block() as body:
            n = body.add_memory(init=0)
            body.set_condition(n < 3)
            n.update(n + 1)
    for late in (
        lambda: block.add_output(get("x")),
        lambda: block.add_input(get("x")),
        lambda: body.add_output(get("x")),
        lambda: body.add_memory(init=0),
        lambda: body.set_condition(get("loss") > 0.0),
    ):
        refuse_here(prog, br.ProgramError, in_transaction(late), "block")


def test_a_block_that_was_called_takes_no_more(prog: br.Program) -> None:
    with prog:
        choice, chooser = br.create_if_else(get("loss") > 0.0), br.create_switch()
        branch(choice.true_block(), get("x"))
        branch(choice.false_block(), get("x"))
        branch(chooser.case(get("loss") > 0.0), get("x"))
        branch(chooser.default(), get("x"))
        made, before = (choice().name, chooser().name), str(prog)
        assert (choice().name, chooser().name) == made
        assert str(prog) == before
        open_end = br.create_switch()
        branch(open_end.case(get("loss") > 0.0), get("x"))
        open_end()
    called = "already called", "Create another"
    refuse_here(prog, br.ProgramError, lambda: open_end.default(), *called)
    refuse_here(
        prog, br.ProgramError, in_transaction(lambda: open_end.case(get("loss") < 0.0)), *called
    )
    refuse_here(prog, br.ProgramError, lambda: choice.true_block(), "defined twice")
    late = in_transaction(lambda: chooser.case(get("loss") < 0.0))
    refuse_here(prog, br.ProgramError, late, "after the default", "Move it before")
    refuse_here(prog, br.ProgramError, lambda: chooser.default(), "defined twice")


def test_a_switch_is_written_in_order(prog: br.Program) -> None:
    def twice() -> None:
        chooser = br.create_switch(br.constant(1))
        branch(chooser.case(1), get("x"))
        chooser.case(1)

    refuse_here(prog, br.ProgramError, in_transaction(twice), "not a new integer")
    refuse_here(
        prog, br.ProgramError, lambda: br.create_switch().default(), "no case before it"
    )
    refuse_here(prog, br.ProgramError, lambda: br.create_switch()(), "no case")


def test_a_condition_written_last_is_still_evaluated_before_each_trip(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", [], dtype="float64")
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=x)
            new = h * 2.0
            h.update(new)
            body.set_condition(new < 10.0)
        end = loop.final(h)
    run = br.Executor(mode=mode).run
    for start, wanted in [(1.0, 8.0), (5.0, 5.0)]:
        found = run(program, br.Scope(), feed={"x": np.float64(start)}, fetch=end)
        assert found == wanted


WHOLE = "`x` has the whole batch. Write block.add_input(x)"


def in_if_else() -> None:
    br.cond(get("y") > 0.0, lambda y: y, lambda y: get("x") * y[:, None], get("y"))


def in_case() -> None:
    with br.create_switch(br.cast(get("y"), "int32")).case(3) as case:
        case.add_output(br.concat([case.add_input(get("x")), get("x")], axis=1))


def in_default() -> None:
    switch = br.create_switch()
    with switch.case(get("y") > 0.0) as case:
        case.add_output(case.add_input(get("y")))
    with switch.default() as case:
        own = case.add_input(get("y"))
        case.add_output(
            br.cond(br.sum(own) > 0.0, lambda: own[:, None] + get("x"), lambda: own)
        )


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (in_if_else, ["false_block() sees", "false_rows_0 of batch"]),
        (in_case, ["case(3) sees", "case_rows_0 of batch"]),
        (in_default, ["default() sees", "default_rows_0 of batch"]),
    ],
)
def test_the_whole_batch_in_a_row_wise_block_is_explained(
    prog: br.Program, build: Callable[[], None], parts: list[str]
) -> None:
    refuse_here(prog, br.ShapeError, in_transaction(build), *parts, WHOLE)
