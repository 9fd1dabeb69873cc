"""Names, types, attributes and constants, changed in every construct, in both modes."""

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


# ---- rename ----------------------------------------------------------------------------------


def test_names_change_everywhere(mode: str) -> None:
    prog = minimized(model())
    names = {
        "x": "features",
        "lens": "counts",
        "loss": "objective",
        "cell.*": "gates.*",
        "encoder": "front",
        "encoder/*": "front/*",
        "loop_0": "rnn",
        "partition_1": "choice",
        ACT: "squashed",
        "loop_2/body/loop_1": "while",
        "loop_2/body/loop_1/body/memory_1": "carry",
        "loop_0/body/step_0": "t",
    }
    new = prog.rename(names)
    for old in ("encoder/", "encoder:", "cell.", "loop_0.", "memory_1", "lens", "step_0"):
        assert f" {old}" not in str(new), old
    assert new.feeds == ("features", "counts")
    assert new.fetches == ("objective",)
    assert {"gates.w", "front/proj.b"} <= set(new.updates)
    assert {"gates.w", "front/proj.b"} <= set(new.startup.updates)
    read_again(new)
    exe = br.Executor(mode=mode)
    scope = exe.init(new, br.Scope(), seed=0)
    scope.update({new_name: value for new_name, value in _renamed_values(prog, exe).items()})
    feed = {"features": FEED["x"], "counts": FEED["lens"]}
    got = [float(exe.run(new, scope, feed, "objective")) for _ in range(3)]
    np.testing.assert_allclose(got, losses(prog, mode), rtol=1e-6)


def _renamed_values(prog: br.Program, exe: br.Executor) -> dict[str, np.ndarray]:
    scope = exe.init(prog, br.Scope(), seed=0)
    names = {"cell": "gates", "encoder/proj": "front/proj"}
    values = {}
    for w in prog.parameters:
        layer, _, end = w.name.rpartition(".")
        values[f"{names[layer]}.{end}"] = scope[w.name]
    return values


def test_handles_follow_renamings_and_blocks() -> None:
    prog = model()
    act, memory, block = (
        prog[ACT],
        prog["loop_2/body/loop_1/body/memory_1"],
        prog["loop_2/body"],
    )
    new = prog.rename({"loop_0": "rnn", ACT: "squashed"}).rename({"loop_2": "outer"})
    assert new[act].path == "rnn/body/partition_0/cases[0]/squashed"
    assert new[memory].path == "outer/body/loop_1/body/memory_1"
    assert new[block].path == "outer/body"
    assert act in new
    swapped = new.rename({"mean_0": "mean_1", "mean_1": "mean_0"})
    assert swapped[prog["mean_0"]].path == "mean_1"
    assert swapped[act].users == new[act].users
    gone = new.replace(act, lambda v: v)
    assert gone[act].type == "identity"
    removed = new.remove(act, by="x")
    assert act not in removed
    with pytest.raises(br.UnknownNameError):
        removed[act]


def test_a_value_of_a_plain_block_has_one_name_inside_and_outside() -> None:
    for path in ("encoder/proj", "encoder/body/encoder/proj"):
        new = model().rename({path: "encoder/z"})
        assert "encoder/body/encoder/z" in new
        assert new["moveaxis_0"].inputs[0].name == "encoder/z"
        read_again(new)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ({"x": "lens"}, "cannot rename `x` to `lens`: the variable `lens` has this name"),
        (
            {"mean_0": "mean_1"},
            "cannot rename `mean_0` to `mean_1`: the variable `mean_1` has this name",
        ),
        ({"cell.w": "matmul_0"}, "the variable `loop_0/body/partition_0/cases[0]/matmul_0`"),
        ({ACT: "cell.w"}, "the variable `cell.w` has this name"),
        ({"x": "a b"}, "invalid name 'a b'"),
        ({"x": 3}, "expected a name for `x`, got 3"),
        ({"loop_0/body": "b"}, "the block `loop_0/body` has no name of its own"),
        ({"cell.*": "gate"}, "expected 1 `*` in the new name"),
        ({}, "the mapping of names is empty"),
        (["x"], "expected a mapping for `names`, got ['x']"),
        ({"absent.*": "b.*"}, "no variable matches `absent.*`"),
        ({"act": "b"}, "Pass the full path"),
    ],
)
def test_names_with_another_meaning(names: Any, text: str) -> None:
    prog = model()
    definition = prog.definition
    with pytest.raises(br.BracesError) as caught:
        prog.rename(names)
    assert text in str(caught.value)
    assert prog.definition is definition


def test_a_name_may_be_that_of_an_unrelated_inner_variable() -> None:
    read_again(model().rename({"x": "memory_0"}))


def test_a_name_of_a_startup_value_is_free() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [4], init=br.init.normal())
        prog.give(br.sum(w, name="y"))
    inner = next(iter(prog.startup.definition.main.ops)).name
    new = prog.rename({"w": inner})
    exe = br.Executor()
    got = exe.run(new, exe.init(new, br.Scope(), seed=3), {}, "y")
    assert got == exe.run(prog, exe.init(prog, br.Scope(), seed=3), {}, "y")


# ---- retype ----------------------------------------------------------------------------------


def test_sizes_become_numbers_everywhere(mode: str) -> None:
    prog = minimized(model())
    new = prog.retype({"x": "f32[5,6,4]", "lens": "i32[5]"})
    assert "size(b)" not in str(new)
    assert "size(t)" not in str(new)
    assert str(new["full_0"].outputs[0].type) == "f32[5,6]"
    assert str(new["partition_1/cases[1]/warm"].outputs[0].type) == "f32[true_rows_0,6]"
    read_again(new)
    same(losses(new, mode), losses(prog, mode), 1e-5)
    assert str(prog["x"].type) == "f32[b,t,4]"


def test_parameters_keep_the_form_of_their_initial_values(mode: str) -> None:
    prog = model()
    new = prog.retype({"x": "f32[b,t,3]", "encoder/proj.w": "f32[3,6]"})
    feed = FEED | {"x": FEED["x"][..., :3]}
    assert np.isfinite(losses(minimized(new), mode, feed=feed)).all()
    with br.Program() as small:
        y = br.fc(br.data("x", ["n", 4]), 6, name="y")
        small.give(br.sum(y, name="loss"))
    wide = small.retype({"x": "f64[n,4]", "y.*": "f64[6]", "y.w": "f64[4,6]"})
    assert str(wide["loss"].outputs[0].type) == "f64[]"
    exe = br.Executor(mode=mode)
    scope = exe.init(wide, br.Scope(), seed=0)
    assert scope["y.w"].dtype == np.float64
    assert np.isfinite(exe.run(wide, scope, {"x": np.ones((2, 4))}, "loss"))


def test_what_does_not_fit_is_named_with_the_edit() -> None:
    prog = model()
    for types, words in (
        ({"x": "f32[b,t,3]"}, ("retype `x` from f32[b,t,4] to f32[b,t,3]", "encoder/matmul_0")),
        ({"x": "f32[5,t,4]"}, ("less_0", "b", "5")),
        ({"cell.w": "f32[12,5]"}, ("`loop_0/body/partition_0/cases[0]/cell`", "models.py:")),
        ({"x": "f32[t,4]"}, ("retype `x`",)),
        ({"encoder/proj": "f32[b,6]"}, ("follows from its operator",)),
        ({"x": "f33[b]"}, ("expected a type for `x`, got 'f33[b]'",)),
        ({"x": 3}, ("expected a type for `x`, got 3",)),
        ({"cell.w": "i32[12,6]"}, ("expected a float dtype for the trainable parameter",)),
        ({"cell.w": "f32[n,6]"}, ("requires fixed sizes",)),
        ({}, ("the mapping of types is empty",)),
    ):
        with pytest.raises(br.BracesError) as caught:
            prog.retype(types)
        for word in words:
            assert word in str(caught.value)


# ---- attributes and constants ----------------------------------------------------------------


def test_attributes_of_operators_and_constructs(mode: str) -> None:
    prog = model()
    with prog.edit() as e:
        e.set_attrs(["loop_0", "encoder"], recompute=True)
        e.set_attrs("loop_2/body/loop_1", max_trips=50)
    new = e.program
    assert new["loop_0"].attrs["recompute"] is True
    kept = prog.set_attrs("sum_0", keepdims=False)
    assert str(kept["sum_0"].outputs[0].type) == "f32[b]"
    same(losses(minimized(new), mode), losses(minimized(prog), mode), 1e-5)
    read_again(new)


def test_types_follow_attributes_into_blocks() -> None:
    prog = model()
    with pytest.raises(br.BracesError) as caught:
        prog.set_attrs("sum_0", keepdims=True)
    assert "set_attrs `sum_0`: `partition_1`" in str(caught.value)
    for attrs, text in (
        ({"axes": 1}, "unknown attribute `axes`"),
        ({"axis": "one"}, "set_attrs `sum_0`, op `sum_0`"),
        ({"axis": 7}, "`sum_0`"),
        ({}, "no attribute is given"),
    ):
        with pytest.raises(br.BracesError) as caught:
            prog.set_attrs("sum_0", **attrs)
        assert text in str(caught.value)
    with pytest.raises(br.ProgramError, match="`body` of `loop_0` is a block"):
        prog.set_attrs("loop_0", body=None)


def test_constants_in_blocks(mode: str) -> None:
    prog = model()
    new = prog.set_constant("partition_1/cases[0]/constant_1", 3)
    wanted = prog.replace("partition_1/cases[0]/cold", lambda v, c: v * 3.0)
    same(losses(minimized(new), mode), losses(minimized(wanted), mode), 1e-6)
    for value, error, text in (
        ([1.0, 2.0], br.ShapeError, "expected a value of shape [], got [2]"),
        (np.float64(2.0), br.DTypeError, "expected a value of dtype float32, got float64"),
        ("two", br.DTypeError, "expected a value of dtype float32"),
    ):
        with pytest.raises(error) as caught:
            prog.set_constant("constant_0", value)
        assert text in str(caught.value)
        assert "set_constant `constant_0`" in str(caught.value)
    with pytest.raises(br.ProgramError, match="expected a constant, got `sum_0` \\(sum\\)"):
        prog.set_constant("sum_0", 1.0)
    wide = prog.set_constant("switch_0/cases[1]/constant_2", np.full(6, 0.5, "f"), retype=True)
    same(losses(wide, mode, 1), losses(prog, mode, 1), 1e-6)
    assert types_of(wide, "switch_0/cases[1]") == ["constant", "multiply"]
