"""Models of ONNX with a data file: whole at every step of being replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import braces as br
from braces.exchange.onnx.writer.graph import files
from braces.exchange.onnx.writer.graph.live_nodes import names_read
from braces.ir.files import atomic_write
from tests.support.onnx_round_trip import run_model


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture(autouse=True)
def _data_files_from_1000_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 1000)


def export(path: Path, weight: float, size: int = 32) -> None:
    """Write a model of one product, whose weights are all the same."""
    with br.Program() as prog:
        w = br.parameter("w", [size, size], init=br.init.zeros())
        out = br.matmul(br.data("x", [1, size]), w)
    scope = br.Scope()
    scope.var("w").set(np.full((size, size), weight, np.float32))
    br.to_onnx(prog, path, scope=scope, fetches={"out": out})


def weight_of(path: Path, size: int = 32) -> float:
    (out,) = run_model(path, {"x": np.ones((1, size), np.float32)}).values()
    return float(out[0, 0]) / size


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def locations(path: Path) -> set[str]:
    model = onnx.load(path, load_external_data=False)
    entries = [entry for one in model.graph.initializer for entry in one.external_data]
    return {entry.value for entry in entries if entry.key == "location"}


# ---- replaced --------------------------------------------------------------------------------


def test_the_data_file_of_the_model_that_was_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for weight in (1.0, 2.0, 2.0, 3.0):
        export(path, weight)
        assert weight_of(path) == weight
        assert names(tmp_path) == sorted(["m.onnx", *locations(path)])
    export(path, 4.0, size=4)
    assert names(tmp_path) == ["m.onnx"]
    assert weight_of(path, size=4) == 4.0


def test_the_same_weights_have_the_same_data_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        export(tmp_path / folder / "m.onnx", 1.5)
    assert names(tmp_path / "a") == names(tmp_path / "b")


def test_data_files_that_are_not_of_the_model_stay(tmp_path: Path) -> None:
    path, other = tmp_path / "m.onnx", tmp_path / "other.onnx"
    export(path, 1.0)
    export(other, 1.0)
    stranger = (
        tmp_path / f"m.onnx.{'0' * 16}.data"
    )  # named as ours, and read by no model of ours
    stranger.write_bytes(b"mine")
    export(path, 2.0)
    assert stranger.read_bytes() == b"mine"
    assert (weight_of(path), weight_of(other)) == (2.0, 1.0)


@pytest.mark.parametrize("producer", ["braces", "pytorch"])
def test_a_data_file_under_another_name_or_of_another_producer_stays(
    producer: str, tmp_path: Path
) -> None:
    path, shared = tmp_path / "m.onnx", tmp_path / "shared.data"
    export(path, 1.0)
    (old,) = locations(path)
    model = onnx.load(path, load_external_data=False)
    model.producer_name = producer
    if producer == "braces":
        os.rename(tmp_path / old, shared)
        for one in model.graph.initializer:
            for entry in one.external_data:
                entry.value = "shared.data" if entry.key == "location" else entry.value
    path.write_bytes(model.SerializeToString())
    export(path, 2.0)
    assert shared.exists() if producer == "braces" else (tmp_path / old).exists()
    assert weight_of(path) == 2.0


def test_what_is_replaced_need_not_be_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model at all")
    export(path, 1.0)
    assert weight_of(path) == 1.0


# ---- interrupted -----------------------------------------------------------------------------


def stop_at(step: str, monkeypatch: pytest.MonkeyPatch, *, cleans_up: bool) -> None:
    """Raise within an export, as late as a step; a process that is killed removes nothing."""

    def stop(*given: Any, **options: Any) -> Any:
        raise Killed

    def replaced_and_stop(path: Any, data: bytes) -> None:
        atomic_write.write_atomically(path, data)
        raise Killed

    if step == "weights":
        monkeypatch.setattr(files, "_outside", stop)
    elif step == "graph":
        monkeypatch.setattr(files, "write_atomically", stop)
    else:
        monkeypatch.setattr(files, "write_atomically", replaced_and_stop)
    if not cleans_up:
        monkeypatch.setattr(files.os, "unlink", lambda path: None)


@pytest.mark.parametrize("cleans_up", [True, False], ids=["raised", "killed"])
@pytest.mark.parametrize(("step", "wanted"), [("weights", 1.0), ("graph", 1.0), ("old", 2.0)])
def test_an_export_that_ends_at_any_step_leaves_a_graph_with_its_own_weights(
    step: str, wanted: float, cleans_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    export(path, 1.0)
    before = names(tmp_path)
    with monkeypatch.context() as patched:
        stop_at(step, patched, cleans_up=cleans_up)
        with pytest.raises(Killed):
            export(path, 2.0)
    assert weight_of(path) == wanted
    if cleans_up and step != "old":
        assert names(tmp_path) == before
    export(path, 2.0)
    assert weight_of(path) == 2.0


def _unread(owner: Any) -> list[str]:
    """The outputs of nodes of a graph or function, and of inner graphs, that nothing reads."""
    outputs = [getattr(entry, "name", entry) for entry in owner.output]
    read = {*names_read(owner.node), *outputs}
    graphs = [a.g for node in owner.node for a in node.attribute if a.HasField("g")]
    own = [str(list(n.output)) for n in owner.node if read.isdisjoint(filter(None, n.output))]
    return [*own, *(name for graph in graphs for name in _unread(graph))]


def test_a_file_has_no_node_and_no_weight_that_nothing_reads(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 3, 12, 12])
        maps = br.batch_norm(br.max_pool2d(br.conv2d(x, 4, 3, act="relu"), 2))
        y = br.gelu(br.layer_norm(br.fc(br.mean(maps, axis=[2, 3]), 4)))
        rnn = br.create_rnn(reverse=True)
        with rnn.stepnet() as net:
            total = net.add_memory(init=br.zeros([4]))
            part, _ = br.split(br.concat([net.add_input(y), total]), 2)
            total.update(total + part)
            net.add_output(br.topk(total.next, 2)[0])
        fetches = [br.split(y, 2, axis=1)[0], rnn()]
    scope, path = br.Executor(mode="interpret").init(prog), tmp_path / "model.onnx"
    br.to_onnx(prog, path, scope=scope, fetches=fetches)
    model: Any = onnx.load(path)
    assert [*_unread(model.graph), *(n for f in model.functions for n in _unread(f))] == []
    read = {*names_read(model.graph.node)}
    assert {tensor.name for tensor in model.graph.initializer} <= read
