"""Checkpoints of values in parts: written by several processes, restored on other devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import FileFormatError, LayoutError
from braces.storage.checkpoint import CheckpointInfo
from braces.storage.sharded_checkpoint import (
    Shard,
    local_shards,
    remove_abandoned,
    shard_path,
    write_shards,
)
from braces.storage.tensor_file import write_tensors
from tests.storage.checkpoints import sharded
from tests.storage.checkpoints.sharded import STEP, Count, layout, train

SAVE = "0123456789abcdef"


def launched(tmp_path: Path, way: str, processes: int = 2, status: int = 0) -> list[str]:
    """The logs of processes that train, one after the other."""
    root = Path(__file__).parents[3]
    logs = tmp_path / f"logs of {way}"
    job = [sys.executable, "-m", "braces", "launch", "-n", str(processes), "--devices", "2"]
    done = subprocess.run(
        [*job, "--log-dir", str(logs), sharded.__file__, str(tmp_path / "ck"), way],
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert bool(done.returncode) == bool(status), done.stdout + done.stderr
    return [log.read_text() for log in sorted(logs.glob("attempt-0/*.log"))]


def losses(text: str) -> list[str]:
    return re.findall(r"^losses (.*)$", text, re.MULTILINE)[0].split()


def trained(tmp_path: Path) -> tuple[br.Scope, br.Executor]:
    exe, scope = br.Executor(layout=layout()), br.Scope()
    exe.init(sharded.learning()[0], scope)
    train(scope, exe, 0, STEP)
    with br.Checkpoint(tmp_path / "ck") as checkpoint:
        checkpoint.save(scope, STEP)
    return scope, exe


# ---- one process -----------------------------------------------------------------------------


def test_what_eight_devices_saved_is_restored_on_any(tmp_path: Path) -> None:
    scope, exe = trained(tmp_path)
    saved = scope.state_dict()
    going_on = train(scope, exe, STEP, 2)
    for mesh in (layout(), layout(data=4, model=2), layout(data=1), None):
        other = br.Scope()
        count = Count()
        br.load_checkpoint(other, tmp_path / "ck", layout=mesh)
        read = count.end()
        assert read == sum(value.nbytes for value in saved.values())
        for name, value in saved.items():
            np.testing.assert_array_equal(other[name], value)
        if mesh == layout():
            raw = max((other.var(n).raw for n in other.names()), key=lambda raw: raw.nbytes)
            assert {shard.data.nbytes for shard in raw.addressable_shards} == {raw.nbytes // 8}
            assert train(other, exe, STEP, 2) == going_on
        if mesh is None:  # the first run brings the values to where they lie
            assert train(other, exe, STEP, 2) == going_on


def test_a_layout_that_does_not_fit_leaves_the_scope(tmp_path: Path) -> None:
    scope = br.Scope()
    scope.var("w").set(np.ones((3, 4), np.float32))
    br.save_checkpoint(scope, tmp_path, 1)
    scope.var("w").set(7.0)
    mesh = br.Mesh({"data": 8})
    for rule in ({"w": ("data", None)}, {"w": ("data",)}, {"v": (None,)}):
        with pytest.raises(LayoutError):
            br.load_checkpoint(scope, tmp_path, layout=br.Layout(mesh, params=rule))
    assert scope.var("w").value == 7.0


# ---- files of several processes, written here ------------------------------------------------

WHOLE = {"w": np.arange(24.0).reshape(4, 6), "n": np.array(5), "c": np.ones((2, 0), np.int8)}


def shares() -> list[dict[str, list[Shard]]]:
    """Return the files of two processes for `WHOLE`."""
    w = WHOLE["w"]
    return [
        {"w": [Shard((0, 0), w[:2, :3]), Shard((0, 3), w[:2, 3:])],
         "n": [Shard((), WHOLE["n"])]},
        {"w": [Shard((2, 0), w[2:, :3]), Shard((2, 3), w[2:, 3:])],
         "c": [Shard((0, 0), WHOLE["c"])]},
    ]  # fmt: skip


def written(folder: Path, change: Callable[[Any], object] = bool, **said: Any) -> Path:
    """A checkpoint of two processes."""
    path = folder / "step-000000000007.safetensors"
    shapes = {name: list(array.shape) for name, array in WHOLE.items()}
    files = [shard_path(path, SAVE, at, 2) for at in range(2)]
    both = shares()
    change(both)
    sizes = [write_shards(f, shapes, s) for f, s in zip(files, both, strict=True)]
    parts = {"save": SAVE, "sizes": sizes, **said}
    write_tensors(path, {}, "braces.checkpoint", step=7, data_position=None, parts=parts)
    return path


@pytest.mark.parametrize("mesh", [None, {"data": 2, "model": 2}, {"data": 1}])
def test_parts_come_back_as_a_whole(mesh: dict[str, int] | None, tmp_path: Path) -> None:
    written(tmp_path)
    scope = br.Scope()
    rules = {"w": ("model", "data")} if mesh and len(mesh) > 1 else {}
    spread = br.Layout(br.Mesh(mesh), params=rules) if mesh else None
    assert br.load_checkpoint(scope, tmp_path, layout=spread).step == 7
    for name, array in WHOLE.items():
        np.testing.assert_array_equal(scope[name], array)
        assert scope.var(name).dtype == array.dtype


DAMAGE: dict[str, Callable[[Any], object]] = {
    "left out": lambda both: both[1]["w"].pop(),
    "overlaps": lambda both: both[1]["w"].append(both[0]["w"][0]),
    "of another size": lambda both: both[1]["w"].__setitem__(0, Shard((2, 0), np.ones((2, 2)))),
    "beyond the end": lambda both: both[1]["w"].__setitem__(0, Shard((3, 0), np.ones((2, 3)))),
    "below zero": lambda both: both[1]["w"].__setitem__(0, Shard((-2, 0), np.ones((2, 3)))),
    "another rank": lambda both: both[1]["w"].__setitem__(0, Shard((2,), np.ones((2,)))),
    "another dtype": lambda both: both[1]["w"].__setitem__(
        0, Shard((2, 0), np.ones((2, 3), np.int64))
    ),
    "of no variable": lambda both: both[1].update(v=[Shard((0,), np.ones(3))]),
    "none at all": lambda both: both[1].pop("c"),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_parts_that_do_not_fit_are_refused(change: Any, tmp_path: Path) -> None:
    written(tmp_path, change)
    scope = br.Scope()
    with pytest.raises(FileFormatError):
        br.load_checkpoint(scope, tmp_path)
    assert not scope.names()


@pytest.mark.parametrize(
    "said",
    [{"save": "../../../../ab"}, {"save": 7}, {"sizes": []}, {"sizes": 2}, {"sizes": [1, "a"]},
     {"sizes": [1, 2, 3]}, {"save": "f" * 16}],
)  # fmt: skip
def test_a_checkpoint_of_parts_that_are_not_there_is_refused(
    said: dict[str, Any], tmp_path: Path
) -> None:
    written(tmp_path, **said)
    with pytest.raises(FileFormatError, match="No other checkpoint"):
        br.load_checkpoint(br.Scope(), tmp_path)


def test_a_missing_or_truncated_file_is_an_error(tmp_path: Path) -> None:
    path = shard_path(written(tmp_path), SAVE, 1, 2)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole + b"0", bytes(len(whole))):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError) as caught:
            br.load_checkpoint(br.Scope(), tmp_path)
        assert caught.value.at == str(path)
    path.unlink()
    with pytest.raises(FileFormatError, match="missing file"):
        br.load_checkpoint(br.Scope(), tmp_path)


def test_what_belongs_to_no_checkpoint_is_removed(tmp_path: Path) -> None:
    path = written(tmp_path)
    last = tmp_path / "step-000000000009.safetensors"
    others = [shard_path(path, "f" * 16, 0, 2), shard_path(last, SAVE, 0, 2)]
    for other in others:
        other.write_bytes(b"")
    remove_abandoned(tmp_path, {7: path})
    assert len(list(tmp_path.iterdir())) == 3
    scope = br.Scope()
    br.load_checkpoint(scope, tmp_path)
    br.save_checkpoint(scope, tmp_path, 8, keep=1)
    assert [one.name for one in tmp_path.iterdir()] == ["step-000000000008.safetensors"]


def test_what_each_process_has_is_written_by_the_first() -> None:
    value = np.ones(3)
    assert local_shards(value, first=False, copy=True) == []
    (part,) = local_shards(value, first=True, copy=True)
    assert part.starts == (0,)
    assert not np.shares_memory(part.values, value)


# ---- several processes -----------------------------------------------------------------------


@pytest.mark.thorough
def test_two_processes_save_and_others_go_on(tmp_path: Path) -> None:
    first, second = launched(tmp_path, "refused")
    assert losses(first) == losses(second)
    refused = [re.findall("^refused (.*)", log, re.MULTILINE) for log in (first, second)]
    assert [one.partition(" ")[0] for one in refused[0]] == [
        "ClusterError", "ClusterError", "DeviceError",
    ]  # fmt: skip
    assert "checkpoint to save" in refused[0][0]
    assert "Process 1 failed to write the checkpoint" in refused[0][1]
    assert refused[1][1].startswith("FileNotFoundError")
    for path in (tmp_path / "ck").glob(f"step-*{STEP + 2}.*"):
        path.unlink()
    whole = br.Scope()
    found = br.load_checkpoint(whole, tmp_path / "ck")
    assert found == CheckpointInfo(STEP, {"row": STEP * sharded.ROWS})
    size = sum(value.nbytes for value in whole.state_dict().values())
    exe = br.Executor(layout=layout(data=4))
    np.testing.assert_allclose(
        [float.fromhex(loss) for loss in train(whole, exe, STEP, 2)],
        [float.fromhex(loss) for loss in losses(first)], rtol=1e-5,
    )  # fmt: skip
    for log in launched(tmp_path, "go on"):
        assert losses(log) == losses(first)
        read = int(re.findall("read (.*)", log)[0])
        assert size / 2 <= read < size * 0.52
    apart = launched(tmp_path, "go on", processes=4)
    assert len({tuple(losses(log)) for log in apart}) == 1
    assert all(int(re.findall("read (.*)", log)[0]) < size * 0.28 for log in apart)


@pytest.mark.thorough
def test_a_process_that_ends_while_all_save_leaves_the_last_step_whole(tmp_path: Path) -> None:
    launched(tmp_path, "killed", status=9)
    scope = br.Scope()
    with br.Checkpoint(tmp_path / "ck") as checkpoint:
        steps = checkpoint.steps
        assert steps
        for step in steps:
            checkpoint.restore(scope, step)
        checkpoint.save_now(scope, steps[-1] + 1)
    headers = [path for path in (tmp_path / "ck").iterdir() if path.name.count(".") == 1]
    kept = {json.loads(_header(path)).get("parts", {}).get("save") for path in headers}
    left = [path for path in (tmp_path / "ck").iterdir() if path.name.count(".") > 1]
    assert len(left) == 2 * (len(headers) - 1)
    assert all(path.name.split(".")[1] in kept for path in left)


def _header(path: Path) -> str:
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header["__metadata__"]["braces"]
