"""Sequence lengths, early stops and checkpoints, right to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ShapeError
from braces.extend.programs import all_ops
from tests.control.checking import check

pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3, 3)), RNG.normal(size=(3, 3))
FEEDS = {"x": X, "w": W}


def with_lengths(lengths: list[int], reverse: bool) -> Any:
    def build(x: br.Var, w: br.Var) -> br.Var:
        rnn = br.create_rnn(lengths=br.constant(np.array(lengths)), reverse=reverse)
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(shape=[3], batch_like=xt)
            h.update(br.tanh(xt @ w + h * 0.5 + h.pre(2) * 0.2))
            net.add_output(h.pre(1) * xt)
        return br.sum(rnn() ** 2) + br.sum(rnn.final(h))

    return build


@pytest.mark.parametrize(
    ("lengths", "reverse"),
    [([4, 2, 0], False), ([0, 0, 0], False), ([1, 3, 2], True), ([4, 4, 4], True)],
)
def test_lengths_have_their_derivatives(lengths: list[int], reverse: bool) -> None:
    check(with_lengths(lengths, reverse), FEEDS)


def test_a_step_with_lengths_chooses_between_its_rows_and_rows_from_outside() -> None:
    def build(x: br.Var, w: br.Var) -> br.Var:
        outside = x[0] * w[0]
        rnn = br.create_rnn(lengths=br.constant(np.array([2, 0, 4])))
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(init=outside)
            h.update(br.cond(br.sum(w) > 0.0, lambda: br.sin(h + xt), lambda: outside))
        return br.sum(rnn.final(h) ** 2)

    check(build, FEEDS)


def test_padding_reaches_neither_values_nor_gradients(mode: str) -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["t", "b", 3]), br.data("w", [3, 3])
        rnn = br.create_rnn(lengths=br.data("n", ["b"], dtype="int32"))
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(shape=[3], batch_like=xt)
            new = br.log(br.abs(xt)) @ w + h * 0.5
            h.update(new - br.mean(new, axis=0))  # over the rows that are active
            net.add_output(h.pre(1) + 0.0)
        outs, last = rnn(), rnn.final(h)
        grads = br.gradients([br.sum(outs * outs) + br.sum(last)], [x, w])
    lengths, padded = np.array([4, 2, 0]), X.astype("float32")
    memory, rows = np.zeros((3, 3)), np.zeros((4, 3, 3))
    for t in range(4):
        active = t < lengths
        rows[t][active] = memory[active]
        new = np.log(np.abs(X[t][active])) @ W + memory[active] * 0.5
        memory[active] = new - new.mean(axis=0)
    for row, length in enumerate(lengths):
        padded[length:, row] = np.nan
    feed = {"x": padded, "w": W.astype("float32"), "n": lengths.astype("int32")}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed=feed, fetch=[outs, last, *grads])
    np.testing.assert_allclose(got[0], rows, atol=1e-5)
    np.testing.assert_allclose(got[1], memory, atol=1e-5)
    assert np.isfinite(got[2]).all()
    assert np.isfinite(got[3]).all()
    assert not got[2][np.isnan(padded)].any()


def test_captured_rows_that_do_not_run_reach_no_gradient(mode: str) -> None:
    with br.Program() as prog:
        x, c = br.data("x", ["t", "b", 3]), br.data("c", ["b", 3])
        rnn = br.create_rnn(lengths=br.data("n", ["b"], dtype="int32"))
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3], batch_like=c)
            h.update(br.tanh(net.add_input(x) * br.sqrt(c) + h / c))
            net.add_output(c)
        grads = br.gradients([br.sum(rnn.final(h)), br.sum(rnn() ** 3)], [x, c])
        (second,) = br.gradients(br.sum(grads[1] ** 2), c)
    lengths, context = np.array([4, 0, 2, 0], "int32"), np.full((4, 3), 2.0, "float32")
    context[1], context[3] = 0.0, np.nan
    exe, runs = br.Executor(mode=mode), lengths > 0
    got, few = (
        exe.run(
            prog,
            br.Scope(),
            feed={
                "x": np.ones((4, rows.sum(), 3), "f4"),
                "c": context[rows],
                "n": lengths[rows],
            },
            fetch=[*grads, second],
        )
        for rows in (np.ones(4, bool), runs)
    )
    for of_all, of_few, axis in zip(got, few, (1, 0, 0), strict=True):
        np.testing.assert_allclose(np.compress(runs, of_all, axis), of_few, rtol=1e-5)
        assert not np.compress(~runs, of_all, axis).any()


@pytest.mark.parametrize("rows", [False, True])
def test_an_early_stop_has_its_derivatives(rows: bool) -> None:
    def build(x: br.Var, w: br.Var) -> br.Var:
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(shape=[3], batch_like=xt, dtype="float64")
            new = h * 0.8 + xt @ w
            h.update(new)
            net.add_output(new)
            net.stop_when(br.sum(new**2, axis=1) > 3.0 if rows else br.sum(new**2) > 8.0)
        return br.sum(rnn() ** 2) + br.sum(rnn.final(h))

    check(build, FEEDS)


def test_after_a_stop_memories_stay_and_outputs_are_zero(mode: str) -> None:
    with br.Program() as prog:
        rnn = br.create_rnn(steps=6)
        with rnn.stepnet() as net:
            n = net.add_memory(init=br.constant(0.0))
            n.update(n + 1.0)
            net.add_output(n.pre(1) + 1.0)
            net.stop_when(n.pre(1) + 1.0 >= 3.0)
        out, last = rnn(), rnn.final(n)
    got = br.Executor(mode=mode).run(prog, br.Scope(), fetch=[out, last])
    assert got[0].tolist() == [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]
    assert got[1] == 3.0


@pytest.mark.parametrize(("every", "reverse"), [(1, False), (3, True), (9, False)])
def test_a_checkpointed_rnn_is_the_same(every: int, reverse: bool) -> None:
    def build(x: br.Var, w: br.Var) -> br.Var:
        rnn = br.create_rnn(checkpoint_every=every, reverse=reverse)
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(init=w)
            h.update(br.tanh(h @ w + xt) + br.cast(net.step, "float64") * 0.1)
            net.add_output(h.pre(2) * xt)
        return br.sum(rnn() ** 2) + br.sum(rnn.final(h))

    check(build, {"x": RNG.normal(size=(7, 3, 3)), "w": W})


@pytest.mark.parametrize("trips", [0, 5, 6])
def test_a_checkpointed_while_is_the_same(trips: int) -> None:
    def build(x: br.Var, w: br.Var) -> br.Var:
        loop = br.create_while(checkpoint_every=3)
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0))
            h = body.add_memory(init=x)
            body.set_condition(i < trips)
            h.update(br.tanh(h @ w) + br.cast(body.step, "float64") * 0.1)
            i.update(i + 1)
            body.add_output(h.pre(1))
        return br.sum(loop.final(h) ** 2) + br.sum(loop() ** 2)

    check(build, {"x": X[0], "w": W})


def test_a_checkpointed_rnn_runs_on_the_rows_of_a_branch() -> None:
    def build(x: br.Var) -> br.Var:
        choice = br.create_if_else(br.sum(x, axis=(1, 2)) > 0.0)
        with choice.true_block() as yes:
            rows = yes.add_input(x)
            rnn = br.create_rnn(checkpoint_every=2)
            with rnn.stepnet() as net:
                xt = net.add_input(rows, axis=1)
                h = net.add_memory(shape=[3], batch_like=rows, dtype="float64")
                h.update(br.tanh(h + xt))
            yes.add_output(rnn.final(h))
        with choice.false_block() as no:
            no.add_output(br.sum(no.add_input(x), axis=1))
        return br.sum(choice() ** 2)

    check(build, {"x": RNG.normal(size=(4, 5, 3))}, shapes={"x": ["b", 5, 3]})


def test_a_checkpointed_loop_keeps_less() -> None:
    def bytes_kept(every: int | None) -> int:
        with br.Program() as prog:
            x, w = br.data("x", [64]), br.data("w", [64, 64])
            rnn = br.create_rnn(steps=4096, checkpoint_every=every)
            with rnn.stepnet() as net:
                h = net.add_memory(init=x)
                h.update(br.tanh(w @ h))
            grads = br.gradients([br.sum(rnn.final(h))], [x, w])
        exe, scope = br.Executor(), br.Scope()
        feed = {"x": np.ones(64, "float32"), "w": np.eye(64, dtype="float32")}
        exe.run(prog, scope, feed=feed, fetch=grads)
        (plan,) = exe._plans.by_program[prog][1].values()
        (executable,) = plan.executables.values()
        return executable.code.memory_analysis().temp_size_in_bytes

    assert bytes_kept(64) < 0.15 * bytes_kept(None)


def test_lengths_must_fit_and_batches_must_lead() -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["t", "b", 3]), br.data("n", ["b"], dtype="int64")
        before = str(prog)
        with pytest.raises(br.ShapeError, match="is not the batch axis"):
            build_without_batch(x, n)
        assert str(prog) == before
        with pytest.raises(br.ShapeError, match="integer vector"):
            br.create_rnn(lengths=x)
        with pytest.raises(
            br.ProgramError, match="checkpoint_every=0 is not a valid iteration count"
        ):
            br.create_while(checkpoint_every=0)


def build_without_batch(x: br.Var, lengths: br.Var) -> None:
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        xt = net.add_input(x)
        total = net.add_memory(init=br.constant(0.0))
        total.update(total + br.sum(xt))


# ---- as a pass -------------------------------------------------------------------------------


def unrolled(lengths: bool) -> tuple[br.Program, list[br.Var]]:
    """A net whose steps mix the rows that run, with its lengths or without."""
    with br.Program() as program:
        x, n = br.data("x", ["t", "b", 3]), br.data("n", ["b"], dtype="int32")
        w = br.data("w", ["b", 3])
        rnn = br.create_rnn(lengths=n if lengths else None)
        with rnn.stepnet() as net:
            h = net.add_memory(init=w)
            y = br.tanh(h + net.add_input(x) * w)
            h.update(y - br.mean(y, axis=0))
            net.add_output(y)
        results = [rnn(), rnn.final(h)]
    return program, results


def values_and_slopes(program: br.Program, results: list[br.Var], mode: str) -> list[Any]:
    """The results of a program, and the gradient of all of them."""
    with program:
        found = [program.var(result.name) for result in results]
        loss = br.sum(found[0] ** 2) + br.sum(br.sin(found[1]))
        grads = br.gradients([loss], [program.var("x"), program.var("w")])
    rng = np.random.default_rng(5)
    feed = {
        "x": rng.normal(size=(4, 5, 3)).astype("f4"),
        "w": rng.normal(size=(5, 3)).astype("f4"),
        "n": np.array([4, 1, 0, 2, 3], "i4"),
    }
    return br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=[*found, *grads])


def test_a_pass_gives_a_loop_the_lengths_that_an_rnn_takes(mode: str) -> None:
    plain, results = unrolled(lengths=False)
    for result in results:
        plain.give(result.name)
    program = br.Program(br.passes.ragged_steps("n", "loop_0")(plain).definition)
    found = values_and_slopes(program, [program.var(name) for name in program.results], mode)
    for got, want in zip(found, values_and_slopes(*unrolled(lengths=True), mode), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    assert all(op.type != "partition" for _, op in all_ops(plain.definition.main))


def test_lengths_that_are_no_vector_of_integers_are_refused() -> None:
    plain, _ = unrolled(lengths=False)
    with pytest.raises(ShapeError, match="an integer vector") as caught:
        br.passes.ragged_steps("w", "loop_0")(plain)
    assert "w: f32[b,3]" in str(caught.value)
