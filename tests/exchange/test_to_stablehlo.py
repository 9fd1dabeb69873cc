"""Programs as StableHLO: run by JAX alone, for one batch and for all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.errors import IndexRangeError, ProgramError, UnknownNameError

pytestmark = pytest.mark.unoptimized
X = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]], "f")


def training(batch: Any = "batch") -> tuple[br.Program, br.Var, br.Scope]:
    with br.Program() as prog:
        x = br.data("x", [batch, 3])
        h = br.layer_norm(br.fc(x, 4, act="relu", name="fc"))
        loss = br.mean(br.square(br.softmax(h)))
        br.optimizer.adam(learning_rate=0.1).minimize(loss)
    scope = br.Scope()
    br.Executor().init(prog, scope, seed=0)
    return prog, loss, scope


def read(path: Path) -> Any:
    return jax.export.deserialize(bytearray(path.read_bytes()))


def values_of(scope: br.Scope, wanted: Any) -> dict[str, Any]:
    return {name: scope.find_var(name).value for name in wanted}


def test_a_training_step_is_one_file_for_all_batches(tmp_path: Path) -> None:
    prog, loss, scope = training()
    path = tmp_path / "step.stablehlo"
    br.to_stablehlo(prog, path, fetches=[loss])
    model, states = read(path), prog.to_jax(fetches=[loss]).states
    for rows in (X, X[:1], np.concatenate([X, X])):
        values = values_of(scope, states)
        (found,), after, status = model.call(values, {"x": rows})
        (wanted,) = br.Executor().run(prog, scope, feed={"x": rows}, fetch=[loss])
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        assert not np.any(status)
        for name, value in after.items():
            np.testing.assert_allclose(value, scope.find_var(name).value, 1e-4, 1e-6)


def test_values_of_a_scope_are_part_of_the_file(tmp_path: Path) -> None:
    prog, loss, scope = training()
    path = tmp_path / "loss.stablehlo"
    br.to_stablehlo(prog, path, fetches=[loss], scope=scope, sizes={"batch": 2})
    (found,), after, _ = read(path).call({}, {"x": X})
    (wanted,) = br.Executor().run(prog, scope, feed={"x": X}, fetch=[loss])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert not after


def test_a_file_runs_without_braces(tmp_path: Path) -> None:
    prog, loss, scope = training()
    path = tmp_path / "loss.stablehlo"
    br.to_stablehlo(prog, path, fetches=[loss], scope=scope, sizes={"batch": 2})
    source = f"""
import sys, jax, numpy as np
model = jax.export.deserialize(bytearray(open({str(path)!r}, "rb").read()))
model.call({{}}, {{"x": np.ones((2, 3), "f")}})
assert "braces" not in sys.modules
"""
    subprocess.run([sys.executable, "-I", "-c", source], check=True, timeout=120)


def test_loops_and_text_are_written_too(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        loop = br.create_while()
        with loop.block() as body:
            y = body.add_memory(init=x)
            body.set_condition(br.sum(y * y) > 0.5)
            y.update(y * y * 0.25)
        (grad,) = br.gradients([br.sum(loop.final(y))], [x])
    path = tmp_path / "loop.stablehlo"
    br.to_stablehlo(prog, path, fetches=[grad], room=8)
    (found,), _, status = read(path).call({}, {"x": np.array([2.0, 0.0, 0.0], "f")})
    np.testing.assert_allclose(found, [0.5, 0.0, 0.0])
    assert not np.any(status)
    br.to_stablehlo(prog, tmp_path / "loop.mlir", fetches=[grad], room=8)
    assert "stablehlo.while" in (tmp_path / "loop.mlir").read_text()


def branches() -> list[br.Var]:
    x, w = br.data("x", ["batch", 3]), br.parameter("w", [3, 3])
    choice = br.create_if_else(x[:, 0] > 0)
    with choice.true_block() as positive:
        positive.add_output(br.tanh(positive.add_input(x) @ w))
    with choice.false_block() as other:
        other.add_output(other.add_input(x) * 0.5)
    out = choice()
    return [out, *br.gradients([br.sum(out * out)], [w])]


def trips() -> list[br.Var]:
    x, w = br.data("x", ["batch", 3]), br.parameter("w", [3, 3])
    loop = br.create_while()
    with loop.block() as body:
        y = body.add_memory(init=x)
        body.set_condition(br.sum(y * y) > 0.5)
        y.update(y * 0.5 + 0.125 * br.tanh(y @ w))
    return [loop.final(y), *br.gradients([br.sum(loop.final(y))], [w])]


def steps() -> list[br.Var]:
    x, lengths = br.data("x", ["batch", 3]), br.data("ids", ["batch"], dtype="int32")
    w = br.parameter("w", [1, 1])
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        row, h = net.add_input(x[..., None], axis=1), net.add_memory(shape=[1], batch_like=x)
        h.update(br.tanh(row + h @ w))
        net.add_output(h.pre(1))
    last = rnn.final(h)
    return [rnn(), last, *br.gradients([br.sum(last * last)], [w])]


def places() -> list[br.Var]:
    x, ids = br.data("x", ["batch", 3]), br.data("ids", ["batch"], dtype="int32")
    taken = br.take(x, ids, axis=0)
    return [taken, x[0], x[-1], *br.gradients([br.sum(taken * taken * x[0])], [x])]


def pictures() -> list[br.Var]:
    x = br.reshape(br.data("x", ["batch", 3]), ["batch", 1, 1, 3])
    found = br.max_pool2d(br.conv2d(x, 2, (1, 2)), (1, 2), stride=1)
    loss = br.mean(br.square(found))
    br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    return [loss]


@pytest.mark.parametrize("build", [branches, trips, steps, places, pictures])
def test_control_flow_is_one_file_for_all_batches(
    build: Callable[[], list[br.Var]], tmp_path: Path
) -> None:
    with br.Program() as prog:
        fetches = build()
    scope, executor, path = br.Scope(), br.Executor(), tmp_path / "model.stablehlo"
    executor.init(prog, scope, seed=0)
    br.to_stablehlo(prog, path, fetches=fetches, room=16)
    model, pure = read(path), prog.to_jax(fetches=fetches, room=16)
    for rows in (X, X[1:]):
        given = {"x": rows, "ids": np.array([1, 0], "i4")[-len(rows) :]}
        feed = {name: given[name] for name in pure.feeds}
        found, after, status = model.call(values_of(scope, pure.states), feed)
        assert not np.any(status)
        wanted = executor.run(prog, scope, feed=feed, fetch=fetches)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-5, 1e-6)
        for name, value in after.items():
            np.testing.assert_allclose(value, scope.find_var(name).value, 1e-5, 1e-6)


def test_a_file_tells_of_what_is_out_of_range(tmp_path: Path) -> None:
    with br.Program() as prog:
        fetches = places()[:1]
    br.to_stablehlo(prog, tmp_path / "places", fetches=fetches)
    feed = {"x": X, "ids": np.array([0, 2], "i4")}
    _, _, status = read(tmp_path / "places").call({}, feed)
    with pytest.raises(IndexRangeError, match="2"):
        prog.to_jax(fetches=fetches).check(status)


def test_a_size_that_must_be_a_number_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with br.Program() as prog:
        pooled = br.avg_pool1d(br.data("x", [1, 2, "n"]), 3, padding=1)
    with pytest.raises(ProgramError, match="cannot export the program to StableHLO") as caught:
        br.to_stablehlo(prog, tmp_path / "pooled", fetches=[pooled])
    assert "sizes={'n': 8}" in str(caught.value)
    br.to_stablehlo(prog, tmp_path / "pooled", fetches=[pooled], sizes={"n": 4})
    with pytest.raises(UnknownNameError, match="unknown size `m`"):
        br.to_stablehlo(prog, tmp_path / "pooled", fetches=[pooled], sizes={"m": 4})
