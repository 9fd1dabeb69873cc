"""Random draws of a row depend on its number: in row-wise branches and steps with lengths."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from braces.extend.programs import all_ops
from tests.plugins.shares import thorough

pytestmark = [pytest.mark.unoptimized, pytest.mark.usefixtures("few_copies")]

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
    """Draws of some kinds, one number of each for each row."""
    drawn = [
        br.sum(br.dropout(br.permute_dims(rows), RATE), axis=0),  # rows are axis 1
        br.random.normal(rows.shape[:1], dtype="float64"),
        br.cast(br.random.categorical(br.permute_dims(rows), axis=0), "float64"),
    ]
    return br.stack(drawn, axis=1)


def in_a_case(mask: br.Var, rows: br.Var, made: Any) -> br.Var:
    """Return the result of a block for selected batch elements; zeros for the others."""
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


def stepped(x: br.Var, lengths: br.Var, deep: bool) -> br.Var:
    """Draws in steps with lengths, and in a branch of rows in them."""
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        h = net.add_memory(shape=[2], batch_like=x, batch_axis=1, dtype="float64")
        given = br.dropout(net.add_input(x), RATE)
        if deep:
            given += in_a_case(h[:, 1] > 0.0, h, lambda own: br.layers.gaussian_noise(own, 0.3))
        h.update(br.tanh(given + h + 0.1))
        net.add_output(br.dropout(h.pre(1), 0.25))
    return br.concat([rnn(), br.expand_dims(rnn.final(h), 0)], axis=0)


class Built:
    """A program of rows of which some run, and its runs.

    Attributes:
        fetch: What is asked of it: results and gradients, all of which lead with rows.
    """

    def __init__(self, deep: bool) -> None:
        with br.Program() as self.program:
            x = br.data("x", ["t", "b", 2], dtype="float64")
            mask, lengths = br.data("m", ["b"], dtype="bool"), br.data("n", ["b"], "int32")
            self.fetch = {"rows": in_a_case(mask, x[0], noisy)}
            if deep:
                self.fetch["loops"] = in_a_case(mask, x[0], looped)
                self.fetch["nested"] = self._nested(mask, br.moveaxis(x, 0, 1), lengths)
            dropped = in_a_case(mask, x[0], lambda rows: br.dropout(rows, RATE))
            steps = stepped(x, lengths, deep)
            (slope,) = br.gradients(br.sum(dropped**3), x)
            (curved,) = br.gradients(br.sum(slope), x)
            (through,) = br.gradients(br.sum(steps**2) + sum(map(br.sum, self.smooth())), x)
            self.fetch |= {"dropped": dropped, "steps": br.moveaxis(steps, 0, 1)}
            found = {"slope": slope, "curved": curved, "through": through}
            self.fetch |= {name: br.moveaxis(grad, 0, 1) for name, grad in found.items()}
        self.executors = {mode: br.Executor(mode=mode) for mode in ("interpret", "compile")}

    def _nested(self, mask: br.Var, rows: br.Var, lengths: br.Var) -> br.Var:
        """Draws in a branch of rows in a branch, and in steps with lengths in it."""
        choice = br.create_if_else(mask)
        with choice.true_block() as case:
            own, few = case.add_input(rows), case.add_input(lengths)
            twice = in_a_case(own[:, 0, 0] > 0.0, own[:, 0], noisy)
            steps = stepped(br.moveaxis(own, 1, 0), few, False)
            case.add_output(br.sum(twice, axis=1) + br.sum(steps, axis=(0, 2)))
        choice.pass_through(0.0 * rows[:, 0, 0])
        return choice()

    def smooth(self) -> list[br.Var]:
        """Return the inputs with finite-difference derivatives."""
        return [self.fetch[name] ** 2 for name in ("loops", "nested") if name in self.fetch]

    def run(self, mode: str, which: str, x: Array = X) -> dict[str, Array]:
        """The results for some rows."""
        exe, scope = self.executors[mode], br.Scope()
        exe.init(self.program, scope, seed=3)
        return exe.run(self.program, scope, feeding(which, x), self.fetch)


def feeding(which: str, x: Array = X) -> dict[str, Array]:
    return {"x": x, "m": CHOSEN[which], "n": LENGTHS[which].astype("i4")}


@cache
def built(deep: bool) -> Built:
    return Built(deep)


@cache
def run(mode: str, which: str, deep: bool) -> dict[str, Array]:
    return built(deep).run(mode, which)


DEEP = [False, thorough(True)]
"""Whether blocks are in each other."""


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("which", CHOSEN)
def test_both_modes_draw_the_same(which: str, deep: bool) -> None:
    compiled = run("compile", which, deep)
    for name, value in run("interpret", which, deep).items():
        np.testing.assert_allclose(value, compiled[name], 1e-6, 1e-9, err_msg=name)


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("which", ["some", "one", "none"])
def test_a_row_draws_the_same_whichever_others_run(which: str, deep: bool, mode: str) -> None:
    mask, lengths = CHOSEN[which], LENGTHS[which]
    got, every = run(mode, which, deep), run(mode, "all", deep)
    for name in {"rows", "loops", "dropped"} & got.keys():
        np.testing.assert_allclose(got[name][mask], every[name][mask], 1e-7, 1e-9)
        assert not got[name][~mask].any()
    runs = np.arange(STEPS)[None] < lengths[:, None]
    here, there = got["steps"][:, :STEPS], every["steps"][:, :STEPS]
    np.testing.assert_allclose(here[runs], there[runs], 1e-7, 1e-9)
    assert not here[~runs].any()
    whole = lengths == STEPS
    for name in {"steps", "nested"} & got.keys():
        np.testing.assert_allclose(got[name][whole], every[name][whole], 1e-7, 1e-9)


@pytest.mark.parametrize("which", CHOSEN)
def test_the_gradient_draws_the_mask_of_the_value(which: str) -> None:
    found = run("compile", which, False)
    dropped, slope, curved = (found[name] for name in ("dropped", "slope", "curved"))
    kept = np.where(dropped != 0, 1 / (1 - RATE), 0.0)
    if which == "all":
        assert 0 < (dropped != 0).sum() < dropped.size
    np.testing.assert_allclose(slope[:, 0], 3 * X[0] ** 2 * kept**3, 1e-6, 1e-12)
    np.testing.assert_allclose(curved[:, 0], 6 * X[0] * kept**3, 1e-6, 1e-12)
    assert not slope[:, 1:].any()


@pytest.mark.parametrize("deep", DEEP)
def test_slopes_are_those_of_differences(deep: bool) -> None:
    way = np.random.default_rng(1).normal(size=X.shape)

    def total(step: float) -> float:
        found = built(deep).run("compile", "some", X + step * way)
        ends = [found[name] for name in ("loops", "nested", "steps") if name in found]
        return sum(float((end**2).sum()) for end in ends)

    found = (run("compile", "some", deep)["through"] * np.moveaxis(way, 0, 1)).sum()
    np.testing.assert_allclose(found, (total(1e-6) - total(-1e-6)) / 2e-6, 1e-5)


@pytest.mark.parametrize("deep", [thorough(True)])
def test_no_pass_changes_what_is_drawn(deep: bool) -> None:
    exe, scope, program = br.Executor(passes=()), br.Scope(), built(deep).program
    exe.init(program, scope, seed=3)
    bare = exe.run(program, scope, feeding("some"), built(deep).fetch["steps"])
    np.testing.assert_allclose(bare, run("compile", "some", deep)["steps"], 1e-7, 1e-9)


# ---- by hand ---------------------------------------------------------------------------------


def salted(program: br.Program, type_: str) -> list[Any]:
    """The salts of operators that draw, in order."""
    return [op.attrs["salt"] for _, op in all_ops(program.definition.main) if op.type == type_]


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
    assert len(np.unique(normal)) > 0.99 * normal.size  # no row draws what another one does
    between = np.corrcoef(normal.T) - np.eye(columns)
    assert np.abs(between).max() < 0.25
    assert (first[1][mask] != later[1][mask]).all()


KINDS = {
    "gamma": lambda rows: br.random.gamma(None, br.exp(rows)),
    "categorical": lambda rows: br.random.categorical(rows),
    "poisson": lambda rows: br.random.poisson(rate=br.exp(rows)),
    "dirichlet": lambda rows: br.random.dirichlet(None, br.exp(rows)),
    "vectors": lambda rows: br.random.multivariate_normal(None, rows, br.eye(2)),
    "choice": lambda rows: br.random.choice(7, [rows.shape[0], 2]),
    "a block that is shared": lambda rows: br.shared(br.layers.gaussian_noise)(rows, 0.5),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_draws_draws_for_rows(kind: str, mode: str) -> None:
    with br.Program() as program:
        x, mask = br.data("x", ["b", 2]), br.data("m", ["b"], "bool")
        out = in_a_case(mask, x, KINDS[kind])
    exe, scope, found = br.Executor(mode=mode), br.Scope(), list[Array]()
    for which in ("all", "some"):
        exe.init(program, scope, seed=7)
        feed = {"x": X[0].astype("f4"), "m": CHOSEN[which]}
        found.append(exe.run(program, scope, feed, out))
    every, few = found
    runs = CHOSEN["some"]
    np.testing.assert_allclose(few[runs], every[runs], 1e-6)
    assert not few[~runs].any()
    assert len({*map(bytes, every)}) > 1


# ---- files, tests, stops ---------------------------------------------------------------------


def test_rows_that_stop_draw_the_same_while_they_run(mode: str) -> None:
    with br.Program() as program:
        x, most = br.data("x", ["t", "b", 2]), br.data("most", [])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[2], batch_like=x, batch_axis=1)
            h.update(h + br.dropout(net.add_input(x), RATE) ** 2)
            net.stop_when(br.sum(h.pre(1), axis=1) > most)
            net.add_output(h.pre(1))
        out = rnn()
    exe, scope, given = br.Executor(mode=mode), br.Scope(), X.astype("f4")

    def stopping(most: float) -> Array:
        exe.init(program, scope, seed=2)
        return exe.run(program, scope, {"x": given, "most": np.float32(most)}, out)

    never, soon = stopping(1e9), stopping(2.0)
    runs = np.concatenate([np.ones([1, ROWS], bool), never[:-1].sum(2) <= 2.0])
    assert (~runs).any()
    np.testing.assert_allclose(soon[runs], never[runs], 1e-6)
    assert not soon[~runs].any()


def test_lengths_that_a_loop_gets_later_draw_as_those_that_it_was_built_with(
    mode: str,
) -> None:
    def stepping(at_once: bool) -> tuple[br.Program, br.Var]:
        with br.Program() as program:
            x, n = br.data("x", ["t", "b", 2], "float64"), br.data("n", ["b"], "int64")
            rnn = br.create_rnn(lengths=n if at_once else None)
            with rnn.stepnet() as net:
                h = net.add_memory(shape=[2], batch_like=x, batch_axis=1)
                h.update(br.dropout(net.add_input(x) + h, RATE))
            return program, rnn.final(h) * 1.0

    exe, found = br.Executor(mode=mode), list[Array]()
    program, out = stepping(True)
    later, end = stepping(False)
    for one, last in ((program, out), (br.passes.ragged_steps("n", "loop_0")(later), end)):
        scope = br.Scope()
        exe.init(one, scope, seed=4)
        found.append(exe.run(one, scope, {"x": X, "n": LENGTHS["some"]}, last.name))
    np.testing.assert_allclose(*found, 1e-9)
    assert found[0].any()


def test_files_and_programs_for_testing_keep_the_numbers(tmp_path: Path) -> None:
    program, fetch = built(False).program, built(False).fetch
    assert str(br.parse(str(program))) == str(program)
    program.save(tmp_path / "rows.brc")
    loaded = br.Program.load(tmp_path / "rows.brc")
    exe, scope = built(False).executors["interpret"], br.Scope()
    exe.init(loaded, scope, seed=3)
    wanted = run("interpret", "some", False)["rows"]
    got = exe.run(loaded, scope, feeding("some"), fetch["rows"].name)
    np.testing.assert_allclose(got, wanted, 1e-7, 1e-9)
    still = exe.run(program.for_test(), scope, feeding("some"), fetch["dropped"])
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

        def mixing() -> None:
            with choice.true_block() as case:
                rows = br.dropout(case.add_input(x), RATE)
                case.add_output(MIXED[what](rows))

        with pytest.raises(
            BracesError, match=r"(?s)mix.*Compute it for the whole batch outside"
        ):
            mixing()
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

        def guessing() -> None:
            with br.create_rnn(lengths=n).stepnet() as net:
                net.add_output(net.add_input(x) + br.random.normal([ROWS, ROWS]))

        with pytest.raises(BracesError, match="name the batch dimension"):
            guessing()
    exe, scope = br.Executor(mode=mode), br.Scope()
    feed = {"x": RNG.normal(size=[STEPS, ROWS, ROWS]).astype("f4")}
    found = list[list[Array]]()
    for which in ("all", "some"):
        exe.init(program, scope, seed=1)
        feed["n"] = LENGTHS[which].astype("i4")
        found.append(exe.run(program, scope, feed, [*ends]))
    runs = np.arange(STEPS)[:, None] < LENGTHS["some"]
    for every, few in zip(*found, strict=True):
        np.testing.assert_allclose(few[runs], every[runs], 1e-5, 1e-6)
