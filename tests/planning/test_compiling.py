"""A plan against real runs, on the eight virtual devices of the tests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from braces.planning.compiled_run import compile_and_report
from braces.planning.report import PlanReport
from tests.support.sharded_models import (
    ROWS,
    STEPS,
    batch,
    classifier,
    code_of,
    collectives,
    layouts,
    train,
)

SIZES = {"batch": ROWS, "time": STEPS}


@cache
def found(model: str, kind: str) -> tuple[br.Program, br.Var, PlanReport]:
    program, loss = classifier(model)
    sizes = SIZES if model not in ("perceptron", "looping") else {"batch": ROWS}
    layout = layouts(program)[kind].on(8)
    return program, loss, compile_and_report(program.definition, layout, [loss.name], sizes)


CASES = [
    ("perceptron", "both"),
    *(
        pytest.param(*case, marks=pytest.mark.thorough)
        for case in (("recurrent", "fsdp"), ("looping", "fsdp"), ("attending", "both"))
    ),
]


@pytest.mark.parametrize(("model", "kind"), CASES)
def test_a_plan_agrees_with_a_run(model: str, kind: str, rng: np.random.Generator) -> None:
    program, loss, report = found(model, kind)
    exe = br.Executor(layout=layouts(program)[kind])
    scope = train(program, loss, exe, batch(program, rng), steps=1).scope
    assert report.counts == collectives(exe, program)
    stored = {one.name: one.device_bytes for one in report.values if one.kind != "data"}
    assert stored == {
        name: scope.var(name).raw.addressable_shards[0].data.nbytes for name in stored
    }
    assert {info.name for info in program.persistables} <= stored.keys()
    memory = code_of(exe, program).memory_analysis()
    assert report.memory["arguments"] == memory.argument_size_in_bytes
    assert report.memory["temporaries"] == memory.temp_size_in_bytes


def test_every_collective_has_operators_of_the_program() -> None:
    program, _, report = found("perceptron", "both")
    known = {f"{path}/{op.name}".lstrip("/") for path, op in all_ops(program.definition.main)}
    for one in report.collectives:
        assert one.operators
        assert known.issuperset(one.operators)
        assert any("sharded_models.py" in source for source in one.sources)
        assert one.axes
        assert set(one.axes) <= report.mesh.keys()


def test_gradients_that_are_added_up_together_are_all_named() -> None:
    _, _, report = found("perceptron", "both")
    largest = max(
        (one for one in report.collectives if one.kind == "all-reduce"),
        key=lambda one: len(one.operators),
    )
    assert largest.axes == ("data",)
    assert largest.group == 4
    assert largest.types.count("matmul") == 1
    assert len(largest.operators) == 5  # the loss, two weights, two biases
    # half of `up` and of `down` each, all of the bias of `down`, and the loss
    assert largest.bytes == 4 * (16 * 32 // 2 + 32 // 2 + 32 * 8 // 2 + 8 + 1)


def test_what_steps_send_counts_for_each_trip() -> None:
    _, _, report = found("recurrent", "tensor")
    trips = {one.trips for one in report.collectives}
    assert STEPS in trips
    one = next(one for one in report.collectives if one.trips == STEPS)
    assert one.total_bytes == STEPS * one.bytes


@pytest.mark.thorough
def test_trips_that_only_a_run_knows_are_not_counted() -> None:
    _, _, report = found("looping", "fsdp")
    assert None in {one.trips for one in report.collectives}
    assert any("per iteration" in line for line in str(report).splitlines())
    assert any("one iteration" in note for note in report.notes)


def test_data_is_sharded_by_the_names_of_its_sizes() -> None:
    _, _, report = found("perceptron", "both")
    (x,) = (one for one in report.values if one.name == "x")
    assert (x.kind, x.sharding, x.bytes, x.device_bytes) == (
        "data",
        "data, -",
        16 * 16 * 4,
        1024 // 4,
    )


def test_operations_are_those_of_one_device() -> None:
    _, _, report = found("perceptron", "both")
    products = (
        2 * ROWS * 32 * (16 + 8)
    )  # forward; the gradient has these again, and `down` twice
    assert products * 2 / 8 <= report.flops <= products * 6 / 8
