"""Gradients by inner values, beside differences of patched runs in float64."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.passes.probing.patched_place import PatchedPlace
from tests.passes.probing.kept_scopes import INTERPRETER, inner_paths
from tests.passes.probing.test_probe import COMPILER
from tests.random_programs.agree import scope_of
from tests.random_programs.generate import feeds_of, generate

pytestmark = pytest.mark.unoptimized
BOTH = (INTERPRETER, COMPILER)
STEP = 1e-5
Array = np.ndarray[Any, Any]


def nested() -> br.Program:
    """Steps with lengths, a row-wise branch in a loop in a loop, a switch, a plain block."""
    with br.Program() as prog:
        x = br.data("x", ["b", "t", 3], "float64")
        lengths = br.data("lengths", ["b"], "int32")
        rnn, outer = br.create_rnn(lengths=lengths), br.create_rnn()
        with rnn.stepnet() as step:
            row, h = step.add_input(x, axis=1), step.add_memory(shape=[3], batch_like=x)
            h.update(br.tanh(row + h.pre(1), name="act"))
        last = br.multiply(rnn.final(h), 1.0, name="last")
        with outer.stepnet() as step:
            row, total = step.add_input(x, axis=1), step.add_memory(init=last)
            start, inner = total.pre(1), br.create_rnn(steps=2)
            with inner.stepnet() as each:
                s = each.add_memory(init=start)
                before = s.pre(1)
                branch = br.create_if_else(row[:, 0] > 0.0)
                with branch.true_block() as case:
                    turned = br.sin(case.add_input(before), name="turned")
                    case.add_output(turned * 1.5)
                with branch.false_block() as case:
                    case.add_output(br.square(case.add_input(before), name="squared"))
                s.update(branch())
            total.update(br.add(inner.final(s), row, name="moved"))
        with br.block("head"):
            hidden = br.tanh(outer.final(total), name="h")
            one = br.cast(br.sum(lengths) > 0, "int32")
            out = br.switch(one, [lambda: hidden, lambda: br.exp(hidden, name="grown")])
        br.mean(br.square(out), name="loss")
    return prog


def feed() -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(4, 3, 3))
    return {"x": x, "lengths": np.array([1, 3, 0, 2], "int32")}


def paths_of(prog: br.Program) -> list[str]:
    """The paths of the named values, wherever they are."""
    names = ["act", "turned", "squared", "moved", "*h", "*grown", "last"]
    return [
        next(h.path for h in prog.find(name=f"*{name}", kind="variables") if _named(h, name))
        for name in names
    ]


def _named(handle: br.Handle, name: str) -> bool:
    return handle.name.rpartition("/")[2] == name.lstrip("*")


def random_like(value: Any) -> Array:
    shape: tuple[int, ...] = np.shape(value)
    return np.random.default_rng(1).normal(size=shape)


def check_gradient(
    prog: br.Program, path: str, feeds: Mapping[str, Any], exe: br.Executor
) -> None:
    """Compare a gradient with differences, iteration by iteration."""
    scope = br.Scope()
    fetch = [path, br.grad_of("loss", path)]
    found: list[Array] = exe.run(prog, scope, feeds, fetch)
    value, grad = found
    assert (grad.shape, grad.dtype) == (value.shape, np.dtype("float64"))
    direction = random_like(value)
    loops = PatchedPlace.of(prog.definition, path).loops
    for trips in itertools.product(*map(range, value.shape[:loops])):
        ends = list[float]()
        for sign in (STEP, -STEP):
            new = np.add(value, sign * direction)
            patch: dict[str, Any] = {path: br.patch(new, trips=trips) if loops else new}
            ends.append(float(exe.run(prog, scope, feeds, "loss", patch=patch)))
        expected = float(np.sum(np.multiply(grad, direction)[trips]))
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * STEP), expected, 1e-6, 1e-8)


def test_gradients_by_values_of_all_constructs_are_differences() -> None:
    prog = nested()
    paths = paths_of(prog)
    assert len(set(paths)) == 7
    for path in paths:
        check_gradient(prog, path, feed(), INTERPRETER)


def random_paths(seed: int) -> tuple[br.Program, list[str], br.Scope, dict[str, Any]]:
    """A random program with a loss, and the paths of its inner values in random order."""
    made, feeds = generate(seed, 4), feeds_of(seed)
    prog = made.program
    with prog:
        br.sum(br.cast(made.result, "float32"), name="loss")
    paths = inner_paths(prog)
    random.Random(seed).shuffle(paths)
    return prog, paths, scope_of(feeds), {n: v for n, v in feeds.items() if n in prog.feeds}


def test_gradients_in_random_programs_are_differences() -> None:
    compared = 0
    for seed in (1, 9, 12, 17):
        prog, paths, scope, data = random_paths(seed)
        for path in paths[:12]:
            fetch, run = [path, br.grad_of("loss", path)], partial(INTERPRETER.run, prog, scope)
            try:
                value, grad = run(data, fetch, seed=1)
            except br.BracesError:
                continue
            assert grad.shape == value.shape
            direction = random_like(value).astype(value.dtype)
            loops = PatchedPlace.of(prog.definition, path).loops
            for trips in np.ndindex(value.shape[:loops]):
                ends = [
                    float(run(data, "loss", patch={path: patched}, seed=1))
                    for patched in (
                        br.patch(value + sign * direction, trips=trips or None)
                        for sign in (1e-2, -1e-2)
                    )
                ]
                expected = float(np.sum((grad * direction)[trips]))
                np.testing.assert_allclose((ends[0] - ends[1]) / 2e-2, expected, 2e-2, 2e-2)
                compared += 1
    assert compared > 20


def test_several_compiled_gradients_are_those_of_the_interpreter() -> None:
    prog = nested()
    fetch = [br.grad_of("loss", path) for path in paths_of(prog)]
    found, expected = (exe.run(prog, br.Scope(), feed(), fetch) for exe in (BOTH[1], BOTH[0]))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-12)


def test_a_gradient_is_zero_where_the_block_of_the_value_did_not_run() -> None:
    prog = nested()
    probed = prog.probe(paths_of(prog)[0], gradient="loss")
    assert probed.gradient is not None
    assert probed.ran is not None
    fetch = [probed.gradient, probed.ran]
    grad, ran = COMPILER.run(probed.program, br.Scope(), feed(), fetch)
    assert np.array_equal(ran, np.arange(3)[:, None] < feed()["lengths"])
    assert not grad[~ran].any()
    assert np.count_nonzero(grad[ran]) > 10
    assert str(probed.gradient.type) == str(probed.value.type) == "f64[t,b,3]"


def test_gradients_by_values_of_data_dependent_loops_are_in_their_order() -> None:
    with br.Program() as prog:
        x, outer = br.data("x", ["t"], "float64"), br.create_rnn()
        with outer.stepnet() as step:
            start, loop = step.add_input(x), br.create_while()
            with loop.block() as body:
                z = body.add_memory(init=start)
                body.set_condition(z > 1.0)
                z.update(br.multiply(z, 0.5, name="half"))
            step.add_output(br.square(loop.final(z)))
        br.sum(outer(), name="loss")
    path = next(h.path for h in prog.find(name="half", kind="variables"))
    for exe in BOTH:
        fetch = [path, br.grad_of("loss", path)]
        half, grad = exe.run(prog, br.Scope(), {"x": [3.0, 0.5, 2.0, 6.0]}, fetch)
        assert half.tolist() == [1.5, 0.75, 1.0, 3.0, 1.5, 0.75]
        assert grad.tolist() == [0.75, 1.5, 2.0, 0.375, 0.75, 1.5]


def test_a_gradient_by_a_loop_invariant_value_has_an_entry_per_iteration() -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["t"], "float64"), br.parameter("w", [], init=2.0, dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            step.add_output(step.add_input(x) * br.square(w, name="factor"))
        br.sum(rnn(), name="loss")
    path = "loop_0/body/factor"
    for exe in BOTH:
        scope = exe.init(prog)
        grad = exe.run(prog, scope, {"x": [1.0, 2.0, 3.0]}, br.grad_of("loss", path))
        assert grad.tolist() == [1.0, 2.0, 3.0]


def test_training_steps_give_gradients_and_train_as_before() -> None:
    def step() -> br.Program:
        with br.Program() as prog:
            x, w = br.data("x", ["t", 3]), br.parameter("w", [3], init=0.5)
            rnn = br.create_rnn()
            with rnn.stepnet() as step:
                h = step.add_memory(init=w)
                h.update(br.tanh(h.pre(1) * step.add_input(x), name="act"))
            loss = br.sum(rnn.final(h), name="loss")
            br.optimizer.sgd(0.1).minimize(loss)
        return prog

    prog, path, ends = step(), "loop_0/body/act", list[Any]()
    data = {"x": np.random.default_rng(0).normal(size=(4, 3)).astype("f4")}
    for fetch in (["loss"], ["loss", br.grad_of("loss", path)]):
        scope = COMPILER.init(prog)
        found = COMPILER.run(prog, scope, data, fetch)
        ends.append((found[0], np.array(scope.var("w").value)))
    assert found[1].shape == (4, 3)
    assert np.array_equal(found[1][-1], np.ones(3))
    assert ends[0][0] == ends[1][0]
    np.testing.assert_allclose(ends[0][1], ends[1][1], 1e-6)


def test_gradients_of_patched_runs_pass_no_replaced_value() -> None:
    prog = nested()
    act, moved = paths_of(prog)[0], paths_of(prog)[3]
    patch = {moved: br.patch(0.5, trips=1)}
    fetch = [br.grad_of("loss", act), br.grad_of("loss", moved)]
    first, second = INTERPRETER.run(prog, br.Scope(), feed(), fetch, patch=patch)
    assert not first.any()
    assert not second[0].any()
    assert second[2].any()


def test_handles_and_functions_of_jax_take_inner_values() -> None:
    prog = nested()
    path = paths_of(prog)[3]
    fetch = [prog[path], br.grad_of("loss", prog[path])]
    value, grad = COMPILER.run(prog, br.Scope(), feed(), fetch)
    single = COMPILER.run(prog, br.Scope(), feed(), prog[path])
    np.testing.assert_array_equal(value, single)
    function = prog.to_jax(fetches=[path, br.grad_of("loss", path)])
    results, _, status = function({}, feed())
    function.check(status)
    np.testing.assert_allclose(results[0], value, 1e-12)
    np.testing.assert_allclose(results[1], grad, 1e-9)
    assert len(prog.to_jax(fetches=path)({}, feed())[0]) == 1


def test_short_names_are_refused_with_the_path_in_every_place() -> None:
    prog, exe = nested(), COMPILER
    path = paths_of(prog)[0]
    for act in (
        lambda: exe.run(prog, br.Scope(), feed(), "act"),
        lambda: exe.compile(prog, br.Scope(), feed(), "act"),
        lambda: exe.run(prog, br.Scope(), feed(), "loss", patch={"act": 0.0}),
        lambda: exe.run(prog, br.Scope(), feed(), br.grad_of("loss", "act")),
        lambda: prog.to_jax(fetches=["act"]),
        lambda: prog.probe("act"),
        lambda: prog.patch({"act": 0.0}),
        lambda: prog["act"],
    ):
        with pytest.raises(br.UnknownNameError) as caught:
            act()
        assert f"`{path}`" in str(caught.value)
    with pytest.raises(br.ProgramError) as refused:
        br.cut(prog, at=["act"])
    assert f"`{path}`" in str(refused.value)


@pytest.mark.parametrize(
    ("loss", "path", "error", "words"),
    [
        ("loss", "lengths", br.GradientError, "its dtype is not a float"),
        ("loss", "loop_0/body/less_0", br.GradientError, "cannot differentiate by"),
        ("last", "loop_2/body/moved", br.GradientError, "does not depend on"),
        ("nothing", "loop_2/body/moved", br.UnknownNameError, "nothing"),
        ("loss", "loop_2/body/nothing", br.UnknownNameError, "unknown value to differentiate"),
        ("los", "loop_2/body/act", br.UnknownNameError, "Did you mean `loss`"),
    ],
)
def test_other_gradients_are_refused(
    loss: str, path: str, error: type[br.BracesError], words: str
) -> None:
    prog = nested()
    before = str(prog)
    with pytest.raises(error, match=words):
        COMPILER.run(prog, br.Scope(), feed(), br.grad_of(loss, path))
    with pytest.raises(br.BracesError):
        prog.probe(path, gradient=loss)
    assert str(prog) == before


def test_arguments_of_another_type_are_refused() -> None:
    with pytest.raises(br.ProgramError, match="expected a path or a handle, got 3"):
        br.grad_of("loss", 3)
