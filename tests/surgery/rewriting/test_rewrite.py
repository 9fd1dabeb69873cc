"""`prog.rewrite` in nested loops, row-wise branches and training steps, in both modes."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest

import braces as br

erf = br.special.erf
pytestmark = pytest.mark.unoptimized
DRAW = np.random.default_rng(0)
FEED = {
    "x": DRAW.normal(size=(5, 6, 4)).astype("f"),
    "lens": np.array([1, 6, 3, 2, 4], "int32"),
}


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + erf(x / 2**0.5))


def forward() -> tuple[br.Program, br.Var]:
    """A step with lengths, a row-wise branch, a while in an RNN, a switch and a plain block."""
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 4]), br.data("lens", ["b"], "int32")
        rnn, outer = br.create_rnn(lengths=lens), br.create_rnn()
        with rnn.stepnet() as net:
            row, h = net.add_input(x, axis=1), net.add_memory(shape=[8], batch_like=x)
            u = br.fc(br.concat([row, h.pre(1)], axis=-1), 8, name="cell")
            h.update(br.multiply(0.5 * u, erf(u / 2**0.5) + 1.0, name="act"))
        choice = br.create_if_else(br.sum(rnn.final(h), axis=1) > 0.0)
        with choice.true_block() as case:
            gate = br.sigmoid(case.add_input(rnn.final(h)), name="gate")
            case.add_output(br.fc(gate * 0.5 * (1.0 + erf(gate / 2**0.5)), 3, name="yes"))
        with choice.false_block() as case:
            case.add_output(br.fc(case.add_input(rnn.final(h)), 3, name="no"))
        chosen = choice()
        with outer.stepnet() as net:
            start, loop = br.sum(br.abs(net.add_input(x, axis=1))), br.create_while()
            with loop.block() as body:
                z = body.add_memory(init=start)
                body.set_condition(z > 1.0)
                z.update(br.multiply(br.multiply(0.5, z), 1.0 + erf(z / 2**0.5)) * 0.3)
            net.add_output(loop.final(z))
        switch = br.create_switch(br.size(x.shape[1], dtype="int32"))
        with switch.case(6) as case:
            case.add_output(br.sigmoid(br.mean(chosen), name="six"))
        with switch.default() as case:
            case.add_output(br.mean(chosen))
        with br.block("tail"):
            tail = br.sigmoid(br.mean(outer()), name="end")
        loss = br.add(br.mean(chosen**2) + switch(), tail, name="loss")
        prog.give(loss.name)
    return prog, loss


def trained(prog: br.Program, mode: str, steps: int = 3) -> list[float]:
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    return [float(exe.run(prog, scope, FEED, "loss")) for _ in range(steps)]


def minimized(prog: br.Program) -> br.Program:
    with prog:
        br.optimizer.sgd(0.1).minimize(prog.var("loss"))
    return prog


def read_again(prog: br.Program) -> None:
    """Text and bytes of a program read back the same."""
    assert str(br.parse(str(prog))) == str(prog)
    assert str(br.Program.from_bytes(prog.to_bytes())) == str(prog)


def test_a_pattern_matches_in_every_construct_and_values_stay(mode: str) -> None:
    prog, _ = forward()
    before = str(prog)
    new = prog.rewrite(gelu, br.gelu)
    assert len(new.report) == 3
    assert {path.rpartition("/")[2] for path in new.report.paths} >= {"act"}
    assert str(prog) == before
    assert "erf" not in str(new)
    read_again(new)
    np.testing.assert_allclose(trained(new, mode, 1), trained(prog, mode, 1), rtol=1e-5)


def test_gradients_are_built_through_what_was_rewritten(mode: str) -> None:
    wanted = trained(minimized(forward()[0]), mode)
    new = minimized(forward()[0].rewrite(gelu, br.gelu))
    np.testing.assert_allclose(trained(new, mode), wanted, rtol=1e-4)
    read_again(new)


def test_a_step_is_rewritten_in_place_where_values_stay(mode: str) -> None:
    prog = minimized(forward()[0])
    for exact in (False, True):
        new = prog.rewrite(gelu, br.gelu, exact=exact)
        assert len(new.report) >= 3
        assert list(new.updates) == list(prog.updates)
        np.testing.assert_allclose(trained(new, mode), trained(prog, mode), rtol=1e-5)


def test_a_step_from_its_text_is_refused() -> None:
    prog = br.parse(str(minimized(forward()[0])))
    with pytest.raises(br.ProgramError, match="is already differentiated"):
        prog.rewrite(gelu, br.gelu)
    pruned = br.prune(prog, ["loss"])
    assert len(pruned.rewrite(gelu, br.relu).report) == 3


def test_activations_are_swapped_and_differentiated_again(mode: str) -> None:
    prog, _ = forward()
    swapped = prog.rewrite(br.sigmoid, br.tanh)
    assert [path.rpartition("/")[2] for path in swapped.report.paths] == ["gate", "end", "six"]
    losses = trained(minimized(swapped), mode)
    assert np.isfinite(losses).all()
    assert losses[0] != trained(prog, mode, 1)[0]


def part(match: Any, end: str, shape: Any, init: Any) -> br.Var:
    return br.parameter(match["w"].name + end, shape, init)


def lora(x: Any, w: Any, *, match: Any) -> br.Var:
    a = part(match, ".a", [w.shape[0], 2], br.init.normal(0.1))
    return x @ w + x @ a @ part(match, ".b", [2, w.shape[1]], 0.0)


def test_parameters_of_each_place_come_with_initial_values(mode: str) -> None:
    prog, _ = forward()
    linear = br.pattern(lambda x, w: x @ w, where=lambda m: fnmatch(m["w"].name, "*.w"))
    new = prog.rewrite(linear, lora)
    names = {f"{layer}.w.{end}" for layer in ("cell", "yes", "no") for end in "ab"}
    assert names <= set(new.startup.updates)
    assert not names & set(prog.startup.updates)
    np.testing.assert_allclose(trained(new, mode, 1), trained(prog, mode, 1), rtol=1e-6)
    losses = trained(minimized(new), mode)
    assert losses[2] < losses[0]


def test_layers_bring_statistics_and_random_draws(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        rnn = br.create_rnn(steps=3)
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.tanh(x, name="first"))
            h.update(br.sin(h.pre(1), name="inner"))
        prog.give(br.identity(rnn.final(h), name="out").name)
    normed = prog.rewrite(br.tanh, lambda x: br.batch_norm(x, name="norm"))
    assert {"norm.mean", "norm.var"} <= set(normed.updates)
    exe, feed = br.Executor(mode=mode), {"x": np.arange(8.0, dtype="f").reshape(2, 4)}
    scope = exe.init(normed, br.Scope(), seed=0)
    exe.run(normed, scope, feed, "out")
    np.testing.assert_allclose(scope["norm.mean"], 0.1 * feed["x"].mean(0), rtol=1e-5)
    dropped = prog.rewrite(br.sin, lambda x: br.dropout(br.sin(x), 0.5))
    assert "random_state" in dropped.updates
    scope = exe.init(dropped, br.Scope(), seed=0)
    first, second = (exe.run(dropped, scope, feed, "out") for _ in range(2))
    assert (first != second).any()


def test_constants_may_be_outside_but_computed_values_may_not() -> None:
    with br.Program() as prog:
        x = br.data("x", [3, 4])
        doubled, two = br.exp(x[0], name="outside"), br.constant(2.0)
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            net.add_output(br.tanh(doubled, name="crossing") + row * two)
        prog.give(rnn().name)
    report = prog.rewrite(lambda x: br.tanh(br.exp(x)), br.sin).report
    assert report.paths == ()
    (miss,) = report.near
    assert miss.path == "loop_0/body/crossing"
    assert "`outside` is in a block around it; matches do not cross blocks" in miss.reason
    new = prog.rewrite(lambda x: x * 2.0, lambda x: x + x)
    assert len(new.report) == 1


def test_a_pattern_of_two_outputs_in_a_loop(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [5, "n", 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(init=br.zeros([4, 4]))
            q, k = (
                br.matmul(row, h.pre(1), name="q"),
                br.matmul(row, br.cos(h.pre(1)), name="k"),
            )
            h.update(h.pre(1) + br.matrix_transpose(q) @ k + 0.1)
            net.add_output(q - k)
        prog.give(br.identity(rnn(), name="out").name)

    def pair(x: Any, w: Any, v: Any) -> Any:
        return x @ w, x @ v

    def one(x: Any, w: Any, v: Any) -> Any:
        y = x @ br.concat([w, v], axis=1)
        return y[:, :4], y[:, 4:]

    new = prog.rewrite(pair, one)
    assert new.report.paths == ("loop_0/body/k",)
    read_again(new)
    exe, feed = br.Executor(mode=mode), {"x": DRAW.normal(size=(5, 2, 4)).astype("f") * 0.1}
    old, fresh = (exe.run(p, br.Scope(), feed, "out") for p in (prog, new))
    np.testing.assert_allclose(fresh, old, rtol=1e-4, atol=1e-6)


def test_names_fetches_and_the_program_before_stay() -> None:
    prog, _ = forward()
    with prog:
        extra = br.tanh(prog.var("loss"), name="extra")
    prog.give(extra.name)
    definition = prog.definition
    new = prog.rewrite(br.tanh, lambda x: x)
    assert new.fetches == ("loss", "extra")
    assert new.block(0).ops[-1].type == "identity"
    assert prog.definition is definition
    assert prog.report is None


def test_a_replacement_may_contain_constructs(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        prog.give(br.tanh(br.exp(x), name="out").name)

    def clipped(x: Any) -> Any:
        with br.block("inner"):
            y = br.relu(x, name="y")
        choice = br.create_if_else(br.sum(y, axis=1) > 1.0)
        with choice.true_block() as case:
            case.add_output(case.add_input(y) * 0.5)
        with choice.false_block() as case:
            case.add_output(case.add_input(y))
        return choice()

    new = prog.rewrite(br.tanh, clipped)
    inside = prog.rewrite(br.exp, lambda x: _in_block(x))
    read_again(new)
    read_again(inside)
    feed = {"x": np.array([[0, 1, 2, 3.0]], "f")}
    exe = br.Executor(mode=mode)
    np.testing.assert_allclose(
        exe.run(new, br.Scope(), feed, "out"), np.exp(feed["x"]) * 0.5, rtol=1e-5
    )
    np.testing.assert_allclose(
        exe.run(inside, br.Scope(), feed, "out"), np.tanh(np.sin(feed["x"])), rtol=1e-5
    )


def _in_block(x: Any) -> Any:
    with br.block("made"):
        y = br.sin(x, name="y")
    return y
