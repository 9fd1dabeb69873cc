"""ONNX Runtime as a backend: the same values, updates and errors as by XLA."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
pytest.importorskip("onnxruntime")


def by_onnx_runtime(**options: Any) -> br.Executor:
    return br.Executor(backend="onnxruntime", **options)


def classifier() -> tuple[br.Program, br.Var, br.Var]:
    """A convolutional classifier that trains, with dropout and running statistics."""
    with br.Program() as prog:
        x = br.data("x", ["batch", 2, 6, 6])
        y = br.data("y", ["batch"], dtype="int32")
        h = br.batch_norm(br.conv2d(x, 4, 3, act="relu", name="conv"), name="norm")
        h = br.dropout(br.flatten(br.max_pool2d(h, window=2)), 0.3)
        logits = br.fc(h, 3, name="fc")
        loss = br.mean(br.softmax_cross_entropy(logits, y))
        br.optimizer.sgd(0.1, momentum=0.9).minimize(loss)
    return prog, logits, loss


def batch(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 2, 6, 6)).astype("float32")
    return {"x": x, "y": rng.integers(0, 3, rows).astype("int32")}


def values(prog: br.Program, scope: br.Scope) -> dict[str, Any]:
    """All persistable variables."""
    names = [n for n, info in prog.definition.main.vars.items() if info.persistable]
    return {name: np.array(scope.var(name).value) for name in names}


def test_a_prediction_and_its_shapes_need_one_session() -> None:
    prog, logits, _ = classifier()
    scope = br.Executor().init(prog, br.Scope())
    test, exe = prog.for_test(), by_onnx_runtime()
    for rows in (3, 3, 5, 1):
        feed = {"x": batch(rows)["x"]}
        want = br.Executor().run(test, scope, feed, logits)
        np.testing.assert_allclose(exe.run(test, scope, feed, logits), want, 1e-4, 1e-5)
    assert (exe.stats.runs, exe.stats.compilations) == (4, 1)
    assert "onnxruntime" in repr(exe)


def test_training_steps_update_the_same_values_and_draw_the_same_numbers() -> None:
    prog, _, loss = classifier()
    found = list[Any]()
    for exe in (br.Executor(mode="interpret"), by_onnx_runtime()):
        scope = exe.init(prog, br.Scope(), seed=4)
        losses = [exe.run(prog, scope, batch(rows), loss) for rows in (4, 4, 6)]
        found.append({"losses": losses, **values(prog, scope)})
    assert found[0].keys() == found[1].keys()
    for name, want in found[0].items():
        np.testing.assert_allclose(found[1][name], want, 1e-3, 1e-4, err_msg=name)


def test_a_seed_draws_without_changing_the_random_state() -> None:
    prog, _, loss = classifier()
    exe, scope = by_onnx_runtime(), br.Executor().init(prog, br.Scope())
    before = np.array(scope.var("random_state").value)
    first = exe.run(prog, scope, batch(4), loss, seed=7)
    np.testing.assert_array_equal(scope.var("random_state").value, before)
    assert np.isfinite(first)


def test_changed_parameters_are_read_and_become_inputs_of_the_session() -> None:
    with br.Program() as prog:
        y = br.data("x", ["n", 2]) @ br.parameter("w", [2, 1])
    exe, scope = by_onnx_runtime(), br.Executor().init(prog, br.Scope())
    for number in range(8):
        scope.var("w").set(np.full((2, 1), number, "float32"))
        (row,) = exe.run(prog, scope, {"x": [[1.0, 2.0]]}, y)
        assert row == 3 * number
    assert exe.stats.compilations == 4
    assert "inputs" in exe.stats.listed[-1].change


def test_a_loop_that_depends_on_data_is_differentiated_twice() -> None:
    with br.Program() as prog:
        a = br.data("a", [])
        root = br.while_loop(
            lambda x: br.abs(x * x - a) > 1e-4, lambda x: (x + a / x) / 2.0, a, max_trips=30
        )
        (slope,) = br.gradients(root, [a])
        assert slope is not None
        (curvature,) = br.gradients(slope, [a])
    fetch = [root, slope, curvature]
    want = br.Executor().run(prog, br.Scope(), {"a": 2.0}, fetch)
    found = by_onnx_runtime().run(prog, br.Scope(), {"a": 2.0}, fetch)
    np.testing.assert_allclose(found, want, 1e-4)


def test_sizes_that_the_export_needs_have_a_session_each() -> None:
    with br.Program() as prog:
        y = br.pad(br.data("x", ["n"]), [(2, 1)], mode="wrap")
    exe = by_onnx_runtime()
    for size in (3, 4, 3):
        x = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(
            exe.run(prog, br.Scope(), {"x": x}, y), np.pad(x, (2, 1), mode="wrap")
        )
    assert exe.stats.compilations == 2


def test_data_that_only_determines_a_size_is_fed() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 2])
        y = br.broadcast_to(br.data("y", [1]), (x.shape[0],))
    exe, feed = by_onnx_runtime(), {"x": np.zeros((3, 2), "float32"), "y": [2.0]}
    np.testing.assert_array_equal(exe.run(prog, br.Scope(), feed, y), [2.0, 2.0, 2.0])


def test_results_that_are_fetched_twice_or_fed_are_returned() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        y = x * 2.0
    found = by_onnx_runtime().run(prog, br.Scope(), {"x": [1.0]}, [y, x, y])
    np.testing.assert_array_equal(found, [[2.0], [1.0], [2.0]])


# ---- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "feed",
    [
        {"x": np.zeros((2, 2, 6, 6), "float32")},
        {"x": np.zeros((2, 2, 6, 7), "float32"), "y": np.zeros(2, "int32")},
        {"x": np.zeros((2, 2, 6, 6), "float32"), "y": np.zeros(3, "int32")},
        {"x": np.zeros((2, 2, 6, 6), "float32"), "y": np.zeros(2, "float32")},
        {"z": np.zeros(2, "float32")},
    ],
)
def test_feeds_fail_as_by_xla_and_change_nothing(feed: dict[str, Any]) -> None:
    prog, _, loss = classifier()
    scope = br.Executor().init(prog, br.Scope())
    before, messages = values(prog, scope), list[str]()
    for exe in (br.Executor(), by_onnx_runtime()):
        with pytest.raises(br.FeedError) as caught:
            exe.run(prog, scope, feed, loss)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    for name, value in values(prog, scope).items():
        np.testing.assert_array_equal(value, before[name])


def test_missing_and_misshapen_parameters_fail_as_by_xla() -> None:
    prog, logits, _ = classifier()
    test, feed = prog.for_test(), {"x": batch(2)["x"]}
    with pytest.raises(br.UninitializedError, match=r"conv\.w"):
        by_onnx_runtime().run(test, br.Scope(), feed, logits)
    scope = br.Executor().init(prog, br.Scope())
    scope.var("conv.b").set(np.zeros(5, "float32"))
    with pytest.raises(br.ShapeError, match=r"conv\.b"):
        by_onnx_runtime().run(test, scope, feed, logits)


def test_operators_without_an_onnx_form_are_named_together() -> None:
    with br.Program() as prog:
        x = br.data("x", [3, 3])
        fetch = [br.linalg.eigvalsh(x), br.linalg.svdvals(x)]
    with pytest.raises(br.ProgramError) as caught:
        by_onnx_runtime().run(prog, br.Scope(), {"x": np.eye(3, dtype="float32")}, fetch)
    assert "backend onnxruntime" in caught.value.what
    assert re.search(r"(?s)eigvalsh.*svdvals", str(caught.value))


def test_kernels_that_onnx_runtime_lacks_are_refused() -> None:
    with br.Program() as prog:
        y = br.conv1d(br.data("x", ["n", 1, 5], dtype="float64"), 1, 3)
    scope = br.Executor().init(prog, br.Scope())
    with pytest.raises(br.ProgramError, match=r"(?s)ONNX Runtime cannot run.*Conv"):
        by_onnx_runtime().run(prog, scope, {"x": np.zeros((1, 1, 5))}, y)


def test_an_index_out_of_range_fails_in_onnx_runtime() -> None:
    with br.Program() as prog:
        y = br.take(br.data("x", [3]), br.data("i", ["n"], dtype="int32"), axis=0)
    feed = {"x": np.zeros(3, "float32"), "i": np.array([5], "int32")}
    with pytest.raises(br.RunError, match=r"(?s)ONNX Runtime failed.*out"):
        by_onnx_runtime().run(prog, br.Scope(), feed, y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"check_nan": True}, "check_nan"),
        ({"check_inf": True}, "check_inf"),
        ({"timeout_s": 1.0}, "timeout_s"),
        ({"keep_scopes": True}, "keep_scopes"),
        ({"listeners": [print]}, "listeners"),
    ],
)
def test_options_of_other_backends_are_refused(options: dict[str, Any], words: str) -> None:
    with br.Program() as prog:
        y = br.data("x", ["n"]) * 2.0
    with pytest.raises(br.ProgramError, match=words):
        by_onnx_runtime().run(prog, br.Scope(), {"x": [1.0]}, y, **options)
    with pytest.raises(br.ProgramError, match="profiles"):
        by_onnx_runtime().profile(prog, br.Scope(), {"x": [1.0]}, y)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"backend": "tensorrt"}, br.ProgramError, "tensorrt"),
        ({"backend": "onnxruntime", "threads": 0}, br.ProgramError, "threads=0"),
        ({"threads": 2}, br.ProgramError, "requires a backend"),
        ({"backend": "onnxruntime", "mode": "interpret"}, br.ProgramError, "interpretation"),
        ({"backend": "onnxruntime", "device": "gpu:0"}, br.DeviceError, "gpu:0"),
    ],
)
def test_settings_are_checked(
    options: dict[str, Any], error: type[br.BracesError], words: str
) -> None:
    with pytest.raises(error, match=words):
        br.Executor(**options)


def test_a_copy_has_the_same_settings() -> None:
    again = pickle.loads(pickle.dumps(by_onnx_runtime(threads=1)))
    assert (again.backend, again.threads) == ("onnxruntime", 1)
    with br.Program() as prog:
        y = br.data("x", ["n"]) * 2.0
    again.compile(prog, br.Scope(), {"x": [1.0]}, y)
    np.testing.assert_array_equal(again.run(prog, br.Scope(), {"x": [1.0]}, y), [2.0])
    assert again.stats.compilations == 1
