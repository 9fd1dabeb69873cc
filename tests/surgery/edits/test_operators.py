"""Insertion, replacement and removal of operators in every construct, in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.surgery.edits.models import (
    ACT,
    FEED,
    losses,
    minimized,
    model,
    read_again,
    same,
    types_of,
)

pytestmark = pytest.mark.unoptimized
PLACES = [
    "encoder/body/encoder/proj",
    ACT,
    "partition_1/cases[1]/warm",
    "switch_0/cases[0]/sine",
    "loop_2/body/loop_1/body/half",
    "loop_2/body/abs_0",
]


# ---- insert after ----------------------------------------------------------------------------


def test_an_insertion_in_each_construct_reaches_the_readers(mode: str) -> None:
    prog = model()
    before = str(prog)
    new = prog.insert_after(PLACES, lambda v: (v * 4.0) / 4.0)
    assert str(prog) == before
    for path in PLACES:
        assert new[prog[path]].type == prog[path].type
        assert [user.type for user in new[path].users] == ["multiply"]
    read_again(new)
    same(losses(minimized(new), mode), losses(minimized(prog), mode), 1e-4)


def test_all_of_a_selection_are_edited_and_differentiated(mode: str) -> None:
    prog = model()
    selection = prog.find(type=["tanh", "sigmoid", "sin"])
    assert len(selection) == 4
    new = prog.insert_after(selection, lambda v: v * 0.5)
    wanted = prog.rewrite(lambda x: br.tanh(x), lambda x: br.tanh(x) * 0.5)
    wanted = wanted.rewrite(lambda x: br.sigmoid(x), lambda x: br.sigmoid(x) * 0.5)
    wanted = wanted.rewrite(lambda x: br.sin(x), lambda x: br.sin(x) * 0.5)
    same(losses(minimized(new), mode), losses(minimized(wanted), mode), 1e-4)


def test_data_parameters_arguments_and_results_are_values_too(mode: str) -> None:
    prog = model()
    scaled = prog.insert_after(["x", "cell.w"], lambda v: v * 0.5)
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    got = exe.run(scaled, scope, FEED, "loss")
    scope["cell.w"] = scope["cell.w"] * 0.5
    half = FEED | {"x": FEED["x"] * 0.5}
    np.testing.assert_allclose(got, exe.run(prog, scope, half, "loss"), rtol=1e-5)
    memory = prog["loop_0/body"].inputs[1]
    assert memory.name == "memory_0"
    stepped = prog.insert_after(memory, lambda v: v * 0.0)
    assert types_of(stepped, "loop_0/body")[1] == "multiply"
    result = prog.insert_after("loss", lambda v: v + 1.0)
    assert result.fetches != ("loss",)
    (more,) = exe.run(result, scope, FEED)
    np.testing.assert_allclose(more, exe.run(prog, scope, FEED, "loss") + 1.0, rtol=1e-6)
    read_again(stepped)


def test_layers_bring_parameters_statistics_and_draws(mode: str) -> None:
    prog = model()
    normed = prog.insert_after("loop_0.final", lambda v: br.batch_norm(v, name="bn"))
    assert {name for name in normed.updates if "bn" in name}
    assert {name for name in normed.startup.updates if "bn" in name}
    dropped = normed.insert_after(ACT, lambda v: br.dropout(v, 0.5))
    assert "random_state" in dropped.updates
    assert losses(minimized(dropped), mode)[0] > 0.0
    read_again(dropped)
    assert "random_state" not in normed.updates


def test_a_function_sees_its_place() -> None:
    prog = model()
    paths = []

    def add_bias(v: Any, *, place: Any) -> Any:
        paths.append(place.path)
        return v + place["cell.b"] + br.cast(place["step_0"], "float32")

    new = prog.insert_after(ACT, add_bias)
    assert paths == [ACT]
    assert [h.name for h in new["loop_0"].inputs if h.name == "cell.b"] == ["cell.b"]


def test_several_outputs_are_passed_together() -> None:
    with br.Program() as prog:
        first, second = br.split(br.data("x", ["n", 4]), 2, axis=1)
        prog.give(br.add(first, second, name="y"))
    (op,) = prog.find(type="split")
    new = prog.insert_after(op, lambda a, b: (b, a))
    assert [h.name for h in new["y"].inputs] == [second.name, first.name]
    once = prog.insert_after(first, br.tanh)
    assert [h.name for h in once["y"].inputs][1] == second.name


# ---- insert before ---------------------------------------------------------------------------


def test_an_operator_reads_what_is_inserted_before_it(mode: str) -> None:
    prog = model()
    new = prog.insert_before(PLACES, lambda *v: [(2.0 * each) / 2.0 for each in v])
    for path in PLACES:
        assert {maker.type for var in new[path].inputs if (maker := var.maker)} == {"divide"}
    read_again(new)
    same(losses(minimized(new), mode), losses(minimized(prog), mode), 1e-4)


def test_one_operand_and_no_other_reader(mode: str) -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["n", 4]), br.parameter("w", [4, 4], init=0.5)
        y = br.add(br.matmul(x, w, name="m"), br.sum(w), name="y")
        prog.give(y)
    for operand in ("w", "y"):  # the variable, and the slot of a product
        new = prog.insert_before("m", lambda w: w * 0.0, operand=operand)
        exe = br.Executor(mode=mode)
        scope = exe.init(new, br.Scope(), seed=0)
        got = exe.run(new, scope, {"x": np.ones((1, 4), "f")}, "y")
        np.testing.assert_allclose(got, [[8.0] * 4])


def test_an_owner_of_blocks_has_operands() -> None:
    prog = model()
    new = prog.insert_before("loop_0", lambda h, rows: (h + 1.0, rows))
    assert new["loop_0"].inputs[0].maker.type == "add"


# ---- replace ---------------------------------------------------------------------------------


def test_a_replacement_has_the_names_of_the_outputs(mode: str) -> None:
    prog = model()
    new = prog.replace(PLACES, lambda *v: br.relu(v[0]))
    assert {new[path].type for path in PLACES} == {"relu"}
    read_again(new)
    assert np.isfinite(
        losses(minimized(new.replace(PLACES[-2], lambda v: v * 0.5)), mode)
    ).all()


def test_a_swapped_activation_is_as_if_written_so(mode: str) -> None:
    prog = model()
    new = prog.replace(prog.find(type="tanh"), br.sigmoid)
    wanted = prog.rewrite(br.tanh, br.sigmoid)
    same(losses(minimized(new), mode), losses(minimized(wanted), mode), 1e-5)


def test_a_construct_is_replaced(mode: str) -> None:
    prog = model()
    new = prog.replace("switch_0", lambda index, *, place: place["partition_1.out"] * 0.5)
    assert "switch_0" in new
    assert not new.find(type="switch")
    assert np.isfinite(losses(minimized(new), mode)).all()
    same = prog.replace(ACT, lambda v: v)
    assert same[ACT].type == "identity"


def test_another_type_is_inferred_in_all_later_blocks(mode: str) -> None:
    prog = model()
    with pytest.raises(br.ShapeError, match=r"replace `sum_0`") as caught:
        prog.replace("sum_0", lambda v: br.sum(v))
    assert "retype=True" in str(caught.value)
    double = lambda v: br.cast(br.tanh(v), "float64")  # noqa: E731
    with pytest.raises(br.ShapeError, match="memory `memory_0` changes its type") as caught:
        prog.replace("encoder/body/encoder/proj", double, retype=True)
    assert "replace `encoder/body/encoder/proj`: `loop_0`, op `loop_0`" in str(caught.value)
    with prog.edit() as e:
        e.replace("encoder/body/encoder/proj", double, retype=True)
        e.set_attrs("full_0", dtype="float64")
    new = e.program
    inner = new["loop_0/body"].inputs[2]
    assert (inner.name, str(inner.type)) == ("encoder/proj.step_0", "f64[b,6]")
    assert str(new["moveaxis_0"].outputs[0].type) == "f64[t,b,6]"
    assert str(new["switch_0/cases[0]/sine"].outputs[0].type) == "f64[b,6]"
    assert br.verify(new, types=True) == []
    assert np.isfinite(losses(minimized(new), mode)).all()
    read_again(new)


# ---- remove ----------------------------------------------------------------------------------


def test_what_is_read_is_not_removed() -> None:
    prog = model()
    for path, reader in (
        (ACT, "`loop_0/body/partition_0` (partition) reads it"),
        ("encoder/body/encoder/proj", "`encoder` (block) reads it"),
        ("mean_0", "`loss` (add) reads it"),
        ("loss", "it is a result of the program"),
        ("x", "reads it"),
        ("cell.w", "`loop_0/body/partition_0/cases[0]/matmul_0` (matmul) reads it"),
    ):
        with pytest.raises(br.ProgramError) as caught:
            prog.remove(path)
        assert reader in str(caught.value)
        assert f"remove `{path}`" in str(caught.value)


def test_a_value_takes_the_place_of_a_removed_operator(mode: str) -> None:
    prog = model()
    new = prog.remove([ACT, "partition_1/cases[1]/warm", "switch_0/cases[0]/sine"], by="x")
    assert not new.find(type=["sin", "sigmoid"])
    wanted = prog
    for function in (br.sin, br.sigmoid):
        wanted = wanted.rewrite(function, lambda x: x)
    wanted = wanted.replace(ACT, lambda v: v)
    same(losses(minimized(new), mode), losses(minimized(wanted), mode), 1e-5)
    read_again(new)
    named = prog.remove(ACT, by="cell")
    assert types_of(named, "loop_0/body/partition_0/cases[0]") == ["concat", "matmul", "add"]


def test_unread_operators_and_declarations_are_removed_together() -> None:
    with br.Program() as prog:
        x, unused = br.data("x", ["n", 4]), br.data("unused", ["n"])
        w = br.parameter("w", [4], init=br.init.normal())
        br.tanh(br.exp(x * w, name="a"), name="b")
        prog.give(br.sin(x, name="y"))
    with pytest.raises(br.ProgramError, match="`b` \\(tanh\\) reads it"):
        prog.remove("a")
    new = prog.remove(["a", "b", "multiply_0", "w", unused])
    assert [op.name for op in new.block(0).ops] == ["y"]
    assert (new.feeds, new.parameters, new.startup.updates) == (("x",), [], {})
    assert "w" in prog.startup.updates


def test_a_variable_that_is_read_twice_is_two_operands(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        prog.give(br.multiply(x, x, name="square"))
    swapped = prog.replace("square", lambda a, b: a * b + b)
    first = prog.insert_before("square", lambda a, b: (a + 1.0, b))
    both = prog.insert_before("square", lambda a: a + 1.0, operand="x")
    assert [len({*p["square"].op.reads()}) for p in (first, both)] == [2, 2]
    feed = {"x": np.float32([2.0, 3.0])}
    run = br.Executor(mode=mode).run
    np.testing.assert_allclose(run(swapped, br.Scope(), feed, "square"), [6.0, 12.0])
    np.testing.assert_allclose(run(first, br.Scope(), feed, "square"), [6.0, 12.0])
    np.testing.assert_allclose(run(both, br.Scope(), feed, "square"), [6.0, 12.0])
