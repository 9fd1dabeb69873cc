"""Patches: inner values replaced in all constructs, by values and functions, per iteration."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.ir.paths import VARIABLE, locate
from braces.ir.records import ARGUMENT
from tests.passes.probing.kept_scopes import INTERPRETER, inner_paths
from tests.passes.probing.test_probe import ACT, COMPILER, LENGTHS, feed_of, nested
from tests.random_programs.agree import scope_of
from tests.random_programs.generate import feeds_of, generate

pytestmark = pytest.mark.unoptimized
BOTH = (INTERPRETER, COMPILER)


def itself(value: br.Var) -> br.Var:
    return value


def doubled(value: br.Var) -> br.Var:
    return value * 2.0


def changed(value: Any) -> Any:
    """A function for patches of variables and of arrays; bools and integers stay."""
    return value * 1.25 + 0.1 if value.dtype.kind == "f" else value


def check_patches(
    prog: br.Program,
    paths: Iterable[str],
    scope: br.Scope,
    feed: Mapping[str, Any],
    fetch: Sequence[str],
    exe: br.Executor,
) -> tuple[int, list[str]]:
    """Compare patches by a function with patches by the values that it has.

    Returns:
        The number of values, and the messages of those that were refused.
    """
    count, refused = 0, list[str]()
    run: Callable[..., Any] = exe.run
    for path in paths:
        argument = locate(prog.definition, path, VARIABLE).content.kind == ARGUMENT  # pyright: ignore
        try:
            same = run(prog, scope, feed, [path, *fetch], seed=1)
            one = run(prog, scope, feed, [path, *fetch], patch={path: changed}, seed=1)
            new = changed(one[0]) if argument else one[0]
            two = run(prog, scope, feed, [path, *fetch], patch={path: new}, seed=1)
            again = run(prog, scope, feed, [path, *fetch], patch={path: same[0]}, seed=1)
        except br.BracesError as error:
            refused.append(f"{path}: {error}" if path in str(error) else "no path")
            continue
        for given, found in zip((*one, *same), (*two, *again), strict=True):
            np.testing.assert_allclose(found, given, rtol=1e-4, atol=1e-5, err_msg=path)
        count += 1
    return count, refused


@pytest.mark.parametrize("share", [1, 5])
def test_values_of_all_constructs_are_replaced_by_functions_and_by_values(share: int) -> None:
    prog, exe = nested(), COMPILER if share > 1 else INTERPRETER
    paths = inner_paths(prog)[::share]
    count, refused = check_patches(prog, paths, br.Scope(), feed_of(), ["loss"], exe)
    assert count > len(paths) // 2
    reasons = ("no batch axis", "condition", "shape mismatch")
    assert all(any(map(one.__contains__, reasons)) for one in refused), refused


@pytest.mark.parametrize("first", [0, 6])
def test_values_of_random_programs_are_replaced(first: int) -> None:
    replaced = 0
    for seed in range(first, first + 3):
        made, feeds = generate(seed, 4), feeds_of(seed)
        prog = made.program
        feed = {name: value for name, value in feeds.items() if name in prog.feeds}
        paths = inner_paths(prog)
        random.Random(seed).shuffle(paths)
        args = scope_of(feeds), feed, [made.result.name], INTERPRETER
        replaced += check_patches(prog, paths[:12], *args)[0]
    assert replaced > 10


def steps(rows: int = 3) -> tuple[br.Program, dict[str, Any]]:
    """A loop in a loop, whose inner value adds up."""
    with br.Program() as prog:
        x, outer = br.data("x", ["t", "k"]), br.create_rnn()
        with outer.stepnet() as step:
            row, total = step.add_input(x), step.add_memory(init=br.constant(0.0))
            start, inner = total.pre(1), br.create_rnn()
            with inner.stepnet() as each:
                s = each.add_memory(init=start)
                s.update(s.pre(1) + br.multiply(each.add_input(row), 1.0, name="act"))
            total.update(inner.final(s))
        br.multiply(outer.final(total), 1.0, name="y")
    return prog, {"x": np.arange(1.0, 2 * rows + 1, dtype="f4").reshape(rows, 2)}


INNER = "loop_1/body/loop_0/body/act"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (br.patch(0.0, trips=(1, 0)), 18.0),
        (br.patch(0.0, trips=(1, None)), 14.0),
        (br.patch(0.0, trips=(None, 1)), 9.0),
        (br.patch(0.0, trips=[(0, 0), (2, 1)]), 14.0),
        (br.patch(np.arange(6.0, dtype="f4").reshape(3, 2), trips=(1, 0)), 20.0),
        (br.patch(doubled, trips=(0, 0)), 22.0),
        (np.ones((3, 2), "f4"), 6.0),
        (0.5, 3.0),
        (br.patch(0.0, trips=[]), 21.0),
    ],
)
def test_iterations_of_nested_loops_are_replaced(patch: Any, expected: float) -> None:
    prog, feed = steps()
    for exe in BOTH:
        assert exe.run(prog, br.Scope(), feed, "y", patch={INNER: patch}) == expected


def test_a_sweep_over_values_and_iterations_compiles_once() -> None:
    prog, feed = steps()
    exe, scope, x = br.Executor(), br.Scope(), steps()[1]["x"]
    for t in range(3):
        for k in range(2):
            patch = {INNER: br.patch(float(t + k), trips=(t, k))}
            found = exe.run(prog, scope, feed, "y", patch=patch)
            assert found == x.sum() - x[t, k] + t + k
    assert exe.stats.compilations == 1
    assert exe.run(prog, scope, feed, "y") == x.sum()
    assert exe.stats.compilations == 2


def test_compilation_ahead_of_time_takes_patches() -> None:
    (prog, feed), exe = steps(), br.Executor()
    exe.compile(prog, br.Scope(), feed, "y", patch={INNER: br.patch(0.0, trips=(0, 0))})
    count = exe.stats.compilations
    exe.run(prog, br.Scope(), feed, "y", patch={INNER: br.patch(3.0, trips=(2, 1))})
    assert exe.stats.compilations == count == 1


def test_one_iteration_of_a_loop_with_lengths_is_replaced_where_it_runs() -> None:
    prog, feed = nested(), feed_of()
    for exe in BOTH:
        value = np.full((4, 3), 0.25, "f4")
        patch = {ACT: br.patch(value, trips=1)}
        act, before = (exe.run(prog, br.Scope(), feed, ACT, patch=one) for one in (patch, None))
        assert np.array_equal(act[0], before[0])
        assert np.array_equal(act[1], value * (LENGTHS > 1)[:, None])
        assert not np.array_equal(act[2], before[2])


def test_several_values_are_replaced_with_kept_scopes() -> None:
    (prog, feed), scope = steps(), br.Scope()
    patch: dict[str, Any] = {
        INNER: br.patch(1.0, trips=(1, 0)),
        "loop_1/body/step_0": itself,
        "y": doubled,
    }
    y = INTERPRETER.run(prog, scope, feed, "y", patch=patch, keep_scopes=True)
    assert y == 38.0
    kept = INTERPRETER.step_scopes["loop_1/body[1]/loop_0/body[0]"]
    assert (kept.var("act").value, kept.var("act.raw_0").value) == (1.0, 3.0)


def test_iterations_of_a_data_dependent_loop_are_replaced() -> None:
    with br.Program() as prog:
        x, loop = br.data("x", []), br.create_while()
        with loop.block() as body:
            z = body.add_memory(init=x)
            body.set_condition(z > 1.0)
            z.update(br.multiply(z, 0.5, name="half"))
        br.multiply(loop.final(z), 1.0, name="y")
    feed, path = {"x": 16.0}, "loop_0/body/half"
    for exe in BOTH:
        run: Callable[..., Any] = exe.run
        one, three = br.patch(0.5, trips=1), br.patch([9.0, 9.0, 0.25], trips=[1, 2])
        assert run(prog, br.Scope(), feed, ["y", path], patch={path: one})[1].tolist() == [
            8.0,
            0.5,
        ]
        found = run(prog, br.Scope(), feed, path, patch={path: three})
        assert found.tolist() == [8.0, 9.0, 0.25]
        short = run(prog, br.Scope(), feed, path, patch={path: [2.0]})  # one iteration only
        assert short.tolist() == [2.0, 1.0]


def test_a_patched_program_is_differentiated_saved_and_run() -> None:
    with br.Program() as prog:
        w, x = br.parameter("w", [2], init=[1.0, 2.0]), br.data("x", ["t", 2])
        rnn = br.create_rnn()
        with rnn.stepnet() as step:
            h = step.add_memory(init=w)
            h.update(br.multiply(h.pre(1) * step.add_input(x), w, name="act"))
        loss = br.sum(rnn.final(h))
    patched = prog.patch({"loop_0/body/act": br.patch([3.0, 4.0], trips=1)})
    with patched.program as trained:
        (grad,) = br.gradients(loss.name, "w")
    assert grad is not None
    feed = {"x": [[2.0, 2.0]] * 3, **patched.feed}
    for exe in BOTH:
        scope = exe.init(trained)
        # the third iteration alone depends on w: 3 * 2 * w
        assert exe.run(trained, scope, feed, grad).tolist() == [6.0, 8.0]
        again = br.Program.from_bytes(trained.to_bytes())
        assert exe.run(again, scope, feed, grad.name).tolist() == [6.0, 8.0]
    assert "act.patch_0" in repr(patched)


def trained() -> br.Program:
    with br.Program() as prog:
        x, w = br.data("x", ["n", 2]), br.parameter("w", [2, 2], init=0.5)
        h = br.tanh(x @ w, name="h")
        loss = br.mean(br.square(h), name="loss")
        br.optimizer.sgd(0.1).minimize(loss)
    return prog


def test_differentiated_values_are_refused_in_training_and_replaced_in_evaluation() -> None:
    prog, feed = trained(), {"x": np.ones((3, 2), "f4")}
    exe = br.Executor()
    scope = exe.init(prog)
    before = np.array(scope.var("w").value)
    with pytest.raises(br.ProgramError, match="already differentiated") as caught:
        exe.run(prog, scope, feed, "loss", patch={"h": 0.0})
    assert "`h`" in str(caught.value)
    assert "`loss`" in str(caught.value)
    with pytest.raises(br.ProgramError, match="already differentiated"):
        prog.patch({"h": 0.0})
    assert exe.evaluate(prog, scope, feed, "loss", patch={"h": 3.0}) == 9.0
    assert exe.run(br.prune(prog, ["loss"]), scope, feed, "loss", patch={"h": 2.0}) == 4.0
    assert np.array_equal(scope.var("w").value, before)


def test_gradients_that_a_run_does_not_need_do_not_matter() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=1.0)
        h = br.square(w, name="h")
        loss = br.sum(h, name="loss")
        (grad,) = br.gradients(loss, w)
    assert grad is not None
    exe = br.Executor()
    scope = exe.init(prog)
    assert exe.run(prog, scope, {}, loss, patch={h: 3.0}) == 6.0
    with pytest.raises(br.ProgramError, match="already differentiated"):
        exe.run(prog, scope, {}, [loss, grad], patch={h: 3.0})
    assert exe.run(prog, scope, {}, grad, patch={grad.name: [5.0, 6.0]}).tolist() == [5.0, 6.0]


def test_keys_are_paths_handles_and_variables() -> None:
    prog, feed = steps()
    for key in (INNER, prog[INNER], prog.find(name="act", kind="variables")[0]):
        assert COMPILER.run(prog, br.Scope(), feed, "y", patch={key: 1.0}) == 6.0
    with pytest.raises(br.ProgramError, match="patched twice"):
        COMPILER.run(prog, br.Scope(), feed, "y", patch={INNER: 1.0, prog[INNER]: 2.0})
    with pytest.raises(br.ProgramError, match="expected a dict for patch"):
        COMPILER.run(prog, br.Scope(), feed, "y", patch=[INNER])  # pyright: ignore
    with pytest.raises(br.ProgramError, match="expected the path of a value to patch, got 3"):
        COMPILER.run(prog, br.Scope(), feed, "y", patch={3: 1.0})


def test_runs_on_several_devices_take_patches_and_give_gradients() -> None:
    prog = nested()
    layout = br.Layout(br.Mesh({"data": 4}), dims={"b": "data"})
    fetch = ["loss", ACT, br.grad_of("loss", ACT)]
    for patch in ({ACT: br.patch(np.full((4, 3), 0.25, "f4"), trips=1)}, {ACT: doubled}):
        found, expected = (
            exe.run(prog, br.Scope(), feed_of(), fetch, patch=patch)
            for exe in (br.Executor(layout=layout), INTERPRETER)
        )
        for given, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(given, wanted, 1e-4, 1e-6)


def test_functions_without_a_hash_are_patches() -> None:
    class Scaled:
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __call__(self, value: br.Var) -> br.Var:
            return value * 3.0

    prog, feed = steps()
    exe, function = br.Executor(mode="interpret"), Scaled()
    for _ in range(2):
        assert exe.run(prog, br.Scope(), feed, "y", patch={"y": function}) == 63.0
