"""Programs as ONNX models: values in another runtime, and names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import braces as br
from braces.exchange.onnx.writer.graph import files
from tests.support.onnx_round_trip import check_back, check_exported, run_model

pytestmark = pytest.mark.unoptimized


def model(path: Path) -> Any:
    return onnx.load(path)


def kinds(graph: Any) -> set[str]:
    """The operators of a graph and of those in it."""
    found = set[str]()
    for node in graph.node:
        found.add(node.op_type)
        for attribute in node.attribute:
            found |= kinds(attribute.g)
    return found


def classifier() -> tuple[br.Program, br.Var, br.Var]:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        y = br.data("y", ["batch"], dtype="int32")
        hidden = br.dropout(br.fc(x, 16, act="relu", name="a"), rate=0.3)
        logits = br.fc(hidden, 4, name="b")
        loss = br.softmax_cross_entropy(logits, y)
        br.optimizer.adam(1e-2).minimize(loss)
    return prog, logits, loss


def initialised(prog: br.Program) -> tuple[br.Executor, br.Scope]:
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(prog, scope, seed=1)
    return exe, scope


# ---- names and files -------------------------------------------------------------------------


def test_a_layer_is_nodes_that_people_know_under_its_own_names(tmp_path: Path) -> None:
    prog, logits, _ = classifier()
    _, scope = initialised(prog)
    path = tmp_path / "m.onnx"
    br.to_onnx(prog.for_test(), path, scope=scope, fetches=[logits])
    graph = model(path).graph
    assert [entry.name for entry in graph.input] == ["x"]
    assert [entry.name for entry in graph.output] == [logits.name]
    assert {entry.name for entry in graph.initializer} == {"a.w", "a.b", "b.w", "b.b"}
    assert {"MatMul", "Add", "Relu"} <= kinds(graph)
    (axis, _) = graph.input[0].type.tensor_type.shape.dim
    assert axis.dim_param == "batch"


def test_what_the_program_gives_is_written_where_no_fetches_are_named(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", ["n"])
        y = br.tanh(x)
    br.to_onnx(prog, path, fetches=y)
    again, _ = br.from_onnx(path)
    br.to_onnx(again, tmp_path / "again.onnx")
    (found,) = run_model(tmp_path / "again.onnx", {"x": np.float32([1.0])}).values()
    np.testing.assert_allclose(found, np.tanh([1.0]), rtol=1e-6)


def test_inputs_and_weights_can_be_fetched_too(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", [2])
        w = br.parameter("w", [2], init=[1.0, 2.0])
        y = br.identity(x * w)
    _, scope = initialised(prog)
    br.to_onnx(prog, path, scope=scope, fetches=[x, w, y])
    found = run_model(path, {"x": np.float32([3, 4])})
    assert list(found) == ["x.value", "w.value", y.name]
    np.testing.assert_array_equal(list(found.values()), [[3, 4], [1, 2], [3, 8]])


def test_a_value_that_is_fetched_twice_is_two_outputs(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 2])
        y = br.tanh(x)
    br.to_onnx(prog, tmp_path / "m.onnx", fetches=[y, x, y, x])
    back, _ = br.from_onnx(tmp_path / "m.onnx")
    feed = {"x": np.ones((3, 2), "float32")}
    found = br.Executor().run(back, br.Scope(), feed=feed, fetch=list(back.fetches))
    for got, want in zip(found, [np.tanh(feed["x"]), feed["x"]] * 2, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_large_weights_lie_in_a_file_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    with br.Program() as prog:
        x = br.data("x", ["n", 64])
        y = br.fc(x, 64, name="a")
    exe, scope = initialised(prog)
    path = tmp_path / "m.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=[y])
    (data,) = (one for one in tmp_path.iterdir() if one != path)
    assert re.fullmatch(r"m\.onnx\.[0-9a-f]{16}\.data", data.name)
    assert path.stat().st_size < 64 * 64 * 4 < data.stat().st_size + 1
    onnx.checker.check_model(path, full_check=True)
    feed = {"x": np.ones((2, 64), "float32")}
    (want,) = exe.run(prog, scope, feed=feed, fetch=[y])
    np.testing.assert_allclose(run_model(path, feed)[y.name], want, rtol=1e-5, atol=1e-5)


# ---- errors ----------------------------------------------------------------------------------


def test_all_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", [3, 3])
        y = br.cast(x, "complex64")
        z = y * y
        b = br.bitcast(br.cast(x, "float16"), dtype="int16")
        f = br.fft.fftn(br.data("none", [0, 4]))  # computes nothing, and casts
    path = tmp_path / "m.onnx"
    with pytest.raises(br.ProgramError) as found:
        br.to_onnx(prog, path, fetches=[z, b, f])
    assert "multiply (ONNX has no arithmetic on complex numbers)" in str(found.value)
    assert "fftn (ONNX has no arithmetic on complex numbers)" in str(found.value)
    assert "bitcast" in str(found.value)
    assert "test_to_onnx.py" in str(found.value)
    assert not path.exists()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        y = br.fc(x, 2, name="a")
    with pytest.raises(br.UninitializedError, match="no value"):
        br.to_onnx(prog, path, fetches=[y])
    with pytest.raises(br.ProgramError, match="no outputs"):
        br.to_onnx(prog, path)
    with pytest.raises(br.UnknownNameError, match="nowhere"):
        br.to_onnx(prog, path, fetches=["nowhere"])
    with pytest.raises(br.UnknownNameError, match="size `m`"):
        br.to_onnx(prog, path, fetches=[y], sizes={"m": 1})
    assert not path.exists()


# ---- programs --------------------------------------------------------------------------------


def test_sizes_can_be_fixed(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        y = br.cumprod(x, axis=0)
        (grad,) = br.gradients([y], [x])
    with pytest.raises(br.ProgramError, match="expected static sizes"):
        br.to_onnx(prog, path, fetches=[grad])
    br.to_onnx(prog, path, fetches=[grad], sizes={"n": 4})
    feed = {"x": np.arange(12, dtype="float32").reshape(4, 3)}
    (want,) = br.Executor(mode="interpret").run(prog, br.Scope(), feed=feed, fetch=[grad])
    np.testing.assert_allclose(run_model(path, feed)[grad.name], want, rtol=1e-5)


def test_a_training_step_goes_on_from_what_it_gave(tmp_path: Path) -> None:
    prog, _, loss = classifier()
    exe, scope = initialised(prog)
    path = tmp_path / "m.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=[loss], updates=True)
    (entry,) = model(path).metadata_props
    nexts = json.loads(entry.value)
    rng, state = np.random.default_rng(0), dict[str, Any]()
    for _ in range(3):
        labels = rng.integers(0, 4, 5).astype("i4")
        feed = {"x": rng.normal(size=(5, 8)).astype("f4"), "y": labels}
        (want,) = exe.run(prog, scope, feed=feed, fetch=[loss])
        found = run_model(path, feed | state)
        np.testing.assert_allclose(found[loss.name], want, rtol=1e-5)
        state = {name: found[output] for name, output in nexts.items()}
    assert state.keys() == prog.updates.keys()
    for name, value in state.items():
        np.testing.assert_allclose(value, scope.var(name).value, rtol=1e-4, atol=1e-6)


def test_a_training_step_that_comes_back_trains(tmp_path: Path) -> None:
    prog, _, loss = classifier()
    exe, scope = initialised(prog)
    path = tmp_path / "m.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=[loss], updates=True)
    again, values = br.from_onnx(path)
    assert (again.feeds, again.fetches) == (("x", "y"), (loss.name,))
    assert again.updates.keys() == prog.updates.keys()
    other, compiled, rng = br.Scope(), br.Executor(), np.random.default_rng(0)
    other.update(values)
    for _ in range(3):
        labels = rng.integers(0, 4, 5).astype("i4")
        feed = {"x": rng.normal(size=(5, 8)).astype("f4"), "y": labels}
        (want,) = exe.run(prog, scope, feed=feed, fetch=[loss])
        (got,) = compiled.run(again, other, feed=feed, fetch=[loss.name])
        np.testing.assert_allclose(got, want, rtol=1e-5)
    for name in prog.updates:
        want = scope.var(name).value
        np.testing.assert_allclose(other.var(name).value, want, rtol=1e-4, atol=1e-6)


def test_next_values_of_what_a_model_does_not_have_are_refused(tmp_path: Path) -> None:
    prog, _, loss = classifier()
    _, scope = initialised(prog)
    path = tmp_path / "m.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=[loss], updates=True)
    for text in ("[", "[1]", '{"x": 1}', '{"a.w": "nowhere"}', "[" * 100_000):
        made = model(path)
        made.metadata_props[0].value = text
        with pytest.raises(br.FileFormatError, match="unknown names of updated inputs"):
            br.from_onnx(made)


def test_products_of_nothing_do_not_end_the_process(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["a", 3, 2]), br.data("y", ["e", "a", 2])
        z, w = br.data("z", ["d", 2, 2]), br.data("w", ["e", 2, 2])
        fetch = [br.einsum("adb,eab->ade", x, y), br.einsum("dbc,ebc->de", z, w)]
    feeds = [
        {"x": np.ones((2, 3, 2)), "y": np.ones((e, 2, 2)), "z": np.ones((d, 2, 2)),
         "w": np.ones((e, 2, 2))}
        for d, e in ((1, 0), (0, 0), (2, 3))
    ]  # fmt: skip
    feeds = [{name: value.astype("f4") for name, value in feed.items()} for feed in feeds]
    check_exported(prog, feeds, fetch, tmp_path)


def test_numbers_of_trips_that_are_written_make_scans(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", [4, 3])
        rnn = br.create_rnn(reverse=True)
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3])
            h.update(br.tanh(net.add_input(x) + h.pre()))
            net.add_output(h.pre(1))
        rows = rnn()
    br.to_onnx(prog, path, fetches=[rows])
    assert "Scan" in kinds(model(path).graph)
    feed = {"x": np.random.default_rng(0).normal(size=(4, 3)).astype("f4")}
    (want,) = br.Executor(mode="interpret").run(prog, br.Scope(), feed=feed, fetch=[rows])
    np.testing.assert_allclose(run_model(path, feed)[rows.name], want, rtol=1e-5)


def test_what_is_found_has_as_many_places_as_a_run_tells(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["rows", 3]), br.data("n", [], dtype="int32")
        rows, columns = br.nonzero(x, "found")
        values = br.take(br.reshape(x, [-1]), rows * 3 + columns) + br.ones([rows.shape[0]])
        kept = br.compress(x[:, 0] > 0.0, x, axis=0)
        unique = br.unique(br.data("y", ["m"], dtype="int64"))
        padded = br.ones([rows.shape[0] + 1, br.as_size(n, "wide")])
        fetch = [rows, columns, values, kept, unique.values, unique.counts, padded]
    y, n = np.array([3, 1, 3]), np.array(2, "int32")
    rows = [[[1.0, 0.0, 2.0], [0.0, 3.0, np.nan]], [[0.0, 0.0, 0.0]]]
    feeds = [{"x": np.array(x, "float32"), "y": y, "n": n} for x in rows]
    check_exported(prog, feeds, fetch, tmp_path)
    check_back(prog, feeds, fetch, tmp_path, modes=["interpret"])
