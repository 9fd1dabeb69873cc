"""Blocks, other programs, frozen and cast parameters, and transactions, in both modes."""

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


# ---- contents of blocks ----------------------------------------------------------------------


def test_the_body_of_a_loop_is_built_anew(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "n", 4])
        h = br.scan(lambda h, row: (br.tanh(h + row), h), 0.0 * x[0], x)[1]
        prog.give(br.mean(h, name="loss"))

    def gated(step: Any, h: Any, row: Any, *, place: Any) -> Any:
        assert place.path == "loop_0/body"
        gate = br.sigmoid(br.fc(br.concat([h, row], axis=1), 4, name="gate"))
        after = gate * h + (1.0 - gate) * br.dropout(row, 0.5)
        return after, after

    new = prog.replace_block("loop_0/body", gated)
    assert {"gate.w", "gate.b"} <= set(new.startup.updates)
    assert "random_state" in new.updates
    read_again(new)
    feed = {"x": np.ones((3, 2, 4), "f")}
    assert np.isfinite(losses(minimized(new), mode, feed=feed)).all()
    assert str(prog["loop_0/body/tanh_0"].type) == "tanh"


def test_cases_and_plain_blocks_are_built_anew(mode: str) -> None:
    prog = model()
    with prog.edit() as e:
        e.replace_block(
            "partition_1/cases[0]", lambda valid, rows: br.dropout(br.cos(rows), 0.3)
        )
        e.replace_block("switch_0/cases[1]", lambda v: v * 0.25)
        e.replace_block("encoder/body", lambda x: br.tanh(br.fc(x, 6, name="other")))
    new = e.program
    assert types_of(new, "switch_0/cases[1]") == ["constant", "multiply"]
    assert "encoder/other.w" in new.startup.updates
    assert new["encoder"].outputs[0].name == "encoder/proj"
    read_again(new)
    assert np.isfinite(losses(minimized(new), mode)).all()


def test_both_modes_draw_the_same_in_row_wise_branches() -> None:
    new = model().insert_after([ACT, "partition_1/cases[1]/warm"], lambda v: br.dropout(v, 0.5))
    same(losses(new, "compile"), losses(new, "interpret"), 1e-5)
    with pytest.raises(br.ProgramError, match="flip mixes batch elements") as caught:
        model().insert_after(ACT, lambda v: br.flip(v, axis=0))
    assert f"insert_after `{ACT}`" in str(caught.value)


def test_draws_in_a_loop_differ_between_iterations() -> None:
    with br.Program() as prog:
        x = br.data("x", [3, 64])
        prog.give(br.scan(lambda h, row: (h, br.exp(row, name="act")), x[0], x)[1])
    new = prog.insert_after("loop_0/body/act", lambda v: br.dropout(v, 0.5))
    exe = br.Executor()
    scope = exe.init(new, br.Scope(), seed=0)
    (drawn,) = exe.run(new, scope, {"x": np.zeros((3, 64), "f")})
    assert len({row.tobytes() for row in drawn != 0}) == 3


def test_contents_of_another_form() -> None:
    prog = model()
    for path, function, text in (
        ("loop_0", lambda h: h, "does not take 3 variables"),
        ("switch_0", lambda v: v, "its blocks: `switch_0/cases[0]`, `switch_0/cases[1]`"),
        ("sum_0", lambda v: v, "expected a block, got `sum_0` (sum)"),
        ("encoder/body", lambda x: (x, x), "expected 1 variable from the function"),
        ("encoder/body", lambda x: x, "expected f32[b,t,6], got f32[b,t,4]"),
        ("encoder/body", 3, "expected a function for `function`, got 3"),
    ):
        with pytest.raises(br.BracesError) as caught:
            prog.replace_block(path, function)
        assert text in str(caught.value)


# ---- wrap and inline -------------------------------------------------------------------------


def test_operators_are_wrapped_and_inlined_again(mode: str) -> None:
    prog = model()
    first = prog.find(inside=ACT.rpartition("/")[0], type=["matmul", "add"])
    with prog.edit() as e:
        e.wrap(first, name="linear", recompute=True)
        e.wrap(["pow_0", "mean_0", "constant_5"], name="square")
        e.wrap("loop_2", name="halving")
    new = e.program
    assert new[first[0]].path == "loop_0/body/partition_0/cases[0]/linear/body/matmul_0"
    assert new[prog["loop_2/body/abs_0"]].path == "halving/body/loop_2/body/abs_0"
    assert new[prog["mean_0"]].block == "square/body"
    read_again(new)
    again = new.inline(["square", "halving", new[first[0]].block])
    assert again[first[0]].path == first[0].path
    assert not br.diff(prog, again)
    same(losses(minimized(new), mode), losses(minimized(model()), mode), 1e-5)
    flat = prog.inline("encoder")
    assert flat["encoder/proj"].type == "tanh"
    read_again(flat)


def test_a_training_step_is_wrapped_without_a_change_of_values(mode: str) -> None:
    prog = minimized(model())
    new = prog.wrap(["loop_0", "sum_0", "full_0", "moveaxis_0"], name="recurrence")
    same(losses(new, mode), losses(prog, mode), 1e-6)
    read_again(new)


def test_selections_that_are_no_block() -> None:
    prog = model()
    for at, name, text in (
        (["sum_0", "logical_not_0"], "b", "`logical_not_0` depends on `greater_0`"),
        (["sum_0", ACT], "b", "are in different blocks"),
        ("sum_0", "loss", "the name `loss` of the block is that of an operator beside it"),
        ("sum_0", "a b", "invalid name"),
        ("x", "b", "which no operator of its block binds"),
        ("loop_0/body", "b", "expected an operator, got the block `loop_0/body`"),
        ([], "b", "the selection is empty"),
        (3, "b", "expected a path, a handle or a selection, got 3"),
        ("absent", "b", "unknown operator, variable or block `absent`"),
    ):
        with pytest.raises(br.BracesError) as caught:
            prog.wrap(at, name=name)
        assert text in str(caught.value)
    with pytest.raises(br.ProgramError, match="expected a plain block, got `loop_0`"):
        prog.inline("loop_0")


# ---- splice ----------------------------------------------------------------------------------


def adapter() -> br.Program:
    with br.Program() as other:
        h = br.data("h", ["rows", 6])
        other.give(br.fc(br.tanh(br.fc(h, 2, name="down")), 6, name="up"))
    return other


def test_a_program_is_spliced_into_each_construct(mode: str) -> None:
    prog, other = model(), adapter()
    with prog.edit() as e:
        for at, name in ((ACT, "a"), ("loop_0.final", "b"), ("switch_0/cases[0]/sine", "c")):
            e.splice(other, {"h": at}, name=name, outputs={"up": at})
    new = e.program
    assert {"a/down.w", "b/up.b", "c/up.w"} <= set(new.startup.updates)
    assert new.fetches == ("loss",)
    read_again(new)
    assert np.isfinite(losses(minimized(new), mode)).all()
    exe = br.Executor(mode=mode)
    scope = exe.init(new, br.Scope(), seed=0)
    wanted = prog
    for at, name in ((ACT, "a"), ("loop_0.final", "b"), ("switch_0/cases[0]/sine", "c")):
        wanted = wanted.insert_after(at, lambda v, name=name: br.call(other, v, name=name))
    first = exe.run(wanted, scope, FEED, "loss")
    np.testing.assert_allclose(exe.run(new, scope, FEED, "loss"), first, rtol=1e-6)


def test_results_feeds_and_shared_parameters() -> None:
    prog, other = model(), adapter()
    new = prog.splice(other, name="probe")
    assert new.feeds == ("x", "lens", "h")
    assert new.fetches == ("loss", "probe/up")
    where: Any = {"name": "probe", "outputs": {"up": "switch_0"}}
    with pytest.raises(br.DuplicateNameError) as caught:
        new.splice(other, {"h": "switch_0"}, **where)
    for part in ("parameter `probe/down.w`", "read by `probe/body/probe/", "share=True"):
        assert part in str(caught.value), part
    assert "`down.w` of the spliced program, read by `matmul_0`" in str(caught.value)
    shared = new.splice(other, {"h": "switch_0"}, share=True, **where)
    assert len(shared.parameters) == len(new.parameters)
    with br.Program() as filters:
        filters.give(br.relu(br.data("image", ["b", "t", 4]), name="clean"))
    front = prog.splice(filters, outputs={"clean": "x"}, name="front")
    assert [h.path for h in front["x"].users] == []
    assert front.remove("x").feeds == ("lens", "image")
    before = prog.splice(other, {"h": "loop_0.final"}, name="early", at="sum_0")
    ops = [op.name for op in before.block(0).ops]
    assert ops.index("early") == ops.index("sum_0") - 1
    read_again(shared)
    read_again(front)


def test_programs_that_do_not_fit() -> None:
    prog, other = model(), adapter()
    with br.Program() as clashing:
        clashing.give(br.tanh(br.data("x", ["n"]), name="y"))
    for arguments, text in (
        ((3, {}, {}), "expected a program, got 3"),
        ((clashing, {}, {}), "the feed `x` of the spliced program has the name of another"),
        ((other, {"g": "switch_0"}, {}), "the program has no feed `g`"),
        ((other, {"h": "x"}, {}), "shape mismatch of `x` and the feed `h`"),
        ((other, {"h": ACT}, {}), "would have no reader in an inner block"),
        ((other, {"h": ACT}, {"up": "partition_1/cases[1]/warm"}), "is not visible where"),
        ((other, {"h": "switch_0"}, {"up": "loop_0.final"}), "reads `loop_0.final` before"),
        ((other, {"h": "switch_0"}, {"down": "mean_0"}), "expected f32[], got f32[b,2]"),
        ((other, {"h": "switch_0"}, {"left": "switch_0"}), "no variable `left`"),
        ((other, {"h": "absent"}, {}), "unknown operator, variable or block `absent`"),
    ):
        with pytest.raises(br.BracesError) as caught:
            prog.splice(arguments[0], arguments[1], name="s", outputs=arguments[2] or None)
        assert text in str(caught.value)
    with br.Program() as host:
        br.parameter("s/down.w", [3])
        host.give(br.data("z", ["n", 6]) * 1.0)
    for share in (False, True):
        with pytest.raises(br.DuplicateNameError, match="duplicate name `s/down"):
            host.splice(other, {"h": "z"}, name="s", share=share)


def test_parameters_of_the_own_block_of_that_name_are_not_shared_silently() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 6])
        with br.block("enc"):
            y = br.fc(x, 2, name="down")
        prog.give(br.sum(y, name="loss").name)
    with (
        pytest.raises(br.DuplicateNameError, match=r"`enc/body/enc/matmul_0`"),
        prog.edit() as e,
    ):
        e.splice(adapter(), {"h": "x"}, name="enc")
    assert e.program is prog
    with prog.edit() as e:
        e.splice(adapter(), {"h": "x"}, name="enc", share=True)
    assert [w.name for w in e.program.parameters][:2] == ["enc/down.w", "enc/down.b"]
    assert len(e.program.parameters) == 4


# ---- freeze and cast -------------------------------------------------------------------------


def test_frozen_parameters_do_not_move(mode: str) -> None:
    prog = model()
    before, after = minimized(prog.freeze("encoder/*")), minimized(model()).freeze("encoder")
    for new in (before, after):
        assert [w.name for w in new.parameters if w.trainable] == ["cell.w", "cell.b"]
        exe = br.Executor(mode=mode)
        scope = exe.init(new, br.Scope(), seed=0)
        kept, moved = scope["encoder/proj.w"].copy(), scope["cell.w"].copy()
        exe.run(new, scope, FEED, "loss")
        np.testing.assert_array_equal(scope["encoder/proj.w"], kept)
        assert (scope["cell.w"] != moved).any()
    same(losses(before, mode), losses(after, mode), 1e-6)
    inside = prog.freeze(prog.find(inside="loop_0"))
    assert [w.name for w in inside.parameters if not w.trainable] == ["cell.w", "cell.b"]
    for at, text in (("x", "got `x`"), ("sum_0", "got `sum_0`")):
        with pytest.raises(br.ProgramError, match=text):
            prog.freeze(at)


def trainable(prog: br.Program) -> list[str]:
    return [w.name for w in prog.parameters if w.trainable]


def test_parameters_are_trained_again_after_unfreeze(mode: str) -> None:
    prog = model()
    frozen = prog.freeze(prog.find(kind="parameters"))
    assert trainable(frozen) == []
    some = frozen.unfreeze("cell.*").unfreeze("encoder/proj.b")
    assert trainable(some) == ["encoder/proj.b", "cell.w", "cell.b"]
    with frozen.edit() as e:
        e.unfreeze("loop_0").unfreeze("encoder").rename({"cell.w": "gate.w"})
    assert trainable(e.program) == trainable(prog.rename({"cell.w": "gate.w"}))
    read_again(e.program)
    same(losses(minimized(e.program), mode), losses(minimized(prog), mode))
    step = minimized(some)
    assert str(step.unfreeze("cell.*")) == str(step)
    assert set(trainable(step)) <= set(step.updates)


def test_a_step_without_the_update_is_refused_and_made_again(mode: str) -> None:
    for step in (minimized(model().freeze("cell.*")), minimized(model()).freeze("cell.*")):
        with pytest.raises(br.ProgramError) as caught:
            step.unfreeze("cell.*")
        assert "no update of `cell.w`" in str(caught.value)
        assert "updates: `encoder/proj.b`, `encoder/proj.w`\n" in str(caught.value)
        again = minimized(br.prune(step, ["loss"]).unfreeze("cell.*"))
        same(losses(again, mode), losses(minimized(model()), mode))


def test_parameters_without_gradients_stay_frozen() -> None:
    with br.Program() as prog:
        table = br.parameter("table", [4], dtype="int32", trainable=False, init=1)
        x = br.data("x", [4])
        prog.give(br.sum(x * br.cast(table, "float32"), name="y").name)
    with pytest.raises(br.ProgramError, match="expected a float parameter, got `table`"):
        prog.unfreeze("table")
    with pytest.raises(br.ProgramError, match="expected parameters or operators"):
        prog.unfreeze("y")
    assert trainable(prog) == []


def test_cast_parameters_are_trained(mode: str) -> None:
    prog = model()
    wanted = losses(minimized(prog), mode)
    weights = model().find(kind="parameters")
    before = minimized(model().cast(weights, "bfloat16"))
    after = minimized(model()).cast(["cell.w", "encoder/proj.*"], "bfloat16")
    for new in (before, after):
        read_again(new)
        exe = br.Executor(mode=mode)
        scope = exe.init(new, br.Scope(), seed=0)
        assert scope["cell.w"].dtype == "bfloat16"
        same(losses(new, mode), wanted, 2e-2)
    assert before["loss"].outputs[0].type == prog["loss"].outputs[0].type


def test_cast_operators_compute_in_the_dtype(mode: str) -> None:
    prog = model()
    new = prog.cast([ACT, "encoder", "partition_1/cases[1]"], "bfloat16")
    assert new[ACT].type == "tanh"
    assert str(new[ACT].outputs[0].type).startswith("bf16")
    assert types_of(new, "encoder/body").count("cast") == 3 + 3
    read_again(new)
    same(losses(minimized(new), mode), losses(minimized(prog), mode), 3e-2)
    for at, dtype, error, text in (
        (ACT, "int8", br.DTypeError, "expected a float dtype, got int8"),
        ("x", "bfloat16", br.ProgramError, "expected a float parameter, got `x`"),
        (ACT, "float17", br.DTypeError, "float17"),
    ):
        with pytest.raises(error) as caught:
            prog.cast(at, dtype)
        assert text in str(caught.value)


# ---- transactions ----------------------------------------------------------------------------


def test_types_need_to_fit_only_at_the_end() -> None:
    prog = model()
    with prog.edit() as e:
        e.retype({"x": "f32[b,t,3]"})
        e.rename({"encoder": "front"})
        e.retype({"encoder/proj.w": "f32[3,6]"})
    assert str(e.program["encoder/proj.w"].type) == "f32[3,6]"
    with pytest.raises(br.ShapeError) as caught, prog.edit() as e:
        e.retype({"x": "f32[b,t,3]"}).rename({"encoder": "front"})
    assert "retype `x` from f32[b,t,4] to f32[b,t,3]: `front/body/encoder/matmul_0`" in str(
        caught.value
    )
    assert e.program is prog


def test_an_error_changes_nothing() -> None:
    prog = model()
    definition, startup = prog.definition, prog.startup.definition
    with pytest.raises(br.UnknownNameError), prog.edit() as e:
        e.insert_after(ACT, lambda v: br.fc(v, 6, name="more")).remove("absent")
    assert e.program is prog
    assert (prog.definition, prog.startup.definition) == (definition, startup)
    with prog.edit() as e:
        e.rename({"loss": "objective"})
        with pytest.raises(br.BracesError):
            e.replace(ACT, br.sum)
    assert e.program.fetches == ("objective",)
    with pytest.raises(br.ProgramError, match="the transaction is not open"):
        e.rename({"objective": "loss"})
    with pytest.raises(br.ProgramError, match="has begun already"), e:
        pass


# ---- user-written gradients ------------------------------------------------------------------


def test_user_written_gradients_stay_valid() -> None:
    with br.Program() as prog:
        x = br.parameter("x", [3], init=0.5)

        @br.custom_gradient
        def rounded(v: Any) -> Any:
            y = br.round(v * 2.0, name="inner")
            return y, lambda g: g

        prog.give(br.sum(rounded(x), name="loss"))
    inner = "rounded/body/rounded/inner"
    with pytest.raises(
        br.ProgramError, match="would invalidate the user-written gradient"
    ) as e:
        prog.replace(inner, br.floor)
    assert "custom_gradient_0" in str(e.value)
    assert prog.replace(inner, br.floor, exact=True)[inner].type == "floor"
