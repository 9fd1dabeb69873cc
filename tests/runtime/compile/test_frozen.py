"""Frozen variables: constants of compiled code, found by their identity."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.runtime.compile import frozen_states
from braces.runtime.direct_run import DirectRun

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 6)).astype(np.float32)


def dense(x: br.Var) -> br.Var:
    w = br.parameter("w", [4, 6])
    return br.tanh(x @ br.permute_dims(w, [1, 0]) + br.parameter("b", [4]))


def embedded(x: br.Var) -> br.Var:
    table = br.parameter("table", [5, 3])
    return br.take(table, br.argmax(x, axis=1), axis=0) @ br.exp(br.parameter("w", [3, 2]))


def recurrent(x: br.Var) -> br.Var:
    steps = br.reshape(x, [-1, 3, 2])
    return br.lstm(steps, 3, name="lstm")[0]


def convolved(x: br.Var) -> br.Var:
    images = br.reshape(x, [-1, 1, 3, 2])
    return br.batch_norm(br.conv2d(images, 4, 2, name="conv"), name="norm")


def drawn(x: br.Var) -> br.Var:
    return br.random.normal([2, 3]) * br.parameter("w", [3]) + br.sum(x)


def constant(x: br.Var) -> br.Var:
    return br.exp(br.parameter("w", [4])) + 0.0 * br.sum(x)


def unused(x: br.Var) -> br.Var:
    return x * 2.0


PROGRAMS: dict[str, Callable[[br.Var], br.Var]] = {
    f.__name__: f for f in (dense, embedded, recurrent, convolved, drawn, constant, unused)
}


def require(value: Any) -> br.Var:
    assert isinstance(value, br.Var)
    return value


def built(make: Callable[[br.Var], br.Var]) -> tuple[br.Program, br.Var, br.Scope]:
    with br.Program() as prog:
        y = make(br.data("x", ["n", 6]))
    prog = prog.for_test()
    return prog, y, br.Executor().init(prog, seed=2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_arguments(name: str) -> None:
    prog, y, scope = built(PROGRAMS[name])
    plain, frozen = br.Executor(), br.Executor(frozen=True)
    for _ in range(2):
        expected = plain.run(prog, scope, {"x": X}, y, seed=4)
        got = frozen.run(prog, scope, {"x": X}, y, seed=4)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert frozen.stats.compilations == 1
    assert ("frozen" in frozen.stats.listed[0].change) == bool(
        scope.names() and name != "unused"
    )


def test_writes_take_effect() -> None:
    prog, y, scope = built(dense)
    exe, run = (
        br.Executor(frozen=True),
        DirectRun(br.Executor(frozen=True), prog, scope, {"y": y.name}),
    )
    for number in range(5):
        expected = np.tanh(X @ scope["w"].T + scope["b"])
        for _ in range(2):
            np.testing.assert_allclose(exe.run(prog, scope, {"x": X}, y), expected, atol=1e-5)
            np.testing.assert_allclose(run({"x": X})["y"], expected, atol=1e-5)
        scope.update({"wb"[number % 2]: RNG.normal(size=[(4, 6), 4][number % 2]).astype("f4")})
    changes = [one.change for one in exe.stats.listed]
    assert len(changes) == 4  # arguments from the third change on
    assert "is a constant, after 1 change, was" in changes[1]
    assert "is an argument, was a constant" in changes[3]


def test_clear_freezes_again() -> None:
    prog, y, scope = built(dense)
    exe = br.Executor(frozen=True)
    for _ in range(4):
        exe.run(prog, scope, {"x": X}, y)
        scope.update({"b": np.zeros(4, np.float32)})
    exe.clear()
    exe.run(prog, scope, {"x": X}, y)
    assert exe.stats.listed[-1].change.endswith("2 variables frozen, 112 B in the code")


def test_scopes_have_their_own_constants() -> None:
    prog, y, _ = built(dense)
    exe = br.Executor(frozen=True)
    scopes = [br.Executor().init(prog, seed=seed) for seed in range(3)]
    expected = [np.tanh(X @ scope["w"].T + scope["b"]) for scope in scopes]

    def check(at: int) -> None:
        got = exe.run(prog, scopes[at], {"x": X}, y)
        np.testing.assert_allclose(got, expected[at], atol=1e-5)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(check, [0, 1, 2] * 8))


def test_a_child_scope_hides_a_constant() -> None:
    prog, y, scope = built(dense)
    exe, child = br.Executor(frozen=True), scope.new_scope()
    before = exe.run(prog, child, {"x": X}, y)
    child.var("b").set(np.full(4, 9.0, np.float32))
    assert np.max(np.abs(exe.run(prog, child, {"x": X}, y) - before)) > 0.1
    np.testing.assert_array_equal(exe.run(prog, scope, {"x": X}, y), before)


def test_types_are_checked() -> None:
    prog, y, scope = built(dense)
    exe = br.Executor(frozen=True)
    exe.run(prog, scope, {"x": X}, y)
    scope.var("b").set(np.zeros(4, np.float64))
    with pytest.raises(br.ShapeError, match="type mismatch of `b`"):
        exe.run(prog, scope, {"x": X}, y)
    scope.erase("b")
    with pytest.raises(br.UninitializedError, match="`b`"):
        exe.run(prog, scope, {"x": X}, y)


def test_a_training_step_has_arguments() -> None:
    losses = list[Any]()
    for frozen in (False, True):
        with br.Program() as prog:
            loss = br.mean(br.square(dense(br.data("x", ["n", 6]))))
            br.optimizer.sgd(0.1).minimize(loss)
        exe = br.Executor(frozen=frozen)
        scope = exe.init(prog, seed=1)
        losses.append([exe.run(prog, scope, {"x": X}, loss) for _ in range(3)])
        assert exe.stats.compilations == 2
    np.testing.assert_array_equal(*losses)


def test_gradients_of_constants_and_feeds() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 6])
        loss = br.sum(br.square(dense(x)))
        grads = br.gradients(loss, [x, *prog.parameters])
        more = br.gradients(br.sum(br.square(require(grads[0]))), [x])
    scope = br.Executor().init(prog)
    results = [
        br.Executor(frozen=frozen).run(prog, scope, {"x": X}, [*grads, *more])
        for frozen in (False, True)
    ]
    for left, right in zip(*results, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)


def test_all_shapes_share_computed_values(monkeypatch: pytest.MonkeyPatch) -> None:
    prog, y, scope = built(dense)
    exe, made, original = br.Executor(frozen=True), list[str](), frozen_states.compute_early

    def compute(early: Any, given: list[Any], name: str) -> Any:
        made.append(name)
        return original(early, given, name)

    monkeypatch.setattr(frozen_states, "compute_early", compute)
    for rows in (0, 1, 2, 2, 1):
        expected = np.tanh(X[:rows] @ scope["w"].T + scope["b"])
        np.testing.assert_allclose(
            exe.run(prog, scope, {"x": X[:rows]}, y), expected, atol=1e-5
        )
    assert exe.stats.compilations == 3
    assert len(made) == 1


def test_the_persistent_cache_distinguishes_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRACES_CACHE_DIR", str(tmp_path))
    prog, y, scope = built(dense)
    for number in (1.0, 2.0, 1.0):
        scope.update({"b": np.full(4, number, np.float32)})
        expected = np.tanh(X @ scope["w"].T + number)
        got = br.Executor(frozen=True).run(prog, scope, {"x": X}, y)
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_a_loaded_model_is_frozen(tmp_path: Path) -> None:
    prog, y, scope = built(dense)
    br.save_model(tmp_path / "m", prog, scope, ["x"], [y])
    model = br.load_model(tmp_path / "m")
    before = model.run(x=X)
    assert "2 variables frozen" in model.executor.stats.listed[-1].change
    model.scope.update({"b": np.zeros(4, np.float32)})
    np.testing.assert_allclose(model.run(x=X), np.tanh(X @ scope["w"].T), atol=1e-5)
    other = br.load_model(tmp_path / "m", frozen=False)
    np.testing.assert_allclose(other.run(x=X), before, atol=1e-6)
    assert "frozen" not in str(other.executor.stats)


def test_large_values_are_arguments() -> None:
    def make(x: br.Var) -> br.Var:
        return br.sum(x) * br.permute_dims(br.parameter("w", [900, 900]), [1, 0])

    prog, y, scope = built(make)
    exe = br.Executor(frozen=True)
    got = exe.run(prog, scope, {"x": X}, y)
    np.testing.assert_allclose(got, X.sum() * scope["w"].T, rtol=1e-5)
    assert exe.stats.listed[-1].change.endswith("1 variable frozen, 0 B in the code")


def test_pickling_keeps_the_setting() -> None:
    assert pickle.loads(pickle.dumps(br.Executor(frozen=True))).frozen


def test_interpretation_is_unchanged() -> None:
    prog, y, scope = built(dense)
    got = br.Executor("interpret", frozen=True).run(prog, scope, {"x": X}, y)
    np.testing.assert_allclose(got, np.tanh(X @ scope["w"].T + scope["b"]), atol=1e-5)
