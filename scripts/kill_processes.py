"""Kill processes of a training job repeatedly, and check that it computes the same bits.

    python scripts/kill_processes.py [--kills 20] [--processes 4] [--steps 90] [--seed 0]

`braces launch` runs a job of several processes: a small network with dropout and Adam, sharded
over all of them. They write a checkpoint together every third step. On each attempt but the
last, one random process kills itself with SIGKILL at a random time. Every loss that any process
reports, and the final parameters, must equal those of an undisturbed job, bit for bit, and all
processes must end soon after each kill. A table lists the delays.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import braces as br

SOURCES = Path(__file__).resolve().parent.parent / "src"
FINAL, KILLED = "final.safetensors", "killed"
WIDTH, ROWS, EVERY = 32, 8, 3

# ---- the job ---------------------------------------------------------------------------------


def train(folder: Path, steps: int, kills: int, seed: int) -> None:
    """Train as one of several processes, or resume."""
    job = br.cluster.start()
    fate = Fate.drawn(job, folder, seed) if job.attempt < kills else None
    with br.Program() as program:
        x, y = br.data("x", ["batch", WIDTH]), br.data("y", ["batch", 1])
        hidden = br.dropout(br.fc(x, WIDTH, act="tanh"), 0.2)
        loss = br.mean((br.fc(hidden, 1) - y) ** 2)
        br.optimizer.adam(learning_rate=0.01).minimize(loss)
    layout = br.Layout(br.Mesh({"data": -1}), dims={"batch": "data"})
    executor, scope = br.Executor(layout=layout), br.Scope()
    executor.init(program, scope)
    with br.Checkpoint(folder / "checkpoints", keep=2) as checkpoint:
        found = checkpoint.restore(scope)
        first = found.step + 1 if found else 1
        br.cluster.agree("step", str(first))
        for step in range(first, steps + 1):
            if fate is not None and step - first == fate.steps:
                fate.wait_for_it()
            feed = _rows(step, job.process_index)
            value = executor.run(program, scope, feed, fetch=loss)
            print(f"{step} {float(value).hex()}", flush=True)
            if step % EVERY == 0:
                checkpoint.save_now(scope, step)
    if job.process_index == 0:
        br.save_parameters(scope, folder / FINAL)


def _rows(step: int, process: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng((step, process))
    sizes = {"x": (ROWS, WIDTH), "y": (ROWS, 1)}
    return {name: rng.standard_normal(shape, np.float32) for name, shape in sizes.items()}


class Fate(NamedTuple):
    """The time of the kill of this process.

    Attributes:
        steps: The number of steps of this attempt before it.
        seconds: Additional time, in which the process continues.
        note: The file for the time of the kill.
    """

    steps: int
    seconds: float
    note: Path

    @staticmethod
    def drawn(job: br.cluster.Cluster, folder: Path, seed: int) -> Fate | None:
        """The kill of one process; all processes draw the same one."""
        rng = random.Random(seed * 1000 + job.attempt)
        victim, steps, seconds = (
            rng.randrange(job.process_count),
            rng.randrange(8),
            rng.random(),
        )
        note = folder / f"{KILLED}-{job.attempt}"
        return Fate(steps, seconds * 0.03, note) if victim == job.process_index else None

    def wait_for_it(self) -> None:
        """Start the timer of the kill."""
        timer = threading.Timer(self.seconds, self._kill)
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        victim = os.environ["BRACES_PROCESS_INDEX"]
        self.note.write_text(f"{victim} {time.time()}")
        os.kill(os.getpid(), signal.SIGKILL)


# ---- what is made of it ----------------------------------------------------------------------


class Kill(NamedTuple):
    """One kill.

    Attributes:
        attempt: The attempt that it ended.
        victim: The process that was killed.
        steps: The number of finished steps of the attempt.
        seconds: The delay until the end of the last process.
    """

    attempt: int
    victim: int
    steps: int
    seconds: float


def run(folder: Path, processes: int, steps: int, kills: int, seed: int) -> list[Kill]:
    """Run a job to its end; return its kills."""
    folder.mkdir()
    path = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    job = [
        "--job",
        str(folder),
        "--steps",
        str(steps),
        "--kills",
        str(kills),
        "--seed",
        str(seed),
    ]
    launch = ["launch", "-n", str(processes), "--restarts", str(kills), "--devices", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "braces", *launch, "--log-dir", str(folder), __file__, *job],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as launched:
        said = launched.stderr or ()
        ended = [time.time() for line in said if line.startswith("All processes ended")]
    if launched.returncode != 0:
        raise SystemExit(f"The job of {folder.name} ended with status {launched.returncode}.")
    return [_kill(folder, attempt, at) for attempt, at in enumerate(ended)]


def _kill(folder: Path, attempt: int, ended: float) -> Kill:
    path = folder / f"{KILLED}-{attempt}"
    if not path.exists():
        raise SystemExit(f"Attempt {attempt} failed before a kill.")
    victim, at = path.read_text().split()
    done = reported(folder, f"attempt-{attempt}/*.log")
    return Kill(attempt, int(victim), len(done), ended - float(at))


def reported(folder: Path, logs: str = "attempt-*/*.log") -> set[str]:
    """Every loss that any process reported, as `step bits`."""
    text = "".join(path.read_text() for path in folder.glob(logs))
    return set(re.findall(r"^\d+ -?0x\S+$", text, re.MULTILINE))


def check(folder: Path, undisturbed: Path) -> None:
    """Compare a job with an undisturbed one."""
    if wrong := sorted(reported(folder) ^ reported(undisturbed)):
        raise SystemExit(f"These losses differ: {wrong}")
    if (folder / FINAL).read_bytes() != (undisturbed / FINAL).read_bytes():
        raise SystemExit("The last parameters differ.")


def attack(top: Path, processes: int, steps: int, kills: int, seed: int) -> list[Kill]:
    """Kill one of several processes repeatedly, and compare."""
    undisturbed, disturbed = top / "undisturbed", top / "disturbed"
    run(undisturbed, processes, steps, 0, seed)
    if len(reported(undisturbed)) != steps:
        raise SystemExit("The processes do not report the same losses.")
    found = run(disturbed, processes, steps, kills, seed)
    check(disturbed, undisturbed)
    return found


def table(found: Sequence[Kill]) -> str:
    """The table of kills."""
    rows = [f"{k.attempt:7}  {k.victim:6}  {k.steps:5}  {k.seconds:7.2f}" for k in found]
    return "\n".join(["attempt  killed  steps  seconds until all ended", *rows])


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Kill processes of a job; compare its losses.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job is not None:
        train(given.job, given.steps, given.kills, given.seed)
        return 0
    with tempfile.TemporaryDirectory() as top:
        found = attack(Path(top), given.processes, given.steps, given.kills, given.seed)
    print(table(found))
    print(f"{len(found)} kills of {given.processes} processes; all losses are the same bits.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
