"""Random programs mean what their text says; `scripts/random_programs.py` runs many more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops, parse_program
from tests.random_programs.agree import (
    check_gradients,
    check_laid_out,
    check_values,
    read_needed,
)
from tests.random_programs.generate import feeds_of, generate
from tests.random_programs.oracle import Refused, read

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_interpreted_values_are_what_the_text_says(first: int) -> None:
    for seed in range(first, first + 10):
        check_values(seed, size=5)


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_gradients_are_those_of_the_text_in_both_modes(seed: int) -> None:
    assert compared(seed, size=3)


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_second_order_forward_over_reverse_is_reverse_over_reverse(seed: int) -> None:
    assert compared(seed, size=2, second=True, modes=["interpret"], again=True)


@pytest.mark.parametrize("seed", range(2500, 2504))
def test_a_tangent_may_follow_from_all_that_it_goes_through(seed: int) -> None:
    assert compared(seed, size=3, modes=["interpret"], own=True)


def test_rows_that_a_while_collects_in_a_case_have_both_orders() -> None:
    seeds = [seed for seed in range(5000, 5050) if collects_in_a_case(seed, size=2)]
    assert len(seeds) > 1
    for seed in seeds:
        assert check_gradients(seed, size=2, second=True, modes=["interpret"], again=True)


def collects_in_a_case(seed: int, size: int) -> bool:
    main = generate(seed, size).program.definition.main
    switches = [op for _, op in all_ops(main) if op.type == "switch"]
    bodies = [body for op in switches for body in op.bodies().values()]
    return any(op.type == "list_stack" for body in bodies for _, op in all_ops(body))


@pytest.mark.parametrize(
    "seed",
    [
        7209,
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(7211, 7220)),
    ],
)
def test_several_devices_give_what_one_does(seed: int) -> None:
    check_laid_out(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8000, 8010))
def test_several_devices_give_second_derivatives(seed: int) -> None:
    check_laid_out(seed, size=3, second=True)


def compared(seed: int, **options: Any) -> bool:
    """Check programs from this seed on until one had a gradient to hold against differences."""
    return any(check_gradients(seed + 10_000 * more, **options) for more in range(10))


@pytest.mark.parametrize("error", [br.TripLimitError, br.NoMatchError])
def test_both_modes_refuse_what_the_text_refuses(error: type[br.RunError]) -> None:
    seed = next(seed for seed in range(3000, 4000) if refusal_of(seed, size=2) is error)
    assert check_values(seed, size=2)


def test_a_step_whose_rows_have_all_ended_looks_for_no_case(mode: str) -> None:
    with br.Program() as prog:
        x, k = br.data("x", [3, 2], dtype="float64"), br.data("k", [], dtype="int32")
        rnn = br.create_rnn(lengths=br.data("n", [2], dtype="int64"))
        with rnn.stepnet() as net:
            xt, h = net.add_input(x), net.add_memory(init=br.zeros([2], "float64"))
            chosen = br.create_switch(k)
            with chosen.case(0) as case:
                case.add_output(h + xt)
            h.update(chosen())
        end = rnn.final(h)
    feeds = {"x": np.ones((3, 2)), "k": np.int32(7), "n": np.zeros(2, "int64")}
    (found,) = br.Executor(mode).run(prog, br.Scope(), feed=feeds, fetch=[end])
    np.testing.assert_array_equal(found, read(str(prog), feeds, end.name))
    with pytest.raises(Refused):
        read(str(prog), feeds | {"n": np.array([0, 1])}, end.name)


def refusal_of(seed: int, size: int) -> type[br.RunError] | None:
    made = generate(seed, size)
    try:
        read_needed(made, parse_program(str(made.program)).main, feeds_of(seed))
    except Refused as refused:
        return refused.error
    return None


def test_generator_uses_everything() -> None:
    ops = [
        op for seed in range(80) for block in generate(seed).program.blocks for op in block.ops
    ]
    used = {"loop", "switch", "block", "list_push", "stop_gradient", "where", "custom_gradient"}
    used |= {"cumsum", "einsum", "flip", "log_softmax", "roll", "softmax", "sort", "stack"}
    assert used <= {op.type for op in ops}
    read = [list(op.reads()) for op in ops if op.type == "einsum"]
    assert any(len(set(names)) < len(names) for names in read)
    loops = [op.attrs for op in ops if op.type == "loop"]
    for name, values in [("reverse", {False, True}), ("recompute", {False, True})]:
        assert {attrs[name] for attrs in loops} == values
    assert {attrs["cond"] is None for attrs in loops} == {False, True}
    assert {attrs["max_trips"] is None for attrs in loops} == {False, True}
    assert {op.attrs["compact"] for op in ops if op.type == "partition"} == {False, True}
    assert {op.attrs["total"] for op in ops if op.type == "switch"} == {False, True}
    assert {op.attrs["recompute"] for op in ops if op.type == "block"} == {False, True}


def test_oracle_reads_a_loop_by_hand() -> None:
    with br.Program() as program:
        s = br.data("s", [], dtype="float64")
        loop = br.create_while()
        with loop.block() as body:
            h = body.add_memory(init=s)
            body.set_condition(h < 100.0)
            h.update(h * h)
    assert read(str(program), {"s": 3.0}, loop.final(h).name) == 6561.0
    assert feeds_of(1).keys() == {"x", "m", "v", "s", "w", "k", "n"}
