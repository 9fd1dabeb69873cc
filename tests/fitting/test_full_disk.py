"""A full disk during `br.fit`: an error that names the place, and files of whole rows."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import braces as br
from tests.fitting.nets import STEPS, bits, fit
from tests.fitting.records.test_logs import read_events


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Limit the size of files, as a full disk does: a write is partial, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Full(br.Callback):
    """A disk that is full from a step on."""

    def __init__(self, step: int, size: int) -> None:
        self.step, self.size = step, size

    def on_step(self, run: Any, step: Any) -> None:
        if step.number == self.step:
            run._steps.wait()  # earlier checkpoints, which are written in the background
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, hard))


FILES = ("log.jsonl", "log.csv", "board")


def logged(logs: Path, names: tuple[str, ...] = FILES, **options: Any) -> Any:
    return fit(log_files=[logs / name for name in names], log_every=1, **options)


def epochs(file: Path) -> list[Any]:
    """The rows of epochs of a log file."""
    if file.is_dir():
        return [event for event in read_events(file) if not event[1].startswith("step/")]
    lines = file.read_text().splitlines()
    if file.suffix == ".csv":
        return lines
    return [row for row in map(json.loads, lines) if "epoch" in row]


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_checkpoints_on_a_full_disk(tmp_path: Path, mode: str) -> None:
    job = tmp_path / "job"
    with largest_file(1 << 20), pytest.raises(br.BracesError, match="could not be") as caught:
        logged(tmp_path, folder=job, callbacks=[Full(2 * STEPS - 1, 2200)], mode=mode)
    assert isinstance(caught.value, OSError)
    assert str(job) in str(caught.value)
    assert "Free space" in str(caught.value)
    assert br.Checkpoint(job).steps == [STEPS]
    assert [path.suffix for path in job.iterdir()] == [".safetensors"]
    check_resumed(tmp_path, job, mode)


@pytest.mark.parametrize("name", FILES)
def test_log_files_on_a_full_disk_have_whole_rows(tmp_path: Path, name: str) -> None:
    job, logs = tmp_path / "job", tmp_path / "logs"
    logged(logs, (name,), folder=job, epochs=1)
    file = logs / name
    (written,) = file.iterdir() if file.is_dir() else [file]
    full = Full(STEPS + 1, written.stat().st_size + 20)
    with largest_file(1 << 20), pytest.raises(br.BracesError, match="log file") as caught:
        logged(logs, (name,), folder=job, callbacks=[full])
    assert isinstance(caught.value, OSError)
    assert str(written) in str(caught.value)
    assert "Free space" in str(caught.value)
    assert len(epochs(file)) >= 1  # whole rows, or the parser fails
    assert br.Checkpoint(job).steps[-1] >= STEPS
    check_resumed(logs, job, names=(name,))


def check_resumed(
    logs: Path, job: Path, mode: str = "compile", names: tuple[str, ...] = FILES
) -> None:
    """Check that a run with free space ends like one without an error."""
    run = logged(logs, names, folder=job, mode=mode)
    whole = logged(logs / "whole", names, mode=mode)
    assert run.resumed
    assert bits(run.scope) == bits(whole.scope)
    assert run.history.rows == whole.history.rows
    for name in names:
        assert epochs(logs / name) == epochs(logs / "whole" / name)


@pytest.mark.parametrize("blocks", [12, 24])
def test_a_file_system_without_space(tmp_path: Path, blocks: int) -> None:
    """A file system of some kilobytes in memory; only the system administrator mounts it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={4 * blocks}k"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], capture_output=True, check=False
    ) if os.geteuid() == 0 else None  # fmt: skip
    if done is None or done.returncode:
        pytest.skip("this user cannot mount a file system")
    try:
        with pytest.raises(br.BracesError, match="could not be written") as caught:
            logged(disk, folder=disk / "job", save_every=1, keep=None, epochs=9)
        assert isinstance(caught.value, OSError)
        assert "No space left on device" in str(caught.value)
        saved = br.Checkpoint(disk / "job").steps[-1]
        for line in (disk / "log.jsonl").read_text().splitlines():
            json.loads(line)
        for path in sorted((disk / "job").iterdir())[:2]:
            path.unlink()
        run = fit(disk / "job", keep=1, epochs=3)
        assert run.resumed == saved
        assert bits(run.scope) == bits(fit(epochs=3).scope)
    finally:
        subprocess.run(["umount", disk], check=True)
