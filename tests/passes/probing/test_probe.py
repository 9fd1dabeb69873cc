"""Probes: values of inner variables, in all constructs, beside those that scopes keep."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pytest

import braces as br
from braces.passes.probing import probe as probing
from tests.passes.probing.kept_scopes import INTERPRETER, check_probes, inner_paths
from tests.random_programs.agree import scope_of
from tests.random_programs.generate import feeds_of, generate

pytestmark = pytest.mark.unoptimized
COMPILER = br.Executor()
LENGTHS = np.array([1, 3, 0, 2], "int32")
ACT = "loop_0/body/partition_0/cases[0]/act"


def nested() -> br.Program:
    """Steps with lengths, a row-wise branch, a while in an RNN, a switch, a plain block."""
    with br.Program() as prog:
        x, lengths = br.data("x", ["b", "t", 3]), br.data("lengths", ["b"], "int32")
        rnn, outer = br.create_rnn(lengths=lengths), br.create_rnn()
        with rnn.stepnet() as step:
            row, h = step.add_input(x, axis=1), step.add_memory(shape=[3], batch_like=x)
            h.update(br.tanh(row + h.pre(1), name="act"))
        last = rnn.final(h)
        branch = br.create_if_else(br.sum(last, axis=1) > 0.0)
        with branch.true_block() as case:
            given = case.add_input(last)
            inner = br.create_rnn(steps=2)
            with inner.stepnet() as step:
                total = step.add_memory(init=given)
                total.update(br.sin(total.pre(1), name="turned"))
            case.add_output(inner.final(total))
        with branch.false_block() as case:
            case.add_output(br.exp(case.add_input(last), name="grown"))
        with outer.stepnet() as step:
            start = br.sum(br.abs(step.add_input(x, axis=1)))
            loop = br.create_while()
            with loop.block() as body:
                z = body.add_memory(init=start)
                body.set_condition(z > 0.5)
                z.update(br.multiply(z, 0.5, name="half"))
            step.add_output(loop.final(z))
        with br.block("encoder"):
            hidden = br.tanh(branch(), name="h")
            k = br.cast(br.sum(hidden) > 100.0, "int32")
        chosen = br.switch(k, [lambda: br.square(hidden), lambda: br.exp(hidden)])
        br.add(br.mean(chosen), br.mean(outer()), name="loss")
    return prog


def feed_of(rows: int = 4) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(rows, 3, 3))
    return {"x": x.astype("float32"), "lengths": LENGTHS[:rows]}


def test_probes_of_all_constructs_are_the_kept_values_in_both_modes() -> None:
    prog = nested()
    paths = inner_paths(prog)
    for exe in (INTERPRETER, COMPILER):
        count, refused = check_probes(prog, paths, br.Scope(), feed_of(), exe)
        assert count > 450
        assert all("no batch axis" in one or "condition" in one for one in refused), refused


def test_probes_of_a_training_step_are_the_kept_values() -> None:
    prog = nested()
    with prog:
        w = br.parameter("w", [3], init=[1.0, 2.0, 3.0])
        loss = br.mean(prog.vars["loss"] * w)
        br.append_backward(loss)
    paths = inner_paths(prog)
    scope = INTERPRETER.init(prog)
    assert check_probes(prog, paths, scope, feed_of(), INTERPRETER)[0] > 450


@pytest.mark.parametrize("first", [0, 8])
@pytest.mark.parametrize("differentiated", [False, True])
def test_probes_of_random_programs_are_the_kept_values(
    first: int, differentiated: bool
) -> None:
    compared = 0
    for seed in range(first, first + 4):
        made, feeds = generate(seed, 4), feeds_of(seed)
        prog = made.program
        if differentiated:
            with prog:
                br.gradients(made.result, made.inputs)
        feed = {name: value for name, value in feeds.items() if name in prog.feeds}
        paths = inner_paths(prog)
        random.Random(seed).shuffle(paths)
        compared += check_probes(prog, paths[:15], scope_of(feeds), feed, INTERPRETER)[0]
    assert compared


def test_a_probe_changes_no_result_and_keeps_names() -> None:
    prog = nested()
    probed = prog.probe(ACT)
    feed = feed_of()
    for exe in (INTERPRETER, COMPILER):
        first, second = (
            exe.run(one, br.Scope(), feed, "loss") for one in (prog, probed.program)
        )
        assert first == second
    assert prog.definition.main.vars.items() <= probed.program.definition.main.vars.items()
    assert str(probed.value.type) == "f32[t,b,3]"
    assert repr(probed) == f"<Probe {ACT}: f32[t,b,3], ran loop_0.less_0_0: bool[t,b]>"


def test_steps_with_lengths_have_a_mask() -> None:
    probed = nested().probe(ACT)
    fetch = [probed.value, probed.ran]
    value, ran = COMPILER.run(probed.program, br.Scope(), feed_of(), fetch)
    assert np.array_equal(ran, np.arange(3)[:, None] < LENGTHS)
    assert np.array_equal(value.any(axis=-1), ran)


def test_a_case_without_rows_and_a_loop_without_iterations_give_zeros_and_nothing() -> None:
    prog, feed = nested(), feed_of()
    feed["x"] = feed["x"][:, :0]
    probed = prog.probe("encoder/body/encoder/partition_0/cases[1]/loop_1/body/turned")
    for exe in (INTERPRETER, COMPILER):
        fetch = [ACT, "loop_3/body/loop_2/body/half"]
        assert [len(one) for one in exe.run(prog, br.Scope(), feed, fetch)] == [0, 0]
        fetch = [probed.value, probed.ran]
        value, ran = exe.run(probed.program, br.Scope(), feed, fetch)
        assert (value.shape, ran.shape) == ((2, 4, 3), (2, 4))
        assert not value.any()
        assert not ran.any()


def test_a_while_in_a_loop_tells_its_trips() -> None:
    probed = nested().probe("loop_3/body/loop_2/body/half")
    fetch = [probed.value, *probed.trips]
    value, trips = COMPILER.run(probed.program, br.Scope(), feed_of(), fetch)
    assert trips.shape == (3,)
    assert len(value) == trips.sum()
    ends = np.cumsum(trips)
    assert all(value[ends - 1] <= 0.5)


def test_a_row_that_a_gradient_keeps_is_reused() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["t", 3]), br.parameter("w", [3], init=1.0)
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(init=w)
            h.update(br.tanh(h.pre(1) * step.add_input(x), name="act"))
        loss = br.sum(rnn.final(h))
        br.append_backward(loss)
    probed = prog.probe("loop_0/body/act").program
    assert len(probed.definition.main.vars) == len(prog.definition.main.vars)
    assert prog.probe("loop_0/body/x.step_0").value.name == "x"


def test_a_list_that_a_gradient_keeps_is_reused() -> None:
    with br.Program() as prog:
        loop, w = br.create_while(), br.parameter("w", [], init=3.0)
        with loop.block() as body:
            z = body.add_memory(init=w)
            body.set_condition(z > 0.5)
            z.update(br.sin(z.pre(1), name="turned") * 0.9)
        br.append_backward(loop.final(z) * 1.0)
    main = prog.definition.main
    pushed = next(op for op in main.ops if op.name == "loop_0").bodies()["body"].ops
    kept = next(op.inputs["value"][0] for op in pushed if op.type == "list_push")
    probed = prog.probe(f"loop_0/body/{kept}").program.definition.main
    assert len(probed.ops) == len(main.ops) + 1
    scope = INTERPRETER.init(prog)
    assert check_probes(prog, inner_paths(prog), scope, {}, COMPILER)[0]


def test_repeated_fetches_build_and_compile_once() -> None:
    prog, exe, scope = nested(), br.Executor(), br.Scope()
    exe.run(prog, scope, feed_of(), ACT)
    count = exe.stats.compilations
    with mock.patch.object(probing, "expose", side_effect=AssertionError):
        exe.run(prog, scope, feed_of(), ACT)
    assert exe.stats.compilations == count


def test_evaluation_and_dicts_take_paths() -> None:
    prog = nested()
    fetch = {"act": ACT, "loss": "loss", "h": "encoder/body/encoder/h"}
    found = COMPILER.evaluate(prog, br.Scope(), feed_of(), fetch)
    assert {key: one.shape for key, one in found.items()} == {
        "act": (3, 4, 3),
        "loss": (),
        "h": (4, 3),
    }


def test_the_error_of_a_short_name_has_the_path() -> None:
    prog = nested()
    with pytest.raises(br.UnknownNameError, match="Pass the full path") as caught:
        COMPILER.run(prog, br.Scope(), feed_of(), "act")
    assert f"`{ACT}`" in str(caught.value)
    with pytest.raises(br.UnknownNameError) as caught:
        prog.probe("loop_0/body/act")
    assert f"`{ACT}`" in str(caught.value)


def test_the_error_of_an_inner_variable_has_its_path() -> None:
    with br.Program() as prog:
        x, rnn = br.data("x", ["t"]), br.create_rnn()
        with rnn.stepnet() as step:
            inner = br.tanh(step.add_input(x), name="y")
            step.add_output(inner)
    with pytest.raises(br.ProgramError, match='"loop_0/body/y"'):
        COMPILER.run(prog, br.Scope(), {"x": np.ones(2, "f4")}, inner)


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        ("loop_3/body/loop_2/cond/greater_1", br.ProgramError, "a condition runs once more"),
        ("loop_0/body/partition_0/cases[0]/nothing", br.UnknownNameError, "unknown fetch"),
        ("loop_3/body/loop_2", br.ProgramError, "has 2 outputs"),
        ("loop_3", br.UnknownNameError, r"`loop_3` is an operator \(loop\), not a value"),
    ],
)
def test_other_paths_are_refused_by_name(
    path: str, error: type[br.BracesError], words: str
) -> None:
    prog = nested()
    before = str(prog)
    with pytest.raises(error, match=words) as caught:
        prog.probe(path)
    assert path in str(caught.value)
    assert str(prog) == before


def test_a_while_in_a_branch_and_a_value_without_rows_are_refused() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        branch = br.create_if_else(br.sum(x, axis=1) > 0.0)
        with branch.true_block() as case:
            given, loop = case.add_input(x), br.create_while()
            with loop.block() as body:
                z = body.add_memory(init=br.constant(4.0))
                body.set_condition(z > 1.0)
                z.update(br.multiply(z, 0.5, name="half"))
            case.add_output(given * br.multiply(loop.final(z), 2.0, name="twice"))
        with branch.false_block() as case:
            case.add_output(case.add_input(x))
        branch()
    with pytest.raises(br.ProgramError, match="data-dependent trip count, inside the branch"):
        prog.probe("partition_0/cases[1]/loop_0/body/half")
    with pytest.raises(br.ProgramError, match="no batch axis in the row-wise branch") as caught:
        prog.probe("partition_0/cases[1]/twice")
    assert "partition_0/cases[1]/twice" in str(caught.value)
