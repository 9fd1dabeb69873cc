"""Constructs taken apart and put together again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import braces as br
from braces.extend.operators import OPS
from braces.extend.types import Dim
from braces.ir.records import CAPTURES, Op
from braces.ir.views import (
    VIEWS,
    LoopView,
    MemoryView,
    Operand,
    Output,
    PartitionView,
    Slice,
    StackedOutputView,
    SwitchView,
)
from braces.ir.walk import all_ops
from braces.ops.control.loop.dead_memories import trim_loop
from braces.passes.cleanup.prune import eliminate
from tests.plugins.serialization import check_views

GOLDEN = sorted((Path(__file__).parents[2] / "golden").rglob("*.prog"))


@pytest.fixture(scope="module")
def program() -> br.Program:
    with br.Program() as built:
        x, s = br.data("x", [4]), br.data("s", ["n", 4])
        rnn = br.create_rnn(reverse=True)
        with rnn.stepnet() as net:
            c = net.add_input(s)
            h, k = net.add_memory(init=x), net.add_memory(init=x)
            after = h + c
            k.update(k + h)
            h.update(after)
            net.add_output(after)
        rnn()
        switch = br.create_switch(br.data("i", [], dtype="int32"))
        with switch.case(0) as case:
            case.add_output(br.tanh(x), x)
        with switch.default() as case:
            case.add_output(x, br.exp(x))
        switch()
        rows = br.create_if_else(br.any(s > 0.0, axis=1))
        with rows.true_block() as block:
            block.add_output(br.tanh(block.add_input(s)))
        with rows.false_block() as block:
            block.add_output(block.add_input(s))
        rows()
        with br.block("plain"):
            y = br.tanh(x)
        br.exp(y)
        br.custom_gradient(lambda x: (br.round(x), lambda g: g))(x)
    return built


def construct(program: br.Program, type_: str) -> Op:
    return next(op for _, op in all_ops(program.definition.main) if op.type == type_)


# ---- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_constructs_of_files_come_back_the_same(path: Path) -> None:
    check_views(br.parse(path.read_text(encoding="utf-8")).definition)


def test_constructs_that_were_built_come_back_the_same(program: br.Program) -> None:
    check_views(program.definition)


def test_every_operator_that_owns_blocks_has_a_view() -> None:
    assert {name for name, one in OPS.definitions.items() if one.owns_blocks} == VIEWS.keys()


@pytest.mark.parametrize("type_", VIEWS)
def test_what_is_unknown_and_unused_stays(program: br.Program, type_: str) -> None:
    op = construct(program, type_).with_(unknown=b"later")
    assert VIEWS[type_].of(op).to_op().unknown == b"later"


# ---- a loop ----------------------------------------------------------------------------------


def test_a_loop_is_memories_slices_and_rows(program: br.Program) -> None:
    view = LoopView.of(construct(program, "loop"))
    assert view.memories == (
        MemoryView("x", "memory_0", "add_0", "loop_0.final.0"),
        MemoryView("x", "memory_1", "add_1", "loop_0.final.1"),
    )
    assert view.slices == (Slice("s", "s.step_0"),)
    assert view.rows == (StackedOutputView("add_0", "loop_0.stacked"),)
    assert (view.index, view.trips, view.reverse) == ("step_0", "loop_0.trips", True)
    assert view.counted
    assert view.recorded == "loop_0"


def test_a_loop_without_a_memory_has_no_trace_of_it(program: br.Program) -> None:
    view = LoopView.of(construct(program, "loop"))
    op = trim_loop(view, {"loop_0.final.0"}, eliminate).to_op()
    assert op.inputs == {"init": ("x",), "sliced": ("s",)}
    assert op.outputs == {"final": ("loop_0.final.0",), "stacked": (), "trips": (view.trips,)}
    body = op.bodies()["body"]
    assert body.params == ("step_0", "memory_0", "s.step_0")
    assert body.results == ("add_0",)
    assert "memory_1" not in body.vars


def test_the_condition_of_a_loop_has_its_memories() -> None:
    with br.Program() as built:
        loop = br.create_while()
        with loop.block() as block:
            x = block.add_memory(init=br.constant(1.0))
            block.set_condition(x < 9.0)
            x.update(x + x)
    op = construct(built, "loop")
    view, more = LoopView.of(op), MemoryView("start", "more", "more", "end")
    info = view.body.vars[view.memories[0].param].with_(name="more")
    content = view.content.with_(vars={**view.content.vars, "more": info})
    wider = replace(view, content=content, memories=(*view.memories, more))
    cond = wider.to_op().bodies()["cond"]
    assert cond.params == (view.memories[0].param, "more")
    assert cond.vars["more"] == info
    assert replace(LoopView.of(wider.to_op()), memories=view.memories).cond == view.cond


def test_a_loop_names_where_its_outputs_come_from(program: br.Program) -> None:
    view = LoopView.of(construct(program, "loop"))
    (memory,) = (one for one in view.memories if one.final == "loop_0.final.1")
    assert view.sources("loop_0.final.1") == [(None, "x"), (view.body, memory.next)]
    assert view.sources("loop_0.stacked") == [(view.body, "add_0")]


# ---- branches --------------------------------------------------------------------------------


def test_a_switch_is_cases_and_outputs(program: br.Program) -> None:
    op = construct(program, "switch")
    view = SwitchView.of(op)
    assert view.outputs == (
        Output("switch_0.0", ("tanh_0", "x")),
        Output("switch_0.1", ("x", "exp_0")),
    )
    assert view.captures == ("x",)
    few = view.only({"switch_0.0"}).to_op()
    assert few.outputs == {"out": ("switch_0.0",)}
    assert [case.results for case in few.bodies().values()] == [("tanh_0",), ("x",)]
    assert view.sources("switch_0.0") == list(zip(view.cases, ("tanh_0", "x"), strict=True))


def test_a_switch_lists_anew_what_its_cases_read(program: br.Program) -> None:
    view = SwitchView.of(construct(program, "switch"))
    more = replace(view, outputs=(*view.outputs, view.output("more", {1: "exp_0"}, "s")))
    assert more.to_op().inputs[CAPTURES] == ("x", "s")
    assert more.outputs[-1] == Output("more", ("s", "exp_0"))


def test_a_row_wise_branch_is_cases_rows_and_outputs(program: br.Program) -> None:
    op = construct(program, "partition")
    view = PartitionView.of(op)
    assert [(case.mask, case.count) for case in view.cases] == [
        ("logical_not_0", Dim.named("false_rows_0")),
        ("any_0", Dim.named("true_rows_0")),
    ]
    assert view.rows == (Operand("s", ("rows_1", "rows_0")),)
    assert [out.results for out in view.outs] == [("rows_1", "tanh_1")]
    assert view.sums == ()
    linear = replace(view, rows=(replace(view.rows[0], linear=True),)).to_op()
    assert linear.attrs["linear"] == (0,)
    assert view.only(()).to_op().attrs["outs"] == 0
