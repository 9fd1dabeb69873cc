"""Near misses whose operators lie in different blocks, and patterns of unconnected results."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br

pytestmark = pytest.mark.unoptimized


def doubled(x: Any) -> Any:
    return br.tanh(x * 2.0)


def reason(prog: br.Program, path: str) -> str:
    report = prog.rewrite(doubled, lambda x: br.tanh(x + x)).report
    assert len(report) == 0
    return next(miss.reason for miss in report.near if miss.path == path)


def test_the_operand_is_computed_in_a_loop() -> None:
    with br.Program() as prog:
        x, rnn = br.data("x", ["n"]), br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(br.multiply(h.pre(1), 2.0, name="twice"))
        br.tanh(rnn.final(h), name="end")
    assert "`loop_0/body/twice`, in another block; matches do not cross" in reason(prog, "end")


def test_the_operand_is_computed_in_a_case_of_a_block() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        with br.block("outer"):
            chosen = br.cond(br.sum(x) > 0.0, lambda: br.multiply(x, 2.0, name="twice"),
                             lambda: x)  # fmt: skip
        br.tanh(chosen, name="end")
    assert "twice`, in another block" in reason(prog, "end")
    assert "outer/body/" in reason(prog, "end")


def test_the_operand_is_computed_before_a_row_wise_branch_or_a_loop() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 2])
        twice = br.multiply(x, 2.0, name="twice")
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as case:
            case.add_output(br.tanh(case.add_input(twice), name="inside"))
        choice.pass_through(x)
        choice()
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(init=twice)
            h.update(br.tanh(h.pre(1), name="step"))
    for path in ("partition_0/cases[1]/inside", "loop_0/body/step"):
        assert "computed by `twice`, in another block" in reason(prog, path)


def test_results_that_share_no_variable_are_refused() -> None:
    with br.Program() as prog:
        br.tanh(br.data("x", ["n"]))
    with pytest.raises(br.ProgramError, match="share no variable") as error:
        prog.rewrite(lambda x, y: (br.tanh(x), br.sin(y)), lambda x, y: (x, y))
    assert "it can never match" in error.value.what
    three = prog.rewrite(
        lambda x, y: (br.tanh(x), br.sin(y), x * y), lambda x, y: (x, y, x * y)
    )
    assert len(three.report) == 0
