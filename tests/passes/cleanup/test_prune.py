"""Pruning keeps exactly the dependencies of the targets, in nested blocks too."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

import braces as br
from braces.passes.cleanup.dead_code import eliminate_dead_code
from tests.support.call_counts import calls_of


def trained() -> tuple[br.Program, br.Var, br.Var]:
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            xt = net.add_input(x)
            h = net.add_memory(shape=[4], batch_like=xt)
            unused = net.add_memory(init=br.constant(0.0))
            h.update(br.tanh(br.fc(xt, 4, name="a") + br.fc(h, 4, name="b")))
            unused.update(unused + br.sum(br.fc(xt, 2, name="dead")))
            net.add_output(h.pre(1), xt * 2.0)
        acts, _ = rnn()
        logits = br.fc(acts, 2, name="out")
        loss = br.mean(logits * logits) + rnn.final(unused) * 0.0
        br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    return prog, logits, loss


def test_prune_drops_training_and_what_nobody_reads() -> None:
    prog, logits, _ = trained()
    before = str(prog)
    small = br.prune(prog, [logits])
    assert str(prog) == before
    assert not small.updates
    left = {f"{layer}.{part}" for layer in ("a", "b", "out") for part in "wb"}
    assert {info.name for info in small.persistables} == left
    assert set(small.startup.updates) == {info.name for info in small.persistables}
    (loop,) = (op for op in small.block(0).ops if op.type == "loop")
    assert len(loop.inputs["init"]) == 1
    assert len(loop.outputs["stacked"]) == 1
    assert not any(".vjp" in op.type for block in small.blocks for op in block.ops)


def test_pruning_twice_changes_nothing_more() -> None:
    prog, logits, _ = trained()
    small = br.prune(prog, [logits])
    again = br.prune(small, [logits.name])
    assert again.definition == small.definition
    assert again.startup.definition == small.startup.definition


def test_a_pruned_program_gives_the_same_targets(mode: str) -> None:
    prog, logits, _ = trained()
    small = br.Program.from_bytes(br.prune(prog, [logits]).to_bytes())
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=3)
    feed = {"x": np.random.default_rng(0).normal(size=(5, 2, 3)).astype("float32")}
    want = exe.run(prog.for_test(), scope, feed=feed, fetch=logits)
    got = exe.run(small, scope, feed=feed, fetch=logits.name)
    if mode == "interpret":
        assert np.array_equal(got, want)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_test_program_updates_nothing_and_drops_nothing_out(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [64])
        out = br.dropout(x, 0.5)
        n = br.state("n", [], init=0.0)
        prog.update("n", (n + 1.0).name)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    ones = np.ones(64, "float32")
    assert np.array_equal(exe.run(prog.for_test(), scope, feed={"x": ones}, fetch=out), ones)
    assert float(scope.var("n").value) == 0.0
    assert not np.array_equal(exe.run(prog, scope, feed={"x": ones}, fetch=out), ones)


def nested(depth: int, told: bool) -> tuple[br.Program, br.Var]:
    """Many operators within blocks within blocks; a size among them that only a run tells."""
    with br.Program() as prog:
        x = br.data("x", [])
        with ExitStack() as blocks:
            for level in range(depth):
                blocks.enter_context(br.block(f"level_{level}"))
            if told:
                loop = br.create_while()
                with loop.block() as body:
                    h = body.add_memory(init=x)
                    body.set_condition(h < 1.0)
                    h.update(h * 2.0)
                    body.add_output(h.pre(1))
                x = br.sum(loop())
            for _ in range(60):
                x = br.tanh(x)
        out = x * 2.0
    return prog, out


@pytest.mark.parametrize("told", [False, True])
def test_an_operator_costs_the_same_however_deep_it_is_nested(told: bool) -> None:
    def calls(depth: int) -> int:
        prog, out = nested(depth, told)
        main = prog.definition.main.with_(results=(out.name,))
        wanted = prog.definition.with_(main=main)
        eliminate_dead_code(wanted)
        return calls_of(lambda: eliminate_dead_code(wanted))

    shallow, deep, deepest = map(calls, (1, 6, 12))
    level = (deep - shallow) / 5
    assert level < shallow / 4
    assert deepest - deep < 1.5 * 6 * level


def test_data_stays_that_alone_tells_with_how_many_rows_something_is_drawn(mode: str) -> None:
    with br.Program() as prog:
        x, other = br.data("x", ["n", 2]), br.data("other", ["n", 3])
        w = br.parameter("w", [4], init=1.0)
        drawn = br.random.normal([x.shape[0], 4]) * w
        near = drawn + br.sum(other, axis=1, keepdims=True)
        br.optimizer.sgd(0.1).minimize(br.mean(drawn))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    step = br.prune(prog, ["w"])
    assert step.feeds == ("x",)
    before = scope.var("w").value
    exe.run(step, scope, {"x": np.zeros([3, 2], "float32")})
    assert not np.array_equal(scope.var("w").value, before)
    small = br.Program.from_bytes(br.prune(prog, [drawn]).to_bytes())
    assert exe.run(small, scope, {"x": np.zeros([5, 2], "float32")}, drawn.name).shape == (5, 4)
    assert br.prune(prog, [near]).feeds == ("other",)
