"""What a row draws follows from its own number: in row-wise branches, and steps with lengths."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from braces.ir.walk import all_ops

pytestmark = pytest.mark.unoptimized

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
ROWS, STEPS, RATE = 6, 3, 0.5
X = RNG.normal(size=(STEPS, ROWS, 2))
EVERY = np.ones(ROWS, bool)
CHOSEN = {
    "some": np.array([1, 0, 1, 1, 0, 1], bool),
    "one": np.arange(ROWS) == 4,
    "none": ~EVERY,
    "all": EVERY,
}
LENGTHS = {
    "some": np.array([3, 0, 1, 2, 0, 1]),
    "one": np.where(np.arange(ROWS) == 4, 2, 0),
    "none": np.zeros(ROWS, int),
    "all": np.full(ROWS, STEPS),
}


def noisy(rows: br.Var) -> br.Var:
    """Draws of all kinds, one number of each for each row."""
    drawn = [
        br.sum(br.dropout(rows, RATE), axis=1),
        br.sum(br.dropout(br.transpose(rows), RATE), axis=0),  # rows are axis 1
        br.random.normal(rows.shape[:1], dtype="float64"),
        br.random.gamma(None, br.exp(rows[:, 0])),
        br.cast(br.random.categorical(rows), "float64"),
        br.cast(br.random.categorical(br.transpose(rows), axis=0), "float64"),
    ]
    return br.stack(drawn, axis=1)


def in_a_case(mask: br.Var, rows: br.Var, made: Any) -> br.Var:
    """What a block makes of some rows; zeros for the others."""
    choice = br.create_if_else(mask)
    with choice.true_block() as case:
        out = made(case.add_input(rows))
        case.add_output(out)
    with choice.false_block() as case:
        others = case.add_input(rows)
        shape = (others.shape[0], *out.shape[1:])
        case.add_output(br.full(shape, 0.0, dtype=out.dtype))
    return choice()


def looped(rows: br.Var) -> br.Var:
    """Draws in a while, in a branch of rows in it too."""
    loop = br.create_while()
    with loop.block() as body:
        trip, kept = body.add_memory(init=br.constant(0)), body.add_memory(init=rows)
        body.set_condition(trip < 2)
        trip.update(trip + 1)
        nested = in_a_case(kept[:, 0] > 0.0, kept, lambda own: br.dropout(own, RATE) + own)
        kept.update(nested + 0.1 * br.random.normal(rows.shape, dtype="float64"))
    return loop.final(kept)


def stepped(x: br.Var, lengths: br.Var) -> br.Var:
    """Draws in steps with lengths, and in a branch of rows in them."""
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        h = net.add_memory(shape=[2], batch_like=x, batch_axis=1, dtype="float64")
        given = br.dropout(net.add_input(x), RATE)
        nested = in_a_case(h[:, 1] > 0.0, h, lambda own: br.gaussian_noise(own, 0.3))
        h.update(br.tanh(given + nested + 0.1))
        net.add_output(br.dropout(h, 0.25), br.random.normal(h.shape, dtype="float64"))
    return br.concat([*rnn(), br.expand_dims(rnn.final(h), 0)], axis=0)


class Built:
    """A program of rows of which some run, and its runs.

    Attributes:
        fetch: What is asked of it: results that lead with rows, and gradients.
    """

    def __init__(self) -> None:
        with br.Program() as self.program:
            x = br.data("x", ["t", "b", 2], dtype="float64")
            mask, lengths = br.data("m", ["b"], dtype="bool"), br.data("n", ["b"], "int32")
            flat, turned = x[0], br.moveaxis(x, 0, 1)
            whole = br.moveaxis(stepped(x, lengths), 0, 1)

            def inner(rows: br.Var) -> br.Var:
                own = rows[:, 0, 0] > 0.0
                return in_a_case(own, rows, lambda few: br.sum(noisy(few[:, 0]), axis=1))

            nested = in_a_case(mask, turned, inner)
            loops = in_a_case(mask, flat, looped)
            plain = in_a_case(mask, flat, noisy)
            dropped = in_a_case(mask, flat, lambda rows: br.dropout(rows, RATE))
            ends = [plain, loops, nested, whole, dropped]
            (slope,) = br.gradients(br.sum(dropped**3), x)
            (curved,) = br.gradients(br.sum(slope), x)
            (through,) = br.gradients(br.sum(whole**2) + br.sum(loops**2) + br.sum(nested), x)
            grads = [br.moveaxis(grad, 0, 1) for grad in (slope, curved, through)]
        self.fetch = [*ends, *grads]
        self.executors = {mode: br.Executor(mode=mode) for mode in ("interpret", "compile")}

    def run(self, mode: str, mask: Array, lengths: Array, x: Array = X) -> list[Array]:
        """The results for some rows; what does not run is NaN where it is fed."""
        exe, scope = self.executors[mode], br.Scope()
        exe.init(self.program, scope, seed=3)
        feed = {"x": x, "m": mask, "n": lengths.astype("i4")}
        return exe.run(self.program, scope, feed, self.fetch)


@cache
def built() -> Built:
    return Built()


@cache
def run(mode: str, which: str) -> list[Array]:
    return built().run(mode, CHOSEN[which], LENGTHS[which])


@pytest.mark.parametrize("which", CHOSEN)
def test_both_modes_draw_the_same(which: str) -> None:
    for interpreted, compiled in zip(run("interpret", which), run("compile", which), strict=True):
        np.testing.assert_allclose(interpreted, compiled, 1e-6, 1e-9)


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("which", ["some", "one", "none"])
def test_a_row_draws_the_same_whichever_others_run(mode: str, which: str) -> None:
    mask, lengths = CHOSEN[which], LENGTHS[which]
    got, every = run(mode, which), run(mode, "all")
    for few, all_rows in zip(got[:3], every[:3], strict=True):
        np.testing.assert_allclose(few[mask], all_rows[mask], 1e-7, 1e-9)
        assert not few[~mask].any()
    steps, wanted = got[3], every[3]
    runs = np.arange(STEPS)[None] < lengths[:, None]
    for at in (0, STEPS):
        there, here = wanted[:, at : at + STEPS], steps[:, at : at + STEPS]
        np.testing.assert_allclose(here[runs], there[runs], 1e-7, 1e-9)
        assert not here[~runs].any()
    full = lengths == STEPS
    np.testing.assert_allclose(steps[full, -1], wanted[full, -1], 1e-7, 1e-9)


@pytest.mark.parametrize("which", CHOSEN)
def test_the_gradient_draws_the_mask_of_the_value(which: str) -> None:
    *_, dropped, slope, curved, _ = run("compile", which)
    kept = np.where(dropped != 0, 1 / (1 - RATE), 0.0)
    assert 0 < (dropped != 0).sum() < dropped.size or which == "none"
    np.testing.assert_allclose(slope[:, 0], 3 * X[0] ** 2 * kept**3, 1e-6, 1e-12)
    np.testing.assert_allclose(curved[:, 0], 6 * X[0] * kept**3, 1e-6, 1e-12)
    assert not slope[:, 1:].any()


def test_slopes_are_those_of_differences() -> None:
    program, way = built(), np.random.default_rng(1).normal(size=X.shape)

    def total(step: float) -> float:
        _, loops, nested, whole, *_ = program.run(
            "compile", CHOSEN["some"], LENGTHS["some"], X + step * way
        )
        return float((whole**2).sum() + (loops**2).sum() + nested.sum())

    found = (run("compile", "some")[-1] * np.moveaxis(way, 0, 1)).sum()
    np.testing.assert_allclose(found, (total(1e-6) - total(-1e-6)) / 2e-6, 1e-4)


def test_no_pass_changes_what_is_drawn() -> None:
    program, kept = built(), built().executors["compile"]
    scope = br.Scope()
    kept.init(program.program, scope, seed=3)
    feed = {"x": X, "m": CHOSEN["some"], "n": LENGTHS["some"].astype("i4")}
    bare = br.Executor(passes=()).run(program.program, scope, feed, program.fetch[3])
    np.testing.assert_allclose(bare, run("compile", "some")[3], 1e-7, 1e-9)


# ---- by hand ---------------------------------------------------------------------------------


def salted(program: br.Program, type_: str) -> list[Any]:
    """The salts of operators that draw, in order."""
    return [op.attrs["salt"] for _, op in all_ops(program.main) if op.type == type_]


def test_the_key_of_a_row_is_that_of_its_trip_and_its_number(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", ["t", "b", 8]), br.data("n", ["b"], "int32")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            net.add_output(br.dropout(net.add_input(x), 0.25))
        out = rnn()
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope, seed=7)
    key = jax.random.wrap_key_data(np.asarray(scope["random_state"]), impl="threefry2x32")
    lengths = np.array([0, 2, 1], "i4")
    got = exe.run(program, scope, {"x": np.ones([2, 3, 8], "f4"), "n": lengths}, out)
    key = jax.random.fold_in(key, np.uint32(salted(program, "dropout")[0]))
    for trip in range(2):
        for row in range(3):
            own = jax.random.fold_in(jax.random.fold_in(key, trip), row)
            kept = np.asarray(jax.random.uniform(own, [8])) < 0.75
            np.testing.assert_allclose(got[trip, row], (trip < lengths[row]) * kept / 0.75)


def test_rows_draw_apart_and_as_they_should(mode: str) -> None:
    rows, columns = 600, 20
    with br.Program() as program:
        x, mask = br.data("x", ["b", columns]), br.data("m", ["b"], "bool")
        out = in_a_case(mask, x, lambda own: br.dropout(own, 0.25))
        noise = in_a_case(mask, x, lambda own: br.random.normal(own.shape))
    exe, scope, mask = br.Executor(mode=mode), br.Scope(), np.arange(rows) % 3 > 0
    exe.init(program, scope, seed=7)
    feed = {"x": np.ones([rows, columns], "f4"), "m": mask}
    first, later = (exe.run(program, scope, feed, [out, noise]) for _ in range(2))
    kept, normal = first[0][mask] > 0, first[1][mask]
    assert abs(kept.mean() - 0.75) < 0.02
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    assert len(np.unique(normal)) == normal.size  # no row draws what another one does
    between = np.corrcoef(normal.T) - np.eye(columns)
    assert np.abs(between).max() < 0.25
    assert (first[1][mask] != later[1][mask]).all()


# ---- files, tests, stops ---------------------------------------------------------------------


def test_rows_that_stop_draw_the_same_while_they_run(mode: str) -> None:
    with br.Program() as program:
        x, most = br.data("x", ["t", "b", 2]), br.data("most", [])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[2], batch_like=x, batch_axis=1)
            h.update(h + br.dropout(net.add_input(x), RATE) ** 2)
            net.stop_when(br.sum(h, axis=1) > most)
            net.add_output(h)
        out = rnn()
    exe, scope, given = br.Executor(mode=mode), br.Scope(), X.astype("f4")

    def stopping(most: float) -> Array:
        exe.init(program, scope, seed=2)
        return exe.run(program, scope, {"x": given, "most": np.float32(most)}, out)

    never, soon = stopping(1e9), stopping(2.0)
    runs = np.concatenate([np.ones([1, ROWS], bool), never[:-1].sum(2) <= 2.0])
    assert 0 < (~runs).sum()
    np.testing.assert_allclose(soon[runs], never[runs], 1e-6)
    assert not soon[~runs].any()


def test_files_and_programs_for_testing_keep_the_numbers(tmp_path: Path) -> None:
    program = built().program
    assert str(br.parse(str(program))) == str(program)
    program.save(tmp_path / "rows.brc")
    loaded = br.Program.load(tmp_path / "rows.brc")
    assert str(loaded) == str(program)
    scope, feed = br.Scope(), {"x": X, "m": CHOSEN["some"], "n": LENGTHS["some"].astype("i4")}
    exe = br.Executor(mode="interpret")
    exe.init(loaded, scope, seed=3)
    names = [built().fetch[at].name for at in (0, 4)]
    plain, _ = exe.run(loaded, scope, feed, names)
    np.testing.assert_allclose(plain, run("interpret", "some")[0], 1e-7, 1e-9)
    still = exe.run(program.for_test(), scope, feed, built().fetch[4])
    np.testing.assert_allclose(still, np.where(CHOSEN["some"][:, None], X[0], 0.0))


# ---- what is refused -------------------------------------------------------------------------

MIXED = {
    "an order of rows": lambda rows: br.random.permutation(rows),
    "a class that is a row": lambda rows: rows + br.random.categorical(rows, axis=0)[0],
    "rows along two axes": lambda rows: br.random.normal([rows.shape[0]] * 2) @ rows,
    "a choice among rows": lambda rows: br.random.choice(rows, rows.shape[0]),
}


@pytest.mark.parametrize("what", MIXED)
def test_what_mixes_rows_is_refused_and_leaves_nothing_behind(what: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2])
        mask = br.data("m", ["b"], "bool")
        choice = br.create_if_else(mask)
        br.dropout(x, RATE)
        before = str(program)
        with pytest.raises(BracesError, match=r"(?s)mix.*Compute it on all rows outside"):
            with choice.true_block() as case:
                rows = br.dropout(case.add_input(x), RATE)
                case.add_output(MIXED[what](rows))
        assert str(program) == before
        with choice.true_block() as case:
            case.add_output(br.dropout(case.add_input(x), RATE))
        choice.pass_through(x)
        out = choice()
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(program, scope, seed=1)
    feed = {"x": np.ones([3, 2], "f4"), "m": [True, False, True]}
    np.testing.assert_array_equal(exe.run(program, scope, feed, out)[1], [1.0, 1.0])


def test_a_batch_that_is_a_number_tells_rows_of_what_is_dropped_alone(mode: str) -> None:
    with br.Program() as program:
        x, n = br.data("x", [STEPS, ROWS, ROWS]), br.data("n", [ROWS], "int32")
        w = br.parameter("w", [ROWS, ROWS])
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            given = net.add_input(x)
            shared = br.dropout(br.ones_like(w), RATE) + br.random.normal([ROWS])
            nested = in_a_case(given[:, 0] > 0, given, lambda own: br.dropout(own, RATE))
            net.add_output(br.dropout(given, RATE) @ shared, nested)
        ends = rnn()
        again = br.create_rnn(lengths=n)
        with pytest.raises(BracesError, match="give the batch dimension a name"):
            with again.stepnet() as net:
                given = net.add_input(x)
                net.add_output(given + br.random.normal([ROWS, ROWS]))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope, seed=1)
    feed = {"x": RNG.normal(size=[STEPS, ROWS, ROWS]).astype("f4")}
    found = [
        exe.run(program, scope, feed | {"n": LENGTHS[which].astype("i4")}, [*ends])
        for which in ("all", "some")
    ]
    runs = np.arange(STEPS)[:, None] < LENGTHS["some"]
    for every, few in zip(*found, strict=True):
        np.testing.assert_allclose(few[runs], every[runs], 1e-5, 1e-6)
