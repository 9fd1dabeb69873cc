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


def as_integers(value: br.Var) -> br.Var:
    return br.cast(value, "int32")


def as_vector(value: br.Var) -> br.Var:
    return br.full([3], 1.0) * value


def no_variable(value: br.Var) -> float:
    return 1.0


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


INVALID: list[tuple[dict[str, Any], type[br.BracesError], str]] = [
    ({"act": 1.0}, br.UnknownNameError, f"`{INNER}`"),
    ({"loop_1/body/loop_0/body/nothing": 1.0}, br.UnknownNameError, "unknown value to patch"),
    ({INNER: [1.0, 2.0]}, br.ShapeError, r"broadcasts to f32\[\], or f32\[t,k\]"),
    ({INNER: np.ones((3, 5), "f4")}, br.ShapeError, "axis 1 has size 5; expected `k` = 2"),
    ({INNER: np.ones((4, 2), "f4")}, br.ShapeError, "axis 0 has size 4; expected `t` = 3"),
    ({INNER: "abc"}, br.FeedError, "expected an array for the patch"),
    ({INNER: np.ones((), "i4")}, br.FeedError, "expected floats, got an array of int32"),
    ({INNER: as_integers}, br.DTypeError, r"expected f32\[\], got i32"),
    ({INNER: as_vector}, br.ShapeError, r"expected f32\[\], got f32"),
    ({INNER: no_variable}, br.ProgramError, "expected a variable from the patch"),
    ({INNER: br.patch(0.0, trips=3)}, br.ProgramError, "Pass a tuple of 2 ints"),
    ({INNER: br.patch(0.0, trips=(3, 0))}, br.ProgramError, "iteration 3 .* for 3 iter"),
    ({INNER: br.patch(0.0, trips=(0, -1))}, br.ProgramError, "iteration -1 .* out of"),
    ({INNER: br.patch(0.0, trips=(0.5, 1))}, br.ProgramError, "invalid iterations"),
    ({"y": br.patch(0.0, trips=1)}, br.ProgramError, "is in no loop"),
    ({"y": [1.0]}, br.ShapeError, r"broadcasts to f32\[\]"),
    ({"x": 1.0}, br.ProgramError, "no operator computes it"),
]


@pytest.mark.parametrize(("patch", "error", "words"), INVALID)
def test_invalid_patches_are_refused_with_the_place(
    patch: dict[str, Any], error: type[br.BracesError], words: str
) -> None:
    prog, feed = steps()
    before = str(prog)
    for exe in BOTH:
        with pytest.raises(error, match=words) as caught:
            exe.run(prog, br.Scope(), feed, "y", patch=patch)
        assert next(iter(patch)) in str(caught.value)
    assert str(prog) == before


@br.custom_gradient
def halved(x: br.Var) -> Any:
    def gradient(g: br.Var) -> br.Var:
        return g * br.cast(x > 0.0, "float32")

    return br.multiply(x, 0.5, name="inner_half"), gradient


def test_blocks_that_take_no_values_are_refused() -> None:
    with br.Program() as prog:
        x, w = br.data("x", [3]), br.parameter("w", [3], init=1.0)
        items = br.lists.write(br.lists.create([3]), 0, x)
        br.lists.length(items)
        loop = br.create_while()
        with loop.block() as body:
            z = body.add_memory(init=br.sum(x))
            body.set_condition(br.multiply(z, 1.0, name="checked") > 0.5)
            z.update(z * 0.5)
        out = halved(w * loop.final(z))
        br.multiply(br.sum(out), 1.0, name="loss")
    exe, feed = br.Executor(mode="interpret"), {"x": np.ones(3, "f4")}
    scope = exe.init(prog)
    listed = next(name for name, var in prog.vars.items() if "list" in str(var.type))
    for path, words in (
        ("loop_0/cond/checked", "a condition runs once more"),
        (listed, "cannot patch the list"),
    ):
        with pytest.raises(br.ProgramError, match=words) as caught:
            exe.run(prog, scope, feed, "loss", patch={path: 1.0})
        assert path in str(caught.value)
    backward = next(p for p in inner_paths(prog) if "/backward/" in p)
    with pytest.raises(br.ProgramError, match="custom gradient"):
        exe.run(prog, scope, feed, "loss", patch={backward: 1.0})
    inner = next(h.path for h in prog.find(name="*inner_half", kind="variables"))
    assert exe.run(prog, scope, feed, "loss", patch={inner: 2.0}) == 6.0
    with pytest.raises(br.ProgramError, match="user-written gradient") as caught:
        prog.patch({inner: 2.0})
    assert inner in str(caught.value)


def test_a_size_that_only_a_block_has_is_refused_unless_the_value_has_one() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3])
        branch = br.create_if_else(br.sum(x, axis=1) > 0.0)
        with branch.true_block() as case:
            given = case.add_input(x)
            pairs = br.multiply(given @ given.T, 1.0, name="pairs")
            case.add_output(br.sum(pairs, axis=1))
        with branch.false_block() as case:
            case.add_output(br.sum(case.add_input(x), axis=1))
        br.sum(branch(), name="y")
    feed = {"x": np.array([[1, 2, 3], [-9, 0, 0], [1, 0, 0]], "f4")}
    path = "partition_0/cases[1]/pairs"
    with pytest.raises(br.ProgramError, match="known only in the run") as caught:
        COMPILER.run(prog, br.Scope(), feed, "y", patch={path: np.ones((3, 3), "f4")})
    assert path in str(caught.value)
    for exe in BOTH:
        value = np.array([[5.0], [6.0], [7.0]], "f4")
        assert exe.run(prog, br.Scope(), feed, "y", patch={path: value}) == 2 * 12.0 - 9.0
