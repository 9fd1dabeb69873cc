"""Edits of training steps and other derivatives: they are built again, as if written anew."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import optimizer as opt
from tests.surgery.edits.models import read_again

pytestmark = pytest.mark.unoptimized
DRAW = np.random.default_rng(0)
FEED = {
    "x": DRAW.normal(size=(4, 5, 3)).astype("f"),
    "lens": np.array([1, 5, 3, 2], "int32"),
}
ACT = "loop_0/body/partition_0/cases[0]/act"


def net() -> br.Program:
    """A plain block, an RNN with lengths, a row-wise branch."""
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 3]), br.data("lens", ["b"], "int32")
        with br.block("encoder"):
            z = br.tanh(br.fc(x, 3, name="proj"), name="bend")
        rnn = br.create_rnn(lengths=lens)
        with rnn.stepnet() as step:
            row, h = step.add_input(z, axis=1), step.add_memory(shape=[3], batch_like=x)
            cell = br.fc(br.concat([row, h.pre(1)], axis=-1), 3, name="cell")
            h.update(br.tanh(cell, name="act"))
        final = rnn.final(h)
        choice = br.create_if_else(br.sum(final, axis=1) > 0.0)
        with choice.true_block() as case:
            case.add_output(br.sigmoid(case.add_input(final), name="warm"))
        with choice.false_block() as case:
            case.add_output(br.multiply(case.add_input(final), 2.0, name="cold"))
        y = br.fc(choice(), 2, name="head")
        prog.give(br.mean(br.square(y, name="square"), name="loss").name)
    return prog


def adapter() -> br.Program:
    with br.Program() as other:
        h = br.data("h", ["rows", 3])
        other.give(
            br.add(h, br.fc(br.tanh(br.fc(h, 2, name="down")), 3, name="up"), name="out")
        )
    return other


def run(prog: br.Program, mode: str, fetch: Any = "loss", feed: Any = None) -> list[Any]:
    """The values of three runs, then the values in the scope."""
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    values = [exe.run(prog, scope, feed or FEED, fetch) for _ in range(3)]
    return [values, {p.name: np.asarray(scope.var(p.name).value) for p in prog.persistables}]


def agree(new: br.Program, anew: br.Program, mode: str, fetch: Any = "loss") -> None:
    """Three steps of both give the same bits, and leave the same in the scope."""
    read_again(new)
    assert new.updates.keys() == anew.updates.keys()
    assert new.fetches == anew.fetches
    (left, left_state), (right, right_state) = run(new, mode, fetch), run(anew, mode, fetch)
    np.testing.assert_array_equal(
        np.hstack([np.ravel(v) for v in left]), np.hstack([np.ravel(v) for v in right])
    )
    assert left_state.keys() == right_state.keys()
    for name, value in right_state.items():
        np.testing.assert_array_equal(left_state[name], value)


# ---- calls that build derivatives ------------------------------------------------------------


def twice(v: Any) -> Any:
    return br.concat([v, v], axis=1)


def trained(prog: br.Program) -> br.Program:
    with prog:
        chain = opt.chain(opt.clip_by_global_norm(0.5), opt.adam(0.05))
        chain.minimize(prog.var(prog.fetches[0]))
    return prog


def descended(prog: br.Program) -> br.Program:
    with prog:
        opt.sgd(0.1).minimize(prog.var("loss"))
    return prog


def by_hand(prog: br.Program) -> br.Program:
    """Updates by gradients of which the norm is read, too."""
    with prog:
        params = [w for w in prog.parameters if w.trainable]
        grads = br.gradients(prog.var("loss"), params)
        norm = br.sqrt(sum(br.sum(g * g) for g in grads) + 1e-6, name="norm")
        for param, grad in zip(params, grads, strict=True):
            prog.update(param, param - 0.1 * grad / norm)
    return prog


def penalized(prog: br.Program) -> br.Program:
    """A gradient of a gradient."""
    with prog:
        loss = prog.var("loss")
        (slope,) = br.gradients(loss, prog.var("x"))
        opt.sgd(0.05).minimize(br.add(loss, br.mean(slope * slope), name="total"))
    return prog


def pushed(prog: br.Program) -> br.Program:
    with prog:
        x = prog.var("x")
        (slope,) = br.jvp(prog.var("loss"), x, br.ones_like(x))
        br.identity(slope, name="slope")
        opt.momentum(0.1).minimize(prog.var("loss"))
    return prog


FINISHES: dict[Callable[[br.Program], br.Program], Any] = {
    descended: "loss",
    by_hand: ["loss", "norm"],
    penalized: "total",
    pushed: ["loss", "slope"],
}

EDITS: dict[str, Callable[[br.Program], br.Program]] = {
    "a value in a loop": lambda p: p.insert_after(ACT, lambda v: v * 0.5),
    "a layer in a loop": lambda p: p.insert_after(ACT, lambda v: br.fc(v, 3, name="more")),
    "data": lambda p: p.insert_after("x", br.sin),
    "the loss": lambda p: p.insert_after("loss", lambda v: v * 2.0),
    "before a branch": lambda p: p.insert_before("partition_1", br.sin, operand="rows"),
    "before a layer": lambda p: p.insert_before(
        "encoder/body/encoder/matmul_0", lambda x: x * 2.0, operand="x"
    ),
    "an activation": lambda p: p.replace(ACT, br.gelu),
    "an activation in a branch": lambda p: p.replace("partition_1/cases[1]/warm", br.tanh),
    "an activation in a block": lambda p: p.replace("encoder/body/encoder/bend", br.relu),
    "without the activation": lambda p: p.remove(ACT, by="x"),
    "without the square": lambda p: p.remove("square", by="x"),
    "a constant": lambda p: p.set_constant("partition_1/cases[0]/constant_1", 3.0),
    "an attribute": lambda p: p.set_attrs("loop_0", recompute=True),
    "a new block": lambda p: p.replace_block("encoder/body", lambda x: br.sin(x)),
    "a new case": lambda p: p.replace_block("partition_1/cases[0]", lambda _, v: br.cos(v)),
    "a splice": lambda p: p.splice(adapter(), {"h": ACT}, name="s", outputs={"out": ACT}),
    "another dtype": lambda p: p.cast(ACT, "bfloat16"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_step_equals_the_step_written_anew(name: str, mode: str) -> None:
    prog = trained(net())
    before, startup = prog.definition, prog.startup.definition
    agree(EDITS[name](prog), trained(EDITS[name](net())), mode)
    assert prog.definition is before
    assert prog.startup.definition is startup


@pytest.mark.parametrize("finish", FINISHES)
def test_each_derivative_is_built_again(finish: Any, mode: str) -> None:
    for name in ("an activation", "before a branch"):
        agree(EDITS[name](finish(net())), finish(EDITS[name](net())), mode, FINISHES[finish])


def test_a_step_from_a_file_follows_and_its_scope_continues(mode: str) -> None:
    prog, edit = trained(net()), EDITS["a layer in a loop"]
    loaded = br.Program.from_bytes(prog.to_bytes())
    new = edit(loaded)
    agree(br.Program.from_bytes(new.to_bytes()), trained(edit(net())), mode)
    twice = EDITS["an activation"](br.Program.from_bytes(new.to_bytes()))
    agree(twice, trained(EDITS["an activation"](edit(net()))), mode)
    exe = br.Executor(mode=mode)
    scope = exe.init(loaded, br.Scope(), seed=0)
    exe.run(loaded, scope, FEED)
    moment = np.asarray(scope["adam/mu/cell.w"])
    exe.init(new, scope, seed=0, missing_only=True)
    np.testing.assert_array_equal(scope["adam/mu/cell.w"], moment)
    exe.run(new, scope, FEED)
    assert scope["adam/count"] == 2
    assert {"more.w", "adam/mu/more.w"} <= set(new.updates)


def test_gradients_of_an_edited_program_are_finite_differences(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "n", 3], "float64")
        w = br.parameter("w", [3, 3], br.init.normal(0.5), dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(shape=[3], batch_like=x, batch_axis=1, dtype="float64")
            h.update(br.tanh(step.add_input(x) + h.pre(1) @ w, name="act"))
        prog.give(br.sum(rnn.final(h) ** 2, name="loss").name)
        (grad,) = br.gradients(prog.var("loss"), w)
        br.identity(grad, name="slope")
    new = prog.replace("loop_0/body/act", br.sigmoid)
    exe, feed = br.Executor(mode=mode), {"x": DRAW.normal(size=(4, 2, 3))}
    scope = exe.init(new, br.Scope(), seed=0)
    value, slope = np.array(scope["w"]), exe.run(new, scope, feed, "slope")
    assert slope.dtype == np.float64
    for at in np.ndindex(3, 3):
        losses = list[float]()
        for step_ in (1e-6, -1e-6):
            moved = value.copy()
            moved[at] += step_
            scope.update({"w": moved})
            losses.append(float(exe.run(new, scope, feed, "loss")))
        np.testing.assert_allclose(slope[at], (losses[0] - losses[1]) / 2e-6, rtol=1e-6)


# ---- names and handles -----------------------------------------------------------------------


def test_names_and_handles_follow() -> None:
    prog = trained(net())
    act, step, norm = prog[ACT], prog["adam"], prog["adam/count"]
    new = prog.insert_after(act, lambda v: v * 0.5).replace(act, br.gelu)
    assert list(new.updates) == list(prog.updates)
    assert [w.name for w in new.persistables] == [w.name for w in prog.persistables]
    assert (new[act].type, new[act].path) == ("gelu", ACT)
    assert (new[step].type, new[norm].path) == (step.type, "adam/count")
    with prog.edit() as e:
        e.wrap(prog.find(inside=ACT.rpartition("/")[0], type="add"), name="sum")
        e.replace(act, br.gelu)
        inner = e.program[act]
        e.rename({"loop_0": "rnn"}).insert_after(inner, lambda v: v * 0.5)
    assert e.program[act].path == ACT.replace("loop_0", "rnn") == e.program[inner].path


@pytest.mark.parametrize("finish", [trained, by_hand, penalized, pushed])
def test_values_that_nothing_reads_stay(finish: Any, mode: str) -> None:
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 3]), br.data("lens", ["b"], "int32")
        rnn = br.create_rnn(lengths=lens)
        with rnn.stepnet() as step:
            row, h = step.add_input(x, axis=1), step.add_memory(shape=[3], batch_like=x)
            cell = br.concat([row, h.pre(1)], axis=-1)
            h.update(br.tanh(br.fc(cell, 3, name="cell"), name="act"))
            br.mean(h.pre(1) * row, axis=-1, name="energy")
            with br.block("report"):
                br.max(row, axis=-1, name="peak")
        prog.give(br.mean(rnn.final(h) ** 2, name="loss").name)
    prog, sizes = finish(prog), set[int]()
    paths = [prog.find(name=f"*{name}")[0].path for name in ("energy", "peak")]
    new = prog
    for _ in range(3):
        new = new.replace(ACT, br.tanh)
        sizes.add(len(new.find(kind="operators")))
        assert all(new[path] for path in paths)
    assert len(sizes) == 1
    agree(new, prog, mode, FINISHES.get(finish, "loss"))
    exe, values = br.Executor(mode=mode), list[Any]()
    for one in (new, prog):
        scope = exe.init(one, br.Scope(), seed=0)
        values.append(exe.run(one, scope, FEED, paths[0]))
    np.testing.assert_array_equal(*values)


def test_a_value_of_the_derivative_can_be_read_by_an_insertion(mode: str) -> None:
    def scaled(v: Any, *, place: Any) -> Any:
        return v * place["norm"]

    prog, anew = by_hand(net()), by_hand(EDITS["an activation"](net()))
    for each in (prog, anew):
        with each:
            br.exp(each.var("loss"), name="metric")
    with prog.edit() as e:
        e.replace(ACT, br.gelu).insert_after("metric", scaled)
    agree(e.program, anew.insert_after("metric", scaled), mode, ["loss", "norm", "metric"])


# ---- transactions ----------------------------------------------------------------------------


def test_several_edits_are_one_new_derivative(mode: str) -> None:
    def wide(p: br.Program) -> br.Program:
        with p.edit() as e:
            e.insert_after("square", twice, retype=True)
            e.replace("partition_1/cases[1]/warm", br.tanh).insert_after(ACT, br.sin)
            e.insert_before("head", lambda a, b: (a, b * 2.0))
        return e.program

    agree(wide(trained(net())), trained(wide(net())), mode)


def test_types_may_fit_at_the_end_only(mode: str) -> None:
    def wide(p: br.Program) -> br.Program:
        with p.edit() as e:
            e.insert_before("matmul_1", twice, operand="x", retype=True)
            e.retype({"head.w": "f32[6,2]"})
        return e.program

    agree(wide(trained(net())), trained(wide(net())), mode)


STRUCTURES: dict[str, Callable[[br.Program], br.Program]] = {
    "sizes": lambda p: p.retype({"x": "f32[4,5,3]", "lens": "i32[4]"}),
    "sizes of parameters": lambda p: p.retype({"head.w": "f32[3,4]", "head.b": "f32[4]"}),
    "recomputation": lambda p: p.wrap(["matmul_1", "head"], name="out", recompute=True),
    "a block": lambda p: p.wrap(["matmul_1", "head"], name="out"),
    "no block": lambda p: p.inline("encoder"),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_types_and_blocks_of_a_step_change_and_are_edited_further(name: str, mode: str) -> None:
    edit, gelu = STRUCTURES[name], EDITS["an activation"]
    prog = edit(trained(net()))
    assert [str(w.type) for w in prog.parameters] == [
        str(w.type) for w in edit(net()).parameters
    ]
    agree(gelu(prog), trained(gelu(edit(net()))), mode)
    agree(edit(gelu(trained(net()))), trained(gelu(edit(net()))), mode)


def test_a_block_that_is_recomputed_is_so_in_the_gradient() -> None:
    def edit(prog: br.Program, recompute: bool = True) -> br.Program:
        return prog.wrap(["head", "square"], name="out", recompute=recompute)

    new, anew = edit(trained(net())), trained(edit(net()))
    assert not br.diff(new, anew)
    assert br.diff(new, edit(trained(net()), recompute=False))
    with pytest.raises(br.ProgramError, match="does not record how it was differentiated"):
        edit(br.parse(str(trained(net()))))


def test_types_that_do_not_fit_are_refused_as_before() -> None:
    wide = STRUCTURES["sizes of parameters"]
    with pytest.raises(br.ShapeError, match="retype `head") as caught:
        wide(br.parse(str(trained(net()))))
    assert "multiply cannot broadcast" in str(caught.value)
    prog = trained(net())
    with pytest.raises(br.ShapeError, match=r"retype `head\.w`"):
        prog.retype({"head.w": "f32[4,2]"})
    assert prog["head.w"].type == net()["head.w"].type


def test_edits_of_the_derivative_and_of_names_follow_in_a_transaction(mode: str) -> None:
    prog = descended(net())
    with prog.edit() as e:
        e.replace(ACT, br.gelu)
        assert "head.w" in e.program.updates
        gradient = e.program.find(type="matrix_transpose")[-1]
        e.insert_after(gradient, lambda v: v * 0.0)
        e.rename({"loss": "objective"}).replace("square", br.square, exact=True)
    assert e.program.fetches == ("objective",)
    assert e.program[gradient].users[0].type == "multiply"
    values, _ = run(e.program, mode, "objective")
    assert np.isfinite(values).all()


def test_a_transaction_that_fails_changes_nothing() -> None:
    prog = trained(net())
    definition = prog.definition
    with pytest.raises(br.ShapeError) as caught, prog.edit() as e:
        e.insert_after(ACT, twice, retype=True)
    assert "insert_after" in str(caught.value)
    assert e.program is prog
    with pytest.raises(br.UnknownNameError, match="`nowhere`"), prog.edit() as e:
        e.replace(ACT, br.gelu).replace("nowhere", br.gelu)
    assert e.program is prog
    with prog.edit() as e:
        e.replace(ACT, br.gelu)
        with pytest.raises(br.ShapeError):
            e.replace("square", br.sum)
        e.replace("square", br.abs)
    assert (e.program[ACT].type, e.program["square"].type) == ("gelu", "abs")
    assert prog.definition is definition


# ---- what is refused -------------------------------------------------------------------------


def test_a_selection_of_both_parts_is_refused_by_name() -> None:
    prog = trained(net())
    with pytest.raises(br.ProgramError) as caught:
        prog.insert_before(prog.find(type="matmul"), lambda x, y: (x, y))
    assert "matmul_" in str(caught.value)
    assert "while the derivative is built again" in str(caught.value)
    places = br.prune(prog, ["loss"]).find(type="matmul")
    assert len(places) == 3
    assert prog.insert_before(places, lambda x, y: (x, y)).fetches == ("loss",)
    with prog.edit() as e:
        e.insert_after(ACT, lambda v: br.concat([v, v], axis=1, name="wide"), retype=True)
        with pytest.raises(
            br.ProgramError, match="the derivative does not exist here"
        ) as caught:
            e.rename({"adam/*": "opt/*"})
        e.insert_after(ACT.replace("act", "wide"), lambda v: v[:, :3], retype=True)
    assert list(e.program.updates) == list(prog.updates)
    assert "Edit names and derivatives in another transaction" in str(caught.value)


def edits(prog: br.Program, path: str, **options: Any) -> list[Any]:
    return [
        lambda: prog.insert_after(path, lambda v: v * 2.0, **options),
        lambda: prog.insert_before(path, lambda *v: [each * 2.0 for each in v], **options),
        lambda: prog.replace(path, lambda *v: br.relu(v[0]), **options),
        lambda: prog.remove(path, by="x", **options),
        lambda: prog.cast(path, "bfloat16", **options),
    ]


@pytest.mark.parametrize("path", [ACT, "encoder/body/encoder/bend", "square"])
def test_places_are_refused_where_the_calls_cannot_be_repeated(path: str) -> None:
    prog = br.parse(str(trained(net())))
    definition = prog.definition
    others = [
        lambda: prog.set_constant("partition_1/cases[0]/constant_1", 3.0),
        lambda: prog.set_attrs("sum_0", axis=0),
        lambda: prog.replace_block("encoder/body", lambda x: x),
        lambda: prog.insert_after("x", lambda v: v * 2.0),
        lambda: prog.splice(adapter(), {"h": ACT}, name="s", outputs={"out": ACT}),
    ]
    for edit in edits(prog, path):
        with pytest.raises(br.ProgramError, match=re.escape(f"`{path}` is already")):
            edit()
    for edit in edits(prog, path) + others:
        with pytest.raises(br.ProgramError, match="is already differentiated") as caught:
            edit()
        assert "the program does not record how it was differentiated" in str(caught.value)
        assert "the derivative of `loss`" in str(caught.value)
    for edit in edits(prog, path, exact=True)[:3]:
        read_again(edit())
    assert prog.definition is definition


def test_the_reasons_are_those_of_rewriting() -> None:
    prog = trained(net())
    frozen = prog.frozen("cell.*")
    with pytest.raises(
        br.ProgramError, match=r"the update of `adam/mu/cell\.[wb]` is not that of minimize"
    ):
        frozen.replace(ACT, br.gelu)
    edited = prog.set_constant(prog.find(inside="adam", type="constant")[0], 0.5)
    with pytest.raises(br.ProgramError, match="minimize built has been edited since"):
        edited.replace(ACT, br.gelu)
    unstored = net()
    with unstored:
        opt.sgd(lambda count: 0.1 / (count + 1.0)).minimize(unstored.var("loss"))
    assert copy.copy(unstored).replace(ACT, br.gelu)[ACT].type == "gelu"
    with pytest.raises(br.ProgramError, match="has no stored form") as caught:
        br.Program.from_bytes(unstored.to_bytes()).replace(ACT, br.gelu)
    assert "while the edited program is differentiated again" in str(caught.value)
    with pytest.raises(br.GradientError, match="does not depend on a trainable parameter"):
        prog.replace("square", lambda v: br.full_like(v, 1.0))


def test_exact_edits_keep_the_derivatives() -> None:
    prog = trained(net())
    handle = prog.find(inside="encoder_grad_0")[-1]
    exact = prog.replace(ACT, lambda v: br.tanh(v) * 1.0, exact=True)
    assert exact["loop_0_grad_0"].body == prog["loop_0_grad_0"].body
    with prog.edit() as e:
        e.replace("square", br.abs)
        e.replace(ACT, lambda v: br.tanh(v) * 1.0, exact=True)
    again = prog.replace("square", br.abs)
    assert e.program["loop_0_grad_0"].body == again["loop_0_grad_0"].body
    assert e.program[handle].path == handle.path
