"""Rewriting of steps that were renamed: names stay; edited or cut steps are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

FEED = {"x": np.linspace(-1.0, 1.0, 12, dtype="f").reshape(3, 4)}


def step(act: Any = br.relu, after: Callable[[Any], Any] = lambda v: v) -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        h = after(br.tanh(br.fc(x, 4, name="a"), name="h"))
        prog.give(br.mean(act(br.fc(h, 4, name="b"), name="r") ** 2, name="loss").name)
        br.optimizer.adam(0.1).minimize(prog.var("loss"))
    return prog


def halve(v: Any) -> Any:
    return v * 0.5


def turned(x: Any) -> Any:
    return br.matrix_transpose(x) * 0.5


EDITS: dict[str, Callable[[br.Program], br.Program]] = {
    "constant of the step": lambda p: p.set_constant("adam/body/adam/constant_2", 0.0),
    "gradient": lambda p: p.insert_after("matmul_3", halve),
    "rule on the step": lambda p: p.rewrite(br.matrix_transpose, turned, exact=True),
    "cut": lambda p: br.cut(p, at=["h"])[1],
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_step_that_was_edited_is_not_built_again(edit: str) -> None:
    edited = EDITS[edit](step())
    text = str(edited)
    with pytest.raises(br.ProgramError, match="the part that minimize built has been edited"):
        edited.rewrite(br.relu, br.sigmoid)
    assert str(edited) == text
    loaded = br.Program.from_bytes(edited.to_bytes())
    with pytest.raises(br.ProgramError, match="has been edited since"):
        loaded.rewrite(br.relu, br.sigmoid)


RENAMES: dict[str, dict[str, str]] = {
    "a parameter": {"a.w": "weight"},
    "two parameters that change names": {"a.w": "b.w", "b.w": "a.w"},
    "states": {"adam/*": "opt/*"},
    "one state": {"adam/mu/a.w": "moment", "adam/count": "steps"},
    "all of a layer": {"a.*": "front.*", "adam/*/a.*": "adam/*/front.*"},
    "the step": {"adam": "opt", "adam/*": "opt/*"},
    "data, values and the loss": {"x": "features", "h": "hidden", "loss": "objective"},
    "a gradient": {"matmul_3": "slope"},
    "all": {"*": "net/*"},
}


def trained(prog: br.Program, mode: str, feed: str = "x") -> dict[str, Any]:
    """The losses of three steps, and the values in the scope afterwards."""
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    feeds = {feed: FEED["x"]}
    losses = [exe.run(prog, scope, feeds, prog.fetches[0]) for _ in range(3)]
    return {"losses": losses} | {w.name: np.asarray(scope[w.name]) for w in prog.persistables}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("names", RENAMES)
def test_a_renamed_step_is_built_again_with_its_names(
    names: str, loaded: bool, mode: str
) -> None:
    renamed = step().rename(RENAMES[names])
    renamed = br.Program.from_bytes(renamed.to_bytes()) if loaded else renamed
    new = renamed.rewrite(br.relu, br.sigmoid)
    assert dict(new.updates) == dict(renamed.updates)
    assert [w.name for w in new.persistables] == [w.name for w in renamed.persistables]
    assert new.fetches == renamed.fetches
    assert str(br.parse(str(new))) == str(new)
    assert not br.diff(new.rewrite(br.sigmoid, br.relu), renamed)
    anew = step(br.sigmoid)
    pairs = zip(renamed.persistables, step().persistables, strict=True)
    old = {"losses": "losses"} | {now.name: then.name for now, then in pairs}
    left, right = trained(new, mode, new.feeds[0]), trained(anew, mode)
    assert {old[name] for name in left} == set(right)
    for name, value in left.items():
        np.testing.assert_array_equal(value, right[old[name]])


def test_names_follow_edits_and_renames_in_any_order(mode: str) -> None:
    prog = step()
    with prog.edit() as e:
        e.rename({"a.w": "weight"}).replace("r", br.sigmoid).rename({"weight": "kernel"})
        e.rename({"adam/mu/a.w": "moment"}).replace("h", br.sin)
    new = br.Program.from_bytes(e.program.to_bytes())
    assert {"kernel", "moment", "adam/nu/a.w"} <= set(new.updates)
    anew = prog.replace("r", br.sigmoid).replace("h", br.sin)
    left, right = trained(new, mode), trained(anew, mode)
    np.testing.assert_array_equal(left["losses"], right["losses"])
    np.testing.assert_array_equal(left["moment"], right["adam/mu/a.w"])


def test_a_new_parameter_may_have_an_earlier_name(mode: str) -> None:
    renamed = step().rename({"a.w": "weight"})

    def scaled(v: Any) -> Any:
        return v * br.parameter("a.w", [4], 0.5)

    new = renamed.insert_after("h", scaled)
    states = {"adam/mu/a.w", "adam/nu/a.w", "weight", "a.w"}
    assert states <= set(new.updates)
    again = br.Program.from_bytes(new.to_bytes()).replace("r", br.sigmoid)
    assert list(again.updates) == list(new.updates)
    anew = step(br.sigmoid, lambda v: v * br.parameter("gain", [4], 0.5))
    left, right = trained(again, mode), trained(anew, mode)
    np.testing.assert_allclose(left["losses"], right["losses"], rtol=1e-6)
    np.testing.assert_allclose(left["a.w"], right["gain"], rtol=1e-6)
    np.testing.assert_allclose(left["weight"], right["a.w"], rtol=1e-6)


def test_a_learning_rate_and_other_optimizers_are_renamed(mode: str) -> None:
    def two(act: Any = br.relu) -> br.Program:
        with br.Program() as prog:
            x = br.data("x", ["n", 4])
            rate = br.parameter("rate", [], 0.1, trainable=False)
            y = br.fc(act(br.fc(x, 4, name="a")), 2, name="b")
            loss = br.mean(y * y, name="loss")
            prog.give(loss.name)
            adam = br.optimizer.adam(rate)
            br.optimizer.chain(br.optimizer.clip_by_global_norm(0.1), adam).minimize(
                loss, parameters=["a.w", "a.b"]
            )
            br.optimizer.momentum(0.1).minimize(loss, parameters=["b.w"])
        return prog

    names = {"rate": "speed", "a.w": "first", "b.w": "second", "*/trace/*": "*/velocity/*"}
    renamed = two().rename(names)
    assert sum("/velocity/" in name for name in renamed.updates) == 1
    for prog in (renamed, br.Program.from_bytes(renamed.to_bytes())):
        new = prog.rewrite(br.relu, br.sigmoid)
        assert dict(new.updates) == dict(renamed.updates)
        left, right = trained(new, mode), trained(two(br.sigmoid), mode)
        np.testing.assert_array_equal(left["losses"], right["losses"])
        np.testing.assert_array_equal(left["second"], right["b.w"])


def test_a_program_differentiated_after_a_rename_keeps_the_names_of_both(mode: str) -> None:
    def with_slope(prog: br.Program, weight: str) -> br.Program:
        with prog:
            (slope,) = br.gradients(prog.var("loss"), prog.var(weight))
            br.mean(slope**2, name="norm")
        return prog

    prog = with_slope(step().rename({"a.w": "weight"}), "weight")
    renamed = prog.rename({"weight": "kernel", "norm": "size"})
    new = renamed.rewrite(br.relu, br.sigmoid)
    assert list(new.updates) == list(renamed.updates)
    exe, sizes = br.Executor(mode=mode), list[Any]()
    for one, name in ((new, "size"), (with_slope(step(br.sigmoid), "a.w"), "norm")):
        scope = exe.init(one, br.Scope(), seed=0)
        sizes.append([exe.run(one, scope, FEED, name) for _ in range(3)])
    np.testing.assert_array_equal(*sizes)


def test_names_of_the_forward_part_may_change(mode: str) -> None:
    prog = step()
    renamed = prog.rename({"h": "hidden"}).rewrite(br.relu, br.sigmoid)
    plain, exe = prog.rewrite(br.relu, br.sigmoid), br.Executor(mode=mode)
    losses = []
    for one in (renamed, plain):
        scope = exe.init(one, br.Scope(), seed=0)
        losses.append([exe.run(one, scope, FEED, "loss") for _ in range(3)])
    np.testing.assert_array_equal(*losses)


def test_handles_follow_a_rename_and_a_rewriting() -> None:
    with br.Program() as prog:
        x, rnn = br.data("x", ["n", 4]), br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(br.tanh(h.pre(1), name="act") * 0.5)
        prog.give(br.identity(rnn.final(h), name="out").name)
    handle = prog["loop_0/body/act"]
    new = prog.rename({"loop_0": "steps"}).rewrite(halve, lambda v: v * 0.25)
    assert new[handle].path == "steps/body/act"


def test_names_that_a_function_asks_for_are_checked() -> None:
    def missing(v: Any, *, place: Any) -> Any:
        return v + place["nope"]

    with pytest.raises(br.UnknownNameError, match="`nope` is not visible"):
        step().replace("r", missing, exact=True)
    with pytest.raises(br.DTypeError, match="got None"):
        step().cast("a.w", None)


def test_a_pattern_that_matches_in_the_optimizer_alone_leaves_the_step_as_it_is() -> None:
    def root(v: Any) -> Any:
        return br.sqrt(v)

    prog, seen = step(), list[str]()
    inside = prog.find(type="sqrt", inside="adam")
    assert inside
    new = prog.rewrite(root, lambda v: br.sqrt(v) * 2.0)
    assert len(new.report) == 0
    assert "belongs to a derivative or a step of an optimizer" in new.report.near[0].reason
    assert str(new) == str(prog)

    def rule(op: Any, place: Any) -> Any:
        seen.append(place.where(op))
        return op

    prog.rewrite(rule)
    assert seen
    assert not any(path.startswith("adam") for path in seen)
    exact = prog.rewrite(root, lambda v: br.sqrt(v) * 2.0, exact=True)
    assert len(exact.report) == len(inside)
