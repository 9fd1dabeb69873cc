"""Kill a training job again and again, and check that it still computes the same bits.

    python scripts/kill_test.py [--kills 200] [--steps 400] [--seed 0]

A job trains a small net with dropout and Adam, and writes a checkpoint every third step. It
is killed with SIGKILL at random moments, while it starts, steps or writes, and started again.
Every loss that it ever reports, and its last parameters, must be those of a job that nobody
disturbed, bit for bit. What kills leave half written must be gone when the job has ended: its
folder must hold the same files as that of the job that nobody disturbed. What is printed says
how much room the half-written files took at most, and what a folder takes in the end.
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
    """A net with dropout, and its training step."""
    with br.Program() as program:
        x, y = br.data("x", ["batch", WIDTH]), br.data("y", ["batch", 1])
        hidden = br.dropout(br.fc(x, WIDTH, act="tanh"), 0.2)
        error = br.fc(hidden, 1) - y
        loss = br.mean(error * error)
        br.optimizer.adam(learning_rate=0.01).minimize(loss)
    return program, loss


def train(folder: Path, steps: int) -> None:
    """Train, or go on where a job that was killed left off."""
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
    """What happened to a job.

    Attributes:
        kills: How often it was killed.
        writing: How many kills left a half-written checkpoint.
        repeated: How many steps were done more than once.
        strays: The most half-written files that a folder had at once.
        stray_bytes: The most room that they took at once.
        kept_bytes: What the largest folder took when its job had ended.
    """

    kills: int = 0
    writing: int = 0
    repeated: int = 0
    strays: int = 0
    stray_bytes: int = 0
    kept_bytes: int = 0

    def see(self, folder: Path) -> None:
        """Count what a killed job left half written: whatever is no file of a whole job."""
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
    """Start a job, or start it again."""
    path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    command = [sys.executable, __file__, "--job", str(folder), "--steps", str(steps)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})


def finish(folder: Path, steps: int) -> None:
    """Let a job run to its end."""
    job = start(folder, steps)
    job.wait(timeout=300)
    _check_ended_well(job, folder)


def _check_ended_well(job: subprocess.Popen[bytes], folder: Path) -> None:
    if job.returncode != 0:
        raise SystemExit(f"The job of {folder.name} ended with status {job.returncode}.")


def kill_at_random(folder: Path, steps: int, rng: random.Random, tally: Tally) -> bool:
    """Start a job and kill it; False where it was faster."""
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
    """Compare a job with one that nobody disturbed; how many steps it repeated."""
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
    """Kill jobs so many times in all; each is let finish in the end, and compared."""
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
