"""Loops over standard cells as one node: the same values, and loops again after the import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import braces as br
from braces.exchange.onnx.runtime import session
from tests.support.onnx_round_trip import run_model

pytestmark = pytest.mark.unoptimized

LAYER = {
    "lstm": lambda x: br.lstm(x, 3),
    "lstm without bias, both directions": lambda x: br.lstm(
        x, 3, layers=2, bidirectional=True, bias=False
    ),
    "gru": lambda x: br.gru(x, 3),
    "gru, reset before, both directions": lambda x: br.gru(
        x, 3, reset_after=False, bidirectional=True
    ),
    "gru without bias": lambda x: br.gru(x, 3, bias=False),
    "rnn": lambda x: br.layers.simple_rnn(x, 3),
    "rnn, relu": lambda x: br.layers.simple_rnn(x, 3, act="relu"),
}
KINDS = ("LSTM", "GRU", "RNN")
LOOPS = ("Loop", "Scan")
Memories = Sequence[br.Var]
Cell = Callable[[br.Var, Memories], Memories]


def flat(result: Any) -> list[br.Var]:
    """The outputs and the final memories."""
    out, state = result
    return [out, *(state if isinstance(state, tuple) else (state,))]


def weight(name: str, *shape: int) -> br.Var:
    """A random weight."""
    seed = sum(map(ord, name))
    return br.parameter(name, list(shape), init=np.random.default_rng(seed).normal(size=shape))


def loop(cell: Cell, memories: int = 1, size: int = 3, reverse: bool = False) -> Any:
    """A layer that scans a cell of the user over the steps of `[batch, steps, 4]`."""

    def layer(x: br.Var) -> Any:
        rnn = br.create_rnn(reverse=reverse)
        start = br.zeros_like(x[:, 0, :size])
        with rnn.stepnet() as net:
            taken = net.add_input(x, axis=1)
            carried = [net.add_memory(init=start + float(k)) for k in range(memories)]
            nexts = cell(taken, [memory.pre() for memory in carried])
            for memory, value in zip(carried, nexts, strict=True):
                memory.update(value)
            net.add_output(nexts[0])
        (out,) = rnn.stacked
        return out, tuple(rnn.final(memory) for memory in carried)

    return layer


def types(path: Path) -> list[str]:
    """The recurrent nodes and loops of a model."""
    model = onnx.load(path)
    groups = [model.graph.node, *(function.node for function in model.functions)]
    found = (node.op_type for group in groups for node in group)
    return [name for name in found if name in (*KINDS, *LOOPS)]


def exported(layer: Any, path: Path, x: Any, **options: Any) -> list[str]:
    """Export a layer, compare its values and those of its import; return its loops."""
    with br.Program() as program:
        outs = flat(layer(br.data("x", ["batch", "steps", 4])))
    exe = br.Executor(mode="interpret")
    scope = exe.init(program, br.Scope(), seed=3)
    br.to_onnx(program, path, scope=scope, fetches=outs, recurrent_nodes=True, **options)
    again, values = br.from_onnx(path)
    loaded = br.Scope()
    loaded.update(values)
    for feed in ({"x": x}, {"x": x[:1, :1]}):
        want = exe.run(program.for_test(), scope, feed, fetch=outs)
        back = exe.run(again, loaded, feed, fetch=list(again.fetches))
        for found in (list(run_model(path, feed).values()), back):
            for got, wanted in zip(found, want, strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6)
    return types(path)


X = np.random.default_rng(1).normal(size=(2, 5, 4)).astype("float32")


@pytest.mark.parametrize("name", LAYER)
def test_a_layer_is_one_node_per_direction(name: str, tmp_path: Path) -> None:
    found = exported(LAYER[name], tmp_path / "m.onnx", X)
    kind = name[:4].strip(",").upper() if name.startswith("lstm") else name[:3].upper()
    assert found
    assert set(found) == {kind}


def test_an_imported_layer_is_one_node_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    for name in ("lstm", "gru", "rnn"):
        before = exported(LAYER[name], first, X)
        program, values = br.from_onnx(first)
        scope = br.Scope()
        scope.update(values)
        fetches = list(program.fetches)
        br.to_onnx(program, second, scope=scope, fetches=fetches, recurrent_nodes=True)
        assert types(second) == before
        for got, want in zip(
            *(session(str(path)).run(None, {"x": X}) for path in (first, second)), strict=True
        ):
            np.testing.assert_array_equal(got, want)


def separate_gates(x: br.Var, memories: Memories) -> Memories:
    """An LSTM with a weight for each gate, and summands in another order."""
    h, c = memories
    i, f, o, g = (
        h @ weight(f"u_{gate}", 3, 3) + (weight(f"b_{gate}", 3) + x @ weight(f"w_{gate}", 4, 3))
        for gate in "ifog"
    )
    c = br.tanh(g) * br.sigmoid(i) + c * br.sigmoid(f)
    return br.tanh(c) * br.sigmoid(o), c


def other_blend(x: br.Var, memories: Memories) -> Memories:
    """A GRU whose update gate has a factor of its own for the new value."""
    (h,) = memories
    gates = x @ weight("w", 4, 9)
    z, r = br.split(gates[:, :6] + h @ weight("u", 3, 6) + weight("b", 6), 2, axis=-1)
    z, r = br.sigmoid(z), br.sigmoid(r)
    new = br.tanh((h @ weight("un", 3, 3) + weight("bn", 3)) * r + gates[:, 6:])
    return [z * h + new * (1.0 - z)]


def two_biases(x: br.Var, memories: Memories) -> Memories:
    """A GRU with two biases of the input, and none of the recurrent product."""
    (h,) = memories
    gates = x @ weight("w", 4, 9) + weight("b", 9) + weight("b2", 9)
    z, r, n = br.split(gates, 3, axis=-1)
    uz, ur, un = br.split(h @ weight("u", 3, 9), 3, axis=-1)
    z, r = br.sigmoid(z + uz), br.sigmoid(r + ur)
    new = br.tanh(n + r * un)
    return [new + z * (h - new)]


def joined(x: br.Var, memories: Memories) -> Memories:
    """A simple RNN with one weight for the input and the memory."""
    return [br.tanh(br.concat([memories[0], x], axis=-1) @ weight("w", 7, 3) + weight("b", 3))]


@pytest.mark.parametrize("reverse", [False, True])
def test_cells_of_users_are_recognized(reverse: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert exported(loop(separate_gates, 2, reverse=reverse), path, X) == ["LSTM"]
    assert exported(loop(other_blend, reverse=reverse), path, X) == ["GRU"]
    assert exported(loop(two_biases, reverse=reverse), path, X) == ["GRU"]
    assert exported(loop(joined, reverse=reverse), path, X) == ["RNN"]


def lstm_like(change: str) -> Cell:
    """An LSTM with a small change."""

    def cell(x: br.Var, memories: Memories) -> Memories:
        h, c = memories
        taken = x @ weight("w", 4, 12) + h @ weight("u", 3, 12)
        i, f, g, o = br.split(taken, 4, axis=-1)
        if change == "peephole":
            i = i + c * weight("p", 3)
        if change == "one gate from the other memory":
            o = o + (c - h) @ weight("v", 3, 3)
        i, o = br.sigmoid(i), br.sigmoid(o)
        f = {"coupled": lambda: 1.0 - i, "another activation": lambda: br.relu(f)}.get(
            change, lambda: br.sigmoid(f)
        )()
        after = f * c + i * br.tanh(g)
        hidden = br.tanh(c if change == "the memory before" else after)
        if change == "a memory of the other kind":
            return o * hidden, f * h + i * br.tanh(g)
        if change == "scaled":
            hidden = 1.5 * hidden
        return o * hidden, after

    return cell


def gru_like(change: str) -> Cell:
    """A GRU with a small change."""

    def cell(x: br.Var, memories: Memories) -> Memories:
        (h,) = memories
        z, r, n = br.split(x @ weight("w", 4, 9), 3, axis=-1)
        uz, ur, un = br.split(h @ weight("u", 3, 9), 3, axis=-1)
        z, r = br.sigmoid(z + uz), br.sigmoid(r + ur)
        if change == "no reset":
            new = br.tanh(n + un)
        elif change == "reset of the input":
            new = br.tanh(n * r + un)
        else:
            new = br.tanh(n + r * un)
        if change == "the other blend":
            return [z * new + (1.0 - z) * h]
        if change == "another number":
            return [(2.0 - z) * new + z * h]
        return [new + z * (new - h)] if change == "a sign" else [new + z * (h - new)]

    return cell


LSTM_CHANGES = (
    "peephole", "one gate from the other memory", "coupled", "another activation",
    "the memory before", "a memory of the other kind", "scaled",
)  # fmt: skip
GRU_CHANGES = (
    "no reset", "reset of the input", "the other blend", "another number", "a sign",
)  # fmt: skip


def test_cells_that_differ_from_onnx_stay_loops(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    assert exported(loop(lstm_like(""), 2), path, X) == ["LSTM"]
    assert exported(loop(gru_like("")), path, X) == ["GRU"]
    cells = [(lstm_like(change), 2) for change in LSTM_CHANGES]
    cells += [(gru_like(change), 1) for change in GRU_CHANGES]
    for cell, memories in cells:
        assert not {*exported(loop(cell, memories), path, X)}.intersection(KINDS)


def test_lengths_and_other_dtypes_stay_loops(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for dtype, lengths in (("float32", True), ("float64", False), ("float16", False)):
        with br.Program() as program:
            x = br.data("x", ["batch", "steps", 4], dtype=dtype)
            n = br.data("n", ["batch"], dtype="int32") if lengths else None
            out, _ = br.lstm(x, 3, lengths=n)
        scope = br.Executor(mode="interpret").init(program, br.Scope())
        br.to_onnx(program, path, scope=scope, fetches=out, recurrent_nodes=True)
        assert types(path)
        assert not {*types(path)}.intersection(KINDS)


def test_a_training_step_and_the_default_have_loops(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as program:
        out, _ = br.lstm(br.data("x", [2, 5, 4]), 3)
        loss = br.mean(out * out)
        br.optimizer.sgd(0.1).minimize(loss)
    scope = br.Executor(mode="interpret").init(program, br.Scope())
    br.to_onnx(program, path, scope=scope, fetches=out)
    assert types(path) == ["Scan"]
    br.to_onnx(program, path, scope=scope, fetches=loss, updates=True, recurrent_nodes=True)
    assert len(types(path)) == 2
    assert not {*types(path)}.intersection(KINDS)
