"""Random numbers: their distributions, and their dependence on seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.operators import OPS


class Runs:
    """A program with one scope, run again and again."""

    def __init__(self, mode: str, prog: br.Program, seed: int = 0) -> None:
        self.prog, self.scope, self.exe = prog, br.Scope(), br.Executor(mode=mode)
        self.exe.init(prog, self.scope, seed=seed)

    def __call__(self, fetch: Any, **feed: Any) -> Any:
        return self.exe.run(self.prog, self.scope, feed, fetch=fetch)


# ---- distributions ---------------------------------------------------------------------------

MANY = 20_000
DRAWS: dict[str, tuple[Callable[[], Any], str, float, float]] = {
    "uniform": (lambda: br.random.uniform([MANY]), "float32", 0.5, 1 / 12**0.5),
    "wide": (lambda: br.random.uniform([MANY], -4, 2, dtype="f64"), "float64", -1, 3**0.5),
    "normal": (lambda: br.random.normal([MANY]), "float32", 0, 1),
    "moved": (lambda: br.random.normal([MANY], 3, 0.5, dtype="f64"), "float64", 3, 0.5),
    "cut": (lambda: br.random.truncated_normal([MANY], 1, 2), "float32", 1, 2 * 0.8796),
    "coin": (lambda: br.random.bernoulli([MANY], 0.25), "bool", 0.25, 0.433),
    "die": (lambda: br.random.randint([MANY], 1, 7), "int64", 3.5, (35 / 12) ** 0.5),
    "bytes": (lambda: br.random.randint([MANY], 0, 4, dtype="uint8"), "uint8", 1.5, 1.25**0.5),
}


@pytest.mark.unoptimized
def test_draws_have_mean_and_standard_deviation(mode: str) -> None:
    with br.Program() as prog:
        drawn = {name: draw() for name, (draw, *_) in DRAWS.items()}
    got = Runs(mode, prog)(drawn)
    for name, (_, dtype, mean, stddev) in DRAWS.items():
        assert got[name].dtype == drawn[name].dtype == dtype
        values = got[name].astype("f8")
        assert abs(values.mean() - mean) < 5 * stddev / MANY**0.5, name
        assert abs(values.std() / stddev - 1) < 0.05, name


@pytest.mark.unoptimized
def test_categorical_follows_softmax(mode: str) -> None:
    with br.Program() as prog:
        logits = br.data("logits", ["b", 3])
        drawn = br.random.categorical(logits)
    assert str(drawn.type) == "i64[b]"
    chances = np.array([0.2, 0.5, 0.3])
    fed = np.broadcast_to(np.log(chances), (MANY, 3)).astype("f4")
    got = np.bincount(Runs(mode, prog)(drawn, logits=fed), minlength=3) / MANY
    np.testing.assert_allclose(got, chances, atol=0.02)


@pytest.mark.unoptimized
def test_permutation_has_each_number_once(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        numbers, rows = br.random.permutation(100), br.random.permutation(x)
        columns, symbolic = br.random.permutation(x, axis=1), br.random.permutation(x.shape[0])
    assert (str(rows.type), str(symbolic.type)) == ("f32[b,4]", "i64[b]")
    fed = np.arange(40, dtype="f4").reshape(10, 4)
    got = Runs(mode, prog)([numbers, rows, columns, symbolic], x=fed)
    np.testing.assert_array_equal(np.sort(got[0]), np.arange(100))
    assert list(got[0]) != list(range(100))
    np.testing.assert_array_equal(got[1][np.argsort(got[1][:, 0])], fed)
    np.testing.assert_array_equal(np.sort(got[2], axis=1), fed)
    np.testing.assert_array_equal(np.sort(got[3]), np.arange(10))


def test_shapes_may_be_symbolic_and_empty(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        drawn = [br.random.normal(["b", x.shape[1]]), br.random.uniform([0, 3])]
        drawn += [br.random.uniform(), br.random.normal(5)]
        used = drawn[0] + x
    assert [str(one.type) for one in drawn] == ["f32[b,4]", "f32[0,3]", "f32[]", "f32[5]"]
    got = Runs(mode, prog)([*drawn, used], x=np.ones((3, 4), "f4"))
    assert [one.shape for one in got[:4]] == [(3, 4), (0, 3), (), (5,)]


# ---- what a draw follows from ----------------------------------------------------------------


def noise() -> br.Program:
    with br.Program() as prog:
        br.random.normal([4], name="a")
        br.random.normal([4], name="b")
    return prog


def test_each_run_draws_anew_and_the_seed_repeats_it(mode: str) -> None:
    prog = noise()
    runs, again, other = Runs(mode, prog, 3), Runs(mode, prog, 3), Runs(mode, prog, 4)
    first = [runs("a") for _ in range(3)]
    np.testing.assert_array_equal(first, [again("a") for _ in range(3)])
    every = [*first, other("a"), runs("b")]
    assert len({one.tobytes() for one in every}) == len(every)


def test_both_modes_draw_the_same_bits() -> None:
    prog = noise()
    for _ in range(2):
        np.testing.assert_array_equal(Runs("compile", prog)("a"), Runs("interpret", prog)("a"))


def test_the_random_state_is_a_seed_and_a_counter_of_runs(mode: str) -> None:
    runs = Runs(mode, noise(), seed=9)
    for count in range(3):
        state = runs.scope.var("random_state").value
        assert state.dtype == np.uint32
        np.testing.assert_array_equal(state, [9, count])
        runs("a")


def test_what_else_is_fetched_or_drawn_changes_nothing(mode: str) -> None:
    with br.Program() as larger:
        br.random.uniform([7], name="before")
        br.random.normal([4], name="b")
        br.dropout(br.random.normal([4], name="a"), 0.5)
    alone = Runs(mode, noise())("a")
    np.testing.assert_array_equal(Runs(mode, noise())(["b", "a"])[1], alone)
    np.testing.assert_array_equal(Runs(mode, larger)(["before", "a"])[1], alone)
    np.testing.assert_array_equal(Runs(mode, br.prune(larger, ["a"]))("a"), alone)


def test_a_program_has_one_random_state(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", 2])
        br.scan(lambda c, row: (c, br.random.normal([2])), None, x)
        br.random.uniform([3])
    assert [info.name for info in prog.persistables] == ["random_state"]
    assert list(prog.updates) == ["random_state"]
    assert [op.type for op in prog.block(0).ops].count("next_random_state") == 1


def test_a_copy_of_a_program_goes_on_with_the_same_state(mode: str) -> None:
    copy = br.Program.from_bytes(noise().to_bytes())
    with copy:
        br.random.normal([4], name="c")
    assert list(copy.updates) == ["random_state"]
    runs = Runs(mode, copy)
    np.testing.assert_array_equal(runs("a"), Runs(mode, noise())("a"))


# ---- outside of training ---------------------------------------------------------------------


def sampler() -> tuple[br.Program, br.Var]:
    """A program that draws in training and out of it, at the main block and in a loop."""
    with br.Program() as prog:
        x = br.data("x", [3])
        kept = br.dropout(x, 0.5)
        _, noisy = br.scan(lambda c, row: (c, row + br.random.normal([])), None, kept)
        out = br.add(noisy, br.random.uniform([3]), name="out")
    return prog, out


FORMS: dict[str, Callable[[br.Program, br.Var], br.Program]] = {
    "whole": lambda prog, out: prog,
    "for_test": lambda prog, out: prog.for_test(),
    "pruned": lambda prog, out: br.prune(prog, [out]),
    "pruned for_test": lambda prog, out: br.prune(prog.for_test(), [out]),
    "read back": lambda prog, out: br.Program.from_bytes(prog.for_test().to_bytes()),
}
ONES = np.ones(3, "f4")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_program_draws_anew_in_each_run(form: str, mode: str) -> None:
    prog, out = sampler()
    runs = Runs(mode, prog, seed=5)
    runs.prog = FORMS[form](prog, out)
    drawn = [runs("out", x=ONES).tobytes() for _ in range(4)]
    assert len(set(drawn)) == 4
    np.testing.assert_array_equal(runs.scope.var("random_state").value, [5, 4])


@pytest.mark.parametrize("form", FORMS)
def test_a_seed_repeats_a_run_and_changes_no_other(form: str, mode: str) -> None:
    prog, out = sampler()
    first, other = Runs(mode, prog, seed=5), Runs(mode, prog, seed=9)
    chosen = FORMS[form](prog, out)
    want = first.exe.run(chosen, first.scope, {"x": ONES}, "out")
    for _ in range(2):
        got = other.exe.run(chosen, other.scope, {"x": ONES}, "out", seed=5)
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(other.scope.var("random_state").value, [9, 0])
    bare = br.Scope()
    got = other.exe.run(chosen, bare, {"x": ONES}, "out", seed=np.uint8(5))
    np.testing.assert_array_equal(got, want)
    assert not bare.names()


def test_a_seeded_step_still_trains(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [8], init=1.0)
        loss = br.sum(br.dropout(w * w, 0.5))
        br.optimizer.sgd(0.1).minimize(loss)
    runs, again = Runs(mode, prog, seed=1), Runs(mode, prog, seed=2)
    want = runs(loss)
    assert again.exe.run(prog, again.scope, fetch=loss, seed=1) == want
    np.testing.assert_array_equal(again.scope.var("w").value, runs.scope.var("w").value)
    np.testing.assert_array_equal(again.scope.var("random_state").value, [2, 0])


def test_a_seed_holds_where_a_run_is_repeated_with_more_room(mode: str) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [], init=1.0)
        n = br.data("n", [], "int32")
        _, end = br.while_loop(
            lambda s: s[0] < n,
            lambda s: (s[0] + 1, s[1] + w * br.random.uniform([])),
            (br.constant(0, dtype="int32"), br.constant(0.0)),
        )
        br.optimizer.sgd(0.1).minimize(end)
    runs, again = Runs(mode, prog, seed=1), Runs(mode, prog, seed=2)
    want = runs(end, n=100)
    assert again.exe.run(prog, again.scope, {"n": 100}, end, seed=1) == want
    assert again.scope.var("w").value == runs.scope.var("w").value


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, "1", True])
def test_what_is_no_seed_is_refused(seed: Any, mode: str) -> None:
    prog, out = sampler()
    runs = Runs(mode, prog)
    with pytest.raises(br.ProgramError, match="invalid seed="):
        runs.exe.run(prog, runs.scope, {"x": ONES}, out, seed=seed)
    np.testing.assert_array_equal(runs.scope.var("random_state").value, [0, 0])


def test_a_test_program_that_draws_nothing_updates_nothing() -> None:
    with br.Program() as prog:
        br.dropout(br.data("x", [3]), 0.5, name="out")
    assert not prog.for_test().updates
    assert not br.prune(prog.for_test(), ["out"]).updates
    assert list(br.prune(prog, ["out"]).updates) == ["random_state"]


def test_whatever_draws_has_the_random_state_first() -> None:
    drawing = [definition for definition in OPS.definitions.values() if definition.random]
    assert len(drawing) >= 8
    for definition in drawing:
        first = definition.inputs[0].name
        assert all(f"{first}=u32[2]" in e.split() for e in definition.examples)


# ---- loops and branches ----------------------------------------------------------------------


def nested(x: Any) -> Any:
    """Draws in a loop in a loop: [t, 3, 2]."""

    def outer(carry: Any, row: Any) -> Any:
        return carry, br.scan(lambda c, _: (c, br.random.normal([2])), None, None, 3)[1]

    return br.scan(outer, None, x)[1]


def test_each_trip_of_each_loop_draws_anew(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t"])
        drawn = nested(x)
    runs = Runs(mode, prog)
    got = runs(drawn, x=np.zeros(4, "f4"))
    assert got.shape == (4, 3, 2)
    assert len(np.unique(got)) == got.size
    again = Runs(mode, prog)
    np.testing.assert_array_equal(again(drawn, x=np.zeros(2, "f4")), got[:2])
    assert not np.array_equal(again(drawn, x=np.zeros(2, "f4")), got[:2])


def test_both_modes_draw_the_same_bits_in_loops() -> None:
    with br.Program() as prog:
        drawn = nested(br.data("x", ["t"]))
    got = [Runs(mode, prog)(drawn, x=np.zeros(4, "f4")) for mode in ("compile", "interpret")]
    np.testing.assert_array_equal(*got)


def test_a_while_draws_anew_in_each_trip(mode: str) -> None:
    with br.Program() as prog:
        total, last, n = br.while_loop(
            lambda c: c[2] < 3,
            lambda c: (c[0] + c[1], br.random.normal([2]), c[2] + 1),
            (br.zeros([2]), br.zeros([2]), 0),
        )
    got = Runs(mode, prog)([total, last, n])
    assert got[2] == 3
    assert not np.allclose(got[0], 2 * got[1])


def test_a_reversed_loop_draws_by_position(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t"])
        draw = lambda c, _: (c, br.random.normal([2], name="noise"))  # noqa: E731
        forth, back = br.scan(draw, None, x)[1], br.scan(draw, None, x, reverse=True)[1]
    np.testing.assert_array_equal(*Runs(mode, prog)([forth, back], x=np.zeros(4, "f4")))


def test_a_branch_draws(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        out = br.cond(x > 0.0, lambda: br.random.normal([2]), lambda: br.zeros([2]))
    runs = Runs(mode, prog)
    assert np.all(runs(out, x=1.0) != 0)
    assert np.all(runs(out, x=-1.0) == 0)


# ---- dropout ---------------------------------------------------------------------------------


@pytest.mark.unoptimized
@pytest.mark.parametrize("rate", [0.0, 0.25, 1.0])
def test_dropout_keeps_the_mean(mode: str, rate: float) -> None:
    with br.Program() as prog:
        out = br.dropout(br.data("x", ["n"]), rate)
    got = Runs(mode, prog)(out, x=np.ones(MANY, "f4"))
    assert abs((got == 0).mean() - rate) < 0.02
    if rate < 1:
        np.testing.assert_allclose(got[got != 0], 1 / (1 - rate), rtol=1e-6)


def test_the_gradient_of_dropout_has_the_mask_of_the_run(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "n"])
        _, rows = br.scan(lambda c, row: (c, br.dropout(row * row, 0.5)), None, x)
        (grad,) = br.gradients([rows], [x])
    runs = Runs(mode, prog)
    for _ in range(2):
        got, slope = runs([rows, grad], x=np.full((3, 50), 3.0, "f4"))
        np.testing.assert_allclose(slope, np.where(got != 0, 12.0, 0.0))


def test_a_test_program_drops_nothing(mode: str) -> None:
    with br.Program() as prog:
        out = br.dropout(br.data("x", ["n"]), 0.5)
    test = prog.for_test()
    fed = np.ones(100, "f4")
    np.testing.assert_array_equal(Runs(mode, test)(out.name, x=fed), fed)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda x: br.random.uniform([None, 3]), "size"),
        (lambda x: br.random.uniform([-1]), "size"),
        (lambda x: br.random.uniform([2], 1.0, 0.0), "low"),
        (
            lambda x: br.random.uniform([2], dtype="int32"),
            "expected a real floating dtype, got int32",
        ),
        (lambda x: br.random.normal(["a b"]), "'a b'"),
        (lambda x: br.random.bernoulli([2], 1.5), "between 0 and 1"),
        (lambda x: br.random.randint([2], 3, 3), "low < high"),
        (lambda x: br.random.randint([2], 0, 300, dtype="uint8"), "255"),
        (lambda x: br.random.categorical(x, axis=1), "axis"),
        (lambda x: br.random.permutation(x, axis=1), "axis"),
        (lambda x: br.dropout(x, 1.5), "between 0 and 1"),
        (lambda x: br.dropout(0.5, 0.5), "variable"),
    ],
)
def test_bad_draws_are_refused_and_leave_no_trace(
    draw: Callable[[Any], Any], message: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", [2])
        before = str(prog)
        with pytest.raises(br.BracesError, match=message) as caught:
            draw(x)
    assert "test_sampling.py:" in str(caught.value)
    assert str(prog) == before
    assert not prog.startup.vars


def test_a_variable_called_random_state_is_in_the_way() -> None:
    with br.Program():
        br.parameter("random_state", [3])
        with pytest.raises(br.ProgramError, match="reserved name of the random state"):
            br.random.normal([3])
