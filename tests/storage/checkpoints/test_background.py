"""Checkpoints that are written in the background of training."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from braces.storage import background_write, checkpoint as module
from braces.storage.checkpoint import Checkpoint, load_checkpoint
from braces.storage.tensor_file import write_tensors
from tests.storage.checkpoints.steps import state, steps
from tests.support.ctrl_c import interrupted


@pytest.fixture
def scope() -> br.Scope:
    return state()


class Gate:
    """Stands for `write_tensors`: writes when it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.error: Exception | None = None
        monkeypatch.setattr(module, "write_tensors", self)

    def __call__(self, *args: Any, **record: Any) -> None:
        self.entered.set()
        assert self.opened.wait(30)
        if self.error is not None:
            raise self.error
        write_tensors(*args, **record)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def test_training_goes_on_while_a_checkpoint_is_written(
    scope: br.Scope, tmp_path: Path, gate: Gate
) -> None:
    position = [1]
    with Checkpoint(tmp_path) as job:
        job.save(scope, 1, position)
        assert gate.entered.wait(30)
        scope.var("w").raw[:] = 9.0  # as a run does that reuses the memory
        position[0] = 9
        assert not list(tmp_path.iterdir())
        gate.opened.set()
    assert load_checkpoint(scope, tmp_path).data_position == [1]
    np.testing.assert_array_equal(scope.var("w").value, [1.0, 2.0])


def test_donated_memory_does_not_reach_a_checkpoint(tmp_path: Path, gate: Gate) -> None:
    with br.Program() as program:
        w = br.parameter("w", [4], init=[1.0] * 4)
        program.update("w", (w * 2.0).name)
    scope, executor = br.Scope(), br.Executor()
    executor.init(program, scope)
    executor.run(program, scope)
    with Checkpoint(tmp_path) as job:
        job.save(scope, 1)
        for _ in range(5):
            executor.run(program, scope)
        gate.opened.set()
    load_checkpoint(scope, tmp_path)
    np.testing.assert_array_equal(scope.var("w").value, [2.0] * 4)


def test_one_write_is_under_way_at_a_time(scope: br.Scope, tmp_path: Path, gate: Gate) -> None:
    job = Checkpoint(tmp_path)
    job.save(scope, 1)
    threading.Timer(0.2, gate.opened.set).start()
    job.save(scope, 2)
    assert (tmp_path / "step-000000000001.safetensors").exists()
    job.close()
    assert steps(tmp_path) == [1, 2]


@pytest.mark.parametrize("then", ["save", "wait", "close", "restore", "steps"])
def test_an_error_in_the_background_is_raised_by_the_next_call(
    then: str, scope: br.Scope, tmp_path: Path, gate: Gate
) -> None:
    gate.error = OSError(28, "No space left on device")
    gate.opened.set()
    job = Checkpoint(tmp_path)
    job.save(scope, 1)
    calls = {
        "save": lambda: job.save(scope, 2),
        "wait": job.wait,
        "close": job.close,
        "restore": lambda: job.restore(scope),
        "steps": lambda: job.steps,
    }
    with pytest.raises(OSError, match="No space left") as caught:
        calls[then]()
    assert "during the background write" in caught.value.__notes__[0]
    gate.error = None
    job.save(scope, 3)  # it was told, and can go on
    job.close()
    assert steps(tmp_path) == [3]


def test_leaving_raises_the_error_of_the_last_write(
    scope: br.Scope, tmp_path: Path, gate: Gate
) -> None:
    gate.error = OSError(28, "No space left on device")
    gate.opened.set()
    with pytest.raises(OSError, match="No space left"), Checkpoint(tmp_path) as job:
        job.save(scope, 1)


def test_an_error_of_the_job_itself_comes_first(
    scope: br.Scope, tmp_path: Path, gate: Gate
) -> None:
    gate.error = OSError(28, "No space left on device")
    gate.opened.set()

    def train() -> None:
        with Checkpoint(tmp_path) as job:
            job.save(scope, 1)
            raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        train()
    assert "The last checkpoint was not written" in caught.value.__notes__[0]


def test_what_cannot_be_saved_is_refused_at_once(scope: br.Scope, tmp_path: Path) -> None:
    scope.var("two words").set(1.0)
    with Checkpoint(tmp_path) as job, pytest.raises(BracesError):
        job.save(scope, 1)
    assert not list(tmp_path.iterdir())


# ---- interrupted and unheard -----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of a file that was just opened
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_anywhere_in_a_save_leaves_what_can_be_used(
    scope: br.Scope, tmp_path: Path
) -> None:
    places = (module.__file__, background_write.__file__, threading.Thread.start.__code__)
    for count in itertools.count(1):
        job = Checkpoint(tmp_path / str(count), keep=None)
        job.save(scope, 1)
        again = interrupted(functools.partial(job.save, scope, 2), count, *places)
        job.wait()
        assert job.steps in ([1], [1, 2])
        job.save(scope, 3)
        job.close()
        assert {1, 3} <= set(job.steps)
        assert load_checkpoint(br.Scope(), job.folder).step == 3
        if not again:
            break
    assert count > 40


def test_ctrl_c_while_the_last_write_is_awaited_loses_nothing(
    scope: br.Scope, tmp_path: Path, gate: Gate
) -> None:
    job = Checkpoint(tmp_path)
    job.save(scope, 1)
    for count in range(1, 4):
        assert interrupted(job.wait, count, module.__file__, background_write.__file__)
    gate.opened.set()
    assert job.steps == [1]


def test_where_no_thread_is_to_be_had_a_save_writes_at_once(
    scope: br.Scope, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    job = Checkpoint(tmp_path)
    job.save(scope, 1)
    assert steps(tmp_path) == [1]
    (tmp_path / "step-000000000002.safetensors").mkdir()
    with pytest.raises(IsADirectoryError):
        job.save(scope, 2)
    job.save(scope, 3)
    job.close()
    assert job.steps == [1, 3]


def test_a_write_keeps_no_copies_when_it_is_done(scope: br.Scope, tmp_path: Path) -> None:
    kept = np.zeros(3)
    done = background_write.BackgroundWrite(functools.partial(np.sum, kept))
    counted = sys.getrefcount(kept)
    done.start()
    assert done.finish() is None
    assert sys.getrefcount(kept) == counted - 1


UNHEARD = """
import atexit, sys
from pathlib import Path
import braces as br

atexit.register(lambda: print("others run at exit", file=sys.stderr, flush=True))
scope = br.Scope()
scope.var("w").set([1.0])
job = br.Checkpoint(sys.argv[1])
job.save(scope, 1)
job.wait()
(Path(sys.argv[1]) / "step-000000000002.safetensors").mkdir()
job.save(scope, 2)
if sys.argv[2] == "heard":
    try:
        job.wait()
    except IsADirectoryError:
        pass
elif sys.argv[2] == "failing":
    raise SystemExit(3)
"""


@pytest.mark.parametrize(("how", "status"), [("unheard", 120), ("heard", 0), ("failing", 120)])
def test_a_failed_write_that_nobody_asks_for_is_told_at_exit(
    how: str, status: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", UNHEARD, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status
    said = done.stderr.splitlines()
    assert said.pop() == "others run at exit"
    assert len(said) == (how != "heard")
    for line in said:
        assert line.startswith("failed to write the last checkpoint: IsADirectoryError: ")
        assert "step-000000000002.safetensors" in line
