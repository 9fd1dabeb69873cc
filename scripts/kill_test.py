"""Kill a training job repeatedly, and check that it still computes the same bits.

    python scripts/kill_test.py [--kills 200] [--steps 400] [--seed 0]

A job trains a small network with dropout and Adam, and writes a checkpoint every third step. It
is killed with SIGKILL at random times, during start, steps or writes, and restarted. Every loss
that it reports, and its final parameters, must equal those of an undisturbed job, bit for bit.
Half-written files must be gone after the end of the job: its folder must contain the same files
as that of the undisturbed job. The output contains the maximum size of half-written files, and
the final size of a folder.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import braces as br

SOURCES = Path(__file__).resolve().parent.parent / "src"
LOSSES, FINAL, CHECKPOINTS = "losses.txt", "final.safetensors", "checkpoints"
WIDTH, BATCH, EVERY = 128, 8, 3

# ---- the job ---------------------------------------------------------------------------------


def build() -> tuple[br.Program, br.Var]:
    """A network with dropout, and its training step."""
    with br.Program() as program:
        x, y = br.data("x", ["batch", WIDTH]), br.data("y", ["batch", 1])
        hidden = br.dropout(br.fc(x, WIDTH, act="tanh"), 0.2)
        error = br.fc(hidden, 1) - y
        loss = br.mean(error * error)
        br.optimizer.adam(learning_rate=0.01).minimize(loss)
    return program, loss


def train(folder: Path, steps: int) -> None:
    """Train, or resume a killed job."""
    program, loss = build()
    scope, executor = br.Scope(), br.Executor()
    executor.init(program, scope)
    rng = np.random.default_rng(1)
    with br.Checkpoint(folder / CHECKPOINTS, keep=2, keep_every=100) as checkpoint:
        found = checkpoint.restore(scope)
        if found is not None:
            rng.bit_generator.state = found.data_position
        for step in range(found.step + 1 if found else 1, steps + 1):
            feed = {"x": _draw(rng, WIDTH), "y": _draw(rng, 1)}
            value = executor.run(program, scope, feed, fetch=loss)
            _append(folder / LOSSES, f"{step} {float(value).hex()}\n")
            if step % EVERY == 0:
                checkpoint.save(scope, step, rng.bit_generator.state)
    br.save_parameters(scope, folder / FINAL)


def _draw(rng: np.random.Generator, size: int) -> Any:
    return rng.standard_normal((BATCH, size), np.float32)


def _append(path: Path, line: str) -> None:
    """Write a line at once, so that a kill cannot cut it."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


# ---- killing it ------------------------------------------------------------------------------


@dataclass
class Tally:
    """The history of a job.

    Attributes:
        kills: The number of kills.
        writing: The number of kills with a half-written checkpoint.
        repeated: The number of repeated steps.
        strays: The maximum number of half-written files in a folder.
        stray_bytes: The maximum size of these files.
        kept_bytes: The size of the largest folder after the end of its job.
    """

    kills: int = 0
    writing: int = 0
    repeated: int = 0
    strays: int = 0
    stray_bytes: int = 0
    kept_bytes: int = 0

    def see(self, folder: Path) -> None:
        """Count the half-written files of a killed job."""
        sizes = [size for name, size in content(folder).items() if not _is_whole(name)]
        self.writing += bool(sizes)
        self.strays = max(self.strays, len(sizes))
        self.stray_bytes = max(self.stray_bytes, sum(sizes))


def content(folder: Path) -> dict[str, int]:
    """The files in a folder and below, with their sizes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def _is_whole(name: str) -> bool:
    step = re.fullmatch(CHECKPOINTS + r"/step-\d{12}\.safetensors", name)
    return name in (LOSSES, FINAL) or step is not None


def start(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    """Start or restart a job."""
    path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    command = [sys.executable, __file__, "--job", str(folder), "--steps", str(steps)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


def finish(folder: Path, steps: int) -> None:
    """Run a job to its end."""
    job = start(folder, steps)
    job.wait(timeout=300)
    _check_ended_well(job, folder)


def _check_ended_well(job: subprocess.Popen[bytes], folder: Path) -> None:
    if job.returncode != 0:
        raise SystemExit(f"The job of {folder.name} ended with status {job.returncode}.")


def kill_at_random(folder: Path, steps: int, rng: random.Random, tally: Tally) -> bool:
    """Start a job and kill it; return False if it ended before."""
    job = start(folder, steps)
    before = len(losses(folder))
    try:
        if rng.random() < 0.9:  # else it is killed while it starts
            _wait_for_a_step(job, folder, before)
            time.sleep(rng.uniform(0, 0.15))
        else:
            time.sleep(rng.uniform(0, 1.5))
        if job.poll() is not None:
            _check_ended_well(job, folder)
            return False
    finally:
        job.kill()
        job.wait()
    tally.kills += 1
    tally.see(folder)
    return True


def _wait_for_a_step(job: subprocess.Popen[bytes], folder: Path, before: int) -> None:
    while job.poll() is None and len(losses(folder)) == before:
        time.sleep(0.002)


def losses(folder: Path) -> list[str]:
    """Every loss that a job reported, as `step bits`."""
    path = folder / LOSSES
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def check(folder: Path, undisturbed: Path) -> int:
    """Compare a job with an undisturbed one; return the number of repeated steps."""
    want, got = losses(undisturbed), losses(folder)
    wrong = sorted(set(got) - set(want))
    if wrong or set(got) != set(want):
        raise SystemExit(f"These losses differ: {wrong or sorted(set(want) - set(got))}")
    if (folder / FINAL).read_bytes() != (undisturbed / FINAL).read_bytes():
        raise SystemExit("The last parameters differ.")
    more = sorted(content(folder).keys() ^ content(undisturbed).keys())
    if more:
        raise SystemExit(f"These files are left, or missing: {more}")
    return len(got) - len(want)


def attack(top: Path, kills: int, steps: int, seed: int) -> Tally:
    """Kill jobs the given number of times in total, then finish and compare each."""
    rng, tally, round_ = random.Random(seed), Tally(), 0
    undisturbed = top / "undisturbed"
    undisturbed.mkdir()
    finish(undisturbed, steps)
    while tally.kills < kills:
        round_ += 1
        folder = top / f"round-{round_}"
        folder.mkdir()
        while tally.kills < kills and kill_at_random(folder, steps, rng, tally):
            pass
        finish(folder, steps)
        tally.repeated += check(folder, undisturbed)
        tally.kept_bytes = max(tally.kept_bytes, sum(content(folder).values()))
    return tally


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Kill a training job; compare its losses.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        train(given.job, given.steps)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(attack(Path(folder), given.kills, given.steps, given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
