"""Checkpoints of a running job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
import kill_test
from braces.errors import DTypeError, FileFormatError, ProgramError
from braces.storage.checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointInfo,
    load_checkpoint,
    save_checkpoint,
)
from braces.storage.parameters import load_parameters, save_parameters
from braces.storage.tensor_file import write_tensors
from tests.storage.checkpoints.steps import state, steps


@pytest.fixture
def scope() -> br.Scope:
    return state()


# ---- writing and reading ---------------------------------------------------------------------


def test_a_checkpoint_comes_back(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, 12, data_position={"epoch": 1, "row": 7})
    other = br.Scope()
    other.var("bias").set(0.0)
    info = load_checkpoint(other, tmp_path)
    assert info == CheckpointInfo(12, {"epoch": 1, "row": 7}, missing=("bias",))
    np.testing.assert_array_equal(other.var("w").value, [1.0, 2.0])
    assert other.var("random_state").dtype == np.uint32


def test_the_newest_is_loaded_unless_said(scope: br.Scope, tmp_path: Path) -> None:
    for step in (5, 10, 1000):
        scope.var("w").set(step)
        save_checkpoint(scope, tmp_path, step)
    assert load_checkpoint(scope, tmp_path).step == 1000
    assert scope.var("w").value == 1000
    assert load_checkpoint(scope, tmp_path, step=5).step == 5
    assert scope.var("w").value == 5


def test_the_state_of_a_generator_is_a_data_position(scope: br.Scope, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rng.normal(size=5)
    save_checkpoint(scope, tmp_path, 1, rng.bit_generator.state)
    wanted = rng.normal(size=5)
    rng.bit_generator.state = load_checkpoint(scope, tmp_path).data_position
    np.testing.assert_array_equal(rng.normal(size=5), wanted)


@pytest.mark.parametrize("position", [None, 0, "a", [1, [2.5, None]], {"a": {"b": [True]}}])
def test_a_data_position_is_any_plain_json(
    position: Any, scope: br.Scope, tmp_path: Path
) -> None:
    save_checkpoint(scope, tmp_path, 1, position)
    assert load_checkpoint(scope, tmp_path).data_position == position


@pytest.mark.parametrize(
    "position", [{1: 2}, {"a": {None: 1}}, float("nan"), np.zeros(2), {1, 2}, b"a", "a" * 2**21]
)
def test_other_data_positions_are_refused(
    position: Any, scope: br.Scope, tmp_path: Path
) -> None:
    with pytest.raises(DTypeError, match="data_position"):
        save_checkpoint(scope, tmp_path, 1, position)
    assert not list(tmp_path.iterdir())


def test_a_long_position_is_an_array_of_the_file(scope: br.Scope, tmp_path: Path) -> None:
    position = {"rows": list(range(40_000)), "text": "ü"}
    for step in (1, 2):
        save_checkpoint(scope, tmp_path, step, position)
    path = tmp_path / "step-000000000002.safetensors"
    assert int.from_bytes(path.read_bytes()[:8], "little") < 10_000
    other = br.Scope()
    assert load_checkpoint(other, tmp_path).data_position == position
    assert set(other.state_dict()) == set(scope.state_dict())


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"__braces__position": np.zeros(3, np.float32)},
        {"__braces__position": np.zeros((2, 2), np.uint8)},
        {"__braces__position": np.zeros(9, np.uint8)},
        {"__braces__position": np.frombuffer(b"[" * 100_000, np.uint8)},
    ],
)
def test_a_damaged_long_position_is_refused(
    arrays: dict[str, Any], scope: br.Scope, tmp_path: Path
) -> None:
    save_checkpoint(scope, tmp_path, 1)
    renamed = {f"__braces__/{n[10:]}": a for n, a in arrays.items()}
    path = tmp_path / "step-000000000002.safetensors"
    write_tensors(path, renamed, "braces.checkpoint", step=2, position_array=True)
    with pytest.raises(br.FileFormatError, match="invalid position") as caught:
        load_checkpoint(br.Scope(), tmp_path)
    assert "Intact checkpoints have the steps 1" in str(caught.value)


@pytest.mark.parametrize("contents", [b"\xff" * 40, b""])
def test_a_damaged_checkpoint_names_the_intact_ones(
    contents: bytes, scope: br.Scope, tmp_path: Path
) -> None:
    save_checkpoint(scope, tmp_path, 1)
    save_checkpoint(scope, tmp_path, 2)
    (tmp_path / "step-000000000002.safetensors").write_bytes(contents)
    with pytest.raises(br.FileFormatError, match="damaged safetensors file") as caught:
        load_checkpoint(br.Scope(), tmp_path)
    assert caught.value.fix == (
        "Intact checkpoints have the steps 1. Restore one with `step=1`, or remove "
        "step-000000000002.safetensors from the folder to continue from step 1."
    )
    (tmp_path / "step-000000000001.safetensors").unlink()
    with pytest.raises(br.FileFormatError) as caught:
        load_checkpoint(br.Scope(), tmp_path)
    assert caught.value.fix == (
        "No other checkpoint of this folder is intact. Remove step-000000000002.safetensors "
        "from the folder to start anew."
    )


@pytest.mark.parametrize("step", [-1, 1.5, "1", None, True, 2**63])
def test_a_step_is_a_number(step: Any, scope: br.Scope, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="invalid step"):
        save_checkpoint(scope, tmp_path, step)


def test_a_step_may_be_a_numpy_integer(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, np.int64(7))
    assert load_checkpoint(scope, tmp_path) == CheckpointInfo(7)


def test_the_largest_step_is_found_again(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, 2**63 - 1)
    assert load_checkpoint(scope, tmp_path).step == 2**63 - 1


def test_parameters_are_loaded_from_a_checkpoint(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, 1)
    other = br.Scope()
    load_parameters(other, tmp_path / "step-000000000001.safetensors", names=["w"])
    np.testing.assert_array_equal(other.var("w").value, [1.0, 2.0])


# ---- which ones stay -------------------------------------------------------------------------


def test_the_last_few_stay(scope: br.Scope, tmp_path: Path) -> None:
    for step in range(10, 80, 10):
        save_checkpoint(scope, tmp_path, step, keep=2)
    assert steps(tmp_path) == [60, 70]


def test_every_so_many_steps_one_stays(scope: br.Scope, tmp_path: Path) -> None:
    with Checkpoint(tmp_path, keep=1, keep_every=30) as job:
        for step in range(10, 80, 10):
            job.save(scope, step)
        assert job.steps == [30, 60, 70]


def test_all_checkpoints_stay_on_request(scope: br.Scope, tmp_path: Path) -> None:
    for step in range(5):
        save_checkpoint(scope, tmp_path, step, keep=None)
    assert steps(tmp_path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("number", [0, -1, 1.0, True])
def test_at_least_one_stays(number: Any, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="invalid keep"):
        Checkpoint(tmp_path, keep=number)
    with pytest.raises(ProgramError, match="invalid keep"):
        Checkpoint(tmp_path, keep_every=number)


def test_files_of_others_stay(scope: br.Scope, tmp_path: Path) -> None:
    names = {"notes.txt", "step-1.safetensors", "step-000000000001.safetensors.bak"}
    for name in names:
        (tmp_path / name).write_text("mine")
    for step in range(2, 6):
        save_checkpoint(scope, tmp_path, step, keep=1)
    found = {path.name for path in tmp_path.iterdir()}
    assert found == names | {"step-000000000005.safetensors"}


def test_what_a_killed_job_left_behind_is_removed(scope: br.Scope, tmp_path: Path) -> None:
    (tmp_path / ".step-1.0123456789abcdef.braces-tmp").write_bytes(b"half")
    save_checkpoint(scope, tmp_path, 2)
    assert steps(tmp_path) == [2]


def test_history_does_not_go_back(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, 20)
    save_checkpoint(scope, tmp_path, 20)
    with pytest.raises(ProgramError, match="a later step: 20"):
        save_checkpoint(scope, tmp_path, 10)
    assert steps(tmp_path) == [20]


# ---- nothing there, or damage ----------------------------------------------------------------


def test_a_job_that_starts_has_nothing_to_restore(scope: br.Scope, tmp_path: Path) -> None:
    with Checkpoint(tmp_path / "new" / "folder") as job:
        assert job.restore(scope) is None
        assert job.steps == []
        job.save(scope, 1)
        assert job.restore(scope) == CheckpointInfo(1)


@pytest.mark.parametrize("folder", [".", "not/there"])
def test_loading_what_is_not_there_is_an_error(
    folder: str, scope: br.Scope, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        load_checkpoint(scope, tmp_path / folder)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(scope, tmp_path / folder)


def test_loading_another_step_names_those_that_are_there(
    scope: br.Scope, tmp_path: Path
) -> None:
    for step in (1, 2):
        save_checkpoint(scope, tmp_path, step)
    with pytest.raises(CheckpointError, match="steps: 1, 2"):
        load_checkpoint(scope, tmp_path, step=3)
    with pytest.raises(CheckpointError):
        Checkpoint(tmp_path).restore(scope, step=3)


def test_other_files_are_no_checkpoints(scope: br.Scope, tmp_path: Path) -> None:
    save_parameters(scope, tmp_path / "step-000000000001.safetensors")
    with pytest.raises(FileFormatError, match=r"expected a file of format braces\.checkpoint"):
        load_checkpoint(scope, tmp_path)


@pytest.mark.parametrize("step", [None, "1", -1, 2**63, 1.0])
def test_a_checkpoint_has_its_step(step: Any, scope: br.Scope, tmp_path: Path) -> None:
    path = tmp_path / "step-000000000001.safetensors"
    write_tensors(path, {}, "braces.checkpoint", step=step)
    with pytest.raises(FileFormatError, match="no valid step"):
        load_checkpoint(scope, tmp_path)


def test_a_damaged_checkpoint_leaves_the_scope_as_it_was(
    scope: br.Scope, tmp_path: Path
) -> None:
    save_checkpoint(scope, tmp_path, 1)
    path = tmp_path / "step-000000000001.safetensors"
    content = path.read_bytes()
    scope.var("w").set(7.0)
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            load_checkpoint(scope, tmp_path)
    assert scope.var("w").value == 7.0


def test_a_damaged_checkpoint_names_itself_and_those_that_can_be_read(
    scope: br.Scope, tmp_path: Path
) -> None:
    for step in range(1, 8):
        save_checkpoint(scope, tmp_path, step, keep=None)
    paths = {step: tmp_path / f"step-{step:012}.safetensors" for step in range(1, 8)}
    content = paths[7].read_bytes()
    for damaged in (content[:-1], content[:9], b"", bytes(len(content)), content + b"0"):
        for step in (7, 5):
            paths[step].write_bytes(damaged)
        with pytest.raises(FileFormatError) as caught:
            Checkpoint(tmp_path).restore(scope)
        assert caught.value.at == str(paths[7])
        assert "have the steps 6, 4, 3, 2." in str(caught.value)
        assert "Restore one with `step=6`, or remove step-000000000007.safetensors" in str(
            caught.value
        )
        paths[7].write_bytes(content)
        with pytest.raises(FileFormatError, match="have the steps 7, 6, 4, 3"):
            load_checkpoint(scope, tmp_path, step=5)
    assert load_checkpoint(scope, tmp_path, step=6).step == 6


def test_the_error_of_a_damaged_checkpoint_reports_that_no_other_exists(
    scope: br.Scope, tmp_path: Path
) -> None:
    (tmp_path / "step-000000000001.safetensors").write_bytes(b"")
    with pytest.raises(FileFormatError, match="No other checkpoint of this folder"):
        load_checkpoint(scope, tmp_path)


def test_only_a_file_that_is_called_like_a_step_is_a_checkpoint(
    scope: br.Scope, tmp_path: Path
) -> None:
    (tmp_path / "step-000000000009.safetensors").mkdir()
    os.mkfifo(tmp_path / "step-000000000008.safetensors")
    (tmp_path / "step-000000000007.safetensors").symlink_to(tmp_path / "none")
    with Checkpoint(tmp_path, keep=1) as job:
        assert job.steps == []
        assert job.restore(scope) is None
        with pytest.raises(CheckpointError, match="steps: none"):
            load_checkpoint(scope, tmp_path)
        job.save_now(scope, 5)
        job.save_now(scope, 6)
        assert job.restore(scope) == CheckpointInfo(6)
        with pytest.raises(IsADirectoryError):
            job.save_now(scope, 9)
    assert len(list(tmp_path.iterdir())) == 4


# ---- killed jobs -----------------------------------------------------------------------------


def test_a_job_that_is_killed_computes_the_same_bits(tmp_path: Path) -> None:
    tally = kill_test.attack(tmp_path, kills=3, steps=45, seed=0)
    assert tally.kills == 3


def test_the_record_of_a_checkpoint_is_plain(scope: br.Scope, tmp_path: Path) -> None:
    save_checkpoint(scope, tmp_path, 3, {"row": 7})
    content = (tmp_path / "step-000000000003.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["braces"]) == {
        "format": "braces.checkpoint",
        "version": 1,
        "step": 3,
        "data_position": {"row": 7},
    }
