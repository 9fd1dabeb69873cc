"""Bare blocks: inferred, run and evaluated in a scope, as the design documents say."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br


def desc() -> object:
    with br.Program() as prog:
        x, w = br.data("x", ["b", 4]), br.parameter("w", [4, 3])
        y = br.tanh(br.matmul(x, w), name="y")
        br.exp(y, name="z")
    return prog.block(0).symbol_table.serialize()


@pytest.fixture
def scope() -> br.Scope:
    scope = br.Scope()
    scope.var("x").set(np.ones((2, 4), "float32"))
    scope.var("w").set(np.full((4, 3), 0.1, "float32"))
    return scope


def test_a_block_evaluates_targets_and_runs_nothing_else(scope: br.Scope) -> None:
    (value,) = br.Block(desc()).eval(targets=["y"], scope=scope)
    np.testing.assert_allclose(value, np.tanh(np.full((2, 3), 0.4)), rtol=1e-6)
    assert scope.names() == ["w", "x", "y"]


def test_a_block_runs_and_leaves_all_values(scope: br.Scope) -> None:
    br.Block(desc()).run(scope, device="cpu:0")
    np.testing.assert_allclose(scope.var("z").value, np.exp(scope.var("y").value), rtol=1e-6)


def test_running_again_gives_the_latest_values(scope: br.Scope) -> None:
    block = br.Block(desc())
    block.run(scope)
    scope.var("x").set(np.zeros((5, 4), "float32"))
    (value,) = block.eval(["z"], scope)
    assert value.tolist() == np.ones((5, 3)).tolist()


def test_inference_takes_what_the_scope_has(scope: br.Scope) -> None:
    block = br.Block(desc())
    assert str(block.infer_shape(scope)["z"]) == "f32[2,3]"
    assert str(block.infer_shape()["z"]) == "f32[b,3]"
    scope.var("x").set(np.ones((2, 5), "float32"))
    with pytest.raises(br.FeedError, match="`x`"):
        block.infer_shape(scope)


def test_a_missing_value_is_named(scope: br.Scope) -> None:
    scope.erase("w")
    with pytest.raises(br.UninitializedError, match="`w`"):
        br.Block(desc()).run(scope)
    with pytest.raises(br.UnknownNameError, match="`q`"):
        br.Block(desc()).eval(["q"], scope)


def test_blocks_nest_and_know_their_parents() -> None:
    with br.Program() as prog:
        rnn = br.create_rnn(steps=2)
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.constant(1.0))
            h.update(h * 2.0)
    assert len(prog.blocks) == 2
    assert prog.block(1).parent is not None
    assert prog.block(1).parent.desc == prog.block(0).desc
    assert [op.type for op in prog.block(1).ops] == ["constant", "multiply"]
    with pytest.raises(br.UnknownNameError, match="2 blocks"):
        prog.block(2)
