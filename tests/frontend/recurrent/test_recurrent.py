"""Recurrent layers and cells equal those of torch, on rows of all lengths.

`sequences.npz` has what torch computed; `scripts/torch_sequences.py` writes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from tests.frontend.refusing import refuse_here

pytestmark = pytest.mark.unoptimized

TORCH = dict(np.load(Path(__file__).parents[1] / "sequences.npz"))
KINDS = {"lstm": 2, "gru": 1, "simple_rnn": 1}
"""The number of memories of each layer."""
CELLS: dict[str, Callable[..., Any]] = {
    "lstm": br.layers.lstm_cell,
    "gru": br.layers.gru_cell,
    "simple_rnn": br.layers.simple_rnn_cell,
}
STEPS, ROWS, SIZE = 4, 3, 3


def parts(kind: str, what: str) -> dict[str, np.ndarray]:
    """What torch's layer has, by what stands after `what`, without gradients."""
    start = f"{kind}.{what}."
    return {
        key.removeprefix(start): value
        for key, value in TORCH.items()
        if key.startswith(start) and not key.endswith(".grad")
    }


def flat(state: Any) -> list[Any]:
    return list(state) if isinstance(state, tuple) else [state]


# ---- against torch ---------------------------------------------------------------------------


LAYERS: dict[str, Any] = {"lstm": br.lstm, "gru": br.gru, "simple_rnn": br.layers.simple_rnn}


@functools.cache
def all_kinds() -> tuple[br.Program, dict[str, Any]]:
    """Each kind in one program: what is fetched, by the names of torch's results."""
    with br.Program() as program:
        lengths = br.data("n", [ROWS], dtype="int32")
        fetched, losses, wanted = dict[str, Any](), list[Any](), list[Any]()
        for kind, count in KINDS.items():
            x = br.data(f"{kind}.x", [ROWS, STEPS, 2], dtype="float64")
            starts = [
                br.data(f"{kind}.start.{at}", [4, ROWS, SIZE], dtype="float64")
                for at in range(count)
            ]
            out, last = LAYERS[kind](
                *(x, SIZE),
                layers=2,
                bidirectional=True,
                lengths=lengths,
                state=tuple(starts) if count > 1 else starts[0],
                name=kind,
            )
            results = [out, *flat(last)]
            fetched |= {f"{kind}.result.{at}": one for at, one in enumerate(results)}
            weights = parts(kind, "weight").values()
            losses += [br.sum(a * b) for a, b in zip(results, weights, strict=True)]
            wanted += [x, *starts]
        wanted += [br.get_variable(info.name) for info in program.parameters]
        grads = br.gradients([sum(losses[1:], losses[0])], wanted)
    for var, grad in zip(wanted, grads, strict=True):
        kind = var.name.partition("/")[0]
        name = f"{kind}.parameter.{var.name}" if "/" in var.name else var.name
        fetched[f"{name}.grad"] = grad
    return program, fetched


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_layers_in_both_directions_and_their_gradients_are_those_of_torch(mode: Any) -> None:
    program, fetched = all_kinds()
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(program, scope)
    feed: dict[str, Any] = {"n": TORCH["lengths"]}
    for kind in KINDS:
        assert {*parts(kind, "parameter")} == {
            info.name for info in program.parameters if info.name.startswith(f"{kind}/")
        }
        for name, value in parts(kind, "parameter").items():
            scope.var(name).set(value)
        x = TORCH[f"{kind}.x"].copy()
        x[1, 1:], x[2, 3:] = np.nan, np.inf  # padding
        feed |= {f"{kind}.x": x}
        feed |= {f"{kind}.start.{at}": one for at, one in parts(kind, "start").items()}
    found = exe.run(program, scope, feed=feed, fetch=list(fetched.values()))
    ours = [key for key in TORCH if key.partition(".")[0] in KINDS]
    assert {*fetched} == {k for k in ours if k.endswith(".grad") or ".result." in k}
    for name, value in zip(fetched, found, strict=True):
        np.testing.assert_allclose(value, TORCH[name], rtol=1e-9, atol=1e-12, err_msg=name)


# ---- against cells in a loop -----------------------------------------------------------------


def cells_in_a_loop(kind: str, x: Any, lengths: Any, name: str) -> list[Any]:
    """One layer as users write it themselves, with the parameters of another."""
    rnn = br.create_rnn(lengths=lengths)
    roles = "w", "u", "b", *(["b_reset"] if kind == "gru" else [])
    with rnn.stepnet() as net:
        memories = [
            net.add_memory(shape=[SIZE], batch_like=x, batch_axis=1) for _ in range(KINDS[kind])
        ]
        state = tuple(memories) if len(memories) > 1 else memories[0]
        params = [f"{name}/forward.{role}" for role in roles]
        after = flat(CELLS[kind](net.add_input(x), state, params=params))
        for memory, value in zip(memories, after, strict=True):
            memory.update(value)
        net.add_output(after[0])
    return [rnn(), *(rnn.final(memory) for memory in memories)]


def test_a_layer_is_its_cell_in_a_loop_on_rows_without_steps_and_in_a_branch_of_rows() -> None:
    rng, exe, scope = np.random.default_rng(0), br.Executor(mode="interpret"), br.Scope()
    with br.Program() as program:
        x, n = br.data("x", ["t", "b", 2]), br.data("n", ["b"], dtype="int32")
        pairs = list[tuple[Any, Any]]()
        for kind in KINDS:
            out, last = LAYERS[kind](x, SIZE, axis=0, lengths=n, name=kind)
            pairs += zip([out, *flat(last)], cells_in_a_loop(kind, x, n, kind), strict=True)
        encode = br.shared(br.gru, name="shared")
        rows = br.moveaxis(x, 0, 1)
        whole, _ = encode(rows, SIZE)
        choice = br.create_if_else(n > 1)
        with choice.true_block() as case:
            case.add_output(encode(case.add_input(rows), SIZE)[0])
        with choice.false_block() as case:
            case.add_output(br.zeros_like(encode(case.add_input(rows), SIZE)[0]))
        chosen = br.where(br.reshape(n, [-1, 1, 1]) > 1, whole, 0.0)
        pairs.append((choice(), chosen))
    exe.init(program, scope)
    assert [p.name for p in program.parameters if p.name.startswith("shared")] == [
        f"shared/forward.{role}" for role in ("w", "u", "b", "b_reset")
    ]
    lengths = np.array([2, 0, 1], "int32")
    for steps in (2, 1):
        feed = {"x": rng.normal(size=[steps, 3, 2]).astype("f4"), "n": lengths}
        found = exe.run(program, scope, feed=feed, fetch=[v for pair in pairs for v in pair])
        for left, right in zip(found[::2], found[1::2], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
        assert not np.any(found[0][:, 1])
        assert not np.any(found[2][1])


def test_layers_run_in_a_step_over_rows_of_several_lengths() -> None:
    with br.Program() as program:
        x = br.data("x", ["days", "b", "t", 2], dtype="float64")
        n = br.data("n", ["b"], dtype="int32")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros(["b", SIZE], "float64"))
            day = net.add_input(x)
            _, last = br.gru(day, SIZE, state=h, name="enc")
            h.update(last)
        loss = br.sum(rnn.final(h))
        (grad,) = br.gradients([loss], [x])
    exe, scope = br.Executor(), br.Scope()
    exe.init(program, scope, seed=0)
    days = np.random.default_rng(0).normal(size=[2, 3, 2, 2])
    lengths = np.array([2, 0, 1], "int32")
    whole, slope = exe.run(program, scope, {"x": days, "n": lengths}, [rnn.final(h), grad])
    days[:, 1], days[1, 2] = np.nan, np.nan
    again, same = exe.run(program, scope, {"x": days, "n": lengths}, [rnn.final(h), grad])
    np.testing.assert_array_equal(whole, again)
    np.testing.assert_array_equal(slope, same)
    assert np.any(slope[1, 0])
    assert not np.any(slope[1, 2])
    assert not np.any(whole[1])


def test_a_gru_that_resets_its_memory_first_and_cells_of_given_weights() -> None:
    rng = np.random.default_rng(0)
    w, u, b = rng.normal(size=[2, 9]), rng.normal(size=[3, 9]), rng.normal(size=9)
    x, h = rng.normal(size=[4, 2]), rng.normal(size=[4, 3])
    with br.Program() as program:
        data = [
            br.data(name, [4, size], dtype="float64") for name, size in (("x", 2), ("h", 3))
        ]
        first = br.layers.gru_cell(*data, w, u, b, reset_after=False)
        plain = br.layers.simple_rnn_cell(*data, w[:, :3], u[:, :3], act="relu")
    assert not program.parameters
    found = br.Executor(mode="interpret").run(
        program, br.Scope(), feed={"x": x, "h": h}, fetch=[first, plain]
    )
    r, z, n = np.split(x @ w + b, 3, axis=1)
    r, z = (1 / (1 + np.exp(-g - h @ v)) for g, v in ((r, u[:, :3]), (z, u[:, 3:6])))
    n = np.tanh(n + (r * h) @ u[:, 6:])
    np.testing.assert_allclose(found[0], (1 - z) * n + z * h, rtol=1e-12)
    np.testing.assert_allclose(found[1], np.maximum(x @ w[:, :3] + h @ u[:, :3], 0), rtol=1e-12)


def test_layers_begin_with_biases_that_remember_and_drop_between_layers_in_training_only() -> (
    None
):
    with br.Program() as program:
        x = br.data("x", [2, 3, 4])
        out, _ = br.lstm(x, SIZE, layers=2, dropout=0.5, name="enc")
        bare, _ = br.gru(x, SIZE, bias=False, name="bare")
    assert [p.name for p in program.parameters][6:] == ["bare/forward.w", "bare/forward.u"]
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(program, scope, seed=1)
    bias = scope.var("enc/forward_1.b").value
    np.testing.assert_array_equal(bias, [0] * 3 + [1] * 3 + [0] * 6)
    u = scope.var("enc/forward_0.u").value
    np.testing.assert_allclose(u @ u.T, np.eye(3), atol=1e-6)
    feed = {"x": np.ones([2, 3, 4], "f4")}
    one, two = (exe.run(program, scope, feed, [out, bare])[0] for _ in range(2))
    assert np.any(one != two)
    test = br.for_test(program)
    one, two = (exe.run(test, scope, feed, [out.name])[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_only_products_of_memories_stay_in_the_loops_of_layers() -> None:
    program, fetched = all_kinds()
    wanted = [value for name, value in fetched.items() if name.endswith(".grad")]
    found = all_ops(program.explain(fetch=wanted).program.main)
    inside = [path for path, op in found if op.type == "matmul" and "loop" in path]
    assert len(inside) == 2 * 4 * len(KINDS)  # of each cell forwards, and backwards


# ---- what is refused -------------------------------------------------------------------------


def test_what_does_not_fit_a_recurrent_layer_is_refused_at_the_users_line() -> None:
    with br.Program() as program:
        x, step = br.data("seq", ["b", "t", 4]), br.data("x", ["b", 4])
        ids = br.data("ids", ["b", "t", 4], dtype="int32")
        wide = br.data("wide", ["b", "t", "f"])
        few, many = br.data("few", [2], dtype="int32"), br.data("many", ["b"])
        state, pair = br.data("state", ["b", 5]), br.data("pair", [2, "b", 8])
        double = br.data("double", ["b", 8], dtype="float64")
        h = br.data("h", ["b", 8])
        br.sum(step, name="loss")

    def refused(error: type[Exception], do: Callable[[], Any], *words: str) -> None:
        refuse_here(program, error, do, *words)

    shape, dtype, wrong = br.ShapeError, br.DTypeError, br.ProgramError
    refused(dtype, lambda: br.lstm(ids, 8), "lstm", "int32", "br.embedding")
    refused(shape, lambda: br.lstm(wide, 8), "lstm", "axis -1")
    refused(shape, lambda: br.gru(x, 8, axis=2), "gru", "axis of steps")
    refused(shape, lambda: br.gru(x, 8, axis=3), "gru")
    refused(shape, lambda: br.gru(x, 8, lengths=few), "gru", "few", "each batch element")
    refused(shape, lambda: br.gru(x, 8, lengths=many), "integer vector", "many")
    refused(shape, lambda: br.gru(x, 8, state=state), "gru", "h of shape [b,8]", "f32[b,5]")
    refused(shape, lambda: br.lstm(x, 8, state=(pair, pair)), "lstm", "[b,8]", "pair")
    refused(dtype, lambda: br.gru(x, 8, state=double), "float32", "float64")
    refused(wrong, lambda: br.lstm(x, 8, state=double), "lstm", "(h, c)")
    refused(wrong, lambda: br.lstm(x, 0), "lstm", "size of at least 1, got 0")
    refused(wrong, lambda: br.layers.simple_rnn(x, 8, layers=0), "layers of at least 1")
    refused(br.UnknownNameError, lambda: br.layers.simple_rnn(x, 8, act="tan_h"), "tanh")
    refused(wrong, lambda: br.gru(x, 8, name="a/b"), "a/b")
    refused(
        shape, lambda: br.layers.lstm_cell(step, (h, state)), "lstm_cell", "c of shape [b,8]"
    )
    refused(wrong, lambda: br.layers.lstm_cell(step, h), "lstm_cell", "(h, c)")
    refused(
        shape, lambda: br.layers.gru_cell(step, h, np.ones([4, 8], "f4")), "w of shape [4,24]"
    )
    refused(
        wrong,
        lambda: br.layers.gru_cell(step, h, b_reset=True, reset_after=False),
        "b_reset",
    )
