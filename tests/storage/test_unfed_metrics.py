"""A program with metrics is saved, exported and run without the data of its metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import braces as br
from braces.errors import FeedError

X, Y = np.eye(2, 3, dtype="f4"), np.array([0, 3], "i4")


class Model(NamedTuple):
    """A classifier with an accuracy, before and after a training step is built."""

    program: br.Program
    test: br.Program
    scope: br.Scope
    logits: Any
    loss: Any
    accuracy: Any


def classifier(*, trained: bool = True, blocks: bool = False) -> Model:
    with br.Program() as program:
        x, y = br.data("x", ["n", 3]), br.data("y", ["n"], dtype="int32")
        if blocks:
            with br.block("model"):
                logits = br.fc(x, 4, name="out")
                accuracy = br.metrics.accuracy(logits, y)
        else:
            logits = br.fc(x, 4, name="out")
            accuracy = br.metrics.accuracy(logits, y)
        loss = br.softmax_cross_entropy(logits, y)
        if trained:
            br.optimizer.adam(0.1).minimize(loss)
    scope = br.Executor(mode="interpret").init(program)
    return Model(program, program.for_test(), scope, logits, loss, accuracy.value)


def predict(model: Model) -> Any:
    w, b = (model.scope[var.name] for var in model.program.parameters)
    return X @ w + b


def counted(scope: br.Scope) -> float:
    return float(scope["accuracy/count"])


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("blocks", [True, False])
def test_a_model_is_saved_for_prediction_without_labels(
    tmp_path: Path, trained: bool, blocks: bool
) -> None:
    model = classifier(trained=trained, blocks=blocks)
    path = tmp_path / "m"
    br.save_model(path, model.program, model.scope, feeds=["x"], fetches=[model.logits])
    read = br.load_model(path, mode="interpret")
    assert read.feeds == ("x",)
    np.testing.assert_allclose(read.run(x=X), predict(model), rtol=1e-6)
    if trained:
        read.run_program("train", x=X, y=Y)
        name = next(n for n in read.scope.names() if n.endswith("accuracy/count"))
        assert read.scope[name] == 2.0  # training goes on counting


def test_programs_of_a_model_count_where_their_feeds_suffice(tmp_path: Path) -> None:
    model = classifier()
    path = tmp_path / "m"
    programs: Any = {
        "logits": (model.test, ["x"], [model.logits]),
        "score": (model.test, ["x", "y"], [model.accuracy]),
        "silent": (model.test, ["x", "y"], [model.logits]),
        "train": (model.program, ["x", "y"], [model.loss]),
    }
    given = model.program, model.scope, ["x"], [model.logits]
    br.save_model(path, *given, programs=programs)
    read = br.load_model(path, mode="interpret")
    np.testing.assert_allclose(read.run_program("logits", x=X), predict(model), rtol=1e-6)
    assert counted(read.scope) == 0.0
    for name, count in {"score": 2.0, "silent": 4.0, "train": 6.0}.items():
        read.run_program(name, x=X, y=Y)
        assert counted(read.scope) == count


@pytest.mark.parametrize("fetch", ["loss", "accuracy"])
def test_data_that_the_fetches_need_is_required(tmp_path: Path, fetch: str) -> None:
    model = classifier()
    given = model.program, model.scope, ["x"], [getattr(model, fetch)]
    with pytest.raises(FeedError, match=r"need data that is not among the feeds: `y`"):
        br.save_model(tmp_path / "m", *given)
    programs: Any = {"more": (model.test, ["x"], [getattr(model, fetch)])}
    with pytest.raises(FeedError, match="`y`"):
        br.save_model(tmp_path / "m", *given[:2], ["x"], [model.logits], programs=programs)
    assert not list(tmp_path.iterdir())


def functions(model: Model) -> dict[str, tuple[Any, set[str]]]:
    """Functions of JAX, each with the data that it must need."""
    return {
        "logits": (model.test.to_jax(fetches=[model.logits]), {"x"}),
        "accuracy": (model.test.to_jax(fetches=[model.accuracy]), {"x", "y"}),
        "loss": (model.test.to_jax(fetches=[model.loss]), {"x", "y"}),
        "train": (model.program.to_jax(fetches=[model.loss]), {"x", "y"}),
    }


def test_a_function_of_jax_needs_what_its_fetches_need() -> None:
    model = classifier()
    for name, (function, wanted) in functions(model).items():
        assert function.feeds.keys() == wanted
        assert ("accuracy/count" in function.updates) == (name != "logits")
    function, _ = functions(model)["logits"]
    results, after, _ = function({n: model.scope[n] for n in function.states}, {"x": X})
    np.testing.assert_allclose(results[0], predict(model), rtol=1e-6)
    assert after == {}


def test_exports_need_what_their_fetches_need(tmp_path: Path) -> None:
    model = classifier()
    given = {"scope": model.scope, "fetches": [model.logits]}
    br.to_onnx(model.test, tmp_path / "m.onnx", **given, updates=True)
    read, _ = br.from_onnx(tmp_path / "m.onnx")
    assert read.feeds == ("x",)
    br.to_stablehlo(model.test, tmp_path / "m.mlir", **given)
    assert (tmp_path / "m.mlir").stat().st_size


@pytest.mark.parametrize("run", ["run", "evaluate"])
def test_a_copy_for_test_runs_without_labels(mode: str, run: str) -> None:
    model, exe = classifier(), br.Executor(mode=mode)
    call: Callable[..., Any] = getattr(exe, run)
    exe.compile(model.test, model.scope, {"x": X}, fetch=model.logits)
    for _ in range(2):
        found = call(model.test, model.scope, {"x": X}, fetch=model.logits)
        np.testing.assert_allclose(found, predict(model), rtol=1e-6)
    assert counted(model.scope) == 0.0
    call(model.test, model.scope, {"x": X, "y": Y}, fetch=model.logits)
    assert counted(model.scope) == 2.0
    for fetch in (model.loss, model.accuracy):
        with pytest.raises(FeedError, match="`y`"):
            call(model.test, model.scope, {"x": X}, fetch=fetch)


def test_what_was_added_to_a_copy_for_test_stays(mode: str) -> None:
    model = classifier(trained=False)
    with model.test as test:
        seen = br.state("seen", [])
        test.update(seen, seen + br.sum(br.cast(br.get_variable("y"), "float32")))
    exe = br.Executor(mode=mode)
    exe.init(test, model.scope, missing_only=True)
    with pytest.raises(FeedError, match="`y`"):
        exe.run(test, model.scope, {"x": X}, fetch=model.logits)
    exe.run(test, model.scope, {"x": X, "y": Y}, fetch=model.logits)
    assert (model.scope["seen"], counted(model.scope)) == (3.0, 2.0)
